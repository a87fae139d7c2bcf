"""No neighbouring pair of data sets moves a statistic further than its claimed sensitivity.

Random and adversarial pairs: users with one rating and with thousands, ratings at the extremes
against extreme item averages, steep mixtures of both. The pairs are measured by the statistics
themselves; a claim that is too small must be caught.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from epicrec.data import Ratings, Scale
from epicrec.models.estimates import Spread
from epicrec.models.private import pairs, statistics
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import (
    STEPS,
    ForAndAgainst,
    ItemEffects,
    Moments,
    Overall,
    in_steps,
)
from epicrec.papers.mcsherry_mironov.measurements import COVARIANCE, sensitivities

STARS = Scale(1, 5, 1)
N_ITEMS = 40


def histories(seed: int, count: int, n_items: int = N_ITEMS) -> Ratings:
    """Users from one rating to all items; half of them with extreme ratings only."""
    rng = np.random.default_rng(seed)
    sizes = np.where(
        rng.random(count) < 0.3, rng.choice([1, 2, n_items], count), rng.integers(1, n_items, count)
    )
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    items = np.concatenate([np.sort(rng.permutation(n_items)[:size]) for size in sizes])
    calm = rng.integers(1, 6, len(items))
    extreme = rng.choice([1, 5], len(items))
    wild = np.repeat(rng.random(count) < 0.5, sizes)
    values = np.where(wild, extreme, calm)
    ids = np.arange(n_items)
    return Ratings(
        np.arange(count), ids, indptr, items.astype(np.int32), values.astype(np.float32), STARS
    )


def levels_for(seed: int, n_items: int = N_ITEMS) -> np.ndarray:
    """Item offsets: the extremes, where residuals span eight stars, and anything between."""
    rng = np.random.default_rng(seed)
    extreme = rng.choice([-2 * STEPS, 2 * STEPS], n_items)
    between = rng.integers(-2 * STEPS, 2 * STEPS + 1, n_items)
    return np.where(rng.random(n_items) < 0.5, extreme, between).astype(np.int16)


def norm_of(change: np.ndarray, norm: int) -> float:
    return (
        float(np.abs(change).sum(dtype=np.float64))
        if norm == 1
        else float(np.sqrt(np.sum(change.astype(np.float64) ** 2)))
    )


def without_one_rating(ratings: Ratings, user: int, rng: np.random.Generator) -> Ratings:
    keep = np.ones(len(ratings), bool)
    keep[rng.integers(ratings.indptr[user], ratings.indptr[user + 1])] = False
    return ratings.select(keep)


def all_statistics(unit: str, norm: int, seed: int) -> list:
    weights = np.random.default_rng(seed).integers(1, STEPS + 1, N_ITEMS).astype(np.int16)
    tastes = np.random.default_rng(seed).normal(size=(N_ITEMS, 4))
    moments = Moments(unit, norm, STARS, levels_for(seed), tastes, Spread(0.3, taste=0.4))
    return [
        moments,
        replace(moments, tastes=tastes[:, :0]),
        *([ForAndAgainst(STARS), Overall(STARS)] if unit == "rating" else []),
        ItemEffects(unit, norm, STARS),
        ItemEffects(unit, norm, None),
        *([ItemEffects(unit, norm, STARS, weights, 2)] if unit == "user" else []),
        PairSums(unit, norm, STARS, levels_for(seed)),
        PairSums(unit, norm, None, weights),
    ]


def largest_change(unit: str, norm: int, pairs: int, seed: int) -> dict[int, tuple[float, float]]:
    """For each statistic, the largest change over its sensitivity, over many neighbours."""
    rng = np.random.default_rng(seed)
    worst: dict[int, tuple[float, float]] = {}
    for block in range(pairs // 50):
        data = histories(seed + block, 50)
        made = [(one, float(one.sensitivity)) for one in all_statistics(unit, norm, seed + block)]
        for user in range(50):
            one = data.users_at(np.array([user]))
            other = without_one_rating(one, 0, rng) if unit == "rating" else None
            for at, (statistic, claimed) in enumerate(made):
                change = statistic(one) - (statistic(other) if other is not None else 0)
                moved = norm_of(change, norm)
                assert moved <= claimed, (type(statistic).__name__, unit, norm, moved / claimed)
                worst[at] = max(worst.get(at, (0.0, 0.0)), (moved / claimed, moved))
    return worst


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_no_neighbour_moves_a_statistic_further_than_claimed(unit: str, norm: int) -> None:
    # 1,300 users × 7 or 8 statistics × 4 kinds: more than 20,000 pairs of neighbours in all
    worst = largest_change(unit, norm, 1300, seed=10)
    assert min(ratio for ratio, _ in worst.values()) > 0.5, "the search comes nowhere near: weak"


@pytest.mark.parametrize("n_items", [3000])
@pytest.mark.parametrize("norm", [1, 2])
def test_users_with_thousands_of_extreme_ratings(norm: int, n_items: int) -> None:
    """One rating more for users whose every residual is clamped, or just not."""
    for size in (1, 2, 63, 1000, n_items):
        for level in (-2 * STEPS, 0, 2 * STEPS - 1):
            for value in (1.0, 5.0):
                items = np.arange(size, dtype=np.int32)
                values = np.full(size, value, np.float32)
                whole = Ratings(
                    np.array([0]), np.arange(n_items), np.array([0, size]), items, values, STARS
                )
                keep = np.ones(size, bool)
                keep[size // 2] = False
                statistic = PairSums("rating", norm, STARS, np.full(n_items, level, np.int16))
                change = statistic(whole) - statistic(whole.select(keep))
                assert norm_of(change, norm) <= float(statistic.sensitivity)
                user = replace(statistic, unit="user")
                assert norm_of(user(whole), norm) <= float(user.sensitivity)


def test_every_norm_of_a_rating_level_pair() -> None:
    """Exhaustive in what the L2 bound depends on: the norm before, and the new residual."""
    one = 1 << pairs.PAIR_BITS["rating", 2]
    claim = PairSums("rating", 2, None, np.zeros(17_768, np.int16)).sensitivity
    squares = np.unique(np.geomspace(1, 17_768 * STEPS**2, 3000).astype(np.int64))
    for x in (1, 7, 32, 63, 64):
        for square in squares.tolist():
            before = (one << 10) // max(_ceil_root(square << 20), STEPS << 10)
            after = (one << 10) // max(_ceil_root((square + x * x) << 20), STEPS << 10)
            moved = Fraction((before - after) ** 2 * square**2, 2) + after**2 * x * x * square
            assert moved <= claim**2


def _ceil_root(square: int) -> int:
    from math import isqrt

    return isqrt(square - 1) + 1 if square else 0


def test_a_sensitivity_that_is_too_small_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: claim 20 % less than proved, and the search must find a pair beyond it."""
    honest = PairSums.sensitivity.fget
    too_small = property(lambda self: honest(self) * Fraction(8, 10))
    monkeypatch.setattr(PairSums, "sensitivity", too_small)
    with pytest.raises(AssertionError):
        largest_change("rating", 2, 500, seed=3)


