"""D2P's recommenders as published: the contract, the votes, the claim, what they refuse."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.models import load, make_model
from epicrec.papers.d2p.models import PublishedD2PItems, PublishedD2PUsers
from epicrec.testing.guarantees import GuaranteeContract
from epicrec.testing.recommenders import RecommenderContract

OPEN = {"p": 0.5, "p_star": 0.5, "seed": 3}
EVERY = [PublishedD2PUsers, PublishedD2PItems]


class TestUsers(RecommenderContract):
    model_type = PublishedD2PUsers
    settings = OPEN


class TestItems(RecommenderContract):
    model_type = PublishedD2PItems
    settings = OPEN


class TestGuarantee(GuaranteeContract):
    @pytest.fixture(params=EVERY)
    def guaranteed(self, request: Any, viewers: Ratings) -> Any:
        return request.param().fit(viewers)

    def test_is_only_claimed(self, guaranteed: Any) -> None:
        assert guaranteed.guarantee.status == "claimed"
        assert guaranteed.guarantee.epsilon == pytest.approx(guaranteed.channel.epsilon_bound)


def test_votes_are_those_of_the_nearest_sets(viewers: Ratings) -> None:
    model = PublishedD2PUsers(k=10, **OPEN).fit(viewers)
    sets = model._profiles.toarray()
    asked = viewers.as_history().csr().toarray()[5].astype(np.float64)
    weights = sets @ asked / (np.linalg.norm(sets, axis=1) * np.linalg.norm(asked))
    weights[5] = 0
    nearest = np.argsort(-weights)[:10]
    got = model._scores(viewers.as_history().users_at(np.array([5])))[0]
    np.testing.assert_allclose(got, weights[nearest] @ sets[nearest], rtol=1e-9)


def test_neighbours_vote_alike_where_they_are_not_weighted(viewers: Ratings) -> None:
    """With p* = 1 AlterEgos are histories: scores are how many of the k nearest have an item."""
    settings = {"p": 0.5, "p_star": 1.0, "lam": 1.0, "k": 10, "seed": 0}
    model = PublishedD2PUsers(weighted=False, **settings).fit(viewers)
    history = viewers.as_history()
    scores = model._scores(history.users_at(np.arange(1)))[0]
    rows = (history.csr() != 0).toarray().astype(float)
    near = rows @ rows[0] / np.linalg.norm(rows, axis=1) / np.linalg.norm(rows[0])
    near[0] = 0
    best = np.argsort(-near, kind="stable")[:10]
    np.testing.assert_allclose(scores, rows[best].sum(axis=0))
    weighted = PublishedD2PUsers(**settings).fit(viewers)._scores(history.users_at(np.arange(1)))[0]
    assert not np.allclose(weighted, scores)


@pytest.mark.parametrize("cls", EVERY)
def test_its_groups_are_not_kept_up_to_date(cls: Any, viewers: Ratings) -> None:
    model = cls().fit(viewers)
    with pytest.raises(InputError, match="fit the model again"):
        model.update(viewers)
    with pytest.raises(InputError, match="draws itself"):
        model.fit_alteregos()


@pytest.mark.parametrize(("method", "cls"), [("d2p", EVERY[0]), ("i-d2p", EVERY[1])])
def test_by_name_and_from_a_file(method: str, cls: Any, viewers: Ratings, tmp_path: Any) -> None:
    model = make_model(method, as_published=True, neighbours=2, **OPEN).fit(viewers)
    assert type(model) is cls
    model.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert type(again) is cls
    assert again.guarantee == model.guarantee
    history = viewers.users_at(np.arange(3))
    assert again.recommend(history, n=5).equals(model.recommend(history, n=5))
    for setting in ({"p": "much"}, {"neighbours": 1.5}, {"correct": False}):
        with pytest.raises(InputError, match=next(iter(setting))):
            make_model(method, as_published=True, **setting)
