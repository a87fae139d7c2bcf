"""What is measured of histories beside counts: sums that need no items × items matrix.

A history enters as a sum of public or released integer vectors over its items, at a bounded length.
All of it is done in integers, so that one device and an engine come to the same numbers to the
last bit, and a sum over people is the sum of what each of them contributes. Neighbours differ
by one user with the whole history, or by one item of a history; the sensitivities, in L2, are
proved in docs/histories.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings
from epicrec.models.private.statistics import Unit, root
from epicrec.progress import report

TASTE_BITS = {"user": 12, "rating": 15}
"""A taste of length one is 2ᵇⁱᵗˢ long in steps."""
LONGEST = 16
"""Rating level: a history weighs at most so much, however long it is."""
WEIGHT_BITS, DIRECTION_BITS = 14, 20
"""Weights of items are at most 2¹⁴, coefficients at most 2²⁰."""
_USERS_AT_ONCE, _ITEMS_AT_ONCE = 1 << 13, 1 << 14
_EXACT = 1 << 53
"""Below this, floats hold whole numbers exactly, whatever the order of a sum."""
_SQUARE_BITS = 25


def in_integers(values: npt.NDArray[np.floating], bits: int) -> Integers:
    """The values as whole numbers, the largest of them 2ᵇⁱᵗˢ or its opposite."""
    largest = float(np.abs(values).max(initial=0.0))
    scale = (1 << bits) / largest if largest > 0 else 0.0
    return np.asarray(np.rint(values * scale), np.int64)


@dataclass(frozen=True, eq=False)
class TasteProducts:
    """Σ_u z_u z_uᵀ on and below the diagonal, row after row, for tastes z in a few directions.

    A history's taste is y = Σ_i r_i with r_i = weights_i · features_i · coefficients, and z points
    where y does. On the diagonal stands 5 z_j², below it 7 z_i z_j, as 7/5 is just below √2: the
    vector is then no longer than 5 ‖z‖².

    User level: z has a length of 2¹², so a user adds a vector of at most 5·2²⁴.

    Rating level: z has a length of 2¹⁵·√w, where w is ‖y‖ over the longest r_i, at least 1 and at
    most 16. A longer history then weighs more, and one item still moves the vector by at most
    √2·5·2³⁰, but for rounding, which is charged in full (docs/histories.md).
    """

    unit: Unit
    weights: Integers
    features: Any
    """Items × features, sparse, of zeros and ones."""
    coefficients: Integers
    """Features × directions."""
    what = "how tastes go together"

    @property
    def bits(self) -> int:
        return TASTE_BITS[self.unit]

    @property
    def sensitivity(self) -> Fraction:
        """In L2, over adding or removing one unit."""
        return sensitivity_of(self.unit, self.coefficients.shape[1])

    @cached_property
    def exact_weights(self) -> Integers:
        """The weights, halved until the taste of all items together is an exact float."""
        reach = self.features @ np.abs(self.coefficients).max(axis=1, initial=0)
        weights = self.weights
        while float(weights @ reach) >= _EXACT:  # a float: 64 bits might not hold it
            weights = weights >> 1
        return weights

    @cached_property
    def longest_item(self) -> int:
        """A bound on the length of r_i, over all items."""
        found = 1
        for start in range(0, len(self.weights), _ITEMS_AT_ONCE):
            span = slice(start, start + _ITEMS_AT_ONCE)
            rows = self.exact_weights[span, None] * (self.features[span] @ self.coefficients)
            size = np.abs(rows).astype(np.int64)
            shift = max(int(size.max(initial=0)).bit_length() - _SQUARE_BITS, 0)
            size = -(-size >> shift)  # rounded up, in at most 25 bits
            found = max(found, int(ceil_roots((size * size).sum(axis=1)).max()) << shift)
        return found

    def tastes(self, part: Ratings) -> Integers:
        """The vectors z of some users, as rows."""
        histories = _matrix(part, self.exact_weights[part.items].astype(np.float64))
        sums = (histories @ self.features).toarray()
        rows = (sums @ self.coefficients.astype(np.float64)).astype(np.int64)
        rounding = 32 * sums.max(axis=1, initial=0).astype(np.int64)
        if self.unit == "user":
            return scaled_rows(rows, rounding, self.bits)
        return scaled_rows(rows, rounding, self.bits, self.longest_item)

    def __call__(self, part: Ratings) -> Integers:
        d = self.coefficients.shape[1]
        total = np.zeros((d, d), np.int64)
        for block in _blocks(part, "summing tastes"):
            tastes = self.tastes(block).astype(np.float64)
            total += (tastes.T @ tastes).astype(np.int64)  # below 2¹³·2³⁴, so exact
        below = np.tril_indices(d)
        return total[below] * np.where(below[0] == below[1], 5, 7)

    def matrix(self, packed: Integers) -> npt.NDArray[np.float64]:
        """The symmetric matrix that a sum stands for, a taste of length one being one."""
        d = self.coefficients.shape[1]
        below = np.tril_indices(d)
        out = np.zeros((d, d))
        out[below] = packed / np.where(below[0] == below[1], 5, 7) / (1 << (2 * self.bits))
        return out + np.tril(out, -1).T


def sensitivity_of(unit: Unit, directions: int) -> Fraction:
    """How far one unit moves products of tastes in so many directions, in L2."""
    one = 1 << (2 * TASTE_BITS[unit])
    if unit == "user":
        return Fraction(5 * one)
    rounding = root(directions) + 3
    longest = root(LONGEST) * (1 << TASTE_BITS[unit])
    return 5 * (root(2) * one + 2 * rounding * (2 * longest + rounding))


def scaled_rows(rows: Integers, least: Integers, bits: int, unit: int | None = None) -> Integers:
    """Rows at a length of at most 2ᵇⁱᵗˢ, rounded toward zero; 0 where no entry exceeds `least`.

    With a `unit`, a row that is w of them long has √w times that length, for w from 1 to LONGEST,
    and a row that is at least a quarter of the unit long is never 0.
    """
    if unit is not None:
        least = np.minimum(least, unit // (4 * isqrt(rows.shape[1]) + 4))
    largest = np.abs(rows).max(axis=1, initial=0)
    rows = np.where(largest > least, rows.T, 0).T
    # each row by a power of two, toward zero, so that its largest entry has 25 bits
    shift = np.frexp(largest.astype(np.float64))[1] - _SQUARE_BITS
    up, down = np.maximum(-shift, 0)[:, None], np.maximum(shift, 0)[:, None]
    size = (np.abs(rows) << up) >> down
    lengths = np.maximum(ceil_roots((size * size).sum(axis=1)), 1)
    times = np.full(len(rows), 1 << bits, np.int64)
    if unit is not None:
        long = np.clip(np.ldexp(lengths.astype(np.float64), shift) / unit, 1, LONGEST)
        times = (np.sqrt(long) * (1 << bits)).astype(np.int64)
    return np.asarray(np.sign(rows) * (size * times[:, None] // lengths[:, None]))


def ceil_roots(squares: Integers) -> Integers:
    """The least integers whose squares are at least these, which are at most 2⁶¹."""
    found = np.sqrt(squares.astype(np.float64)).astype(np.int64) - 1
    while (short := found * found < squares).any():
        found += short
    return found


def _matrix(part: Ratings, values: npt.NDArray[Any]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((values, part.items, part.indptr), shape=(part.n_users, part.n_items))


def _blocks(part: Ratings, doing: str) -> Iterator[Ratings]:
    """The users a few thousand at a time, so that their tastes fit in a bounded piece of memory."""
    for start in range(0, part.n_users, _USERS_AT_ONCE):
        stop = min(start + _USERS_AT_ONCE, part.n_users)
        yield part.between(start, stop)
        report(doing, stop, part.n_users)
