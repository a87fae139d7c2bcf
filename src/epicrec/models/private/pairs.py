"""Pairs of items: the sum of users' outer products, the one expensive measurement of a fit.

How it is summed: items are ordered by popularity and cut into strips of 256. A tile is two strips:
the users who have items of both add to its 256 × 256 sums, which fit in the cache, and both strips
are read from one end to the other, two bytes a rating. Who has many items of a strip adds all 256
of it at once, most of them zeros, which a processor does several at a time. Threads take different
tiles, so nothing is shared. Neither the order nor the strips show in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings, Scale
from epicrec.errors import InputError
from epicrec.machine import free_memory, in_threads, processors
from epicrec.models.private.statistics import STEPS, Norm, Unit, ceil_root, in_steps, root
from epicrec.progress import report

STRIP = 256
"""Items of a strip: a place among them is one byte."""
MANY = 32
"""So many of a user's items in a strip cost as much one by one as all 256 places beside each
other."""
_SIDE = 64
"""Rows and columns that are mirrored at once, within the cache."""
_PLACES = 1 << 26
"""So many places of strips and users are kept at once: with more users, they come in blocks."""
_RATINGS = 1 << 30
PAIR_BITS = {("rating", 2): 27, ("user", 2): 33, ("rating", 1): 33, ("user", 1): 40}
"""b in the weights ⌊2ᵇ/‖v‖⌋ (rating level) and ⌊2ᵇ/‖v‖²⌋ (user level) of a user's v vᵀ."""


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


def memory_needed(n_items: int) -> int:
    """Bytes of memory that pairs of items need: their sums (8 bytes for each pair) and the matrix
    of which eigenvectors are taken (4 bytes for each ordered pair)."""
    return 4 * n_items * (n_items - 1) + 4 * n_items**2


def check_memory(n_items: int) -> None:
    """Refuse what would not fit, before anything is computed; whatever the ratings are."""
    needed = memory_needed(n_items)
    available = free_memory()
    if available is not None and needed > available:
        raise InputError(
            f"the covariance of {n_items:,} items needs {needed / 2**30:.1f} GiB of memory and "
            f"{available / 2**30:.1f} GiB are free; keep fewer items (ratings.with_items(ids), the "
            "ids chosen without looking at the ratings), use a larger machine, learn from "
            "histories (task='lists'), or set factors=0 for a private model without pairs "
            "of items"
        )


