"""EpicRec's two competitors: noise by global sensitivity (`lpa`), grouping and smoothing (`gs`).

`gs` is Kellaris & Papadopoulos, VLDB 2013: similar totals are put in groups and each is replaced by
its group's noisy mean, so that noise on a group of w counts shrinks by w. Which totals are similar
is learned from a sample with part of the budget: each item counts for one of its categories drawn
at random, so one item moves one count by 1. Both parts are noised with discrete Laplace; ε is their
sum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Floats
from epicrec.perturb.epicrec.calibrate import Rows, checked_scales
from epicrec.privacy import discrete_laplace
from epicrec.seeds import derived

_SAMPLE_PART = 0.25  # of the budget


def global_scales(rows: Rows, epsilon: float) -> Floats:
    """`lpa`: one scale for all categories, (largest number of categories of an item)/ε."""
    most = int(rows.sum(axis=1, dtype=np.int64).max())
    return checked_scales(rows, np.full(rows.shape[1], most / epsilon), epsilon)


def gs_totals(
    member: npt.NDArray[np.uint8],
    epsilon: float,
    most: int,
    rng: np.random.Generator,
    seed: int | None,
) -> Floats:
    """The noisy totals of a history, `member` being its items × categories.

    `most` is the largest number of categories that any item of the catalogue has: the change of all
    group sums together when one item comes or goes.
    """
    categories = member.shape[1]
    first, second = _SAMPLE_PART * epsilon, (1 - _SAMPLE_PART) * epsilon
    filled = member[member.any(axis=1)]
    drawn = (rng.random(filled.shape) * filled).argmax(axis=1)
    sample = np.bincount(drawn, minlength=categories)
    guess = sample + discrete_laplace(categories, 1 / first, seed=seed)
    order = np.argsort(-guess, kind="stable")
    width = _best_width(np.sort(guess)[::-1].astype(np.float64), most / second)
    group = np.empty(categories, np.int64)
    group[order] = np.arange(categories) // width
    totals = member.sum(axis=0, dtype=np.int64)
    sums = np.bincount(group, totals).astype(np.int64)
    noise = discrete_laplace(len(sums), most / second, seed=derived(seed, "group sums"))
    means = (sums + noise) / np.bincount(group)
    return np.asarray(means[group])


def _best_width(guess: Floats, scale: float) -> int:
    """The group size with the least smoothing error (seen in the sample) plus noise."""
    widths = range(1, len(guess) + 1)
    return min(widths, key=lambda width: _smoothing_error(guess, width) + scale / width)


def _smoothing_error(guess: Floats, width: int) -> float:
    group = np.arange(len(guess)) // width
    means = np.bincount(group, guess) / np.bincount(group)
    return float(np.abs(guess - means[group]).mean())
