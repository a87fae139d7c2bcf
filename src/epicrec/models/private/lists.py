"""Private lists: a plan of measurements, made step by step from released numbers, and followed.

Counts of items come first. They decide whether tastes are measured, in how many directions, and
with which share of the budget (docs/histories.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings
from epicrec.engine import Engine
from epicrec.models.factors import history_state
from epicrec.models.private.basis import DIRECTIONS, Basis, popularity_weights, with_own
from epicrec.models.private.budget import Budget, Share
from epicrec.models.private.learner import (
    MeasuredCounts,
    TasteMoments,
    by_popularity,
    is_shown,
    learn,
)
from epicrec.models.private.statistics import STEPS, ItemEffects, Norm, Unit
from epicrec.models.private.tastes import (
    DIRECTION_BITS,
    WEIGHT_BITS,
    TasteProducts,
    in_integers,
    sensitivity_of,
)
from epicrec.privacy.noise import LARGEST_SCALE

PLAN_VERSION = 1
"""The version of plans: which steps there can be, and what is learned from them."""
FIRST_COUNTS = Fraction(1, 10)
"""The share of the budget for a first measurement of the counts of items."""
COUNTS, MOST_COUNTS = 0.2, 0.5
"""The share for all counts, where tastes are measured too: the first where the first measurement
stood far out of its noise, the second where it drowned."""
FIRST_TASTES = Fraction(1, 5)
"""The share for a first measurement of tastes: if it shows none, counts have the rest."""
PAYS = 5.0
"""Tastes are measured where people · μ is at least this, or more where counts are noise."""
PER_DIRECTION = 5.0
"""Tastes are measured in one direction for each 5 people · μ, times what one person weighs."""


@dataclass(frozen=True, eq=False)
class Step:
    """One measurement of a plan: what is summed, and with which share of the budget."""

    statistic: ItemEffects | TasteProducts
    share: Fraction
    basis: Basis | None = None
    """The directions of tastes."""


@dataclass(frozen=True, eq=False)
class Released:
    """The steps of a plan that were taken, and what they released."""

    unit: Unit
    steps: tuple[Step, ...] = ()
    counts: MeasuredCounts | None = None
    moments: TasteMoments | None = None
    fame: Floats | None = None

    @property
    def left(self) -> Fraction:
        """What is left of the budget; the plan is over where nothing is."""
        return 1 - sum((step.share for step in self.steps), Fraction(0))

    @property
    def tastes(self) -> Step | None:
        """The last step that measured tastes."""
        return next((step for step in self.steps[::-1] if step.basis is not None), None)

    def plus(self, step: Step, total: Integers, sigma: float) -> Released:
        """With what one more step released, and the standard deviation of its noise."""
        counts, moments = self.counts, self.moments
        if isinstance(step.statistic, ItemEffects):
            found = counts_of(step.statistic, step.share, total, sigma, self.fame)
            counts = found if counts is None else counts + found
        else:
            one = 1 << (2 * step.statistic.bits)
            # 5 z_j² on the diagonal has noise of variance σ², so G has 1/√2 of it elsewhere
            even = np.eye(step.statistic.coefficients.shape[1]) * (sigma / (5 * one * sqrt(2)))
            new = TasteMoments(step.statistic.matrix(total), even, float(step.share))
            moments = new if moments is None else moments + new
        return Released(self.unit, (*self.steps, step), counts, moments, self.fame)

    def state(self) -> tuple[dict[str, Any], bool]:
        """A model's state, when the plan is over, and whether it has learned tastes."""
        assert self.counts is not None
        found = None
        if self.moments is not None and self.steps[-1].basis is not None:
            found = learn(self.counts, self.moments, self.steps[-1].basis, self.without_noise)
        if found is not None:
            return found, True
        none = np.zeros((len(self.counts.counts), 0))
        return history_state(np.maximum(self.counts.ranking, 0.0), none, none), False

    def without_noise(self, histories: Ratings) -> Floats:
        """The moments of some histories, in the directions that were measured."""
        assert self.tastes is not None
        return moments_of(self.tastes.statistic, histories)


