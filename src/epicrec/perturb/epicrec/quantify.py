"""Quantify: the budget that stands for "perturbed release", found on public data only.

EpicRec's Algorithm 2 (S-PBQ) and section 5.3 (M-PBQ). It imitates a release for a made-up history:
with the same noise S and totals A, the budget grows in steps of δ until the error stops improving
by less each time. No private history is involved, so the budget itself tells nothing.
All randomness of one search is drawn once, so that the errors at successive budgets compare.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp

import numpy as np

from epicrec.arrays import Floats
from epicrec.perturb.epicrec.plan import Plan
from epicrec.perturb.epicrec.prior import Prior
from epicrec.perturb.epicrec.published import published_totals

Draw = Callable[[np.random.Generator], Floats]
Realise = Callable[[Floats, np.random.Generator], Floats]

STEP = 0.02
REPEATS = 10
LARGEST = 1.0  # the paper's "strong privacy" ends here


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


def quantify_plan(
    plan: Plan, prior: Prior, *, uniform: bool, rng: np.random.Generator, literal: bool = False
) -> float:
    """S-PBQ, or M-PBQ where the plan has several levels.

    The made-up history is a typical number of items drawn by public popularity, or, `uniform`,
    the mean number drawn alike from the whole catalogue, as in the paper.
    """
    size = prior.size * exp(prior.spread**2 / 2) if uniform else prior.size
    count = int(np.clip(round(size), 1, len(prior.weights)))

    def draw(rng: np.random.Generator) -> Floats:
        keys = rng.exponential(size=len(prior.weights)) / (1.0 if uniform else prior.weights)
        items = np.argpartition(keys, count - 1)[:count]
        return plan.totals(items).astype(np.float64)

    return quantify(
        1 / plan.unit_shares,
        draw,
        lambda target, rng: published_totals(plan, target, rng),
        rng=rng,
        literal=literal,
    )
