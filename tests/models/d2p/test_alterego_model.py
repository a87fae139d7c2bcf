"""Recommenders on AlterEgos: guarantees, the correction, upkeep, a server without histories."""

from typing import Any

import numpy as np
import pytest

from epicrec.data import Catalogue, Ratings, load_dataset, split_per_user
from epicrec.errors import InputError
from epicrec.evaluate import evaluate_topn
from epicrec.models import load
from epicrec.models.bias import Popularity
from epicrec.models.d2p.alterego_model import aligned, alterego_matrix
from epicrec.models.d2p.recommenders import D2PItems, D2PSvd, D2PUserKNN
from epicrec.perturb import Release
from epicrec.perturb.d2p.mechanism import D2P, collected
from epicrec.testing.guarantees import GuaranteeContract

OPEN = {"p": 0.5, "p_star": 0.5, "seed": 3}
EVERY = [D2PUserKNN, D2PItems, D2PSvd]


class TestGuarantee(GuaranteeContract):
    @pytest.fixture(params=EVERY)
    def guaranteed(self, request: Any, viewers: Ratings) -> Any:
        return request.param(p=0.6, p_star=0.01).fit(viewers)


@pytest.mark.parametrize("cls", EVERY)
def test_epsilon_is_kept(cls: Any, viewers: Ratings, films: Catalogue) -> None:
    model = cls(epsilon=2.0, catalogue=films).fit(viewers)
    assert 1.99 < model.guarantee.epsilon <= 2.0 * (1 + 1e-9)
    assert model.guarantee.status == "proved"
    assert model.guarantee.relation == "change one"
    with pytest.raises(InputError, match="more than"):
        cls(epsilon=2.0, p=0.1, p_star=0.5).fit(viewers)


@pytest.mark.parametrize("cls", EVERY)
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
    for cls in EVERY:
        model = cls(p=0.5, p_star=1.0, seed=1)
        assert evaluate_topn(model, train, test)[0]["ndcg"] > 1.1 * popular
        assert model.guarantee.status == "none"


# ---- a server without histories ---------------------------------------------------------------


def released(perturber: D2P, histories: Ratings) -> dict[Any, Release]:
    return {
        user: perturber.release(histories.item_ids[histories.items[histories.row(at)]])
        for at, user in enumerate(histories.user_ids.tolist())
    }


@pytest.mark.parametrize("cls", EVERY)
def test_a_server_learns_from_what_devices_send(
    cls: Any, viewers: Ratings, films: Catalogue
) -> None:
    """The same AlterEgos give the same model, whether drawn here or on the devices."""
    device = D2P(films, p=0.4, p_star=0.1)
    held = collected(device, released(device, viewers))
    model = cls(catalogue=films).fit_alteregos(held)
    assert model.guarantee.epsilon == device.guarantee.epsilon
    assert model.guarantee.status == "proved"
    own = cls(catalogue=films, p=0.4, p_star=0.1, seed=1).fit(viewers.with_items(films.item_ids))
    own._take(held)
    np.testing.assert_array_equal(model.shares_, own.shares_)
    scores = model.server_scores(viewers.user_ids[:3])
    np.testing.assert_array_equal(scores, own.server_scores(viewers.user_ids[:3]))
    assert len(model.recommend(viewers.users_at(np.arange(2)), n=5)) == 10
    with pytest.raises(InputError, match="no AlterEgo"):
        model.server_scores(np.array([-1]))
    with pytest.raises(InputError, match="nothing to learn"):
        cls().fit_alteregos()


def test_ranking_by_the_server_is_worth_something(viewers: Ratings, films: Catalogue) -> None:
    train, test = split_per_user(viewers, 0.2, seed=1)
    model = D2PSvd(p=0.1, p_star=0.5, catalogue=films, seed=1).fit(train)
    scores = model.server_scores(train.user_ids)
    hidden = train.csr().toarray() > 0
    wanted = test.csr().toarray() > 0
    asked = wanted.any(axis=1)
    best = np.where(hidden, -np.inf, scores).argmax(axis=1)
    found = wanted[np.arange(len(best)), best][asked].mean()
    popular = np.where(hidden, -np.inf, train.item_counts).argmax(axis=1)
    assert found > 1.1 * wanted[np.arange(len(best)), popular][asked].mean()


# ---- upkeep -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", EVERY)
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


@pytest.mark.parametrize("cls", EVERY)
def test_one_user_is_updated_without_the_others(cls: Any, viewers: Ratings) -> None:
    early, _ = split_per_user(viewers, 0.3, seed=2)
    model = cls(p=0.7, p_star=0.0).fit(early)
    before = model._profiles.toarray()
    epsilon = model.guarantee.epsilon
    model.update(viewers.users_at(np.array([7, 30])))
    after = model._profiles.toarray()
    others = np.delete(np.arange(len(after)), [7, 30])
    np.testing.assert_array_equal(after[others], before[others])
    assert (after[[7, 30]] >= before[[7, 30]]).all()
    assert after.sum(axis=1)[[7, 30]].tolist() == viewers.user_counts[[7, 30]].tolist()
    assert model.guarantee.epsilon == epsilon
    assert np.isfinite(model.server_scores(viewers.user_ids[[7, 8]])).all()
    newcomer = Ratings.from_columns([10**6] * 3, viewers.item_ids[:3])
    model.update(newcomer)
    assert model._held.user_ids[-1] == 10**6
    assert len(model._held.user_ids) == viewers.n_users + 1
    model.update(newcomer, renew=True)
    model.update(viewers.users_at(np.array([7])), renew=True)
    assert model.guarantee.epsilon == pytest.approx(2 * epsilon), "no user was renewed twice"


