"""Private ratings: which sums are measured with how much of the budget, and the model they make.

Everything after a measurement uses released and public numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.engine import Engine, Integers
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.kernel import check_memory, dense, fits
from epicrec.models.covariance.moments import VOTE, Moments, Overall
from epicrec.models.covariance.statistics import STEPS, ItemEffects, PairSums, Unit
from epicrec.models.estimates import WITHIN, ItemEstimates, ItemSums, item_estimates
from epicrec.models.factors import rating_state
from epicrec.models.private_bias import ForAndAgainst, mean_rating
from epicrec.models.spectrum import (
    SAMPLING,
    Reach,
    clearer_spectrum,
    rating_factors,
    ridge_of,
    without_known,
)
from epicrec.models.taste import Spread, taste_columns, unclamped

Floats = npt.NDArray[np.float64]

LOOK, OVERALL = 0.02, 0.03
"""Rating level: parts of ε, spent on Laplace noise, for a first look at the items' totals and for
the mean rating and the number of people. One rating moves few totals, which Laplace noise hides at
less cost."""
FIRST_SHARE = 0.1
"""User level: the part of the budget (of μ² with Gaussian, of ε with Laplace noise) for a first
look at the items' sums and the number of people."""
SECOND_SHARE, MOMENTS_SHARE = 0.15, 0.03
"""Of the budget, or of what the first look left at the rating level: for a second look at the items
and for the moments; pairs of items have the rest. Where the first look tells that these would drown
in their noise, the second look has it."""
FIRST_FACTOR = 0.08
PAYS = 1.2
"""Pairs are measured where their first eigenvalue, if the first factor has this share of the
variance of clamped residuals, would stand so far above the noise."""
UNEVEN = 1.35
"""User level: how far Σ c exceeds what n users with equal histories c would have, which is much the
same in every data set (1.3 to 1.6 in MovieLens and others)."""
CLAMPED, CLAMPED_SPREAD = 0.5, 0.15
"""The variance of residuals clamped to one star, before it is measured, and how far data sets
differ in it."""
RARE = 0.4
"""User level: items are weighted by count^-RARE in the second look at their sums."""
SOME_TASTE, MUCH_TASTE = 0.05, 0.12
"""The share of taste where the votes for it drown in their noise, and where they are clear."""
BESIDE_FACTORS = 0.5
"""What is left of taste beside factors, which tell of it, too."""
STRENGTH = {"rating": 1.0, "user": 1.2}
"""What factors are multiplied by: clamping has made them smaller than they are."""


@dataclass(frozen=True)
class Look:
    """What one measurement tells of items, of the number of people, and of the mean rating.

    At the user level sums are of deviations from users' means, which lie about `centre`.
    """

    items: ItemSums
    users: float
    centre: float
    unsure: float
    """The variance of the noise on the centre."""
    base: float = 0.0
    """What is to be added to the items' means as they are estimated."""
    uneven: float = 0.0
    """Rating level: the variance of the logarithm of the number of ratings that people have."""

    def __add__(self, other: Look) -> Look:
        own = other.unsure / (self.unsure + other.unsure)
        centre = own * self.centre + (1 - own) * other.centre
        unsure = own * self.unsure
        base = centre if self.base else 0.0
        return Look(self.items + other.items, self.users, centre, unsure, base, self.uneven)

    def units(self, unit: Unit) -> float:
        """How many ratings there are, or people where those are what is hidden."""
        return max(float(self.items.counts.sum()), 1.0) if unit == "rating" else self.users

    def estimates(self, features: Any, within: float) -> ItemEstimates:
        found = item_estimates(self.items, features, centre=self.centre - self.base, within=within)
        means = np.clip(found.means + self.base, -2, 2)
        return replace(found, means=means, usual=found.usual + self.base)


