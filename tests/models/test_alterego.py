"""D2P and i-D2P as recommenders: the contract, the correction against full matrices, upkeep."""

from typing import Any

import numpy as np
import pytest

from contracts.guarantees import GuaranteeContract
from contracts.recommenders import RecommenderContract
from epicrec.data import Catalogue, Ratings, load_dataset, split_per_user
from epicrec.errors import InputError
from epicrec.evaluate import evaluate_topn
from epicrec.models import load
from epicrec.models.alterego import D2PItems, D2PUserKNN, aligned, alterego_matrix, item_vectors
from epicrec.models.bias import Popularity

OPEN = {"p": 0.5, "p_star": 0.5, "seed": 3}


class TestD2P(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN


class TestD2PUncorrected(RecommenderContract):
    model_type = D2PUserKNN
    settings = OPEN | {"correct": False}


class TestItemD2P(RecommenderContract):
    model_type = D2PItems
    settings = OPEN


class TestItemD2PUncorrected(RecommenderContract):
    model_type = D2PItems
    settings = OPEN | {"correct": False}


class TestGuarantee(GuaranteeContract):
    @pytest.fixture(params=[D2PUserKNN, D2PItems])
    def guaranteed(self, request: Any, viewers: Ratings) -> Any:
        return request.param(p=0.6, p_star=0.01).fit(viewers)


class TestGuaranteeAsPublished(GuaranteeContract):
    @pytest.fixture(params=[D2PUserKNN, D2PItems])
    def guaranteed(self, request: Any, viewers: Ratings) -> Any:
        return request.param(as_published=True).fit(viewers)

    def test_is_only_claimed(self, guaranteed: Any) -> None:
        assert guaranteed.guarantee.status == "claimed"
        assert guaranteed.guarantee.epsilon == pytest.approx(guaranteed.channel.published_epsilon)


@pytest.mark.parametrize("cls", [D2PUserKNN, D2PItems])
def test_epsilon_is_kept(cls: Any, viewers: Ratings, films: Catalogue) -> None:
    model = cls(epsilon=2.0, catalogue=films).fit(viewers)
    assert 1.99 < model.guarantee.epsilon <= 2.0 * (1 + 1e-9)
    assert model.guarantee.status == "proved"
    assert model.guarantee.relation == "change one"
    with pytest.raises(InputError, match="more than"):
        cls(epsilon=2.0, p=0.1, p_star=0.5).fit(viewers)


def test_neighbours_against_full_matrices(viewers: Ratings) -> None:
    """The corrected scores, written out with the posterior as a matrix and every x̂ held."""
    model = D2PUserKNN(k=40, **OPEN).fit(viewers)
    law, shares = model.channel.matrix(), model.shares_
    posterior = shares[:, None] * law
    posterior /= posterior.sum(axis=0)
    expected = model.alteregos().toarray() @ posterior.T
    centred = expected - expected.sum(axis=1, keepdims=True) * shares
    seen = viewers.as_history().csr().toarray()
    asked = seen - seen.sum(axis=1, keepdims=True) * shares
    for user in (0, 17, 299):
        weights = centred @ asked[user]
        weights /= np.linalg.norm(centred, axis=1) * np.linalg.norm(asked[user])
        weights[user] = 0
        nearest = np.argsort(-weights)[:40]
        wanted = weights[nearest] @ expected[nearest]
        got = model._scores(viewers.as_history().users_at(np.array([user])))[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-8)


def test_factors_against_a_full_decomposition(viewers: Ratings) -> None:
    model = D2PItems(factors=5, **OPEN).fit(viewers)
    law, shares = model.channel.matrix(), model.shares_
    posterior = shares[:, None] * law
    posterior /= posterior.sum(axis=0)
    alteregos = alterego_matrix(viewers, model.channel.draw(viewers.items, seed=3))
    expected = alteregos.toarray() @ posterior.T
    counts = expected.sum(axis=1, keepdims=True)
    matrix = (expected / counts - shares) * np.sqrt(counts) / np.sqrt(shares)
    wanted = np.linalg.svd(matrix)[2][:5]
    got = item_vectors(alteregos, model._posterior(), 5)
    np.testing.assert_allclose(got @ got.T, wanted.T @ wanted, atol=1e-6)


@pytest.mark.parametrize("cls", [D2PUserKNN, D2PItems])
def test_correction_pays(cls: Any, viewers: Ratings, films: Catalogue) -> None:
    train, test = split_per_user(viewers, 0.2, seed=1)
    settings = {"p": 0.4, "p_star": 0.1, "catalogue": films}
    with_it, without = (
        np.mean(
            [
                evaluate_topn(cls(correct=correct, seed=seed, **settings), train, test)[0]["ndcg"]
                for seed in range(3)
            ]
        )
        for correct in (True, False)
    )
    assert with_it > 1.1 * without


def test_nothing_replaced_is_as_good_as_no_privacy(viewers: Ratings) -> None:
    train, test = split_per_user(viewers, 0.2, seed=1)
    popular = evaluate_topn(Popularity(), train, test)[0]["ndcg"]
    for cls in (D2PUserKNN, D2PItems):
        model = cls(p=0.5, p_star=1.0, seed=1)
        assert evaluate_topn(model, train, test)[0]["ndcg"] > 1.1 * popular
        assert model.guarantee.status == "none"


def test_server_sees_alteregos_only(viewers: Ratings) -> None:
    """What the server itself ranks depends on the history through the AlterEgo alone."""
    model = D2PUserKNN(**OPEN).fit(viewers)
    scores = model.server_scores(viewers.user_ids[:3])
    model.histories_ = None
    np.testing.assert_array_equal(scores, model.server_scores(viewers.user_ids[:3]))
    items = D2PItems(**OPEN).fit(viewers)
    assert np.isfinite(items.server_scores(model.alteregos()[:3])).all()


# ---- upkeep -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [D2PUserKNN, D2PItems])
def test_update_draws_new_events_only(cls: Any, viewers: Ratings) -> None:
    early, _ = split_per_user(viewers, 0.3, seed=2)
    model = cls(p=0.7, p_star=0.0).fit(early)
    before = dict(zip(zip(early.users, early.items, strict=True), model._substitutes, strict=True))
    epsilon = model.guarantee.epsilon
    model.update(viewers)
    after = dict(
        zip(zip(viewers.users, viewers.items, strict=True), model._substitutes, strict=True)
    )
    assert all(after[event] == drawn for event, drawn in before.items())
    assert model.guarantee.epsilon == epsilon
    model.update(viewers, renew=True)
    assert np.mean(model._substitutes == list(after.values())) < 0.2
    assert model.guarantee.epsilon == pytest.approx(2 * epsilon)


def test_a_saved_model_holds_no_history(viewers: Ratings, tmp_path: Any) -> None:
    model = D2PUserKNN(p=0.7).fit(viewers)
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert not [name for name in file.files if "histories" in name or "substitutes" in name]
    again = load(tmp_path / "model.npz")
    assert again.guarantee == model.guarantee
    with pytest.raises(InputError, match="fit it again"):
        again.update(viewers)


def test_catalogue_over_other_items(films: Catalogue) -> None:
    ids = np.array([films.item_ids[5], "not-a-film", films.item_ids[0]])
    part = aligned(films, ids)
    assert part.categories_of(0) == films.categories_of(5)
    assert part.categories_of(1) == ()
    assert part.years.tolist() == [films.years[5], 0, films.years[0]]
    assert aligned(films, films.item_ids) is films


def test_bad_settings_are_refused(viewers: Ratings) -> None:
    for model in (
        D2PUserKNN(k=0),
        D2PItems(factors=0),
        D2PItems(p=1.5),
        D2PUserKNN(p=0.5, floor=0),
    ):
        with pytest.raises(InputError):
            model.fit(viewers)


# ---- real data --------------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.slow
def test_alteregos_of_a_million_ratings_take_less_than_a_second(real_data: Any) -> None:
    import time

    data = load_dataset(real_data / "ml-1m")
    model = D2PItems(epsilon=3.0, catalogue=data.catalogue)
    channel, _ = model._law(data.ratings.as_history())
    start = time.process_time()
    alteregos = alterego_matrix(data.ratings, channel.draw(data.ratings.items))
    assert time.process_time() - start < 1.0
    assert alteregos.sum() == len(data.ratings)
