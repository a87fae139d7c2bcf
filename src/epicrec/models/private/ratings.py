"""Private ratings: which sums are measured with how much of the budget, and the model they make.

Everything after a measurement uses released and public numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings, Scale
from epicrec.engine import Engine
from epicrec.models.estimates import SPREAD, ItemEstimates, ItemSums, Spread, unclamped
from epicrec.models.factors import rating_state
from epicrec.models.features import taste_columns
from epicrec.models.private.budget import Budget
from epicrec.models.private.measurements import (
    MeasuredRatings,
    measure_effects,
    measure_overall,
    measure_totals,
    reach_of,
)
from epicrec.models.private.pairs import PairSums, check_memory, dense
from epicrec.models.private.statistics import STEPS, VOTE, Moments, Unit
from epicrec.models.spectrum import (
    clearer_spectrum,
    rating_factors,
    ridge_of,
    unresolved,
    without_known,
)

OVERALL, FIRST_TOTALS = 0.03, 0.02
"""Rating level: parts of ε, spent on Laplace noise, for the mean rating and the number of people,
and, where pairs of items may pay, for a first measurement of the items' totals. One rating moves
few totals, which Laplace noise hides at less cost."""
CONCENTRATED = 20
"""Pairs may pay where they would if so small a part of the items had all the ratings."""
FIRST_SHARE = 0.1
"""User level: the part of the budget (of μ² with Gaussian, of ε with Laplace noise) for a first
measurement of the items' sums and the number of people."""
SECOND_SHARE, MOMENTS_SHARE = 0.15, 0.03
"""Of the budget, or of what the first measurement left at the rating level: for a second one of the
items and for the moments; pairs of items have the rest. Where the first tells that one of these
would drown in its noise, the second has it."""
FIRST_FACTOR = 0.08
PAYS = 1.2
"""Pairs are measured where their first eigenvalue, if the first factor has this share of the
variance of clamped residuals, would stand so far above the noise."""
CLAMPED, CLAMPED_SPREAD = 0.5, 0.15
"""The variance of residuals clamped to one star, before it is measured, and how far data sets
differ in it."""
TELLS = 0.05
"""How sure the variance of clamped residuals is to be, where it is all that moments tell."""
HEARD = 0.25
"""Votes for taste are heard where their noise is less than that of so many of the people."""
MUCH_TASTE = 0.12
"""The share of taste where the votes for it are clear; where they drown, `SPREAD` has it."""
BESIDE_FACTORS = 0.5
"""What is left of taste beside factors, which tell of it, too, where noise hides its directions."""
STRENGTH = 1.2
"""What factors are multiplied by: clamping has made them smaller than they are."""


@dataclass(frozen=True)
class RatingPlan:
    """After a first measurement: what is left of the budget, and the shares of it for the rest."""

    first: MeasuredRatings
    left: Budget
    items: float
    moments: float
    pairs: float


def release_ratings(
    ratings: Ratings, features: Any, budget: Budget, k: int, engine: Engine
) -> dict[str, Any]:
    """All measurements of ratings, and a model's state from them; with k = 0 none of pairs."""
    scale = ratings.scale
    assert scale is not None
    if k:
        check_memory(ratings.n_items)
    tastes = taste_columns(features)
    plan = _plan(ratings, budget, tastes, engine, pairs=k > 0)
    left, measured = plan.left, (plan.first + _second(ratings, plan, engine)).settled()
    found = measured.estimates(features, SPREAD.total)
    spread = replace(SPREAD, taste=SPREAD.taste if tastes.shape[1] else 0.0, unsure=measured.unsure)
    if plan.moments:
        moments = _moments(left, scale, _steps(found.means), tastes)
        sums, noise = left.measure(moments, plan.moments, engine(moments, ratings), turn=3)
        spread = _spread(left.unit, sums, noise, measured, found, bool(tastes.shape[1]))
        found = measured.estimates(features, spread.total)
    if not plan.pairs:
        state = rating_state(found, spread.columns(tastes), spread.noise, scale)
        return state | {"note_": _note(budget, measured, spread, pairs=k > 0)}
    spread = replace(spread, taste=BESIDE_FACTORS * spread.taste)
    pairs = PairSums(left.unit, left.norm, scale, _steps(found.means))
    packed, noise = left.measure(pairs, plan.pairs, engine(pairs, ratings), turn=2)
    columns, ridge = _columns(pairs, packed, noise / pairs.one, measured, spread, tastes, k)
    return rating_state(found, columns, ridge, scale)


def _plan(
    ratings: Ratings, budget: Budget, tastes: Floats, engine: Engine, *, pairs: bool
) -> RatingPlan:
    """What to spend the budget on, by a first measurement; `pairs` says if these may be in it."""
    assert ratings.scale is not None
    n = ratings.n_items
    others = SECOND_SHARE + MOMENTS_SHARE
    if budget.unit == "user":
        first, left = measure_effects(ratings, budget, FIRST_SHARE, engine), budget
        rest, units = 1 - FIRST_SHARE, first.users
        pays = pairs and _pays(left, first, rest - others)
    else:
        first, units = measure_overall(ratings, budget.part(OVERALL, "laplace"), engine)
        rest, whole = 1.0, 1 - OVERALL
        few = np.where(np.arange(n) < n / CONCENTRATED, 1.0, 0.0)
        best = ItemSums(few * 0, units / few.sum() * few, few * 0, few * 0)
        hopeful = replace(first, items=best)
        pays = pairs and _pays(_planned(budget, whole), hopeful, rest - others)
        if pays:
            part = budget.part(FIRST_TOTALS, "laplace")
            first += measure_totals(ratings, part, 1.0, engine, turn=0)
            whole -= FIRST_TOTALS
            pays = _pays(_planned(budget, whole), first, rest - others)
        left = budget.part(whole, None if pays else "laplace")
    if pays:
        return RatingPlan(first, left, SECOND_SHARE, MOMENTS_SHARE, rest - others)
    some = _moments_share(left, ratings, tastes, units, first.users)
    return RatingPlan(first, left, rest - some, some, 0.0)


