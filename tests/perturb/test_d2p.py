"""D2P on the device: ε, frequencies with mutants, groups, upkeep, choice."""

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from contracts.guarantees import GuaranteeContract
from contracts.perturbers import PerturberContract
from epicrec.data import Catalogue, Ratings, load_dataset, split_per_user
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb.d2p import (
    D2P,
    AlterEgo,
    AlterEgoRelease,
    choose,
    collected,
    expected_utility,
    no_features,
)
from epicrec.perturb.groups import (
    Groups,
    average_lambda,
    cosine_groups,
    hiding_lambda,
    public_groups,
    with_neighbours,
)
from epicrec.perturb.substitution import Channel, published_epsilon, selector_probability
from epicrec.privacy import Ledger

SIX = Groups.of([[0, 1], [0, 1, 2], [2], [3, 4, 5], [3, 4], [0, 5]])


class TestContract(PerturberContract):
    def make(self, catalogue: Catalogue, **settings: Any) -> D2P:
        return D2P(catalogue, p=0.6, p_star=0.05, **settings)


class TestGuarantee(GuaranteeContract):
    @pytest.fixture(params=[{}, {"carry_ratings": True}])
    def guaranteed(self, request: Any, films: Catalogue) -> Any:
        return D2P(films, p=0.6, **request.param)


# ---- ε ----------------------------------------------------------------------------------------


def test_equation_12() -> None:
    assert published_epsilon(1680, 0.7, 0.03, 1) == pytest.approx(6.68, abs=0.005)
    assert published_epsilon(1680, 0.7, 0.03, 400) == pytest.approx(4.344, abs=0.001)
    assert published_epsilon(1682, 0.7, 0.03, 400) == pytest.approx(4.35, abs=0.005)
    assert published_epsilon(1680, 1.0, 0.0, 1) == 0
    assert published_epsilon(1680, 0.5, 1.0, 10) == inf
    assert published_epsilon(1680, 0.0, 0.0, 1679) == inf
    assert published_epsilon(1680, 0.0, 0.0, 1680) == 0
    assert published_epsilon(1680, 0.7, 0.03, 1680) > 3.9, "2.9 is out of reach at p* = 0.03"
    assert published_epsilon(100, 0.8, 0.01, 66) == pytest.approx(0.97, abs=0.02)


@st.composite
def channels(draw: Any) -> Channel:
    n = draw(st.integers(2, 7))
    members = [sorted({s, *draw(st.sets(st.integers(0, n - 1)))}) for s in range(n)]
    p, p_star = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    return Channel(Groups.of(members), p, p_star)