def release_ratings(
    ratings: Ratings, features: Any, budget: Budget, k: int, engine: Engine
) -> dict[str, Any]:
    """All measurements of ratings, and a model's state from them."""
    scale = ratings.scale
    assert scale is not None
    tastes, room = taste_columns(features), fits(ratings.n_items)
    if budget.unit == "rating":
        first = _totals(ratings, budget.part(LOOK + OVERALL, "laplace"), engine)
        planned = replace(budget, epsilon=budget.epsilon * (1 - LOOK - OVERALL))
        pays = _pays(planned, first, 1 - SECOND_SHARE - MOMENTS_SHARE)
        left = budget.part(1 - LOOK - OVERALL, None if pays and room else "laplace")
        rest = 1 - MOMENTS_SHARE
    else:
        first, left = _effects(ratings, budget, FIRST_SHARE, engine), budget
        pays = _pays(left, first, 1 - FIRST_SHARE - SECOND_SHARE - MOMENTS_SHARE)
        rest = 1 - FIRST_SHARE - MOMENTS_SHARE
    share = SECOND_SHARE if pays and room else rest
    look = first + _second(ratings, left, share, engine, first)
    found = look.estimates(features, WITHIN)
    levels = _steps(found.means)
    moments = Moments(left.unit, left.norm, scale, levels, tastes, Spread(WITHIN, taste=MUCH_TASTE))
    sums, noise = left.measure(moments, MOMENTS_SHARE, engine(moments, ratings), turn=3)
    spread, _ = _spread(left.unit, sums, noise, look, found, bool(tastes.shape[1]))
    found = look.estimates(features, spread.total)
    if not (pays and room):
        state = rating_state(found, spread.columns(tastes), spread.noise, scale)
        return state | {"note_": _note(budget, ratings.n_items, look, spread, pays)}
    check_memory(ratings.n_items)
    spread = replace(spread, taste=BESIDE_FACTORS * spread.taste)
    pairs = PairSums(left.unit, left.norm, scale, _steps(found.means))
    packed, noise = left.measure(pairs, rest - share, engine(pairs, ratings), turn=2)
    columns, ridge = _columns(pairs, packed, noise / pairs.one, look, spread, tastes, k)
    return rating_state(found, columns, ridge, scale)


def _columns(
    pairs: PairSums, packed: Integers, sigma: float, look: Look, spread: Spread, tastes: Floats,
    k: int,
) -> tuple[Floats, float]:  # fmt: skip
    """Factors for the user's mean, taste, and what pairs of items have in common beside these; and
    the variance of what is left."""
    columns, n, unit = spread.columns(tastes), len(tastes), pairs.unit
    square = packed[-1] / (STEPS**2 * pairs.square_weight)
    variance = float(np.clip(square / look.units(unit), 0.05, 0.9))
    reach = reach_of(unit, look, variance)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    without_known(matrix, columns * sqrt(unclamped(variance)[1]) * reach.reach[:, None])
    factors = rating_factors(clearer_spectrum(matrix, reach, sigma, k), sigma, reach, variance)
    ridge = ridge_of(spread, factors, reach, variance)
    return np.hstack([columns, factors * STRENGTH[unit]]), ridge


def _note(budget: Budget, n_items: int, look: Look, spread: Spread, pays: bool) -> str:
    """Why there are no factors of items, and what is personal instead."""
    why = f"about {round(look.users):,} people and epsilon = {budget.epsilon:g} do not pay for"
    why = f"the memory does not hold {n_items:,} items'" if pays else why
    own = "own mean and taste by public features" if spread.taste else "own mean"
    return f"{why} pairs of items: what is personal here is each user's {own}"


def _steps(means: Floats) -> npt.NDArray[np.int16]:
    return np.rint(means * STEPS).astype(np.int16)


def _second(ratings: Ratings, left: Budget, share: float, engine: Engine, first: Look) -> Look:
    """A second look at the items, by the sums that suit the unit and the noise."""
    if left.unit == "user" or left.noise == "gaussian":
        return _effects(ratings, left, share, engine, like=first)
    assert ratings.scale is not None
    statistic = ForAndAgainst(ratings.scale)
    raw, noise = left.measure(statistic, share, engine(statistic, ratings), turn=1)
    return _of_sums(statistic.sums(raw, noise), first.users)


def _totals(ratings: Ratings, part: Budget, engine: Engine) -> Look:
    """Rating level: a first look at totals for and against each item, and at all together."""
    assert ratings.scale is not None
    each, overall = ForAndAgainst(ratings.scale), Overall(ratings.scale)
    share = LOOK / (LOOK + OVERALL)
    items = each.sums(*part.measure(each, share, engine(each, ratings)))
    raw, noise = part.measure(overall, 1 - share, engine(overall, ratings), turn=4)
    both = each.sums(raw[:2], noise)
    total = max(float(both.counts[0]), 1.0)
    users = float(np.clip(raw[2] / each.span, total / ratings.n_items, total))
    lengths = float(np.clip(raw[3] / each.span, users, sqrt(total * users)))
    uneven = float(np.clip(4 * log(total * users / lengths**2), 0, 3))
    return replace(_of_sums(both, users), items=items, uneven=uneven)


def _of_sums(items: ItemSums, users: float) -> Look:
    """Rating level: the mean rating is that of all items together."""
    centre, unsure = mean_rating(items)
    return Look(items, users, centre, unsure)