def test_new_groups_wait_for_events(viewers: Ratings, films: Catalogue) -> None:
    """Groups made anew before anything came are those of what comes next."""
    early = viewers.with_items(films.item_ids[:-60])
    model = D2PItems(p=0.6, catalogue=films).fit(early)
    nothing_new = (
        viewers.with_items(films.item_ids)
        .users_at(np.arange(2))
        .select(viewers.users_at(np.arange(2)).items < len(films) - 60)
    )
    model.update(nothing_new, catalogue=films)
    assert model.channel.n_items == len(films)
    late = viewers.with_items(films.item_ids).users_at(np.arange(5, 200))
    model.update(late)
    assert [channel.n_items for channel in model._held.channels] == [len(films) - 60, len(films)]
    assert model._held.counts.sum() == model.histories_.items.size


def test_what_is_taken_back_and_comes_again_keeps_its_substitute(viewers: Ratings) -> None:
    """Otherwise one event would be released twice and counted once."""
    model = D2PItems(p=0.9, p_star=0.0).fit(viewers)
    before = model._profiles.toarray()
    one = viewers.users_at(np.array([7]))
    half = one.select(np.arange(len(one)) % 2 == 0)
    model.update(half)
    assert model._profiles.toarray()[7].sum() == len(half)
    assert len(model.histories_.items) == len(viewers) - len(one) + len(half)
    model.update(one)
    np.testing.assert_array_equal(model._profiles.toarray(), before)


def test_neighbours_after_an_update_are_those_of_a_fresh_fit(viewers: Ratings) -> None:
    """With the shares fixed, what is learned piece by piece is what is learned at once."""
    early, _ = split_per_user(viewers, 0.3, seed=2)
    model = D2PUserKNN(**OPEN).fit(early).update(viewers.users_at(np.arange(50)))
    norms = model.norms_.copy()
    model._learn(model._held.user_ids)
    np.testing.assert_allclose(norms, model.norms_)


@pytest.mark.parametrize("cls", EVERY)
def test_other_groups_for_what_comes(cls: Any, viewers: Ratings, films: Catalogue) -> None:
    """New items, new groups: what was drawn before keeps its substitute and its own channel."""
    early, _ = split_per_user(viewers, 0.3, seed=2)
    old_items = early.item_ids[early.item_counts > 0][:-60]
    early = early.with_items(old_items)
    model = cls(p=0.6, p_star=0.1, catalogue=films).fit(early)
    before = model.guarantee.epsilon
    odds = model.channel.matrix()
    drawn = {
        (user, item): old_items[substitute]
        for user, item, substitute in zip(
            early.user_ids[early.users], old_items[early.items], model._substitutes, strict=True
        )
    }
    model.update(viewers, catalogue=films)
    assert len(model.item_ids_) == viewers.n_items
    assert len(model._held.channels) == 2
    np.testing.assert_array_equal(model._held.channels[0].matrix(), odds)
    events = model._events
    after = {
        (user, item): model.item_ids_[substitute]
        for user, item, substitute in zip(
            events.user_ids[events.users], events.item_ids[events.items], model._substitutes,
            strict=True,
        )
    }  # fmt: skip
    assert all(after[event] == substitute for event, substitute in drawn.items())
    assert model._held.counts.sum() == len(viewers)
    assert model.guarantee.epsilon == max(before, model.channel.epsilon)
    assert model.shares_.sum() == pytest.approx(1)
    assert len(model.recommend(viewers.user_ids[:2], n=5)) == 10
    model.update(viewers, renew=True)
    assert len(model._held.channels) == 1
    assert model.guarantee.epsilon == pytest.approx(
        max(before, model.channel.epsilon) + model.channel.epsilon
    )


def test_a_saved_model_holds_no_history(viewers: Ratings, tmp_path: Any) -> None:
    model = D2PUserKNN(p=0.7).fit(viewers)
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert not [name for name in file.files if "histories" in name or "substitutes" in name]
    again = load(tmp_path / "model.npz")
    assert again.guarantee == model.guarantee
    np.testing.assert_array_equal(
        again.server_scores(viewers.user_ids[:3]), model.server_scores(viewers.user_ids[:3])
    )
    with pytest.raises(InputError, match="fit it again"):
        again.update(viewers)


def test_catalogue_over_other_items(films: Catalogue) -> None:
    ids = np.array([films.item_ids[5], "not-a-film", films.item_ids[0]])
    part = aligned(films, ids)
    assert part.categories_of(0) == films.categories_of(5)
    assert part.categories_of(1) == ()
    assert part.years.tolist() == [films.years[5], 0, films.years[0]]
    assert aligned(films, films.item_ids) is films


@pytest.mark.parametrize("cls", [D2PItems, D2PSvd])
def test_a_published_item_model_holds_no_one(cls: Any, viewers: Ratings, tmp_path: Any) -> None:
    model = cls(p=0.7).fit(viewers)
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert all(len(file[name]) != viewers.n_users for name in file.files)
    again = load(tmp_path / "model.npz")
    assert again.guarantee == model.guarantee
    history = viewers.users_at(np.arange(3))
    assert again.recommend(history, n=5).equals(model.recommend(history, n=5))
    with pytest.raises(InputError, match="no AlterEgo"):
        again.server_scores(viewers.user_ids[:1])


# ---- real data --------------------------------------------------------------------------------


@pytest.mark.realdata
@pytest.mark.slow
def test_alteregos_of_a_million_ratings(real_data: Any) -> None:
    data = load_dataset(real_data / "ml-1m")
    model = D2PItems(epsilon=3.0, catalogue=data.catalogue)
    channel, _ = model._channel_for(data.ratings.as_history())
    alteregos = alterego_matrix(
        data.ratings, channel.draw(data.ratings.items), data.ratings.n_items
    )
    assert alteregos.sum() == len(data.ratings)
