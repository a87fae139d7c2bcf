"""Small measurements beside those of items: the mean rating, how many people rate, how far ratings
lie from item means, and whether the people's own ratings speak for taste by public features.

The sensitivities are proved in docs/covariance.md and hold in every norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings, Scale
from epicrec.engine import summed
from epicrec.models.cholesky import inverse_root
from epicrec.models.covariance.statistics import STEPS, Norm, Unit, in_steps, root
from epicrec.models.private_bias import ForAndAgainst
from epicrec.models.taste import Spread

_AT_ONCE = 1 << 20  # ratings of the users that one thread looks at
_ROWS = 128  # of a user at once: products so small stay in one thread, beside the others
VOTE, LOUD = 64, 3.0
"""A person's vote for taste is a whole number from -64 to 64; a few ratings make it a whole one."""


@dataclass(frozen=True)
class Overall:
    """Four times the totals for and against all items together, and of people with c ratings the
    sums of Δ and of ⌊Δ√c⌋.

    One more rating adds 4c to the first and 4(Δ - c) to the second. It adds Δ to the third and to
    the fourth where it is its user's first, else at most ⌈Δ(√2 - 1)⌉ to the fourth alone: at most
    6Δ in L1. The totals, which tell the mean rating, have so the least noise.
    """

    scale: Scale
    what = "mean rating and number of people"
    times = 4

    @property
    def sensitivity(self) -> Fraction:
        """In L1, over adding or removing one rating."""
        return Fraction((self.times + 2) * ForAndAgainst(self.scale).span)

    def __call__(self, part: Ratings) -> Integers:
        items = ForAndAgainst(self.scale)
        totals = self.times * items(part).reshape(2, -1).sum(axis=1)
        counts, times = np.unique(part.user_counts, return_counts=True)
        roots = [isqrt(items.span**2 * c) for c in counts.tolist()]
        people = items.span * np.count_nonzero(part.user_counts)
        return np.array([*totals, people, times @ np.array(roots, np.int64)], np.int64)


@dataclass(frozen=True, eq=False)
class Moments:
    """The sum of squared residuals, and the people's votes for taste by public features.

    Residuals v are ratings less the items' released means, clamped to ±64 steps. Rating level: a
    rating adds ⌊v²/64⌋ ≤ 64 to the first sum. User level: a user adds ⌊Σ⌊v²/64⌋/c⌋ ≤ 64.

    A vote is how much better a person's ratings are predicted, each from their others, with taste
    than without it: 3·(Σ e₀² - Σ e₁²)/(s²√c), clamped to ±1, in steps of 1/64. Whatever it is made
    of, it stays between -64 and 64: one user changes the sum of votes by at most 64, and one rating
    changes one vote by at most 128.
    """

    unit: Unit
    norm: Norm
    scale: Scale
    levels: npt.NDArray[np.int16]
    """The items' released means in steps."""
    tastes: Floats
    spread: Spread
    what = "spread of ratings and taste"

    @property
    def sensitivity(self) -> Fraction:
        """In this norm, over adding or removing one unit."""
        parts = [STEPS]
        if self.tastes.shape[1]:
            parts.append(VOTE if self.unit == "user" else 2 * VOTE)
        return Fraction(sum(parts)) if self.norm == 1 else root(sum(p * p for p in parts))

    def __call__(self, part: Ratings) -> Integers:
        return summed(self._of, part, at_once=_AT_ONCE)

    def _of(self, part: Ratings) -> Integers:
        residuals = in_steps(part.values, self.scale).astype(np.int64) - self.levels[part.items]
        clamped = np.clip(residuals, -STEPS, STEPS)
        squares = clamped * clamped // STEPS
        if self.unit == "user":
            by_user = np.zeros(part.n_users, np.int64)
            np.add.at(by_user, part.users, squares)
            squares = by_user // np.maximum(part.user_counts, 1)
        votes = np.zeros(0, np.int64)
        if self.tastes.shape[1]:
            votes = self._votes(part, residuals / STEPS)
        return np.array([squares.sum(), votes.sum()], np.int64)

    def _votes(self, part: Ratings, residuals: Floats) -> Integers:
        errors = [
            left_out_errors(
                part.indptr, part.items, residuals, spread.columns(self.tastes), spread.noise
            )
            for spread in (Spread(self.spread.total, self.spread.own_mean), self.spread)
        ]
        length = self.spread.total / LOUD * np.sqrt(np.maximum(part.user_counts, 1))
        gain = np.nan_to_num((errors[0] - errors[1]) / length, posinf=0, neginf=0)
        return np.asarray(np.rint(VOTE * np.clip(gain, -1, 1)), np.int64)


@numba.njit(nogil=True, cache=True)
def left_out_errors(indptr: Any, items: Any, residuals: Any, columns: Any, ridge: float) -> Any:
    """Of each user, the sum of squared errors of every rating predicted from the user's others.

    With A = FᵀF + ridge·I over the user's rows f and p = A⁻¹Fᵀr, the error of a rating whose row is
    left out is (r - f·p)/(1 - f·A⁻¹f). With A⁻¹ = R Rᵀ, f·A⁻¹f is the square of f R.
    """
    k = columns.shape[1]
    out = np.zeros(len(indptr) - 1)
    own, spanned, found = np.empty((_ROWS, k)), np.empty((_ROWS, k)), np.empty(_ROWS)
    gram, part, root, right = np.empty((k, k)), np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for user in range(len(indptr) - 1):
        start, stop = indptr[user], indptr[user + 1]
        if start == stop:
            continue
        for a in range(k):
            right[a] = 0.0
            for b in range(k):
                gram[a, b] = ridge if a == b else 0.0
        for first in range(start, stop, _ROWS):
            many = min(_ROWS, stop - first)
            for at in range(many):
                row, residual = columns[items[first + at]], residuals[first + at]
                for a in range(k):
                    own[at, a] = row[a]
                    right[a] += row[a] * residual
            np.dot(own[:many].T, own[:many], part)
            for a in range(k):
                for b in range(k):
                    gram[a, b] += part[a, b]
        inverse_root(gram, root)
        people = root @ (root.T @ right)
        for first in range(start, stop, _ROWS):
            many = min(_ROWS, stop - first)
            if stop - start > _ROWS:
                for at in range(many):
                    row = columns[items[first + at]]
                    for a in range(k):
                        own[at, a] = row[a]
            np.dot(own[:many], root, spanned[:many])
            np.dot(own[:many], people, found[:many])
            for at in range(many):
                held = 0.0
                for a in range(k):
                    held += spanned[at, a] * spanned[at, a]
                error = (residuals[first + at] - found[at]) / max(1 - held, 1e-6)
                out[user] += error * error
    return out
