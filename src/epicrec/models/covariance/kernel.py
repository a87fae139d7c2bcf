"""The sum of users' outer products, below the diagonal: the one expensive step of a fit.

Items are ordered by popularity, so that the entries most often added to share the cache, and each
row is summed by itself, over the users who rated its item, in a buffer that fits the cache. Threads
take different rows, so nothing is shared. The order shows nowhere in the result.
"""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import numpy.typing as npt

from epicrec.data import Ratings
from epicrec.errors import InputError
from epicrec.machine import all_memory, free_memory
from epicrec.progress import report
from epicrec.threads import in_threads

Integers = npt.NDArray[np.int64]


def memory_needed(n_items: int) -> int:
    """Bytes of memory that pairs of items need: their sums (8 bytes for each pair) and the matrix
    of which eigenvectors are taken (4 bytes for each ordered pair)."""
    return 4 * n_items * (n_items - 1) + 4 * n_items**2


def fits(n_items: int) -> bool:
    """Whether pairs of items leave half of this machine's memory free. It is asked before noise is
    drawn, so it looks at public numbers only: not at the ratings, nor at what is free just now."""
    there = all_memory()
    return there is None or 2 * memory_needed(n_items) <= there


def check_memory(n_items: int) -> None:
    """Refuse what would not fit, before anything is computed; whatever the ratings are."""
    needed = memory_needed(n_items)
    available = free_memory()
    if available is not None and needed > available:
        raise InputError(
            f"the covariance of {n_items:,} items needs {needed / 2**30:.1f} GiB of memory and "
            f"{available / 2**30:.1f} GiB are free; keep fewer items (ratings.with_items(ids), the "
            "ids chosen without looking at the ratings), use a larger machine, or learn from "
            "histories (feedback='implicit'), which needs no items × items matrix"
        )


def pair_sums(
    ratings: Ratings, values: npt.NDArray[np.int8], weights: Integers, *, extra: int = 0
) -> Integers:
    """Σ_u weights_u·v_u v_uᵀ: entry (i, j), j < i, at i(i-1)/2 + j, then `extra` zeros."""
    n = ratings.n_items
    out = np.zeros(n * (n - 1) // 2 + extra, np.int64)
    if len(ratings) == 0:
        return out
    counts = ratings.item_counts
    by_rank = np.argsort(-counts, kind="stable").astype(np.int32)
    rank = np.empty(n, np.int32)
    rank[by_rank] = np.arange(n, dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum(counts[by_rank])]).astype(np.int64)
    user_of, entries, before = _by_item_and_user(
        ratings.indptr, ratings.items, values, rank, starts
    )
    work = np.concatenate([[0], np.cumsum(before, dtype=np.int64)])[starts]
    cuts = np.searchsorted(work, np.linspace(0, work[-1], 129)[1:-1])
    edges = [0, *np.unique(cuts[(cuts > 0) & (cuts < n)]).tolist(), n]

    def rows(span: tuple[int, int]) -> int:
        _sum_rows(*span, starts, user_of, before, ratings.indptr, entries, weights, by_rank, out)
        return int(work[span[1]])

    for done in in_threads(rows, pairwise(edges)):
        report("summing pairs of items", done, int(work[-1]))
    return out


def dense(packed: Integers, n: int, scales: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """The symmetric matrix below whose diagonal `packed` stands, times scales on both sides."""
    matrix = np.zeros((n, n), np.float32)
    edges = np.unique(np.sqrt(np.linspace(0, 1, 33)) * n).astype(np.int64)
    for _ in in_threads(lambda span: _fill(packed, scales, matrix, *span), pairwise(edges)):
        pass
    return matrix


@numba.njit(cache=True, nogil=True)
def _by_item_and_user(
    indptr: Integers,
    items: npt.NDArray[np.int32],
    values: npt.NDArray[np.int8],
    rank: npt.NDArray[np.int32],
    starts: Integers,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint32], npt.NDArray[np.int32]]:
    """The users of each item; each user's ratings by rank of the item, as rank·256 + value + 128;
    and for each rating of an item how many more popular items its user has rated."""
    n_users = len(indptr) - 1
    user_of = np.empty(len(items), np.int32)
    of_item = np.empty(len(items), np.int8)
    next_of_item = starts[:-1].copy()
    for user in range(n_users):
        for at in range(indptr[user], indptr[user + 1]):
            place = next_of_item[rank[items[at]]]
            next_of_item[rank[items[at]]] += 1
            user_of[place] = user
            of_item[place] = values[at]
    entries = np.empty(len(items), np.uint32)
    before = np.empty(len(items), np.int32)
    filled = np.zeros(n_users, np.int32)
    for item in range(len(starts) - 1):
        for place in range(starts[item], starts[item + 1]):
            user = user_of[place]
            before[place] = filled[user]
            at = indptr[user] + filled[user]
            filled[user] += 1
            entries[at] = (item << 8) + of_item[place] + 128
    return user_of, entries, before


@numba.njit(cache=True, nogil=True)
def _sum_rows(
    first: int,
    last: int,
    starts: Integers,
    user_of: npt.NDArray[np.int32],
    before: npt.NDArray[np.int32],
    indptr: Integers,
    entries: npt.NDArray[np.uint32],
    weights: Integers,
    by_rank: npt.NDArray[np.int32],
    out: Integers,
) -> None:
    shift, low_bits = np.uint32(8), np.uint32(255)
    row = np.zeros(max(last, 1), np.int64)
    for item in range(first, last):
        row[:item] = 0
        for place in range(starts[item], starts[item + 1]):
            user = user_of[place]
            start = indptr[user]
            own = start + before[place]
            times = weights[user] * (np.int64(entries[own] & low_bits) - 128)
            for entry in entries[start:own]:
                row[np.uint64(entry >> shift)] += times * (np.int64(entry & low_bits) - 128)
        here = np.int64(by_rank[item])
        for other in range(item):
            there = np.int64(by_rank[other])
            low, high = min(here, there), max(here, there)
            out[high * (high - 1) // 2 + low] = row[other]


@numba.njit(cache=True, nogil=True)
def _fill(
    packed: Integers,
    scales: npt.NDArray[np.float64],
    matrix: npt.NDArray[np.float32],
    first: int,
    last: int,
) -> None:
    for i in range(first, last):
        start = i * (i - 1) // 2
        for j in range(i):
            value = np.float32(packed[start + j] * scales[i] * scales[j])
            matrix[i, j] = value
            matrix[j, i] = value