@given(channels())
@settings(max_examples=200, deadline=None)
def test_exact_epsilon_is_the_maximum_over_all_triples_and_below_12(channel: Channel) -> None:
    law = channel.matrix()
    np.testing.assert_allclose(law.sum(axis=1), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = law[:, None, :] / law[None, :, :]  # s, s', t
    worst = np.log(np.nanmax(np.where(law[:, None, :] > 0, ratios, 0)))
    if np.isinf(worst) or channel.epsilon == inf:
        assert channel.epsilon == inf == channel.published_epsilon
        return
    assert channel.epsilon == pytest.approx(worst, abs=1e-9)
    assert channel.epsilon <= channel.published_epsilon + 1e-9


@pytest.mark.parametrize("epsilon", [0.5, 3.0, 6.0])
@pytest.mark.parametrize("size", [1, 40, 500])
def test_selector_probability_solves_12(epsilon: float, size: int) -> None:
    p = selector_probability(1682, epsilon, 0.0001, size)
    assert p is not None
    assert published_epsilon(1682, p, 0.0001, size) == pytest.approx(epsilon, abs=1e-6)
    assert published_epsilon(1682, p, 0.0001, size) <= epsilon


# ---- substitution probabilities ---------------------------------------------------------------


def fits(drawn: Any, expected: Any) -> float:
    """The p-value that these draws have these probabilities."""
    counts = np.bincount(drawn, minlength=len(expected))
    return float(chisquare(counts, expected * counts.sum()).pvalue)


def test_frequencies_match_the_formula_in_every_case() -> None:
    channel = Channel(SIX, 0.4, 0.2)
    for s in range(6):
        expected = np.array([channel.probability(s, t) for t in range(6)])
        np.testing.assert_allclose(expected, channel.matrix()[s])
        drawn = channel.draw(np.full(200_000, s), seed=s)
        assert fits(drawn, expected) > 1e-4
    one = channel.probability
    assert one(0, 0) == pytest.approx(0.2 + 0.8 * 0.6 / 2 + 0.8 * 0.4 / 6)  # s = t
    assert one(0, 1) == pytest.approx(0.8 * 0.6 / 2 + 0.8 * 0.4 / 6)  # in the group
    assert one(0, 5) == pytest.approx(0.8 * 0.4 / 6)  # outside


def test_mutants_of_the_draw_do_not_fit() -> None:
    """Two draws for group and everything (Algorithm 2 as printed), and a profiler 10 % off."""
    channel = Channel(SIX, 0.4, 0.2)
    expected = channel.matrix()[1]
    rng = np.random.default_rng(0)
    items = np.full(200_000, 1)
    twice = channel.draw(items, seed=1)
    neither = (rng.random(len(items)) < 0.4) & (rng.random(len(items)) >= 0.4)
    twice[neither] = 1
    assert fits(twice, expected) < 1e-9
    assert fits(Channel(SIX, 0.4, 0.22).draw(items, seed=1), expected) < 1e-9
    assert fits(Channel(SIX, 0.44, 0.2).draw(items, seed=1), expected) < 1e-9


def test_extremes_are_exact() -> None:
    items = np.arange(6).repeat(100)
    assert (Channel(SIX, 0.5, 1.0).draw(items) == items).all()
    inside = Channel(SIX, 0.0, 0.0).draw(items)
    assert all(t in SIX.members(int(s)) for s, t in zip(items, inside, strict=True))


def test_words_that_would_favour_some_are_refused() -> None:
    channel = Channel(Groups.of([[0, 1, 2]] * 3), 0.0, 0.0)
    top = np.uint64(2**64 - 1)
    words = np.array([[top] * 3, [top] * 3, [0, 1 << 32, top]], np.uint64)
    assert channel.substitute(np.array([0, 0, 0]), words).tolist() == [-1, 0, 2]


# ---- groups -----------------------------------------------------------------------------------


def test_public_groups_have_one_size_and_hold_their_item(films: Catalogue) -> None:
    groups = public_groups(films, 0.5, 25)
    assert (groups.sizes == 25).all()
    assert all(i in groups.members(i) for i in range(len(films)))
    assert len({groups.members(i).tobytes() for i in range(len(films))}) > 0.9 * len(films)


def test_public_groups_are_near(films: Catalogue) -> None:
    def shared(groups: Groups) -> float:
        rows = films.matrix.astype(np.int64)
        return float(np.mean([(rows[i] @ rows[groups.members(i)].T).sum() for i in range(100)]))

    assert shared(public_groups(films, 0.25, 20)) > 1.3 * shared(public_groups(films, 50.0, 20))


def test_cosine_groups_follow_algorithm_1(viewers: Ratings) -> None:
    groups = cosine_groups(viewers, 2.0)
    seen = viewers.as_history().csr().toarray().astype(np.float64)
    norms = np.maximum(np.linalg.norm(seen, axis=0), 1e-12)
    alike = seen.T @ seen / np.outer(norms, norms)
    for item in range(0, viewers.n_items, 37):
        with np.errstate(divide="ignore"):
            near = 1 / alike[item] - 1 <= 2.0 + 1e-12
        near[item] = True
        assert sorted(groups.members(item)) == np.flatnonzero(near).tolist()
    assert (cosine_groups(viewers, 0.0, floor=7).sizes >= 7).all()


def test_neighbouring_groups_are_those_that_share_most() -> None:
    joined = with_neighbours(Groups.of([[0, 1, 2], [1, 2], [2, 3], [3]]), 1)
    assert joined.members(0).tolist() == [0, 1, 2]  # with group 1, inside it
    assert joined.members(3).tolist() == [2, 3]  # with group 2
    assert (with_neighbours(SIX, 5).sizes >= SIX.sizes).all()


def test_lambda_hides_a_category() -> None:
    titles = ["a (1990)", "b (1991)", "c (1990)"]
    films = Catalogue.from_columns([1, 2, 3], titles, ["A", "A|B", "B"])
    far, near = 1 / 0.3 - 1, 1 / (0.7 / 2**0.5 + 0.3 * np.exp(-1 / 8)) - 1
    assert hiding_lambda(films, "A") == pytest.approx(far, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([0, 2])) == pytest.approx(far, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([1, 2])) == pytest.approx(near, abs=1e-2)
    assert hiding_lambda(films, "A", np.array([2])) == 0
    assert average_lambda(films, np.array([0, 2])) == pytest.approx(far, abs=1e-2)
    with pytest.raises(InputError, match="no category"):
        hiding_lambda(films, "C")


# ---- the release ------------------------------------------------------------------------------


def test_number_of_items_is_kept_and_said(films: Catalogue) -> None:
    release = D2P(films, p=0.5).release(films.item_ids[:77])
    assert sum(release.times) == 77
    assert any("How many items" in line for line in release.guarantee.assumes)


@pytest.mark.parametrize("ratings", [[0, 1, 1, 0], [1.5, 4.0, 3.5, 2.0]])
def test_ratings_are_carried_along(films: Catalogue, ratings: list[float]) -> None:
    history = pa.table({"item_id": films.item_ids[[40, 3, 17, 250]], "rating": ratings})
    release = D2P(films, p=0.5, carry_ratings=True, seed=5).release(history)
    assert np.dot(release.ratings, release.times) == pytest.approx(sum(ratings))
    assert release.guarantee.status == "claimed", "how an item was rated is not hidden"
    plain = D2P(films, p=0.5, seed=5).release(history)
    assert plain.ratings is None
    assert plain.items == release.items
    with pytest.raises(InputError, match="rating"):
        D2P(films, p=0.5, carry_ratings=True).release(films.item_ids[:3])


def test_as_published_is_claimed_at_what_12_gives(films: Catalogue, viewers: Ratings) -> None:
    perturber = D2P(films, as_published=True, ratings=viewers)
    assert perturber.guarantee.status == "claimed"
    least = int(perturber.channel.groups.sizes.min())
    assert perturber.guarantee.epsilon == published_epsilon(len(films), 0.7, 0.03, least)
    with pytest.raises(InputError, match="ratings"):
        D2P(films, as_published=True).release(films.item_ids[:3])


def test_bad_settings_say_what_is_wrong(films: Catalogue) -> None:
    for options in (
        {"p": 1.5}, {"p": 0.5, "p_star": -0.1}, {"p": 0.5, "floor": 0}, {"epsilon": 0.0},
        {"p": 0.5, "lam": -1.0}, {"p": 0.5, "p_star": 0.5, "epsilon": 1.0}, {"neighbours": 3},
        {"epsilon": 1.0, "p_star": 0.9},
    ):  # fmt: skip
        with pytest.raises(InputError):
            D2P(films, **options).release(films.item_ids[:3])


# ---- the inverse problem ----------------------------------------------------------------------


def test_choice_costs_what_it_may_and_no_more(films: Catalogue) -> None:
    for epsilon in (0.5, 3.0, 7.0):
        guarantee = D2P(films, epsilon=epsilon).guarantee
        assert epsilon * (1 - 1e-6) < guarantee.epsilon <= epsilon * (1 + 1e-9)
        assert guarantee.status == "proved"


def test_choice_is_the_best_of_its_kind(films: Catalogue) -> None:
    best = choose(films, 3.0)
    for floor in (1, 10, 200):
        assert choose(films, 3.0, floor=floor).utility <= best.utility + 1e-9
    p = selector_probability(len(films), 3.0, 0.02, best.floor)
    assert p is not None
    assert expected_utility(films, p, 0.02, best.lam, best.floor) < best.utility
    assert choose(films, 6.0).utility > best.utility > choose(films, 1.0).utility


def test_a_catalogue_without_features_is_enough() -> None:
    chosen = choose(no_features(np.arange(100)), 1.0)
    assert 0 < chosen.p < 1
    assert D2P(no_features(np.arange(100)), epsilon=1.0).release([3, 5, 7]).guarantee.epsilon <= 1


# ---- over time --------------------------------------------------------------------------------


def test_old_items_keep_their_substitutes_and_cost_once(films: Catalogue) -> None:
    perturber = D2P(films, p=0.9)
    ledger = Ledger(None, limit_epsilon=perturber.guarantee.epsilon * 1.001)
    own = AlterEgo(perturber, ledger)
    (first,) = own.update(films.item_ids[:40])
    kept = dict(own.substitutes)
    (second,) = own.update(films.item_ids[:60])
    assert {item: own.substitutes[item] for item in kept} == kept
    assert sum(first.times) == 40
    assert sum(second.times) == 60
    assert len(ledger.entries()) == 2
    assert own.update(films.item_ids[:60])[0].items == second.items
    assert len(ledger.entries()) == 2, "nothing new, nothing spent"
    assert ledger.total()["item"].epsilon == pytest.approx(perturber.guarantee.epsilon)


def test_renewal_is_a_second_release(films: Catalogue) -> None:
    perturber = D2P(films, p=0.9)
    ledger = Ledger(None, limit_epsilon=perturber.guarantee.epsilon * 2.001)
    own = AlterEgo(perturber, ledger)
    own.update(films.item_ids[:40])
    before = dict(own.substitutes)
    own.renew(films.item_ids[:40])
    assert own.substitutes != before
    assert ledger.total()["item"].epsilon == pytest.approx(2 * perturber.guarantee.epsilon)
    after = dict(own.substitutes)
    with pytest.raises(BudgetExceededError):
        own.renew(films.item_ids[:40])
    assert own.substitutes == after, "nothing is drawn that was not paid for"


def test_other_groups_are_for_items_to_come(films: Catalogue) -> None:
    own = AlterEgo(D2P(films, p=0.9), Ledger(None, limit_epsilon=50))
    own.update(films.item_ids[:20])
    before = dict(own.substitutes)
    own.regroup(D2P(films, p=0.8, lam=2.0))
    old, new = own.update(films.item_ids[:30])
    assert {item: own.substitutes[item] for item in before} == before
    assert len(own.substitutes) == 30
    assert (sum(old.times), sum(new.times)) == (20, 10)
    assert (old.settings["p"], new.settings["p"]) == (0.9, 0.8)
    assert old.guarantee.epsilon != new.guarantee.epsilon
    own.renew(films.item_ids[:30])
    (only,) = own.update(films.item_ids[:30])
    assert sum(only.times) == 30


def test_a_server_takes_only_what_it_knows_the_law_of(films: Catalogue) -> None:
    device, other = D2P(films, p=0.9), D2P(films, p=0.8)
    sent = {
        "ann": AlterEgoRelease.from_json(device.release(films.item_ids[:20]).to_json()),
        "bob": device.release(films.item_ids[5:9]),
        "eve": device.release([]),
    }
    held = collected(device, sent)
    assert held.counts.sum(axis=1).tolist() == [20, 4, 0]
    assert held.epsilon == device.guarantee.epsilon
    with pytest.raises(InputError, match="drawn with"):
        collected(other, sent)
    with pytest.raises(InputError, match="not in the catalogue"):
        collected(device, {"ann": replace(sent["bob"], items=("no such film",), times=(1,))})


# ---- real data --------------------------------------------------------------------------------


@pytest.mark.realdata
def test_rare_items_have_groups_of_one(real_data: Any) -> None:
    ratings, _ = split_per_user(load_dataset(real_data / "ml-100k").ratings, 0.2, seed=0)
    groups = cosine_groups(ratings, 6.5)
    assert groups.sizes.min() == 1
    assert 300 < np.median(groups.sizes) < 450
    assert Channel(groups, 0.7, 0.03).published_epsilon == pytest.approx(6.68, abs=0.01)


@pytest.mark.realdata
@pytest.mark.slow
def test_groups_of_netflix_need_no_square_matrix(real_data: Any) -> None:
    import tracemalloc

    from epicrec.data.datasets import load_catalogue

    films = load_catalogue(real_data / "netflix")
    tracemalloc.start()
    groups = public_groups(films, 0.5, 500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(groups) == 17_768
    assert peak < 300e6 < len(films) ** 2