def next_step(done: Released, features: Any, mu: float, norm: Norm = 2) -> Step | None:
    """What to measure next, by released and public numbers alone; None where the plan is over.

    `mu` is the μ of all the plan's noise together; Laplace noise (`norm` 1) is for counts alone.
    """
    counts, left = done.counts, done.left
    if counts is None:
        return Step(counts_statistic(done.unit, norm, features.shape[0]), FIRST_COUNTS)
    if not left:
        return None
    again = done.steps[0].statistic
    strength = max(counts.people - counts.people_spread, 0.0) * mu
    if done.unit == "rating":
        strength /= sqrt(2)
    if len(done.steps) == 1:
        if norm == 1 or strength * min(counts.clear, 1.0) < PAYS or _too_noisy(done.unit, mu):
            return Step(again, left)
        whole = COUNTS + (MOST_COUNTS - COUNTS) / (1 + counts.clear)
        return Step(again, Fraction(round(100 * whole), 100) - FIRST_COUNTS)
    if done.moments is None:
        return _first_tastes(counts, features, strength * sqrt(left))
    last = done.steps[-1]
    drawn = by_popularity(counts)
    people = max(counts.people, 1.0)
    chance = done.without_noise(drawn) * (people / drawn.n_users)
    shown = is_shown(done.moments, chance, people, drawn.n_users)
    return Step(last.statistic, left, last.basis) if shown else Step(again, left)


def _too_noisy(unit: Unit, mu: float) -> bool:
    """Whether noise for tastes would be larger than can be drawn; asked before any is."""
    return float(sensitivity_of(unit, DIRECTIONS)) > mu * sqrt(FIRST_TASTES) * LARGEST_SCALE


def _first_tastes(counts: MeasuredCounts, features: Any, strength: float) -> Step:
    """A first measurement of tastes, in as many directions as there are people for."""
    known, weights, popular = popularity_weights(counts.cleaned)
    basis = Basis.of(with_own(features, known), known, popular)
    every = _products(counts.unit, weights, basis)
    drawn = by_popularity(counts)
    weight = float(np.trace(moments_of(every, drawn))) / drawn.n_users
    d = int(np.clip(strength * weight / PER_DIRECTION, 2, len(basis.emphasis)))
    basis = basis.first(d, popular)
    return Step(_products(counts.unit, weights, basis), FIRST_TASTES, basis)


def _products(unit: Unit, weights: Floats, basis: Basis) -> TasteProducts:
    return TasteProducts(
        unit,
        in_integers(weights * basis.scales, WEIGHT_BITS),
        basis.features,
        in_integers(basis.apart, DIRECTION_BITS),
    )


def moments_of(statistic: Any, histories: Ratings) -> Floats:
    """Σ z zᵀ of some histories, a taste of length one being one."""
    return np.asarray(statistic.matrix(statistic(histories)))


def counts_statistic(unit: Unit, norm: Norm, n_items: int) -> ItemEffects:
    """How many people have each item, and how many there are."""
    levels = np.full(n_items, STEPS, np.int16) if unit == "user" else None
    return ItemEffects(unit, norm, None, levels)


def counts_of(
    statistic: ItemEffects, share: Share, total: Integers, sigma: float, fame: Floats | None
) -> MeasuredCounts:
    """The counts and the number of people in a measured sum."""
    _, one, user, _ = statistic.per_unit
    counts, people = total[:-1] / one, float(total[-1] / user)
    return MeasuredCounts(
        statistic.unit, counts, sigma / one, people, sigma / user, float(share), fame
    )


def measure_counts(
    ratings: Ratings, budget: Budget, share: Share, engine: Engine, *, turn: int = 0
) -> MeasuredCounts:
    """One measurement of counts and nothing else."""
    statistic = counts_statistic(budget.unit, budget.norm, ratings.n_items)
    total, sigma = budget.measure(statistic, share, engine(statistic, ratings), turn=turn)
    return counts_of(statistic, share, total, sigma, None)


def release_histories(
    ratings: Ratings, features: Any, budget: Budget, engine: Engine, fame: Floats | None = None
) -> dict[str, Any]:
    """Make a plan and follow it: all measurements of histories, and a model's state from them."""
    done = Released(budget.unit, fame=fame)
    mu = budget.mu if budget.norm == 2 else 0.0  # Laplace noise is for counts alone
    while step := next_step(done, features, mu, budget.norm):
        total = engine(step.statistic, ratings)
        noisy, sigma = budget.measure(step.statistic, step.share, total, turn=len(done.steps))
        done = done.plus(step, noisy, sigma)
    state, learned = done.state()
    return state | {"note_": "" if learned else popularity_note(done, budget.epsilon)}


def popularity_note(done: Released, epsilon: float) -> str:
    """Why lists are popularity, by released numbers."""
    assert done.counts is not None
    if getattr(done.steps[0].statistic, "norm", 2) == 1:
        why = "Laplace noise is for counts alone; with a delta, tastes can be learned"
    elif done.moments is not None:
        why = "tastes show no more than chance and noise would"
    else:
        people = max(round(done.counts.people), 0)
        why = f"about {people:,} users at epsilon = {epsilon:g} are too few to learn tastes"
    return f"these lists are popularity: {why}"
