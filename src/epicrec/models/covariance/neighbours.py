"""Neighbour weights at the user's side, from a covariance in factored form."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numba
import numpy as np

from epicrec.data import Ratings
from epicrec.models.base import Floats, Positions
from epicrec.models.cholesky import solve
from epicrec.models.factors import AtHome
from epicrec.progress import report
from epicrec.threads import in_threads

LONGEST = 2000
"""Up to this length of a history, all its covariances are computed at once where many are asked
for."""


def neighbour_predictions(
    home: AtHome, histories: Ratings, k: int, rows: Positions, items: Positions
) -> Floats:
    """expected_i + C_iN (C_NN + s²·I + V_N)⁻¹ residuals_N for each (row, item), rows ascending.

    C is F Fᵀ, V the variance of the items' means, and N are the k items of the history whose
    covariance with i is largest in size. Whoever has no more than k has the same N for all items,
    and is solved once.
    """
    lie, residuals = home.expected(histories)
    noise = np.full(len(home.offsets), float(home.ridge))
    if home.variance is not None:
        noise += home.variance
    out = np.zeros(len(rows))
    rows, items = rows.astype(np.int64), items.astype(np.int64)
    factors = np.ascontiguousarray(home.factors, np.float64)
    arrays = (histories.indptr, histories.items, residuals, factors, noise, k)
    starts = np.searchsorted(rows, np.arange(histories.n_users + 1))
    edges = np.unique(np.searchsorted(starts, np.linspace(0, len(rows), 65))).tolist()
    edges = [0, *(edge for edge in edges if 0 < edge < histories.n_users), histories.n_users]

    def run(span: tuple[int, int]) -> int:
        _predict_users(*arrays, starts, items, out, *span)
        return int(starts[span[1]])

    for done in in_threads(run, pairwise(edges)):
        report("predicting from neighbours", done, len(rows))
    expected = home.offsets[items]
    if home.doubt is not None:
        expected = expected + home.doubt[items] * lie[rows]
    return np.asarray(expected + out)


@numba.njit(cache=True, nogil=True, fastmath=True)
def _predict_users(
    indptr: Any,
    history: Any,
    residuals: Any,
    factors: Any,
    noise: Any,
    k: int,
    starts: Any,
    items: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    matrix = np.empty((k, k))
    weights = np.empty(k)
    near = np.empty(k, np.int64)
    for user in range(start, stop):
        first, asked = indptr[user], starts[user + 1] - starts[user]
        n = indptr[user + 1] - first
        if n == 0 or asked == 0:
            continue
        rows = history[first : first + n]
        own = factors[rows]
        wanted = items[starts[user] : starts[user + 1]]
        covariances = factors[wanted] @ own.T
        at_once = n <= LONGEST and 4 * asked * k * k > n * n
        every = own @ own.T if at_once else np.empty((0, 0))
        count = min(k, n)
        for at in range(asked):
            covariance = covariances[at]
            if n > k:
                _largest(covariance, k, near)
            elif at == 0:
                near[:n] = np.arange(n)
            if n > k or at == 0:
                for x in range(count):
                    weights[x] = residuals[first + near[x]]
                    for y in range(x + 1):
                        total = 0.0
                        if at_once:
                            total = every[near[x], near[y]]
                        else:
                            for a in range(own.shape[1]):
                                total += own[near[x], a] * own[near[y], a]
                        matrix[x, y] = total
                    matrix[x, x] += noise[rows[near[x]]]
                solve(matrix, weights, count)
            total = 0.0
            for x in range(count):
                total += covariance[near[x]] * weights[x]
            out[starts[user] + at] = total


@numba.njit(cache=True, nogil=True, fastmath=True)
def _largest(values: Any, k: int, out: Any) -> None:
    """Where the k values of largest size stand; of equal ones, the first."""
    size = np.abs(values)
    bound = np.partition(size, len(size) - k)[len(size) - k]
    found = 0
    for at in range(len(size)):
        if size[at] > bound:
            out[found] = at
            found += 1
    for at in range(len(size)):
        if found == k:
            return
        if size[at] == bound:
            out[found] = at
            found += 1
