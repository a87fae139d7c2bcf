"""Sanitise: from (noisy or estimated) category totals to whole items that have about those totals.

EpicRec (4.5) and (5.3), relaxed and over category rows: items in the same categories are
interchangeable, so the unknowns are how many items of each row to send, a few hundred numbers.
Everything here sees noisy totals and public data only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_TIE = 1e-3  # how little the wish for the usual mixture counts against the totals
_ITERATIONS = 100


def fit_rows(
    matrix: Any, target: Floats, capacity: Floats, usual: Floats, pliancy: Floats, tie: float = _TIE
) -> Floats:
    """How many items of each row: the x in [0, capacity] that minimises

        ½ ‖matrixᵀ x - target‖² + ½ tie Σ_r (x_r - usual_r)² / pliancy_r.

    The second term chooses among the many x with the same totals. The solution has
    x = clip(usual + pliancy · (matrix ρ)/tie) with the residual ρ = target - matrixᵀ x, so only one
    number a category is unknown; ρ is the minimum of a convex, piecewise quadratic function, found
    by Newton's method with step halving. `matrix` is rows × categories, dense or sparse.
    """
    gain = pliancy / tie
    transposed = matrix.T
    rho = np.zeros(len(target))
    value, x = _dual(matrix, rho, target, usual, gain, capacity)
    for _ in range(_ITERATIONS):
        gradient = rho - target + transposed @ x
        if np.abs(gradient).max(initial=0) <= 1e-9 * (1 + np.abs(target).max(initial=0)):
            break
        wanted = usual + gain * (matrix @ rho)
        free = np.where((wanted > 0) & (wanted < capacity), gain, 0.0)
        curvature = (transposed * free) @ matrix
        curvature = np.asarray(curvature.todense() if hasattr(curvature, "todense") else curvature)
        curvature[np.diag_indices(len(target))] += 1
        step = np.linalg.solve(curvature, -gradient)
        slope, length = float(gradient @ step), 1.0
        while True:
            new_value, new_x = _dual(matrix, rho + length * step, target, usual, gain, capacity)
            if new_value <= value + 1e-4 * length * slope or length < 1e-10:
                break
            length /= 2
        rho, value, x = rho + length * step, new_value, new_x
        if length < 1e-10:
            break
    return x


def _dual(
    matrix: Any, rho: Floats, target: Floats, usual: Floats, gain: Floats, capacity: Floats
) -> tuple[float, Floats]:
    """½‖ρ‖² - target·ρ + Σ_r ∫ clip(usual + gain·s, 0, capacity) ds up to s = (matrix ρ)_r, and x."""
    s = matrix @ rho
    wanted = usual + gain * s
    x = np.clip(wanted, 0, capacity)
    # where x is clipped the integral is linear; written as x·s minus the part the clip cuts off
    parts = x * s - (x - usual) ** 2 / (2 * gain)
    return float(0.5 * rho @ rho - target @ rho + parts.sum()), x


def round_keeping_totals(
    matrix: Any, x: Floats, target: Floats, capacity: Counts, rng: np.random.Generator
) -> Counts:
    """Whole numbers within 1 of x whose category totals stay as near the target as single steps get.

    A systematic random rounding first (unbiased in every row, and its number of items is within 1
    of Σx), then single steps by one item, each the one that lowers the squared error the most.
    """
    x = np.minimum(x, capacity)
    below = np.floor(x + 1e-9)
    order = rng.permutation(len(x))
    ladder = np.floor(np.cumsum((x - below).clip(min=0)[order]) + rng.random())
    counts = below
    counts[order] += np.diff(ladder, prepend=0)
    counts = np.minimum(counts, capacity)
    low, high = np.maximum(np.floor(x) - 1, 0), np.minimum(np.ceil(x) + 1, capacity)
    length = np.asarray(matrix.sum(axis=1)).ravel()
    residual = target - matrix.T @ counts
    score = matrix @ residual  # one more of row r changes the squared error by length - 2·score
    for _ in range(4 * len(target) + 4):
        up = np.where(counts < high, length - 2 * score, 0)
        down = np.where(counts > low, length + 2 * score, 0)
        r, s = int(np.argmin(up)), int(np.argmin(down))
        if min(up[r], down[s]) >= -1e-9:
            break
        r, sign = (r, 1) if up[r] <= down[s] else (s, -1)
        counts[r] += sign
        row = matrix[[r]]
        row = np.asarray(row.todense() if hasattr(row, "todense") else row).ravel()
        residual = residual - sign * row
        score = score - sign * (matrix @ row)
    return counts.astype(np.int64)


def round_independently(x: Floats, capacity: Counts, rng: np.random.Generator) -> Counts:
    """The paper's rounding: each of a row's items is sent with probability x/capacity."""
    return rng.binomial(capacity, np.clip(x / np.maximum(capacity, 1), 0, 1)).astype(np.int64)


def choose_items(
    counts: Counts, row_of_item: npt.NDArray[np.int64], weights: Floats, rng: np.random.Generator
) -> Counts:
    """Positions of the stand-in items: `counts[r]` of row r, drawn by weight without repetition.

    `row_of_item` is -1 for items that may not be sent. Sorting -log(u)/weight gives the draw.
    """
    keys = rng.exponential(size=len(weights)) / weights
    order = np.lexsort((keys, row_of_item))
    order = order[np.searchsorted(row_of_item[order], 0) :]
    rows = row_of_item[order]
    starts = np.searchsorted(rows, np.arange(len(counts)))
    rank = np.arange(len(rows)) - starts[rows]
    return np.sort(order[rank < counts[rows]])
