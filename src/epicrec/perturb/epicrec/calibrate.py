"""Calibrate: how much noise each category needs so that no single item shows.

EpicRec (4.4) and (5.2): adding or removing item i changes the total of category j by c_ij, so
discrete Laplace noise of scale z_j on every total is ε-differentially private for one item when

    max_i Σ_j c_ij / z_j ≤ ε.

Of all such scales the program takes those with the least Σ z_j, the expected absolute error.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isfinite

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.errors import InputError

Rows = npt.NDArray[np.uint8]

_GRID = 2**20  # scales are multiples of 2⁻²⁰: exact as floats, so their JSON is exact too
_GAP = 1e-8  # relative distance from the optimum


def maximal_rows(matrix: Rows) -> Rows:
    """The rows that no other row contains: they alone can be the maximum over items."""
    _, first = np.unique(np.packbits(matrix, axis=1), axis=0, return_index=True)
    matrix = matrix[first]
    sizes = matrix.sum(axis=1, dtype=np.int64)
    matrix, sizes = matrix[sizes > 0], sizes[sizes > 0]
    columns = np.ascontiguousarray(matrix.T).astype(np.bool_)
    holders = [np.flatnonzero(column) for column in columns]
    keep = np.ones(len(matrix), np.bool_)
    for r, row in enumerate(matrix):
        own = np.flatnonzero(row)
        rarest = min((holders[j] for j in own), key=len)
        larger = rarest[sizes[rarest] > sizes[r]]
        keep[r] = not np.logical_and.reduce([columns[j][larger] for j in own]).any()
    return matrix[keep]


def optimal_shares(rows: Rows) -> Floats:
    """w minimising Σ 1/w_j subject to `rows` @ w ≤ 1, by a barrier method.

    The scales for any ε are 1/(ε w). `rows` are `maximal_rows` that hold every category.
    """
    import scipy.sparse

    a = scipy.sparse.csr_array(rows.astype(np.float64))
    a = a.toarray() if a.nnz > 0.02 * a.shape[0] * a.shape[1] else a
    transposed = a.T.tocsr() if scipy.sparse.issparse(a) else a.T
    w = np.full(rows.shape[1], 0.5 / rows.sum(axis=1, dtype=np.int64).max())
    weight = rows.shape[0] / (1 / w).sum()
    while True:
        w = _centre(a, transposed, w, weight)
        if rows.shape[0] / weight < _GAP * (1 / w).sum():
            return np.asarray(w / (a @ w).max())
        weight *= 20


def _centre(a: Floats, transposed: Floats, w: Floats, weight: float) -> Floats:
    """Newton's method for the minimum of weight · Σ 1/w - Σ log(1 - a w)."""
    for _ in range(60):
        slack = 1 - a @ w
        gradient = transposed @ (1 / slack) - weight / w**2
        curvature = (transposed * (1 / slack**2)) @ a
        curvature = np.asarray(
            curvature if isinstance(curvature, np.ndarray) else curvature.todense()
        )
        curvature[np.diag_indices(len(w))] += 2 * weight / w**3
        step = np.linalg.solve(curvature, -gradient)
        decrement = -gradient @ step
        if decrement < 1e-4:
            break
        change, length = a @ step, 1.0
        here = weight * (1 / w).sum() - np.log(slack).sum()
        while (
            (slack - length * change).min() <= 0
            or (w + length * step).min() <= 0
            or weight * (1 / (w + length * step)).sum() - np.log(slack - length * change).sum()
            > here - 0.1 * length * decrement
        ):
            length /= 2
            if length < 1e-12:
                return w
        w = w + length * step
    return w


def category_scales(rows: Rows, shares: Floats, epsilon: float) -> Floats:
    """EpicRec's scales z_j = 1/(ε w_j), rounded up and re-checked in exact arithmetic."""
    return checked_scales(rows, 1 / (epsilon * shares), epsilon)


def exact_cost(row: Rows, scales: Floats) -> Fraction:
    """Σ_j c_j / z_j of one item: what it costs to hide it, exactly."""
    return sum((1 / Fraction(float(scales[j])) for j in np.flatnonzero(row)), Fraction(0))


def holds_exactly(rows: Rows, scales: Floats, epsilon: float) -> bool:
    """Whether max_i Σ_j c_ij / z_j ≤ ε in rational arithmetic."""
    inverse = [1 / Fraction(float(z)) for z in scales]
    limit = Fraction(epsilon)
    return all(sum(inverse[j] for j in np.flatnonzero(row)) <= limit for row in rows)


def check_epsilon(epsilon: float) -> None:
    """Refuse what is not a finite budget above 0."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float) or not isfinite(epsilon):
        raise InputError(f"epsilon must be a number above 0, not {epsilon!r}; try 0.2")
    if not 1e-6 <= epsilon <= 1000:
        raise InputError(f"epsilon must lie between 0.000001 and 1000, not {epsilon}; try 0.2")


def checked_scales(rows: Rows, scales: Floats, epsilon: float) -> Floats:
    """These scales rounded up to the grid, and further until they cost no more than ε exactly."""
    scales = _up(scales)
    while not holds_exactly(rows, scales, epsilon):
        scales = _up(scales * (1 + 1e-9) + 1 / _GRID)
    return scales


def _up(scales: Floats) -> Floats:
    return np.array([ceil(z * _GRID) / _GRID for z in scales.tolist()])
