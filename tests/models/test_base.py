"""What all models share: histories in blocks give what they give in one piece."""

import numpy as np
import pytest

from epicrec.arrays import AnyFloats
from epicrec.data import Ratings
from epicrec.models import base
from epicrec.models.base import Recommender
from epicrec.models.bias import Bias


class OwnRatings(Recommender):
    """Scores that tell every user and item apart, from the history alone."""

    def _fit(self, ratings: Ratings) -> None:
        pass

    def _scores(self, histories: Ratings) -> AnyFloats:
        firsts = histories.items[histories.indptr[:-1]] / 1000
        return 1 + firsts[:, None] + np.arange(len(self.item_ids_)) / 1000


@pytest.mark.parametrize("model_type", [OwnRatings, Bias])
@pytest.mark.parametrize("at_once", [1, 3, 7])
def test_users_in_blocks_get_what_they_get_in_one(
    viewers: Ratings, monkeypatch, model_type: type[Recommender], at_once: int
) -> None:
    model = model_type().fit(viewers)
    users = viewers.user_ids[:20]
    pairs = viewers.users_at(np.arange(20))
    whole = model.recommend(users, n=4), model.predict(pairs)
    monkeypatch.setattr(base, "_SCORES_AT_ONCE", at_once * viewers.n_items)
    sizes = [block.n_users for block, _, _ in model._blocks(pairs)]
    assert sizes == [at_once] * (20 // at_once) + [20 % at_once] * (20 % at_once > 0)
    assert model.recommend(users, n=4) == whole[0]
    assert model.predict(pairs) == whole[1]
