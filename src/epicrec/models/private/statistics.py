"""What private models measure of items and people: integer sums, and how far one unit moves them.

Ratings are in steps of 1/64 star, from -128 to 128; residuals are clamped to one star, ±64 steps.
Every contribution is computed in integers, so there is no rounding that the sensitivities here
(proved in docs/covariance.md) do not count. Neighbours differ by one rating, or by one user with
all their ratings; `norm` is 2 for Gaussian and 1 for Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats, Integers
from epicrec.data import Ratings, Scale
from epicrec.engine import summed
from epicrec.models.estimates import ItemSums, Spread
from epicrec.perturb.dpi.rating_codes import codes_of, span

Unit = Literal["rating", "user"]
Norm = Literal[1, 2]

STEPS = 64
"""Steps in a star, and the clamp of residuals."""
EFFECT_BITS = 30
"""A user's share in a vector of item effects is 2**30 (user level)."""
VOTE, LOUD = 64, 3.0
"""A person's vote for taste is a whole number from -64 to 64; a few ratings make it a whole one."""


_CODES_AT_ONCE = 1 << 16  # ratings whose codes are in the cache when they are added
_VOTERS_AT_ONCE = 1 << 20  # ratings of the users that one thread looks at
_ROWS = 128  # of a user at once: products so small stay in one thread, beside the others
MOST_USERS = 1 << 22
"""A user adds at most 2**40 to an entry, so this many cannot reach 2**62. It is a public bound: who
comes after it is left out, so that neither an overflow nor an error tells how many there are."""


def in_steps(values: npt.NDArray[np.floating], scale: Scale) -> npt.NDArray[np.int16]:
    """Ratings in steps from the middle of the scale, rounded toward zero."""
    found = np.empty(len(values), np.int16)
    _in_steps(values, scale.middle, STEPS / scale.star, found)
    return found


