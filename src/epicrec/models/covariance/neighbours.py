"""Neighbour weights at the user's side, from a covariance in factored form."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numba
import numpy as np

from epicrec.data import Ratings
from epicrec.models.base import Floats, Positions
from epicrec.progress import report
from epicrec.threads import in_threads


def neighbour_predictions(
    histories: Ratings,
    residuals: Floats,
    factors: Floats,
    offsets: Floats,
    ridge: float,
    k: int,
    rows: Positions,
    items: Positions,
) -> Floats:
    """offset_i + C_iN (C_NN + ridge·I)⁻¹ residuals_N for each (row, item).

    C is F Fᵀ, and N are the k items of the history whose covariance with i is largest in size.
    """
    out = np.empty(len(rows))
    rows, items = rows.astype(np.int64), items.astype(np.int64)
    arrays = (histories.indptr, histories.items, residuals, factors, offsets, float(ridge), k)
    edges = np.unique(np.linspace(0, len(rows), 65).astype(np.int64)).tolist()

    def run(span: tuple[int, int]) -> int:
        _predict_range(*arrays, rows, items, out, *span)
        return span[1]

    for done in in_threads(run, pairwise(edges)):
        report("predicting from neighbours", done, len(rows))
    return out


@numba.njit(cache=True, nogil=True)
def _predict_range(
    indptr: Any,
    history: Any,
    residuals: Any,
    factors: Any,
    offsets: Any,
    ridge: float,
    k: int,
    rows: Any,
    items: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    rank = factors.shape[1]
    for at in range(start, stop):
        first, last = indptr[rows[at]], indptr[rows[at] + 1]
        item = items[at]
        out[at] = offsets[item]
        n = min(k, last - first)
        if n == 0:
            continue
        covariance = np.zeros(last - first)
        for h in range(last - first):
            for a in range(rank):
                covariance[h] += factors[item, a] * factors[history[first + h], a]
        near = np.argsort(-np.abs(covariance), kind="mergesort")[:n]
        matrix = np.empty((n, n))
        right = np.empty(n)
        for x in range(n):
            right[x] = residuals[first + near[x]]
            for y in range(x + 1):
                total = 0.0
                one, other = history[first + near[x]], history[first + near[y]]
                for a in range(rank):
                    total += factors[one, a] * factors[other, a]
                matrix[x, y] = total
                matrix[y, x] = total
            matrix[x, x] += ridge
        weights = np.linalg.solve(matrix, right)
        for x in range(n):
            out[at] += covariance[near[x]] * weights[x]
