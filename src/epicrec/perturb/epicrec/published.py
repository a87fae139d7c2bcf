"""Published: the paper's own way from totals to items, (4.5) and (5.3) with independent rounding.

Used where `as_published` is asked for, and to imitate releases in quantification. Among the many
solutions of the relaxed program it takes the one with the least Σ d²: like items, like chances.
"""

from __future__ import annotations

import numpy as np

from epicrec.arrays import Floats, Integers
from epicrec.perturb.epicrec.plan import Plan
from epicrec.perturb.epicrec.sanitise import fit_rows

_EXACTLY = 300.0  # weight of the equalities, which can contradict each other, in the least squares
_TIE = 1e-3


def published_items(
    plan: Plan, target: Floats, clear: Integers, rng: np.random.Generator
) -> Integers:
    """Positions of the items to send: the clear ones, and stand-ins for the rest of the totals."""
    rows = plan.row_of_item[clear]
    fixed = np.bincount(rows[rows >= 0], minlength=len(plan.capacity))
    chance = _chances(plan, target - plan.matrix.T @ fixed, plan.capacity - fixed)
    probability = np.where(plan.row_of_item >= 0, chance[plan.row_of_item], 0.0)
    probability[clear] = 1.0
    return np.flatnonzero(rng.random(len(probability)) < probability)


def published_totals(plan: Plan, target: Floats, rng: np.random.Generator) -> Floats:
    """The totals, in the noised categories, of the items that a target leads to."""
    chance = _chances(plan, target, plan.capacity)
    sent = (rng.random(len(plan.row_of_item)) < chance[plan.row_of_item]) & (plan.row_of_item >= 0)
    counts = np.bincount(plan.row_of_item[sent], minlength=len(plan.capacity))
    return np.asarray(plan.matrix.T @ counts)[: len(plan.noisy)]


def _chances(plan: Plan, target: Floats, capacity: Integers) -> Floats:
    """The relaxed solution: each row's part of its items to send."""
    weights = np.ones(len(target))
    weights[len(plan.noisy) :] = _EXACTLY
    room = capacity.astype(np.float64)
    if len(plan.exact):
        none = len(plan.noisy) + np.flatnonzero(target[len(plan.noisy) :] <= 0)
        room[np.asarray(plan.matrix[:, none].sum(axis=1)).ravel() > 0] = 0
    matrix = plan.matrix * weights if len(plan.exact) else plan.matrix
    x = fit_rows(matrix, target * weights, room, np.zeros_like(room), room, _TIE)
    return np.asarray(x / np.maximum(room, 1))