def pair_sums(
    ratings: Ratings, values: npt.NDArray[np.int8], weights: Integers, *, extra: int = 0
) -> Integers:
    """Σ_u weights_u·v_u v_uᵀ: entry (i, j), j < i, at i(i-1)/2 + j, then `extra` zeros."""
    n = ratings.n_items
    out = np.zeros(n * (n - 1) // 2 + extra, np.int64)
    by_rank = np.argsort(-ratings.item_counts, kind="stable").astype(np.int32)
    rank = np.empty(n, np.int32)
    rank[by_rank] = np.arange(n, dtype=np.int32)
    strips = -(-n // STRIP)
    blocks = list(pairwise(_edges(ratings.indptr, _PLACES // max(strips, 1))))
    for at, (first, last) in enumerate(blocks):
        indptr = ratings.indptr[first : last + 1]
        places, codes = _by_strip(indptr, ratings.items, values, rank, strips)

        def tiles(strip: int, places: Any = places, codes: Any = codes, first: int = first) -> int:
            _sum_tiles(strip, places, codes, weights[first:], by_rank, out)
            return strip + 1

        for done in in_threads(tiles, range(strips)):
            report("summing pairs of items", at * strips + done, len(blocks) * strips)
    return out


def _edges(indptr: Integers, users: int) -> list[int]:
    """Where blocks of so many users begin, or of fewer where their ratings are very many."""
    edges = [0]
    while edges[-1] < len(indptr) - 1:
        few = int(np.searchsorted(indptr, indptr[edges[-1]] + _RATINGS, "right")) - 1
        last = min(edges[-1] + max(users, 1), max(few, edges[-1] + 1), len(indptr) - 1)
        edges.append(last)
    return edges


def dense(packed: Integers, n: int, scales: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The symmetric matrix below whose diagonal `packed` stands, times scales on both sides."""
    matrix = np.zeros((n, n), np.float32)
    edges = np.unique(np.sqrt(np.linspace(0, 1, 33)) * n).astype(np.int64)
    for _ in in_threads(lambda span: _fill(packed, scales, matrix, *span), pairwise(edges)):
        pass
    return matrix


def _by_strip(
    indptr: Integers,
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.int8],
    rank: npt.NDArray[np.int32],
    strips: int,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint16]]:
    """The ratings strip by strip, in a strip user by user, as place in the strip·256 + value; and
    where those of each strip and user begin."""
    places = np.zeros((strips, len(indptr)), np.int32)
    cuts = np.linspace(indptr[0], indptr[-1], processors() + 1)
    spans = [*pairwise(np.searchsorted(indptr, cuts))]
    for _ in in_threads(lambda span: _count(indptr, items, rank, places, *span), spans):
        pass
    codes = np.empty(_begin(places), np.uint16)
    given: Any = (indptr, items, values, rank, places, codes)
    for _ in in_threads(lambda span: _place(*given, *span), spans):
        pass
    return places, codes


@numba.njit(cache=True, nogil=True)
def _count(
    indptr: Integers,
    items: npt.NDArray[np.int32],
    rank: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    first: int,
    last: int,
) -> None:
    """How many ratings some users have in each strip, each one place on."""
    for user in range(first, last):
        for at in range(indptr[user], indptr[user + 1]):
            places[rank[items[at]] // STRIP, user + 1] += 1


@numba.njit(cache=True, nogil=True)
def _begin(places: npt.NDArray[np.int32]) -> int:
    """Where the ratings of each strip and user begin, in place of how many they are."""
    total = 0
    for strip in range(places.shape[0]):
        places[strip, 0] = total
        for user in range(1, places.shape[1]):
            total += places[strip, user]
            places[strip, user] = total
    return total


@numba.njit(cache=True, nogil=True)
def _place(
    indptr: Integers,
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.int8],
    rank: npt.NDArray[np.int32],
    places: npt.NDArray[np.int32],
    codes: npt.NDArray[np.uint16],
    first: int,
    last: int,
) -> None:
    """Write the ratings of some users where they belong."""
    following = places[:, first].copy()
    for user in range(first, last):
        for at in range(indptr[user], indptr[user + 1]):
            item = rank[items[at]]
            strip = item // STRIP
            place = np.uint16(item - strip * STRIP) << np.uint16(8)
            codes[following[strip]] = place | np.uint16(np.uint8(values[at]))
            following[strip] += 1


@numba.njit(cache=True, nogil=True)
def _sum_tiles(
    strip: int,
    places: npt.NDArray[np.int32],
    codes: npt.NDArray[np.uint16],
    weights: Integers,
    by_rank: npt.NDArray[np.int32],
    out: Integers,
) -> None:
    """Add the tiles of a strip with itself and with all more popular ones."""
    high_bits, shift = np.uint64(0xFF00), np.uint64(8)
    own = places[strip]
    users = np.flatnonzero(own[1:] != own[:-1])
    line = np.zeros(STRIP, np.int64)
    for other in range(strip + 1):
        tile = np.zeros(STRIP * STRIP, np.int64)
        theirs = places[other]
        for user in users:
            start, stop = theirs[user], theirs[user + 1]
            if stop - start >= MANY:
                _add_lines(tile, codes, own[user], own[user + 1], start, stop, weights[user], line)
                continue
            for at in range(own[user], own[user + 1]):
                times = weights[user] * np.int64(np.int8(codes[at]))
                row = np.uint64(codes[at]) & high_bits
                # of a strip with itself, each pair once
                for code in codes[start : at if other == strip else stop]:
                    tile[row | (np.uint64(code) >> shift)] += times * np.int64(np.int8(code))
        _add_tile(tile, strip, other, by_rank, out)


@numba.njit(cache=True, nogil=True)
def _add_lines(
    tile: Integers,
    codes: npt.NDArray[np.uint16],
    first: int,
    last: int,
    start: int,
    stop: int,
    weight: int,
    line: Integers,
) -> None:
    """Add one user's pairs of the codes first … last with those from start to stop, by lines of the
    tile; `line` is zero before and after. Of a strip with itself, where both are the same codes,
    each pair comes once: the line holds what came before."""
    itself = first == start
    if not itself:
        for code in codes[start:stop]:
            line[code >> 8] = np.int8(code)
    for at in range(first, last):
        times = weight * np.int64(np.int8(codes[at]))
        row = np.int64(codes[at] >> 8) * STRIP
        into = tile[row : row + STRIP]
        for place in range(STRIP):
            into[place] += times * line[place]
        if itself:
            line[codes[at] >> 8] = np.int8(codes[at])
    for code in codes[start:stop]:
        line[code >> 8] = 0


@numba.njit(cache=True, nogil=True)
def _add_tile(
    tile: Integers, strip: int, other: int, by_rank: npt.NDArray[np.int32], out: Integers
) -> None:
    n = len(by_rank)
    for i in range(min(STRIP, n - strip * STRIP)):
        here = np.int64(by_rank[strip * STRIP + i])
        for j in range(i if other == strip else STRIP):
            there = np.int64(by_rank[other * STRIP + j])
            value = tile[i * STRIP + j]
            if other == strip:
                value += tile[j * STRIP + i]
            low, high = min(here, there), max(here, there)
            out[high * (high - 1) // 2 + low] += value


@numba.njit(cache=True, nogil=True)
def _fill(
    packed: Integers,
    scales: npt.NDArray[np.float64],
    matrix: npt.NDArray[np.float32],
    first: int,
    last: int,
) -> None:
    for top in range(first, last, _SIDE):
        for left in range(0, min(top + _SIDE, last), _SIDE):
            for i in range(top, min(top + _SIDE, last)):
                start = i * (i - 1) // 2
                for j in range(left, min(left + _SIDE, i)):
                    value = np.float32(packed[start + j] * scales[i] * scales[j])
                    matrix[i, j] = value
                    matrix[j, i] = value


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
                weights[user] = (one << 10) // max(ceil_root(square << 20), STEPS << 10)
    return weights, squares
