"""How far an attack gets: how much oftener it says "yes" where that is so than where it is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from epicrec.arrays import Bools, Floats

_RISK = 0.05


@dataclass(frozen=True)
class Success:
    """The advantage, TPR - FPR, of an attack on one way to do it, with a 95 % interval."""

    attack: str
    against: str
    method: str
    advantage: float
    low: float
    high: float
    tries: int

    def to_dict(self) -> dict[str, Any]:
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in vars(self).items()
        }


def success(attack: str, against: str, method: str, scores: Floats, truth: Bools) -> Success:
    """What scores are worth that should be larger where the truth is yes.

    The threshold is chosen on a third of the tries, drawn at random, and tested on the others. Both
    rates have Clopper-Pearson intervals with half the risk each.
    """
    order = np.random.default_rng(0).permutation(len(scores))
    first, rest = order[: len(order) // 3], order[len(order) // 3 :]
    thresholds = np.unique(scores[first])
    above = scores[first] >= thresholds[:, None]
    yes = truth[first]
    gains = above[:, yes].mean(axis=1) - above[:, ~yes].mean(axis=1)
    said, truly = scores[rest] >= thresholds[int(np.argmax(gains))], truth[rest]
    hit, alarm = _interval(said[truly]), _interval(said[~truly])
    return Success(
        attack, against, method,
        advantage=float(said[truly].mean() - said[~truly].mean()),
        low=hit[0] - alarm[1], high=hit[1] - alarm[0], tries=len(rest),
    )  # fmt: skip


def _interval(said: Bools) -> tuple[float, float]:
    yes, n = int(said.sum()), len(said)
    low = float(beta.ppf(_RISK / 4, yes, n - yes + 1)) if yes else 0.0
    high = float(beta.ppf(1 - _RISK / 4, yes + 1, n - yes)) if yes < n else 1.0
    return low, high
