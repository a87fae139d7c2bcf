"""The learner of lists: what is noise, what is chance, what is taste, and what fame adds."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from epicrec.data import Ratings
from epicrec.models.private import learner
from epicrec.models.private.basis import Basis, popularity_weights, with_own
from epicrec.models.private.learner import (
    MeasuredCounts,
    TasteMoments,
    by_popularity,
    explained,
    is_shown,
    learn,
    noise_edge,
    with_fame,
)
from epicrec.models.private.lists import moments_of
from epicrec.models.private.tastes import TasteProducts, in_integers

KINDS, EACH = 6, 20
N = KINDS * EACH
KIND = np.arange(N) % KINDS


def even_noise(rng: np.random.Generator, d: int) -> np.ndarray:
    """Symmetric, of variance 1, and 2 on the diagonal."""
    drawn = rng.standard_normal((d, d))
    return (drawn + drawn.T) / np.sqrt(2)


def root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(values)) @ vectors.T


def people_of_kinds(people: int, own: float, length: float = 12, seed: int = 0) -> Ratings:
    """Each likes one kind of items `own` times as much as others, beside what is popular."""
    rng = np.random.default_rng(seed)
    popular = (np.arange(N) + 5.0) ** -0.5
    chance = popular * np.where(rng.integers(0, KINDS, people)[:, None] == KIND, own, 1.0)
    chance *= length / chance.sum(axis=1, keepdims=True)
    users, items = np.nonzero(rng.random((people, N)) < np.minimum(chance, 1))
    return Ratings.from_columns(users, items).with_items(np.arange(N))


def people_by_popularity(people: int, length: float, seed: int = 0, n: int = 1000) -> Ratings:
    rng = np.random.default_rng(seed)
    popular = (np.arange(n) + 10.0) ** -0.8
    users = np.repeat(np.arange(people), rng.geometric(1 / length, people))
    items = rng.choice(n, len(users), p=popular / popular.sum())
    both = np.unique(np.stack([users, items]), axis=1)
    return Ratings.from_columns(*both).with_items(np.arange(n))


class Measured:
    """What a population tells of itself, with as much noise on its moments as is asked for."""

    def __init__(self, ratings: Ratings, unit: str, noise: float, d: int = 20, seed: int = 0):
        each = ratings.user_counts if unit == "user" else np.ones(ratings.n_users)
        weights = 1 / np.sqrt(np.repeat(each, ratings.user_counts))
        found = np.bincount(ratings.items, weights, minlength=ratings.n_items)
        people = float(ratings.n_users)
        self.counts = MeasuredCounts(unit, found, 0.5, people, 4.0, 0.3)
        known, weights, popular = popularity_weights(self.counts.cleaned)
        kinds = csr_array(np.eye(KINDS)[np.arange(ratings.n_items) % KINDS])
        basis = Basis.of(with_own(kinds, known), known, popular)
        self.basis = basis.first(min(d, len(basis.emphasis)), popular)
        d = len(self.basis.emphasis)
        self.statistic = TasteProducts(
            unit,
            in_integers(weights * basis.scales, 14),
            basis.features,
            in_integers(self.basis.apart, 20),
        )
        matrix = moments_of(self.statistic, ratings)
        drawn = even_noise(np.random.default_rng(seed), d)
        self.moments = TasteMoments(matrix + noise * drawn, noise * np.eye(d), 0.5)

    def tastes(self, histories: Ratings) -> np.ndarray:
        return moments_of(self.statistic, histories)

    def chance(self) -> np.ndarray:
        drawn = by_popularity(self.counts)
        return self.tastes(drawn) * (self.counts.people / drawn.n_users)

    def learn(self):
        return learn(self.counts, self.moments, self.basis, self.tastes)


def scores(state: dict) -> np.ndarray:
    """What each item tells of each: the same however directions are turned."""
    return state["factors_"].astype(float) @ state["projections_"].T.astype(float)


# ---- what is noise ------------------------------------------------------------------------


@pytest.mark.parametrize("sampled", [0.0, 4.0])
def test_noise_alone_passes_about_one_time_in_twenty(sampled: float) -> None:
    """The largest of 20 draws is passed by one in 21; by chance a little more or less for each d,
    so over several. Sampling noise is many times the other in a few directions."""
    rng, passed = np.random.default_rng(1), []
    for d in range(5, 17):
        spread = sampled * 0.7 ** np.arange(d)
        edge = noise_edge(spread)
        half = np.sqrt(spread)
        drawn = [even_noise(rng, d) + half[:, None] * even_noise(rng, d) * half for _ in range(300)]
        passed.append(np.mean(np.linalg.eigvalsh(drawn)[:, -1] > edge))
    assert 0.015 < np.mean(passed) < 0.1


def test_a_direction_that_the_noise_would_make_is_not_shown_and_a_larger_one_is() -> None:
    d, rng = 30, np.random.default_rng(0)
    first = np.eye(d)[0]
    for size, shown in ((0.5, False), (3.0, True)):
        planted = size * 2 * np.sqrt(d) * np.outer(first, first)
        moments = TasteMoments(7 * (planted + even_noise(rng, d)), 7 * np.eye(d), 1.0)
        assert is_shown(moments, np.zeros((d, d)), 100.0, 2048) == shown


def test_what_sampling_so_many_people_makes_is_not_shown() -> None:
    """Moments with next to no noise added: what they differ by from chance is still noise."""
    d, people = 15, 400
    spread = np.linspace(0.2, 2, d)
    chance = np.diag(people * spread**2)
    passed = 0
    for seed in range(60):
        drawn = spread * np.random.default_rng(seed).standard_normal((people, d))
        moments = TasteMoments(drawn.T @ drawn, 0.01 * np.eye(d), 1.0)
        passed += is_shown(moments, chance, float(people), 10**9)
    assert passed <= 12


@pytest.mark.parametrize("unit", ["user", "rating"])
@pytest.mark.parametrize("people", [2000, 20_000])
def test_people_who_draw_by_popularity_show_nothing(unit: str, people: int) -> None:
    """Few items each: rare items and short histories make directions of their own, by far larger
    than the noise, which are chance; and chance is known only as well as it was drawn."""
    shown = []
    for seed in range(6):
        found = Measured(people_by_popularity(people, 4, seed), unit, 3.0, seed=seed)
        top = np.linalg.eigvalsh(found.moments.whitened(found.moments.matrix))[-1]
        assert top > 2 * noise_edge(np.zeros(len(found.moments.matrix))), "it would be shown"
        shown.append(found.learn() is not None)
    assert sum(shown) <= 1


# ---- what is taste ------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "rating"])
def test_planted_tastes_are_found_and_ranked(unit: str) -> None:
    """Who has three items of a kind is offered that kind first; popularity offers all alike."""
    state = Measured(people_of_kinds(2000, own=8), unit, 10.0).learn()
    assert state is not None
    table = scores(state) + state["offsets_"][:, None]
    for kind in range(KINDS):
        own = np.flatnonzero(kind == KIND)
        ranked = np.argsort(-table[:, own[-3:]].sum(axis=1))
        unseen = ranked[~np.isin(ranked, own[-3:])][:10]
        assert np.mean(KIND[unseen] == kind) > 0.6


def test_a_stronger_taste_weighs_more() -> None:
    """Soft weights: the planted directions have lengths below 1, in the order of their sizes."""
    found = Measured(people_of_kinds(2000, own=1), "user", 1.0)
    d = len(found.basis.emphasis)
    planted = np.diag(np.where(np.arange(d) < 3, [3000.0, 1000.0, 300.0] + [0] * (d - 3), 0.0))
    even = replace(found.basis, emphasis=np.ones(d))
    chance = found.chance()
    moments = TasteMoments(planted + chance, np.eye(d), 1.0)
    state = learn(found.counts, moments, even, lambda part: chance * part.n_users / 2000)
    assert state is not None
    weights = popularity_weights(found.counts.cleaned)[1]
    lengths = np.linalg.norm(state["factors_"][:, 1:] * weights[:, None], axis=0)
    assert (np.diff(lengths[:3]) < -0.05).all()
    assert 0.5 < lengths[0] < 1


def test_what_people_have_of_their_own_items_is_taken_off() -> None:
    """Chance and little else: what is left of a direction of chance weighs less than a taste."""
    found = Measured(people_of_kinds(2000, own=8), "user", 10.0)
    state, chance = found.learn(), found.chance()
    blind = learn(found.counts, found.moments, found.basis, lambda part: 0 * found.tastes(part))
    own = 1 / (1 + found.counts.length / learner.OWN_LENGTH)
    less = replace(found.moments, matrix=found.moments.matrix - own * chance)
    taken = learn(found.counts, less, found.basis, lambda part: 0 * found.tastes(part))
    assert not np.allclose(scores(state), scores(blind), rtol=0.01)
    assert state["factors_"].shape[1] <= blind["factors_"].shape[1]
    # the directions are those of the moments less chance; only their soft weights may be smaller
    one, two = (np.linalg.qr(some["factors_"][:, 1:])[0] for some in (state, taken))
    assert one.shape == two.shape
    assert np.linalg.svd(one.T @ two)[1].min() > 0.999


@pytest.mark.parametrize("turned", [False, True])
def test_uneven_noise_is_as_even_noise_in_other_coordinates(turned: bool) -> None:
    found = Measured(people_of_kinds(2000, own=8), "user", 10.0)
    expected = found.learn()
    d = len(found.basis.emphasis)
    rng = np.random.default_rng(3)
    if turned:
        # noise that is uneven along no axis, and the same in coordinates in which it is
        base = replace(found.basis, emphasis=np.ones(d))
        uneven = 10 * np.exp(rng.normal(0, 0.5, d))
        turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
        both = [
            learn(
                found.counts,
                TasteMoments(t.T @ found.moments.matrix @ t, t.T @ np.diag(uneven) @ t, 1.0),
                replace(base, coefficients=base.coefficients @ t),
                lambda part, t=t: t.T @ found.tastes(part) @ t,
            )
            for t in (np.eye(d), turn)
        ]
        expected, other = both
    else:
        # the same people, with another emphasis on directions: the noise is uneven by it
        by = np.exp(rng.normal(0, 0.7, d))
        squares = np.outer(by, by)
        other = learn(
            found.counts,
            TasteMoments(found.moments.matrix * squares, np.diag(10 * by**2), 0.5),
            replace(found.basis, emphasis=found.basis.emphasis * by),
            lambda part: found.tastes(part) * squares,
        )
    assert expected is not None
    np.testing.assert_allclose(scores(other), scores(expected), rtol=1e-3, atol=1e-5)


def test_whitened_noise_is_even() -> None:
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(4, 4))
    noise = mixed @ mixed.T + 0.1 * np.eye(4)
    moments = TasteMoments(np.zeros((4, 4)), noise, 1.0)
    half = root(noise)
    drawn = [even_noise(rng, 4) for _ in range(3000)]
    white = np.array([moments.whitened(half @ one @ half) for one in drawn])
    np.testing.assert_allclose(white, drawn, atol=1e-8)
    columns = rng.normal(size=(4, 2))
    square = moments.coloured(columns) @ moments.coloured(columns).T
    np.testing.assert_allclose(moments.whitened(square), columns @ columns.T, atol=1e-8)


def test_a_direction_in_quiet_coordinates_is_found_beside_loud_ones() -> None:
    """Less than the loud noise makes, and more than the quiet noise does."""
    found = Measured(people_of_kinds(2000, own=1), "user", 1.0)
    d, rng = len(found.basis.emphasis), np.random.default_rng(0)
    noise = np.diag(np.where(np.arange(d) < d // 2, 20.0, 1.0))
    chance = 1e-3 * np.eye(d)
    even = replace(found.basis, emphasis=np.ones(d))
    tastes = {}
    for name, at in (("loud", 0), ("quiet", d - 1)):
        planted = 60 * np.outer(np.eye(d)[at], np.eye(d)[at])
        drawn = root(noise) @ even_noise(rng, d) @ root(noise)
        moments = TasteMoments(planted + drawn, noise, 1.0)
        tastes[name] = learn(found.counts, moments, even, lambda _: chance)
    assert tastes["loud"] is None
    assert tastes["quiet"] is not None
    weights = popularity_weights(found.counts.cleaned)[1]
    first = tastes["quiet"]["factors_"][:, 1] * weights
    direction = even.times(np.eye(d)[:, -1:])[:, 0]
    assert abs(first @ direction) > 0.9 * np.linalg.norm(first)


# ---- two measurements as one --------------------------------------------------------------


def test_two_measurements_of_tastes_are_one() -> None:
    """Weighted by their shares: with as little noise as one measurement with both would have."""
    one = TasteMoments(np.ones((2, 2)), np.diag([2.0, 4.0]), 0.1)
    two = TasteMoments(4 * np.ones((2, 2)), np.diag([1.0, 2.0]), 0.4)
    both = one + two
    np.testing.assert_allclose(both.matrix, (1 * 0.2 + 4 * 0.8) * np.ones((2, 2)))
    np.testing.assert_allclose(both.noise, (two + one).noise)
    np.testing.assert_allclose(np.diag(both.noise), [(1 / 4 + 1) ** -0.5, (1 / 16 + 1 / 4) ** -0.5])
    assert both.share == pytest.approx(0.5)


def test_two_measurements_of_counts_are_one() -> None:
    rng, fame = np.random.default_rng(0), np.ones(50_000)
    truth = np.full(50_000, 7.0)
    parts = [
        MeasuredCounts(
            "user", truth + rng.normal(0, s, 50_000), s, 100 + 8 * s, 8 * s, 1 / s**2, fame
        )
        for s in (2.0, 1.0)
    ]
    both = parts[0] + parts[1]
    assert (both.counts - truth).std() == pytest.approx(both.spread, rel=0.02)
    assert both.spread == pytest.approx((1 / 4 + 1) ** -0.5)
    assert both.people_spread == pytest.approx(8 * both.spread)
    assert both.people == pytest.approx(0.2 * 116 + 0.8 * 108)
    assert both.share == pytest.approx(1.25)
    assert both.fame is fame


# ---- what is made of the counts -----------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "rating"])
@pytest.mark.parametrize("items", [1, 4, 25])
def test_the_length_of_histories_is_told_by_counts_and_people(unit: str, items: int) -> None:
    """At the user level each of c items counts as 1/√c."""
    each = items**0.5 if unit == "user" else float(items)
    counts = np.full(2000, 20_000 * each / 2000)
    found = MeasuredCounts(unit, counts, 0.1, 20_000.0, 1.0, 0.5)
    assert found.length == pytest.approx(items)
    drawn = by_popularity(found)
    assert np.mean(drawn.user_counts) == pytest.approx(items, rel=0.05)
    assert drawn.n_items == 2000


def test_histories_drawn_by_popularity_have_its_counts() -> None:
    counts = np.array([500.0, 300.0, 150.0, 50.0])
    drawn = by_popularity(MeasuredCounts("rating", counts, 1e-3, 900.0, 1.0, 0.5))
    share = drawn.item_counts / len(drawn)
    assert (np.diff(share) < 0).all()
    np.testing.assert_allclose(share, counts / counts.sum(), atol=0.05)
    again = by_popularity(MeasuredCounts("rating", counts, 1e-3, 900.0, 1.0, 0.5))
    np.testing.assert_array_equal(again.items, drawn.items)


def test_histories_that_noise_makes_endless_are_drawn_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few people among very many items, whose counts are noise: each seems to have most."""
    monkeypatch.setattr(learner, "_DRAWN_ITEMS", 1 << 17)
    wild = MeasuredCounts("user", np.full(20_000, 1.0), 1.0, 150.0, 100.0, 0.1)
    assert wild.length > 10_000
    assert len(by_popularity(wild)) <= 1 << 18


