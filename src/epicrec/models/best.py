"""The best items of each row of scores, in one pass over them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from epicrec.arrays import AnyFloats, Bools, Integers


def best_items(
    scores: AnyFloats, offsets: AnyFloats, excluded: Bools, n: int
) -> tuple[Integers, AnyFloats]:
    """The `n` items of the largest score + offset in each row, best first, and these sums.

    Of equal ones the first is better. An item that is `excluded`, or scores -inf or NaN, is in no
    list; the places behind the last one hold -1.

    >>> best_items(np.array([[1.0, 3, 2]]), np.zeros(3), np.array([False, True, False]), 3)[0]
    array([[ 2,  0, -1]])
    """
    items = np.full((len(scores), n), -1, np.int64)
    values = np.full((len(scores), n), -np.inf)
    _best(scores, offsets, excluded, items, values)
    return items, values


@numba.njit(cache=True, nogil=True)
def _best(scores: Any, offsets: Any, excluded: Any, items: Any, values: Any) -> None:
    """Each row's best as a heap with the worst of them on top; then the heap, emptied backwards."""
    n = items.shape[1]
    for row in range(len(scores)):
        held, top, own = values[row], items[row], scores[row]
        size, worst = 0, -np.inf
        for item in range(len(own)):
            value = np.float64(own[item]) + offsets[item]
            if not value > worst or excluded[item]:
                continue
            if size < n:
                at = size
                size += 1
                while at > 0 and _worse(value, item, held[(at - 1) // 2], top[(at - 1) // 2]):
                    held[at], top[at] = held[(at - 1) // 2], top[(at - 1) // 2]
                    at = (at - 1) // 2
                held[at], top[at] = value, item
            else:
                _sink(held, top, n, value, item)
            if size == n:
                worst = held[0]
        for last in range(size - 1, 0, -1):
            value, item = held[last], top[last]
            held[last], top[last] = held[0], top[0]
            _sink(held, top, last, value, item)


@numba.njit(cache=True, nogil=True)
def _sink(held: Any, top: Any, size: int, value: float, item: int) -> None:
    """Put this in the place of the worst of a heap."""
    at = 0
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and _worse(held[below + 1], top[below + 1], held[below], top[below]):
            below += 1
        if not _worse(held[below], top[below], value, item):
            break
        held[at], top[at] = held[below], top[below]
        at = below
    held[at], top[at] = value, item


@numba.njit(cache=True, nogil=True)
def _worse(value: float, item: int, other: float, than: int) -> Any:
    return value < other or (value == other and item > than)
