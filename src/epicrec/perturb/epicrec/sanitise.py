"""Sanitise: from (noisy or estimated) category totals to whole items that have about those totals.

EpicRec (4.5) and (5.3), relaxed and over category rows: items in the same categories are
interchangeable, so the unknowns are how many items of each row to send, a few hundred numbers.
Everything here sees noisy totals and public data only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from epicrec.arrays import Floats, Integers

_TIE = 1e-3  # how little the wish for the usual mixture counts against the totals
_ITERATIONS = 100
_SHARPNESS = 4  # stand-ins are drawn by weight to this power: well-known items say more to a filter


def fit_rows(
    matrix: Any, target: Floats, capacity: Floats, usual: Floats, pliancy: Floats, tie: float = _TIE
) -> Floats:
    """How many items of each row: the x in [0, capacity] that minimises

        ½ ‖matrixᵀ x - target‖² + ½ tie Σ_r (x_r - usual_r)² / pliancy_r.

    The second term chooses among the many x with the same totals. The solution has
    x = clip(usual + pliancy · (matrix ρ)/tie) with the residual ρ = target - matrixᵀ x, so only one
    number a category is unknown; ρ is the minimum of a convex, piecewise quadratic function, found
    by Newton's method with exact line search. `matrix` is rows × categories, dense or sparse.
    """
    gain = pliancy / tie
    transposed = matrix.T
    rho = np.minimum(target, 0)  # a total below 0 cannot be reached: most of it stays
    score = matrix @ rho
    enough = 1e-9 * (1 + np.abs(target).max(initial=0))
    for _ in range(_ITERATIONS):
        wanted = usual + gain * score
        gradient = rho - target + transposed @ np.clip(wanted, 0, capacity)
        if np.abs(gradient).max(initial=0) <= enough:
            break
        free = np.where((wanted >= 0) & (wanted <= capacity), gain, 0.0)
        curvature = dense((transposed * free) @ matrix)
        curvature[np.diag_indices(len(target))] += 1
        step = np.linalg.solve(curvature, -gradient)
        change = matrix @ step
        slope, base = float(gradient @ step), float(step @ step)
        length = _line_minimum(slope, base, wanted, change, gain, capacity)
        rho, score = rho + length * step, score + length * change
    return np.asarray(np.clip(usual + gain * score, 0, capacity))


def _line_minimum(
    slope: float, base: float, wanted: Floats, change: Floats, gain: Floats, capacity: Floats
) -> float:
    """Where the derivative along a step, `slope` < 0 at its start, reaches 0.

    The derivative is piecewise linear: it grows at the rate `base`, and at gain·change² more for
    every row while wanted + length·gain·change lies between 0 and its capacity.
    """
    moving = np.flatnonzero(change * gain)
    speed = gain[moving] * change[moving]
    ends = np.stack([-wanted[moving], capacity[moving] - wanted[moving]]) / speed
    enter, leave = ends.min(axis=0).clip(min=0), ends.max(axis=0).clip(min=0)
    rate = speed * change[moving]
    at = np.concatenate([[0.0], enter, leave])
    order = np.argsort(at, kind="stable")
    at = at[order]
    rates = np.cumsum(np.concatenate([[base], rate, -rate])[order])
    derivative = slope + np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(at))])
    last = max(int(np.searchsorted(derivative, 0.0)) - 1, 0)
    return float(at[last] - derivative[last] / max(rates[last], base))


def dense(matrix: Any) -> Floats:
    """The same matrix as a plain array."""
    return np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix, dtype=np.float64)


def round_keeping_totals(
    matrix: Any, x: Floats, target: Floats, capacity: Integers, rng: np.random.Generator
) -> Integers:
    """Whole numbers within 2 of x with category totals as near the target as single steps get.

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
        row = dense(matrix[[r]]).ravel()
        residual = residual - sign * row
        score = score - sign * (matrix @ row)
    return counts.astype(np.int64)


def choose_items(
    counts: Integers, row_of_item: Integers, weights: Floats, rng: np.random.Generator
) -> Integers:
    """Positions of the stand-in items: `counts[r]` of row r, drawn without repetition, the popular
    first and foremost.

    `row_of_item` is -1 for items that may not be sent. Sorting -log(u)/weight gives the draw.
    """
    wanted = np.flatnonzero((row_of_item >= 0) & (counts > 0)[row_of_item])
    draws = rng.exponential(size=len(weights))[wanted]
    by_key = np.argsort(np.log(draws) - _SHARPNESS * np.log(weights[wanted]))
    rows = row_of_item[wanted[by_key]]
    narrow = rows.astype(np.int16) if len(counts) < 2**15 else rows  # numpy sorts these by radix
    by_row = np.argsort(narrow, kind="stable")
    rows = rows[by_row]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(counts)))[rows]
    return np.sort(wanted[by_key[by_row]][rank < counts[rows]])
