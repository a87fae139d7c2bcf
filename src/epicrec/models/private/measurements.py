"""Measurements of ratings: what noisy sums tell of items, people and the mean rating.

Everything after a measurement uses released and public numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import Any

import numpy as np

from epicrec.data import Ratings
from epicrec.engine import Engine
from epicrec.models.estimates import (
    ItemEstimates,
    ItemSums,
    expected_mean,
    item_estimates,
    mean_rating,
)
from epicrec.models.private.budget import Budget
from epicrec.models.private.statistics import STEPS, ForAndAgainst, ItemEffects, Overall, Unit
from epicrec.models.spectrum import SAMPLING, Reach

UNEVEN = 1.35
"""User level: how far Σ c exceeds what n users with equal histories c would have, which is much the
same in every data set (1.3 to 1.6 in MovieLens and others)."""
RARE = 0.4
"""User level: items are weighted by count^-RARE in the second measurement of their sums."""
VAGUE = 0.01
"""User level: where the first measurement leaves the mean with more than this variance, in squared
stars, the second gives people and their means twice the weight."""


@dataclass(frozen=True)
class MeasuredRatings:
    """What one measurement tells of items, of the number of people, and of the mean rating.

    At the user level sums are of deviations from users' means, which lie about `centre`.
    """

    items: ItemSums
    users: float
    users_noise: float
    """The standard deviation of the noise on the number of people."""
    centre: float
    unsure: float
    """The variance of the noise on the centre."""
    uneven: float = 0.0
    """Rating level: the variance of the logarithm of the number of ratings that people have."""
    apart: bool = False
    """Whether items' sums are of deviations from the centre."""

    def __add__(self, other: MeasuredRatings) -> MeasuredRatings:
        own = other.unsure / (self.unsure + other.unsure)
        known = 1 / (1 + (self.users_noise / other.users_noise) ** 2)
        return MeasuredRatings(
            self.items + other.items,
            known * self.users + (1 - known) * other.users,
            sqrt(known) * self.users_noise,
            own * self.centre + (1 - own) * other.centre,
            own * self.unsure,
            self.uneven,
            other.apart,
        )

    def units(self, unit: Unit) -> float:
        """How many ratings there are, or people where those are what is hidden."""
        return max(float(self.items.counts.sum()), 1.0) if unit == "rating" else self.users

    def settled(self) -> MeasuredRatings:
        """With the mean as far as it is told, and else the usual one."""
        centre, unsure = expected_mean(self.centre, self.unsure)
        return replace(self, centre=centre, unsure=unsure)

    def estimates(self, features: Any, within: float) -> ItemEstimates:
        base = self.centre if self.apart else 0.0
        found = item_estimates(self.items, features, centre=self.centre - base, within=within)
        means = np.clip(found.means + base, -2, 2)
        return replace(found, means=means, usual=found.usual + base)


def measure_overall(
    ratings: Ratings, part: Budget, engine: Engine
) -> tuple[MeasuredRatings, float]:
    """Rating level: the mean of all ratings, how many people rate how much, and how many ratings
    there are; of single items nothing."""
    assert ratings.scale is not None
    statistic, n = Overall(ratings.scale), ratings.n_items
    raw, noise = part.measure(statistic, 1.0, engine(statistic, ratings), turn=4)
    each = ForAndAgainst(ratings.scale)
    both = each.sums(raw[:2] / statistic.times, noise / statistic.times)
    total = max(float(both.counts[0]), 1.0)
    users = float(np.clip(raw[2] / each.span, total / n, total))
    lengths = float(np.clip(raw[3] / each.span, users, sqrt(total * users)))
    uneven = float(np.clip(4 * log(total * users / lengths**2), 0, 3))
    nothing = ItemSums(np.zeros(n), np.zeros(n), np.zeros(n), np.full(n, np.inf))
    return replace(_of_sums(both, users, noise / each.span), items=nothing, uneven=uneven), total


def measure_totals(
    ratings: Ratings, part: Budget, share: float, engine: Engine, *, turn: int
) -> MeasuredRatings:
    """Rating level, Laplace noise: totals for and against each item; of people nothing."""
    assert ratings.scale is not None
    statistic = ForAndAgainst(ratings.scale)
    raw, noise = part.measure(statistic, share, engine(statistic, ratings), turn=turn)
    return _of_sums(statistic.sums(raw, noise), 0.0, inf)


def _of_sums(items: ItemSums, users: float, noise: float) -> MeasuredRatings:
    """Rating level: the mean rating is that of all items together."""
    return MeasuredRatings(items, users, noise, *mean_rating(items))


def measure_effects(
    ratings: Ratings,
    budget: Budget,
    share: float,
    engine: Engine,
    like: MeasuredRatings | None = None,
) -> MeasuredRatings:
    """Sums and counts of items, the number of people and the mean of their means.

    `like` is what is known already: at the user level rare items then have larger weights, as the
    error of an item's mean falls with its count.
    """
    n = ratings.n_items
    levels = None
    if like is not None and budget.unit == "user":
        wish = (np.maximum(like.items.counts, 0) + like.items.noise + 1.0) ** -RARE
        levels = np.clip(np.rint(STEPS * wish / wish.max()), 1, STEPS).astype(np.int16)
    shift = 2 if like is not None and like.unsure > VAGUE else 3
    statistic = ItemEffects(budget.unit, budget.norm, ratings.scale, levels, shift)
    turn = int(like is not None)
    raw, noise = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    star, one, user, mean = statistic.per_unit
    sums, counts, spread = raw[:n] / star, raw[n : 2 * n] / one, np.full(n, noise / one)
    if levels is not None and like is not None:
        present = np.maximum(like.items.counts, 1e-9)
        each = sqrt(float(present @ levels.astype(np.float64) ** 2 / present.sum())) / levels
        sums, counts, spread = sums * each, counts * each, spread * each
    total = max(float(counts.sum()), float(spread.max()), 1.0)
    users = max(float(raw[2 * n] / user), 1.0)
    if budget.unit == "rating":
        return _of_sums(ItemSums(sums, counts, spread**2, spread), users, noise / user)
    centre = float(np.clip(raw[2 * n + 1] / mean / users, -2, 2))
    found = ItemSums(sums, counts, spread**2, spread, per_count=min(users / total, 1.0))
    unsure = (noise / mean / users) ** 2 + (centre * noise / user / users) ** 2
    return MeasuredRatings(found, users, noise / user, centre, unsure, apart=True)


def reach_of(unit: Unit, measured: MeasuredRatings, variance: float) -> Reach:
    """How items weigh in the covariance of residuals of this variance.

    Users rate items independently with probabilities that are proportional to the item's count and
    to their own number of ratings c, whose logarithm is normal. At the user level the released
    counts are Σ 1/√c. The sum over one user's pairs has an eigenvalue of the user's ‖v‖.
    """
    counts, users = measured.items.counts, measured.users
    total = max(float(counts.sum()), 1.0)
    present = np.maximum(counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)
    if unit == "rating":
        mass = exp(0.375 * measured.uneven) * users * (total / users) ** 1.5 / sqrt(variance)
        sampled = np.sqrt(SAMPLING * variance * total) * share
        longest = exp(sqrt(2 * measured.uneven * log(max(users, 2))) - measured.uneven / 2)
        least = sqrt(variance * max(longest, 1.0) * total / users)
        return Reach(sqrt(mass) * share, sampled, present, least)
    ratings = UNEVEN * total**2 / users
    sampled = np.sqrt(SAMPLING * users) * share
    return Reach(sqrt(ratings / variance) * share, sampled, ratings * share)
