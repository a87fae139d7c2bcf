"""What the private covariance recommender measures, with how much noise, and the model it makes.

Everything after a measurement uses released and public numbers only.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from epicrec.data import Ratings, Scale
from epicrec.engine import Engine
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.kernel import dense
from epicrec.models.covariance.statistics import (
    STEPS,
    ItemEffects,
    PairSums,
    Unit,
)
from epicrec.models.factors import history_state, rating_state
from epicrec.models.spectrum import (
    HISTORY_SAMPLING,
    RATING_VARIANCE,
    SAMPLING,
    Effects,
    Reach,
    Spectrum,
    clearer_spectrum,
    history_factors,
    leading_eigenpairs,
    rating_factors,
)

FIRST_SHARE = 0.1
SECOND_SHARE = 0.15
"""Parts of the budget (of μ² with Gaussian, of ε with Laplace noise) for a first look at the item
effects and for a second; the covariance has the rest. Where the first look tells that the
covariance would drown in its noise, the second look has the rest."""
FIRST_FACTOR = 0.06
PAYS = 1.2
"""The covariance is measured where its first eigenvalue, if the first factor has a variance of
FIRST_FACTOR squared stars, would stand this far above the noise."""
UNEVEN = {"rating": 1.45, "user": 1.35}
"""How far Σ c^1.5 and Σ c exceed what n users with equal histories c would have: they are uneven in
much the same way in every data set (1.3 to 1.6 in MovieLens and others)."""
TYPICAL_VARIANCE, TYPICAL_NOISE = 0.57, 0.9
"""The variance of clamped residuals, and of a rating about the user's and the item's means."""
RARE = 0.4
"""User level: items are weighted by count^-RARE in the second look at their effects."""
HISTORY_SHARE = 0.04
"""The part of the budget for a first look at what is watched at all."""
SECOND_EIGENVALUE = 0.16
"""Of what is watched together, the second eigenvalue over the first, which is popularity."""


def release_ratings(ratings: Ratings, budget: Budget, k: int, engine: Engine) -> dict[str, Any]:
    """Both measurements of ratings, and a model's state from them."""
    n, scale = ratings.n_items, ratings.scale
    assert scale is not None
    centre, users, first = _effects(ratings, budget, FIRST_SHARE, engine)
    worth = _pays(budget, first, users)
    share = SECOND_SHARE if worth else 1 - FIRST_SHARE
    second_centre, _, second = _effects(ratings, budget, share, engine, like=first)
    effects = first + second
    centre = (FIRST_SHARE * centre + share * second_centre) / (FIRST_SHARE + share)
    levels = np.rint(np.clip(centre + effects.offsets(), -2, 2) * STEPS).astype(np.int16)
    if not worth:
        return rating_state(levels / STEPS, np.zeros((n, 0)), TYPICAL_NOISE, scale)

    pairs = PairSums(budget.unit, budget.norm, scale, levels)
    rest = 1 - FIRST_SHARE - SECOND_SHARE
    packed, noise = budget.measure(pairs, rest, engine(pairs, ratings), turn=2)
    sigma = noise / pairs.one
    reach, variance = _reach(
        budget.unit, effects, users, packed[-1] / (STEPS**2 * pairs.square_weight)
    )
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    del packed
    spectrum = clearer_spectrum(matrix, reach, sigma, k)
    del matrix
    factors, ridge = rating_factors(spectrum, sigma, reach, variance)
    return rating_state(levels / STEPS, factors, ridge, scale)


def _effects(
    ratings: Ratings, budget: Budget, share: float, engine: Engine, like: Effects | None = None
) -> tuple[float, float, Effects]:
    """The centre, the number of users and the item effects, measured with a share of the budget.

    `like` are effects known already: at the user level rare items then have larger weights, as the
    error of an item's mean falls with its count.
    """
    n = ratings.n_items
    levels = None
    if like is not None and budget.unit == "user":
        wish = (np.maximum(like.counts, 0) + like.noise + 1.0) ** -RARE
        levels = np.clip(np.rint(STEPS * wish / wish.max()), 1, STEPS).astype(np.int16)
    statistic = ItemEffects(budget.unit, budget.norm, ratings.scale, levels)
    turn = int(like is not None)
    raw, noise = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    star, one, user, mean = statistic.per_unit
    sums, counts, spread = raw[:n] / star, raw[n : 2 * n] / one, np.full(n, noise / one)
    if levels is not None and like is not None:
        present = np.maximum(like.counts, 1e-9)
        each = sqrt(float(present @ levels.astype(np.float64) ** 2 / present.sum())) / levels
        sums, counts, spread = sums * each, counts * each, spread * each
    total = max(float(counts.sum()), float(spread.max()), 1.0)
    users = float(np.clip(raw[2 * n] / user, total / n, total))
    if budget.unit == "rating":
        centre = float(np.clip(sums.sum() / total, -2, 2))
        variance = (1 + centre**2) * spread**2
        found = Effects(sums - centre * counts, counts, variance, spread, RATING_VARIANCE)
    else:
        centre = float(np.clip(raw[2 * n + 1] / mean / users, -2, 2))
        found = Effects(sums, counts, spread**2, spread, RATING_VARIANCE * users / total)
    return centre, users, found