def _effects(
    ratings: Ratings, budget: Budget, share: float, engine: Engine, like: Look | None = None
) -> Look:
    """Sums and counts of items, the number of people and the mean of their means.

    `like` is what is known already: at the user level rare items then have larger weights, as the
    error of an item's mean falls with its count.
    """
    n = ratings.n_items
    levels = None
    if like is not None and budget.unit == "user":
        wish = (np.maximum(like.items.counts, 0) + like.items.noise + 1.0) ** -RARE
        levels = np.clip(np.rint(STEPS * wish / wish.max()), 1, STEPS).astype(np.int16)
    statistic = ItemEffects(budget.unit, budget.norm, ratings.scale, levels)
    turn = int(like is not None)
    raw, noise = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    star, one, user, mean = statistic.per_unit
    sums, counts, spread = raw[:n] / star, raw[n : 2 * n] / one, np.full(n, noise / one)
    if levels is not None and like is not None:
        present = np.maximum(like.items.counts, 1e-9)
        each = sqrt(float(present @ levels.astype(np.float64) ** 2 / present.sum())) / levels
        sums, counts, spread = sums * each, counts * each, spread * each
    total = max(float(counts.sum()), float(spread.max()), 1.0)
    users = float(np.clip(raw[2 * n] / user, total / n, total))
    if budget.unit == "rating":
        return _of_sums(ItemSums(sums, counts, spread**2, spread), users)
    centre = float(np.clip(raw[2 * n + 1] / mean / users, -2, 2))
    found = ItemSums(sums, counts, spread**2, spread, per_count=users / total)
    return Look(found, users, centre, (noise / mean / users) ** 2, base=centre)


def _spread(
    unit: Unit, sums: npt.NDArray[np.int64], noise: float, look: Look, found: ItemEstimates,
    features: bool,
) -> tuple[Spread, float]:  # fmt: skip
    """The spread of ratings about item means, and the variance of clamped residuals."""
    ratings, units = look.units("rating"), look.units(unit)
    sure = 1 / (1 + (noise / STEPS / units / CLAMPED_SPREAD) ** 2)
    variance = sure * sums[0] / STEPS / units + (1 - sure) * CLAMPED
    # item means were fitted to the same ratings
    fitted = float(np.sum(1 - found.doubt)) / max(ratings * look.items.per_count, 1.0)
    variance = float(np.clip(variance / (1 - min(fitted, 0.3)), 0.05, 0.9))
    total = unclamped(variance)[0]
    if not features:
        return Spread(total, unsure=look.unsure), variance
    # what the votes of as many people would differ by without taste, and the noise
    doubt = sqrt((noise / VOTE) ** 2 + 0.25 * look.users)
    clear = sums[1] / VOTE / doubt
    taste = MUCH_TASTE if clear > 1 else SOME_TASTE if clear > -2 else 0.0
    return Spread(total, taste=taste, unsure=look.unsure), variance


def _pays(left: Budget, first: Look, share: float) -> bool:
    """Whether pairs measured with this share of what is left would show their first factor."""
    pairs = PairSums(left.unit, left.norm, None, np.zeros(1, np.int16))
    sigma = left.spread(pairs, share) / pairs.one
    reach = reach_of(left.unit, first, CLAMPED)
    # counts that are only noise have squares too
    square = float(np.sum(reach.reach**2))
    noisy = float(np.sum(np.maximum(first.items.counts, 0) ** 2))
    square *= max(0.0, 1 - float(np.sum(first.items.noise**2)) / max(noisy, 1e-9))
    seen = FIRST_FACTOR * CLAMPED * square
    return seen > PAYS * max(2 * sigma * sqrt(len(reach.reach)), reach.least)


def reach_of(unit: Unit, look: Look, variance: float) -> Reach:
    """How items weigh in the covariance of residuals of this variance.

    Users rate items independently with probabilities that are proportional to the item's count and
    to their own number of ratings c, whose logarithm is normal. At the user level the released
    counts are Σ 1/√c. The sum over one user's pairs has an eigenvalue of the user's ‖v‖.
    """
    counts, users = look.items.counts, look.users
    total = max(float(counts.sum()), 1.0)
    present = np.maximum(counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)
    if unit == "rating":
        mass = exp(0.375 * look.uneven) * users * (total / users) ** 1.5 / sqrt(variance)
        sampled = np.sqrt(SAMPLING * variance * total) * share
        longest = exp(sqrt(2 * look.uneven * log(max(users, 2))) - look.uneven / 2)
        least = sqrt(variance * max(longest, 1.0) * total / users)
        return Reach(sqrt(mass) * share, sampled, present, least)
    ratings = UNEVEN * total**2 / users
    sampled = np.sqrt(SAMPLING * users) * share
    return Reach(sqrt(ratings / variance) * share, sampled, ratings * share)
