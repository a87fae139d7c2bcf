"""What the private covariance recommender measures: integer sums, and how far one unit moves them.

Ratings are in steps of 1/64 star, from -128 to 128; residuals are clamped to one star, ±64 steps.
Every contribution is computed in integers, so there is no rounding that the sensitivities here
(proved in docs/covariance.md) do not count. Neighbours differ by one rating, or by one user with
all their ratings; `norm` is 2 for Gaussian and 1 for Laplace noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, Literal

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings, Scale
from epicrec.engine import summed
from epicrec.models.covariance.kernel import pair_sums

Unit = Literal["rating", "user"]
Norm = Literal[1, 2]

STEPS = 64
"""Steps in a star, and the clamp of residuals."""
EFFECT_BITS = 30
"""A user's share in a vector of item effects is 2**30 (user level)."""
PAIR_BITS = {("rating", 2): 27, ("user", 2): 33, ("rating", 1): 33, ("user", 1): 40}
"""b in the weights ⌊2ᵇ/‖v‖⌋ (rating level) and ⌊2ᵇ/‖v‖²⌋ (user level) of a user's v vᵀ."""
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


@dataclass(frozen=True, eq=False)
class PairSums:
    """Σ_u q_u v_u v_uᵀ below the diagonal, row after row, and (for ratings) Σ q' v² behind it.

    McSherry & Mironov (2009), section 4.4, with other weights. v_ui is the rating less the item's
    released offset, clamped to ±64 steps, or the item's released weight (at most 64) where there is
    no rating. Residuals are not centred on the user's mean, so that a new rating changes no other
    entry of v, and the user's mean shows as a direction of the covariance instead. The diagonal,
    which carries each rating's own noise, is not measured at all.

    Rating level: q = ⌊2ᵇ/‖v‖⌋, where ‖v‖ counts as at least 64. One rating moves the sums by at
    most 64·2ᵇ in L2 and 3/2·64·2ᵇ in L1, but for the rounding of q, which is charged in full.

    User level: q = ⌊2ᵇ/‖v‖²⌋, where ‖v‖² counts as at least 64². All of a user is at most 2ᵇ/√2 in
    L2 and 2ᵇ/2 in L1.

    The last entry, the sum of squared residuals (at the user level of their means), moves by an
    eighth of 64·2ᵇ or 2ᵇ beside that; by a 256th at the rating level with Laplace noise, whose b is
    so large that 2³¹ ratings would reach the end of int64 otherwise. All norms are those of the
    noise: L2 or L1.
    """

    unit: Unit
    norm: Norm
    scale: Scale | None
    levels: npt.NDArray[np.int16]
    """The items' offsets in steps, or their weights where there is no scale."""
    what = "pairs of items"

    @property
    def one(self) -> int:
        """64·2ᵇ or 2ᵇ: what an entry of v vᵀ/‖v‖ or v vᵀ/‖v‖² of one (in stars) is in steps."""
        bits = PAIR_BITS[self.unit, self.norm]
        return 1 << bits if self.unit == "user" else STEPS << bits

    @property
    def square_weight(self) -> int:
        """The weight of a squared residual in the last entry."""
        bits = PAIR_BITS[self.unit, self.norm]
        if self.unit == "user":
            return 1 << (bits - 15)
        return 1 << (bits - (14 if self.norm == 1 else 9))

    @property
    def sensitivity(self) -> Fraction:
        """In this norm, over adding or removing one unit."""
        one, n = Fraction(self.one), len(self.levels)
        square = Fraction(STEPS**2 * self.square_weight) if self.scale else Fraction(0)
        if self.unit == "user":
            return one / 2 + square if self.norm == 1 else root(one**2 / 2 + square**2)
        if self.norm == 1:
            return one * 3 / 2 + Fraction((STEPS * n) ** 2, 2) + square
        # e is the rounding of q, in units of 2ᵇ; see docs/covariance.md
        longest = root(n) * STEPS
        e = Fraction(1, 1 << 10) + longest**2 * STEPS / one
        excess = Fraction(1, 32) + STEPS**3 * longest / (2 * one) + e**2 / 2
        return root(one**2 * (1 + excess / STEPS**2) + square**2)

    def residuals(self, part: Ratings) -> npt.NDArray[np.int8]:
        """The vectors v of all users, beside each other."""
        if self.scale is None:
            return np.clip(self.levels, 1, STEPS).astype(np.int8)[part.items]
        found = np.empty(len(part), np.int8)
        _residuals(in_steps(part.values, self.scale), part.items, self.levels, found)
        return found

    def weighted(self, part: Ratings) -> tuple[npt.NDArray[np.int8], Integers, Integers]:
        """The vectors v, beside each other, each user's q, and what stands behind the pairs."""
        values = self.residuals(part)
        bits = PAIR_BITS[self.unit, self.norm]
        weights, square = _user_weights(
            part.indptr, values, self.unit == "user", self.norm == 1, bits, self.square_weight
        )
        return values, weights, np.array([square] if self.scale else [], np.int64)

    def __call__(self, part: Ratings) -> Integers:
        values, weights, behind = self.weighted(part)
        out = pair_sums(part, values, weights, extra=len(behind))
        out[len(out) - len(behind) :] = behind
        return out


@numba.njit(cache=True, nogil=True)
def _in_steps(
    values: npt.NDArray[np.floating], middle: float, star: float, found: npt.NDArray[np.int16]
) -> None:
    for at in range(len(values)):
        steps = np.trunc((np.float64(values[at]) - middle) * star)
        found[at] = np.int16(min(max(steps, -2.0 * STEPS), 2.0 * STEPS))


@numba.njit(cache=True, nogil=True)
def _residuals(
    steps: npt.NDArray[np.int16],
    items: npt.NDArray[np.int32],
    levels: npt.NDArray[np.int16],
    found: npt.NDArray[np.int8],
) -> None:
    for at in range(len(items)):
        found[at] = min(max(np.int32(steps[at]) - levels[items[at]], -STEPS), STEPS)


@numba.njit(cache=True, nogil=True)
def _ceil_root(square: Any) -> Any:
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
            weight = one // _ceil_root(max(size, STEPS * STEPS * length))
            count = one // _ceil_root(length)
        for at in range(start, stop):
            level = np.int64(levels[items[at]])
            sums[items[at]] += weight * level * (values[at] - mean)
            counts[items[at]] += count * level
        rest[0] += one >> shift
        rest[1] += mean * (one >> (shift + 6))


@numba.njit(cache=True, nogil=True)
def _user_weights(
    indptr: Integers,
    residuals: npt.NDArray[np.int8],
    by_user: bool,
    norm_1: bool,
    bits: int,
    square_weight: int,
) -> tuple[Integers, int]:
    """Each user's q, and the sum of squares with its weight."""
    one = 1 << bits
    weights = np.zeros(len(indptr) - 1, np.int64)
    squares: Any = 0
    for user in range(len(indptr) - 1):
        start, stop = indptr[user], indptr[user + 1]
        if start == stop:
            continue
        square: Any = 0
        size: Any = 0
        for at in range(start, stop):
            v = np.int64(residuals[at])
            square += v * v
            size += abs(v)
        if by_user:
            low = STEPS * STEPS
            weights[user] = one // max(size * size if norm_1 else square, low)
            squares += (square // (stop - start)) * square_weight
        else:
            squares += square * square_weight
            if norm_1:
                weights[user] = one // max(size, STEPS)
            else:
                # the norm in 1/1024 steps, rounded up
                weights[user] = (one << 10) // max(_ceil_root(square << 20), STEPS << 10)
    return weights, squares
