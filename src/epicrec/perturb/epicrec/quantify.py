"""Quantify: the budget that "perturbed release" means, found on public data only.

EpicRec's Algorithm 2 (S-PBQ) and section 5.3 (M-PBQ). It imitates a release for a made-up history:
with the same noise S and totals A, the budget grows in steps of δ until the error stops improving
by less each time. No private history is involved, so the budget itself tells nothing.
All randomness of one search is drawn once, so that the errors at successive budgets compare.
Imitated releases are rounded as in the paper's (4.5), each item by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from epicrec.arrays import Floats, Integers
from epicrec.perturb.epicrec.layout import Layout
from epicrec.perturb.epicrec.prior import Prior
from epicrec.perturb.epicrec.sanitise import fit_rows

Draw = Callable[[np.random.Generator], Floats]
Realise = Callable[[Floats, np.random.Generator], Floats]

STEP = 0.02
REPEATS = 10
LARGEST = 1.0  # the paper's "strong privacy" ends here
_TIE = 1e-3


def quantify(
    unit_scales: Floats,
    draw_totals: Draw,
    realise: Realise,
    *,
    rng: np.random.Generator,
    repeats: int = REPEATS,
    literal: bool = False,
) -> float:
    """The mean of `repeats` searches for ε.

    `unit_scales` are the noise scales at ε = 1, `draw_totals` the totals of a made-up history (the
    noised ones first), and `realise` the noised totals that the items sanitised from a target have.
    `literal` follows line 7 of Algorithm 2 to the letter; since the error is convex that stops at
    once (ε = 0.04), and contradicts the paper's text, which is what is followed otherwise.
    """
    found = [
        _search(
            unit_scales * rng.laplace(size=len(unit_scales)),
            draw_totals(rng),
            realise,
            rng,
            literal,
        )
        for _ in range(repeats)
    ]
    return float(np.mean(found))


def _search(
    unit_noise: Floats, totals: Floats, realise: Realise, rng: np.random.Generator, literal: bool
) -> float:
    errors: list[float] = []
    rounding = int(rng.integers(2**62))
    for i in range(1, round(LARGEST / STEP) + 1):
        epsilon = i * STEP
        target = totals.copy()
        target[: len(unit_noise)] += unit_noise / epsilon
        sent = realise(target, np.random.default_rng(rounding))
        errors.append(float(np.abs(sent - target[: len(unit_noise)]).mean()) + 1 / epsilon)
        if i >= 3:
            now, before = errors[-2] - errors[-1], errors[-3] - errors[-2]
            if (-now >= -before) if literal else (now >= before):
                return (i - 1) * STEP
    return LARGEST


def quantify_layout(
    layout: Layout, prior: Prior, *, rng: np.random.Generator, literal: bool = False
) -> float:
    """S-PBQ, or M-PBQ where there are several levels; the made-up history is a typical number of
    items drawn by public popularity."""
    return quantify(
        1 / layout.unit_shares,
        lambda rng: drawn_totals(layout, prior.size, prior.weights, rng),
        lambda target, rng: rounded_totals(
            layout, sent_shares(layout.matrix, target, layout.capacity), rng
        ),
        rng=rng,
        literal=literal,
    )


def drawn_totals(layout: Layout, size: float, weights: Floats, rng: np.random.Generator) -> Floats:
    """The totals of a made-up history of so many items, drawn by weight without repetition."""
    count = int(np.clip(round(size), 1, len(weights)))
    keys = rng.exponential(size=len(weights)) / weights
    return layout.totals(np.argpartition(keys, count - 1)[:count]).astype(np.float64)


def sent_shares(matrix: Any, target: Floats, capacity: Integers | Floats) -> Floats:
    """(4.5) relaxed: which share of each row's items to send for these totals.

    Among the many solutions it takes the one with the least Σ d²: like items, like chances.
    """
    room = np.asarray(capacity, np.float64)
    x = fit_rows(matrix, target, room, np.zeros_like(room), room, _TIE)
    return np.asarray(x / np.maximum(room, 1))


def rounded_totals(layout: Layout, shares: Floats, rng: np.random.Generator) -> Floats:
    """The totals in the noised categories where every item of a row is sent with its share."""
    row = layout.row_of_item
    sent = (rng.random(len(row)) < shares[row]) & (row >= 0)
    counts = np.bincount(row[sent], minlength=len(layout.capacity))
    return np.asarray(layout.matrix.T @ counts)[: len(layout.noisy)]
