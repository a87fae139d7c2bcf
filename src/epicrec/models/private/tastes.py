"""What is measured of histories beside counts: sums that need no items × items matrix.

A history enters as a sum of public or released integer vectors over its items, brought to a fixed
length. All of it is done in integers, so that one device and an engine come to the same numbers to
the last bit, and a sum over people is the sum of what each of them contributes. Neighbours differ
by one user with the whole history, or by one item of a history; the sensitivities, in L2, are
proved in docs/histories.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings
from epicrec.models.private.statistics import Unit, root
from epicrec.progress import report

TASTE_BITS, ITEM_BITS = 12, 15
"""A taste has a length of at most 2¹², a history of at most 2¹⁵."""
WEIGHT_BITS, DIRECTION_BITS = 14, 20
"""Weights of items are at most 2¹⁴, entries of directions and coefficients at most 2²⁰."""
_USERS_AT_ONCE = 1 << 13
_FEATURE_BITS = 22
_SQUARE_BITS = 25


def in_integers(values: npt.NDArray[np.floating], bits: int) -> Integers:
    """The values as whole numbers, the largest of them 2ᵇⁱᵗˢ or its opposite."""
    largest = float(np.abs(values).max(initial=0.0))
    scale = (1 << bits) / largest if largest > 0 else 0.0
    return np.asarray(np.rint(values * scale), np.int64)


@dataclass(frozen=True, eq=False)
class TasteProducts:
    """Σ_u z_u z_uᵀ on and below the diagonal, row after row, for tastes z in a few directions.

    A history's taste is y = Σ_i weights_i · features_i · coefficients, and z is y at a length of
    2¹², rounded toward zero; what does not rise above the rounding of the coefficients counts as 0.
    On the diagonal stands 5 z_j², below it 7 z_i z_j, as 7/5 is just below √2: the vector is then
    no longer than 5 ‖z‖² ≤ 5·2²⁴, and for two tastes no further apart than √2 times that.
    """

    unit: Unit
    weights: Integers
    features: Any
    """Items × features, sparse, of zeros and ones."""
    coefficients: Integers
    """Features × directions."""
    what = "how tastes go together"

    @property
    def sensitivity(self) -> Fraction:
        """In L2, over adding or removing one unit."""
        one = 5 << (2 * TASTE_BITS)
        return Fraction(one) if self.unit == "user" else root(2) * one

    def tastes(self, part: Ratings) -> Integers:
        """The vectors z of some users, as rows."""
        histories = _matrix(part, self.weights[part.items])
        sums = (histories @ self.features).toarray().astype(np.int64)
        sums = _shifted(sums, _FEATURE_BITS)
        # whole numbers below 2⁵³: as floats they are exact, whatever the order
        found = (sums.astype(np.float64) @ self.coefficients.astype(np.float64)).astype(np.int64)
        rounding = 32 * np.abs(sums).max(axis=1, initial=0)
        return unit_rows(found, rounding, TASTE_BITS)

    def __call__(self, part: Ratings) -> Integers:
        d = self.coefficients.shape[1]
        total = np.zeros((d, d))
        for block in _blocks(part, "summing tastes"):
            tastes = self.tastes(block).astype(np.float64)
            total += tastes.T @ tastes  # below 2²²·2²⁴, so exact
        below = np.tril_indices(d)
        return total.astype(np.int64)[below] * np.where(below[0] == below[1], 5, 7)

    def matrix(self, packed: Integers) -> npt.NDArray[np.float64]:
        """The symmetric matrix that a sum stands for, a taste of length one being one."""
        d = self.coefficients.shape[1]
        below = np.tril_indices(d)
        out = np.zeros((d, d))
        out[below] = packed / np.where(below[0] == below[1], 5, 7) / (1 << (2 * TASTE_BITS))
        return out + np.tril(out, -1).T


@dataclass(frozen=True, eq=False)
class ItemTastes:
    """Σ_u x_u y_uᵀ, items × directions: which items people of each taste have.

    x is the weights of a history's items at a length of 2¹⁵, y the sum of their directions at one
    of 2¹², both rounded toward zero; a y within the rounding of the directions counts as 0. So x yᵀ
    is no longer than 2²⁷, and two of them no further apart than twice that.
    """

    unit: Unit
    weights: Integers
    directions: Integers
    """Items × directions."""
    what = "which items go with which taste"

    @property
    def sensitivity(self) -> Fraction:
        """In L2, over adding or removing one unit."""
        return Fraction((1 if self.unit == "user" else 2) << (ITEM_BITS + TASTE_BITS))

    def __call__(self, part: Ratings) -> Integers:
        directions = self.directions.astype(np.float64)
        total = np.zeros(directions.shape)
        for block in _blocks(part, "summing items by taste"):
            counts = block.user_counts
            found = (_matrix(block, np.ones(len(block))) @ directions).astype(np.int64)
            tastes = unit_rows(found, 2 * counts, TASTE_BITS)
            own = self.weights[block.items]
            squares = np.concatenate([[0], np.cumsum(own * own)])
            lengths = ceil_roots(squares[block.indptr[1:]] - squares[block.indptr[:-1]])
            own = (own << ITEM_BITS) // np.repeat(np.maximum(lengths, 1), counts)
            # below 2²²·2²⁷, so exact
            total += _matrix(block, own.astype(np.float64)).T @ tastes.astype(np.float64)
        return total.astype(np.int64).reshape(-1)

    def matrix(self, flat: Integers) -> npt.NDArray[np.float64]:
        """Items × directions, x and y of length one being one."""
        return np.asarray(flat.reshape(self.directions.shape) / (1 << (ITEM_BITS + TASTE_BITS)))


def unit_rows(rows: Integers, least: Integers, bits: int) -> Integers:
    """Rows at a length of at most 2ᵇⁱᵗˢ, rounded toward zero; 0 where no entry exceeds `least`."""
    rows = np.where(np.abs(rows).max(axis=1, initial=0) > least, rows.T, 0).T
    rows = _shifted(rows, _SQUARE_BITS)
    lengths = np.maximum(ceil_roots((rows * rows).sum(axis=1)), 1)
    return np.asarray(np.sign(rows) * ((np.abs(rows) << bits) // lengths[:, None]))


def ceil_roots(squares: Integers) -> Integers:
    """The least integers whose squares are at least these, which are at most 2⁶¹."""
    found = np.sqrt(squares.astype(np.float64)).astype(np.int64) - 1
    while (short := found * found < squares).any():
        found += short
    return found


def _shifted(rows: Integers, bits: int) -> Integers:
    """Each row halved, toward zero, until its entries are at most 2ᵇⁱᵗˢ."""
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float64)
    shift = np.maximum(np.frexp(largest)[1] - bits, 0)[:, None]
    return np.asarray(np.sign(rows) * (np.abs(rows) >> shift))


def _matrix(part: Ratings, values: npt.NDArray[Any]) -> Any:
    from scipy.sparse import csr_array

    return csr_array((values, part.items, part.indptr), shape=(part.n_users, part.n_items))


def _blocks(part: Ratings, doing: str) -> Iterator[Ratings]:
    """The users a few thousand at a time, so that their tastes fit in a bounded piece of memory."""
    for start in range(0, part.n_users, _USERS_AT_ONCE):
        stop = min(start + _USERS_AT_ONCE, part.n_users)
        yield part.between(start, stop)
        report(doing, stop, part.n_users)