def test_counts_stand_out_of_their_noise_or_do_not() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 3, 20_000)
    drowned = MeasuredCounts("user", noise, 3.0, 100.0, 1.0, 0.1)
    assert drowned.clear < 0.05
    assert replace(drowned, counts=noise + 30).clear == pytest.approx(100, rel=0.05)
    assert replace(drowned, fame=np.ones(20_000)).clear == 1, "fame is clear"


def test_fame_decides_where_noise_does_and_counts_where_they_are_clear() -> None:
    rng = np.random.default_rng(0)
    truth, fame = rng.exponential(100, 400), rng.exponential(1, 400)
    drowned = with_fame(truth + rng.normal(0, 1e5, 400), 1e5, fame)
    np.testing.assert_array_equal(np.argsort(drowned), np.argsort(fame))
    for spread in (0.0, 1e-6):
        clear = with_fame(truth, spread, fame)
        np.testing.assert_allclose(clear, truth, rtol=1e-4)
    between = with_fame(truth + rng.normal(0, 30, 400), 30.0, truth**0.5)
    assert ((between - truth) ** 2).mean() < 30**2 / 4, "nearer than the counts themselves"


def test_fame_is_in_any_unit() -> None:
    rng = np.random.default_rng(0)
    fame = rng.exponential(1, 100)
    counts = 50 * fame + rng.normal(0, 20, 100)
    found = with_fame(counts, 20.0, fame)
    np.testing.assert_allclose(with_fame(counts, 20.0, 1e9 * fame), found)
    assert found.sum() == pytest.approx(counts.sum(), rel=0.1)