def _moments_share(
    left: Budget, ratings: Ratings, tastes: Floats, units: float, users: float
) -> float:
    """What moments need: all of their share where votes for taste are heard, else as much as tells
    the spread of ratings, and nothing where that is more."""
    assert ratings.scale is not None
    statistic = _moments(left, ratings.scale, np.zeros(ratings.n_items, np.int16), tastes)
    noise = left.spread(statistic, MOMENTS_SHARE)
    if tastes.shape[1] and noise < HEARD * VOTE * users:
        return MOMENTS_SHARE
    over = noise / (TELLS * STEPS * units)
    needed = over if left.noise == "laplace" else over**2
    return MOMENTS_SHARE * needed if needed < 1 else 0.0


def _planned(budget: Budget, share: float) -> Budget:
    return replace(budget, epsilon=budget.epsilon * share)


def _columns(
    pairs: PairSums, packed: Integers, sigma: float, measured: MeasuredRatings, spread: Spread,
    tastes: Floats, k: int,
) -> tuple[Floats, float]:  # fmt: skip
    """Factors for the user's mean, taste, and what pairs of items have in common beside these; and
    the variance of what is left."""
    n, unit = len(tastes), pairs.unit
    square = packed[-1] / (STEPS**2 * pairs.square_weight)
    variance = float(np.clip(square / measured.units(unit), 0.05, 0.9))
    reach = reach_of(unit, measured, variance)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    clamped = sqrt(unclamped(variance)[1])
    columns = spread.columns(tastes)
    unsolved = unresolved(columns[:, 1:], clamped * reach.reach, reach.noise(sigma).edge())
    columns = np.hstack([columns[:, :1], unsolved])
    without_known(matrix, columns * clamped * reach.reach[:, None])
    factors = rating_factors(clearer_spectrum(matrix, reach, sigma, k), sigma, reach, variance)
    ridge = ridge_of(spread, factors, reach, variance)
    return np.hstack([columns, factors * STRENGTH]), ridge


def _note(budget: Budget, measured: MeasuredRatings, spread: Spread, *, pairs: bool) -> str:
    """Why there are no factors of items, and what is personal instead."""
    people = f"about {round(measured.users):,} users at epsilon = {budget.epsilon:g}"
    why = f"{people} are too few for" if pairs else "with factors = 0 nothing is learned from"
    own = "own mean and taste by public features" if spread.taste else "own mean"
    return f"{why} pairs of items: what is personal here is each user's {own}"


def _steps(means: Floats) -> npt.NDArray[np.int16]:
    return np.rint(means * STEPS).astype(np.int16)


def _second(ratings: Ratings, plan: RatingPlan, engine: Engine) -> MeasuredRatings:
    """A second measurement of the items, by the sums that suit the unit and the noise."""
    left, first = plan.left, plan.first
    if left.unit == "user" or left.noise == "gaussian":
        return measure_effects(ratings, left, plan.items, engine, like=first)
    return measure_totals(ratings, left, plan.items, engine, turn=1)


def _moments(left: Budget, scale: Scale, levels: npt.NDArray[np.int16], tastes: Floats) -> Moments:
    spread = replace(SPREAD, taste=MUCH_TASTE)
    return Moments(left.unit, left.norm, scale, levels, tastes, spread)


def _spread(
    unit: Unit, sums: npt.NDArray[np.int64], noise: float, measured: MeasuredRatings,
    found: ItemEstimates, features: bool,
) -> Spread:  # fmt: skip
    """The spread of ratings about item means."""
    ratings, units = measured.units("rating"), measured.units(unit)
    sure = 1 / (1 + (noise / STEPS / units / CLAMPED_SPREAD) ** 2)
    variance = sure * sums[0] / STEPS / units + (1 - sure) * CLAMPED
    # item means were fitted to the same ratings
    fitted = float(np.sum(1 - found.doubt)) / max(ratings * measured.items.per_count, 1.0)
    variance = float(np.clip(variance / (1 - min(fitted, 0.3)), 0.05, 0.9))
    total = unclamped(variance)[0]
    if not features:
        return Spread(total, unsure=measured.unsure)
    # what the votes of as many people would differ by without taste, and the noise
    doubt = sqrt((noise / VOTE) ** 2 + 0.25 * measured.users)
    clear = sums[1] / VOTE / doubt
    heard = noise < HEARD * VOTE * measured.users
    taste = MUCH_TASTE if heard and clear > 1 else SPREAD.taste if clear > -2 else 0.0
    return Spread(total, taste=taste, unsure=measured.unsure)


def _pays(left: Budget, first: MeasuredRatings, share: float) -> bool:
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
