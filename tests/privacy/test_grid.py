from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from epicrec.errors import InputError
from epicrec.privacy import Grid

VECTORS = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e6, 1e6))


@given(VECTORS, st.integers(-10, 30))
def test_no_coordinate_and_no_norm_grows(values, bits):
    grid = Grid(bits)
    steps = [Fraction(int(k)) / Fraction(2) ** bits for k in grid.toward_zero(values)]
    exact = [Fraction(float(v)) for v in values]
    for rounded, value in zip(steps, exact, strict=True):
        assert abs(rounded) <= abs(value) < abs(rounded) + Fraction(2) ** -bits
        assert rounded * value >= 0
    assert sum(abs(x) for x in steps) <= sum(abs(x) for x in exact)
    assert sum(x * x for x in steps) <= sum(x * x for x in exact)


@given(VECTORS, st.integers(0, 2**32))
def test_sums_do_not_depend_on_order(values, seed):
    steps = Grid(20).toward_zero(values)
    assert np.random.default_rng(seed).permutation(steps).sum() == steps.sum()


def test_back_and_forth():
    grid = Grid(3)
    assert grid.step == 0.125
    assert grid.toward_zero([0.3, -0.3, 2.0]).tolist() == [2, -2, 16]
    assert grid.to_values(np.array([2, -2, 16])).tolist() == [0.25, -0.25, 2.0]
    assert grid.sensitivity(0.3) == Fraction(0.3) * 8


@pytest.mark.parametrize("values", [[np.nan], [np.inf], [2.0**60]])
def test_refuses_what_does_not_fit(values):
    with pytest.raises(InputError, match="remove NaN and infinite values, or use fewer bits"):
        Grid(10).toward_zero(values)


@pytest.mark.parametrize("bits", [63, 1.5, True, None])
def test_refuses_other_steps(bits):
    with pytest.raises(InputError, match="bits must be"):
        Grid(bits)


@pytest.mark.parametrize("norm", [0, -1, float("nan"), float("inf")])
def test_refuses_norms(norm):
    with pytest.raises(InputError, match="norm bound"):
        Grid(1).sensitivity(norm)