def test_popularity_is_ordered_by_counts_or_by_what_fame_makes_of_them() -> None:
    counts = np.array([3.0, 1.0, 2.0])
    plain = MeasuredCounts("user", counts, 10.0, 5.0, 1.0, 0.5)
    assert plain.ranking is counts
    famous = replace(plain, fame=np.array([0.0, 1.0, 9.0]))
    assert np.argsort(-famous.ranking).tolist() == [2, 1, 0]


def test_explained_is_the_share_of_length_along_popularity() -> None:
    popular = np.array([0.8, 0.6, 0.0])
    weights = np.array([1.0, 2.0, 3.0])
    histories = Ratings.from_columns([0, 0, 1], [0, 1, 2]).with_items(np.arange(3))
    # h·D·q is 0.8 + 1.2 and 0; the squared lengths are 1 + 4 and 9
    assert explained(histories, popular, weights) == pytest.approx(4 / 14)
    along = Ratings.from_columns([0], [0]).with_items(np.arange(3))
    assert explained(along, np.eye(3)[0], weights) == pytest.approx(1)


# ---- odd numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "rating"])
@pytest.mark.parametrize("people", [-50.0, 0.0, 1.0, 1e6])
@pytest.mark.parametrize(
    "counts",
    [
        np.array([3.0]),
        np.array([-3.0]),
        np.full(5, -1.0),
        np.zeros(5),
        np.array([1e12, 0, 0, 0, -5]),
    ],
    ids=["one item", "one item below 0", "all below 0", "none", "one of all"],
)
@pytest.mark.parametrize("fame", ["none", "one", "even"])
@pytest.mark.filterwarnings("error")
def test_odd_numbers_make_a_model(unit: str, people: float, counts, fame: str) -> None:
    """No NaN and no warning, whether tastes are shown or not."""
    n = len(counts)
    known = {"none": None, "one": np.eye(n)[0], "even": np.ones(n)}[fame]
    measured = MeasuredCounts(unit, counts, 2.0, people, 5.0, 0.3, known)
    for found in (measured.cleaned, measured.ranking, measured.length, measured.clear):
        assert np.isfinite(found).all()
    assert (measured.cleaned >= 0).all()
    counted, weights, popular = popularity_weights(measured.cleaned)
    basis = Basis.of(with_own(csr_array(np.ones((n, 1))), counted), counted, popular)
    d = len(basis.emphasis)
    statistic = TasteProducts(
        unit,
        in_integers(weights * basis.scales, 14),
        basis.features,
        in_integers(basis.apart, 20),
    )
    for size in (0.0, 1e9):
        moments = TasteMoments(size * np.eye(d), np.eye(d), 0.5)
        state = learn(measured, moments, basis, lambda part: moments_of(statistic, part))
        if not size and people <= 1:
            assert state is None
        if state is not None:
            for name in ("offsets_", "factors_", "projections_"):
                assert np.isfinite(state[name]).all()
