"""The best items: as sorting everything finds them."""

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.models import make_model
from epicrec.models.best import best_items


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 10, 40])
def test_as_sorting_finds_them(dtype: type, n: int) -> None:
    rng = np.random.default_rng(n)
    scores = rng.integers(0, 9, (50, 40)).astype(dtype)  # many are equal
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    scores[0], scores[1, 3] = -np.inf, np.nan
    offsets, excluded = rng.integers(0, 3, 40) / 2, rng.random(40) < 0.2
    items, values = best_items(scores, offsets, excluded, n)
    for row, own in enumerate(scores + offsets):
        left = np.where(excluded | ~np.isfinite(own), -np.inf, own)
        order = np.lexsort((np.arange(40), -left))[:n]
        order = order[left[order] > -np.inf]
        assert items[row].tolist() == [*order.tolist(), *[-1] * (n - len(order))]
        assert values[row, : len(order)].tolist() == own[order].tolist()


def test_pieces_make_the_lists_of_one(viewers: Ratings, monkeypatch: pytest.MonkeyPatch) -> None:
    from epicrec.models import base
    from epicrec.models.factors import FactorModel

    for task in ("lists", "ratings"):
        model = make_model("svd", task=task).fit(viewers)
        whole = model.recommend(viewers, n=7)
        with monkeypatch.context() as patch:
            patch.setattr(FactorModel, "_scores_in_cache", 1)
            patch.setattr(base, "_USERS_IN_CACHE", 3)
            pieces = model.recommend(viewers, n=7)
        assert pieces.drop_columns("score").equals(whole.drop_columns("score"))