def root(square: Fraction | int) -> Fraction:
    """A rational number at or just above the square root."""
    square = Fraction(square) * (1 << 80)
    return Fraction(isqrt(-(-square.numerator // square.denominator)) + 1, 1 << 40)


@dataclass(frozen=True, eq=False)
class ItemEffects:
    """Each item's sum of ratings (where there is a scale) and count, the number of users, and the
    sum of their means: one vector, since one rating or user moves all of it at once.

    McSherry & Mironov (2009), section 4.2, in one measurement instead of four.

    Rating level: a rating of x steps, |x| ≤ 128, adds (x, 64) to its item and, where it is its
    user's only one, 16 to the users.

    User level (section 4.5): a user with ratings r, mean m and item weights w adds q·w·(r - m) to
    the sums and q'·w to the counts. q and q' are chosen so that either vector has a norm of at most
    2³⁰; they are 2³⁰/max(‖w·(r - m)‖, 64·‖w‖) and 2³⁰/‖w‖, rounded down. Beside them a user adds
    2³⁰⁻ˢ to the users and m·2²⁴⁻ˢ (at most twice that) to the means. With all weights equal, these
    are the paper's sums over ‖e_u‖; released weights let rare items be heard beside popular ones.
    """

    unit: Unit
    norm: Norm
    scale: Scale | None
    levels: npt.NDArray[np.int16] | None = None
    """Weights of the items, 1 to 64: user level only."""
    shift: int = 3
    """User level: s, by which people and their means weigh 2⁻ˢ of what the items may have."""

    @property
    def what(self) -> str:
        return "sums and counts of items" if self.scale else "counts of items"

    @property
    def sensitivity(self) -> Fraction:
        """In this norm, over adding or removing one unit."""
        if self.unit == "rating":
            parts = [2 * STEPS, STEPS, 16] if self.scale else [STEPS, 16]
        else:
            one = 1 << EFFECT_BITS
            person = one >> self.shift
            parts = [one, one, person, 2 * person] if self.scale else [one, person]
        return Fraction(sum(parts)) if self.norm == 1 else root(sum(p * p for p in parts))

    @property
    def per_unit(self) -> tuple[float, float, float, float]:
        """What one star, one count, one user and one star of a user's mean are in steps."""
        if self.unit == "rating":
            return STEPS, STEPS, 16, 1
        one = float(1 << EFFECT_BITS)
        part = one / (1 << self.shift)
        return one, one, part, part

    def __call__(self, part: Ratings) -> Integers:
        """[sums, counts, users, means], or [counts, users] for histories."""
        return summed(self._of, part)

    def _of(self, part: Ratings) -> Integers:
        n = part.n_items
        out = np.zeros(2 * n + 2, np.int64)
        values = in_steps(part.values, self.scale) if self.scale else np.zeros(len(part), np.int16)
        levels = np.ones(n, np.int16) if self.levels is None else self.levels
        views = out[:n], out[n : 2 * n], out[2 * n :]
        by_user, norm_1 = self.unit == "user", self.norm == 1
        weights = (by_user, norm_1, self.shift)
        _item_effects(part.indptr, part.items, values, levels, *weights, *views)
        return out if self.scale else out[n:-1]


@dataclass(frozen=True)
class ForAndAgainst:
    """Σ c and Σ (Δ - c) of each item over the codes c = (r - low)/step in 0 … Δ.

    One rating adds c to one total and Δ - c to the other, which is Δ in all, in L1, and at most Δ
    in L2.
    """

    scale: Scale
    what = "totals for and against items"

    @property
    def span(self) -> int:
        return span(self.scale)

    @property
    def sensitivity(self) -> Fraction:
        """Over adding or removing one rating."""
        return Fraction(self.span)

    def __call__(self, part: Ratings) -> Integers:
        """All totals for, then all totals against."""
        return summed(self._of, part)

    def _of(self, part: Ratings) -> Integers:
        totals = np.zeros((2, part.n_items), np.int64)
        for start in range(0, len(part), _CODES_AT_ONCE):
            some = slice(start, start + _CODES_AT_ONCE)
            _add_codes(part.items[some], codes_of(part.values[some], self.scale), self.span, totals)
        return totals.reshape(-1)

    def sums(self, raw: npt.NDArray[Any], noise: float) -> ItemSums:
        """Sums in stars and counts, from totals with noise of this standard deviation."""
        totals, spread = raw.reshape(2, -1) / self.span, noise / self.span
        each = np.ones(totals.shape[1])
        return ItemSums(
            2 * (totals[0] - totals[1]),
            totals[0] + totals[1],
            8 * spread**2 * each,
            sqrt(2) * spread * each,
            tails=True,
        )


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
        return summed(self._of, part, at_once=_VOTERS_AT_ONCE)

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


@numba.njit(cache=True, nogil=True)
def _in_steps(
    values: npt.NDArray[np.floating], middle: float, star: float, found: npt.NDArray[np.int16]
) -> None:
    for at in range(len(values)):
        steps = np.trunc((np.float64(values[at]) - middle) * star)
        found[at] = np.int16(min(max(steps, -2.0 * STEPS), 2.0 * STEPS))


@numba.njit(cache=True, nogil=True)
def ceil_root(square: Any) -> Any:
    """The least integer whose square is at least this."""
    found = np.int64(np.sqrt(np.float64(square)))
    while found * found < square:
        found += 1
    while found > 0 and (found - 1) * (found - 1) >= square:
        found -= 1
    return found


@numba.njit(cache=True, nogil=True)
def _item_effects(
    indptr: Integers,
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.int16],
    levels: npt.NDArray[np.int16],
    by_user: bool,
    norm_1: bool,
    shift: int,
    sums: Integers,
    counts: Integers,
    rest: Integers,
) -> None:
    one = 1 << EFFECT_BITS
    for user in range(len(indptr) - 1):
        start, stop = indptr[user], indptr[user + 1]
        n = stop - start
        if n == 0:
            continue
        if not by_user:
            rest[0] += 16
            for at in range(start, stop):
                sums[items[at]] += values[at]
                counts[items[at]] += STEPS
            continue
        total: Any = 0
        for at in range(start, stop):
            total += values[at]
        mean = total // n
        size: Any = 0
        length: Any = 0
        for at in range(start, stop):
            level = np.int64(levels[items[at]])
            d = level * (values[at] - mean)
            size += abs(d) if norm_1 else d * d
            length += level if norm_1 else level * level
        if norm_1:
            weight, count = one // max(size, STEPS * length), one // length
        else:
            weight = one // ceil_root(max(size, STEPS * STEPS * length))
            count = one // ceil_root(length)
        for at in range(start, stop):
            level = np.int64(levels[items[at]])
            sums[items[at]] += weight * level * (values[at] - mean)
            counts[items[at]] += count * level
        rest[0] += one >> shift
        rest[1] += mean * (one >> (shift + 6))


@numba.njit(cache=True, nogil=True)
def _add_codes(items: npt.NDArray[np.int32], codes: Integers, span: int, totals: Integers) -> None:
    for at in range(len(items)):
        totals[0, items[at]] += codes[at]
        totals[1, items[at]] += span - codes[at]


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


@numba.njit(cache=True, nogil=True)
def inverse_root(matrix: Any, root: Any) -> None:
    """An upper triangular R with R Rᵀ the inverse of the matrix, whose factor takes its place.

    Only the matrix on and below its diagonal is read.
    """
    n = len(matrix)
    column, inverse = np.empty(n), np.zeros((n, n))
    for c in range(n):
        corner = np.sqrt(matrix[c, c])
        for a in range(c, n):
            matrix[a, c] = column[a] = matrix[a, c] / corner
        for a in range(c + 1, n):
            for b in range(c + 1, a + 1):
                matrix[a, b] -= column[a] * column[b]
    for a in range(n):
        for b in range(a):
            for c in range(b + 1):
                inverse[a, c] -= matrix[a, b] * inverse[b, c]
        for c in range(a):
            inverse[a, c] /= matrix[a, a]
        inverse[a, a] = 1 / matrix[a, a]
    for a in range(n):
        for b in range(n):
            root[a, b] = inverse[b, a]
