"""Stars on other scales."""

import numpy as np
import pytest

from epicrec.data import Scale
from epicrec.models.factors import in_stars

SCALES = [Scale(1, 5, 1), Scale(0.5, 5, 0.5), Scale(1, 10, 1), Scale(-10, 10, 0.01)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_stars_are_the_nearest_value_on_the_scale(scale) -> None:
    found = scale.of_stars(np.array([0.5, 1, 2, 3, 4, 5]))
    assert scale.holds(found).all()
    assert found[[0, 1, -1]].tolist() == [scale.low, scale.low, scale.high]
    exact = np.array([scale.middle - scale.star, scale.middle, scale.middle + scale.star])
    assert np.abs(found[2:5] - exact).max() <= scale.step / 2 + 1e-9


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_there_and_back(scale) -> None:
    """Whole stars come back as they were, to half a step."""
    back = in_stars(scale.of_stars(np.arange(1.0, 6)), scale) + 3
    assert np.abs(back - np.arange(1, 6)).max() <= scale.step / 2 / scale.star + 1e-9
    assert in_stars(np.array([scale.low, scale.high]), scale).tolist() == [-2, 2]
