"""What the private covariance recommender measures, with how much noise, and the model it makes.

Everything after a measurement uses released and public numbers only.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from epicrec.data import Ratings
from epicrec.engine import Engine
from epicrec.models.covariance.budget import Budget
from epicrec.models.covariance.kernel import dense
from epicrec.models.covariance.statistics import STEPS, ItemEffects, PairSums
from epicrec.models.factors import history_state
from epicrec.models.spectrum import (
    HISTORY_SAMPLING,
    Spectrum,
    history_factors,
    leading_eigenpairs,
)

UNEVEN = 1.35
"""How far Σ c exceeds what n users with equal histories c would have, by users: they are uneven in
much the same way in every data set (1.3 to 1.6 in MovieLens and others)."""
HISTORY_SHARE = 0.04
"""The part of the budget for a first look at what is watched at all."""
SECOND_EIGENVALUE = 0.16
"""Of what is watched together, the second eigenvalue over the first, which is popularity."""


def release_histories(ratings: Ratings, budget: Budget, k: int, engine: Engine) -> dict[str, Any]:
    """Counts, then what is watched together or, where that would drown in noise, counts again."""
    n = ratings.n_items
    statistic = ItemEffects(budget.unit, budget.norm, None)
    rest = 1 - HISTORY_SHARE
    raw, noise = budget.measure(statistic, HISTORY_SHARE, engine(statistic, ratings))
    _, one, user, _ = statistic.per_unit
    counts, spread = raw[:n] / one, noise / one
    total = max(float(counts.sum()), spread, 1.0)
    users = float(np.clip(raw[n] / user, total / n, total))
    present = np.maximum(counts, 0.0)
    share = present / max(float(present.sum()), 1e-9)

    pairs = PairSums(budget.unit, budget.norm, None, np.full(n, STEPS, np.int16))
    sigma = budget.spread(pairs, rest) / pairs.one
    each = total / users  # the mean of √c at the user level, of c at the rating level
    mass = UNEVEN * total * each if budget.unit == "user" else total * sqrt(each)
    clear = max(0.0, float(present @ present) - n * spread**2) / max(present.sum(), 1e-9) ** 2
    if SECOND_EIGENVALUE * mass * clear < 2 * sigma * sqrt(n):
        raw, _ = budget.measure(statistic, rest, engine(statistic, ratings), turn=1)
        counts = HISTORY_SHARE * counts + rest * raw[:n] / one
        return history_state(counts, np.zeros((n, 0)), np.zeros((n, 0)))
    packed, noise = budget.measure(pairs, rest, engine(pairs, ratings), turn=2)
    matrix = dense(packed, n, np.full(n, pairs.one**-0.5))
    del packed
    spectrum = Spectrum(*leading_eigenpairs(matrix, k))
    del matrix
    sampled = np.sqrt(HISTORY_SAMPLING * (users if budget.unit == "user" else total)) * share
    found = history_factors(spectrum, np.ones(n), noise / pairs.one, sampled)
    return history_state(present, *found)