def _pays(budget: Budget, effects: Effects, users: float) -> bool:
    """Whether a covariance measured with the rest of the budget would show its first factor."""
    pairs = PairSums(budget.unit, budget.norm, Scale(1, 5, 1), np.zeros(1, np.int16))
    sigma = budget.spread(pairs, 1 - FIRST_SHARE - SECOND_SHARE) / pairs.one
    reach, _ = _reach(budget.unit, effects, users, None)
    # counts that are only noise have squares too
    square = float(np.sum(reach.reach**2))
    noisy = float(np.sum(np.maximum(effects.counts, 0) ** 2))
    square *= max(0.0, 1 - float(np.sum(effects.noise**2)) / max(noisy, 1e-9))
    return FIRST_FACTOR * square > PAYS * 2 * sigma * sqrt(len(effects.counts))


def _reach(
    unit: Unit, effects: Effects, users: float, squares: float | None
) -> tuple[Reach, float]:
    """How items weigh in the covariance, and the variance of clamped residuals.

    Users rate items independently with probabilities that are proportional to the item's count and
    to their own number of ratings c. At the user level the released counts are Σ 1/√c.
    """
    total = max(float(effects.counts.sum()), 1.0)
    present = np.maximum(effects.counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)
    units = total if unit == "rating" else users
    variance = TYPICAL_VARIANCE if squares is None else float(np.clip(squares / units, 0.05, 1.0))
    if unit == "rating":
        mass = UNEVEN["rating"] * users * (total / users) ** 1.5 / sqrt(variance)
        sampled = np.sqrt(SAMPLING * variance * total) * share
        return Reach(sqrt(mass) * share, sampled, present), variance
    ratings = UNEVEN["user"] * total**2 / users
    sampled = np.sqrt(SAMPLING * users) * share
    return Reach(sqrt(ratings / variance) * share, sampled, ratings * share), variance


def release_histories(ratings: Ratings, budget: Budget, k: int, engine: Engine) -> dict[str, Any]:
    """Counts, then what is watched together or, where that would drown in noise, counts again."""
    n = ratings.n_items
    statistic = ItemEffects(budget.unit, budget.norm, None)
    rest = 1 - HISTORY_SHARE
    raw, noise = budget.measure(statistic, HISTORY_SHARE, engine(statistic, ratings))
    _, one, user, _ = statistic.per_unit
    counts, spread = raw[:n] / one, noise / one
    total = max(float(counts.sum()), spread, 1.0)
    users = float(np.clip(raw[n] / user, total / n, total))
    present = np.maximum(counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)

    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    sigma = budget.spread(pairs, rest) / pairs.one
    each = total / users  # the mean of √c at the user level, of c at the rating level
    mass = UNEVEN["user"] * total * each if budget.unit == "user" else total * sqrt(each)
    clear = max(0.0, float(present @ present) - n * spread**2) / max(present.sum(), 1e-9) ** 2
    if SECOND_EIGENVALUE * mass * clear < 2 * sigma * sqrt(n):
        raw, _ = budget.measure(statistic, rest, engine(statistic, ratings), turn=1)
        counts = HISTORY_SHARE * counts + rest * raw[:n] / one
        return history_state(counts, np.zeros((n, 0)), np.zeros((n, 0)))
    packed, noise = budget.measure(pairs, rest, engine(pairs, ratings), turn=2)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    del packed
    spectrum = Spectrum(*leading_eigenpairs(matrix, k))
    del matrix
    sampled = np.sqrt(HISTORY_SAMPLING * (users if budget.unit == "user" else total)) * share
    found = history_factors(spectrum, np.ones(n), noise / pairs.one, sampled)
    return history_state(present, *found)