def test_the_papers_alpha_of_four_fails_and_eight_holds() -> None:
    """Theorem 4's L1 bound α + B, for ratings of 5 of items that others rate 1, and one of 1 of an
    item that others rate 5: residuals lie in [-4, 4], and the new one 8 from the user's mean."""
    worst = 0.0
    for others in (10, 100, 1000, 10_000):
        for above in np.linspace(3, 4, 11):  # within the clamp once the user's mean is taken off
            before = np.full(others, above)
            after = np.append(before, -4.0)
            centred = [np.clip(r - r.sum() / (len(r) + 20), -1, 1) for r in (before, after)]
            moved = np.abs(centred[1][:-1] - centred[0]).sum() + abs(centred[1][-1])
            worst = max(worst, moved)
    assert worst > 4 + 1, "α = 4 holds after all"
    assert worst <= 8 + 1


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_published_measurements_claim_at_least_the_papers(unit: str, norm: int) -> None:
    for measured in sensitivities(1000, norm, unit):
        assert measured.proved >= 0.95 * measured.stated
    if norm == 1 and unit == "rating":
        assert measured_covariance().proved > 1.5 * measured_covariance().stated


def measured_covariance():
    return sensitivities(1000, 1, "rating")[COVARIANCE]


def test_steps_round_toward_zero() -> None:
    jokes = Scale(-10, 10, 0.01)
    values = np.array([-10, -0.01, 0.01, 3.33, 10], np.float32)
    steps = in_steps(values, jokes)
    assert steps[0] == -128
    assert steps[-1] == 128
    assert np.all(np.abs(steps) <= np.abs(values) / 5 * 64 + 1e-4)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("unit", ["rating", "user"])
def test_sums_stay_within_64_bits(unit, norm):
    """At the public bounds, 2³¹ ratings of 2²² people, no entry can reach 2⁶², where noise is
    refused: neither an overflow nor an error depends on the data."""
    pairs = PairSums(unit, norm, Scale(1, 5, 1), np.zeros(2, np.int16))
    square = statistics.STEPS**2 * pairs.square_weight
    most = statistics.MOST_USERS if unit == "user" else 1 << 31
    assert most * square <= 1 << 62
    assert statistics.MOST_USERS * pairs.one <= 1 << 62
