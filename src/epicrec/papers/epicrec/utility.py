"""EpicRec's utility theorems (3 and 5): the bound as the paper states it, and one that holds.

The paper bounds the expected mean absolute error of category totals by 2‖z‖₁/c, z being the scales
of the noise on c categories. Its proof bounds what rounding adds by the noise, but rounding a
fractional solution costs as much where there is no noise at all, so the bound is **false** for
large ε. What holds for the algorithm as published:

The relaxed program (4.5) projects the noisy totals NA on {Cᵀd : 0 ≤ d ≤ 1} in L2, a convex set that
has the true totals CR in it, and a projection brings no two points further apart: ‖Cᵀd - CR‖₂ ≤
‖NA - CR‖₂. In the mean over categories, in L1 and in expectation (Cauchy and Jensen) that is at
most √(2/c)·‖z‖₂. Rounding item i up with chance d_i adds to category j a mean of 0 and a variance
of at most n_j/4, n_j being its number of items, so at most √n_j/2 in expectation. Together:

    E[MAE] ≤ √(2/c)·‖z‖₂ + Σ_j √n_j/(2c).

The sound default reads the noisy totals in the light of a prior and keeps totals when it rounds:
it is better for histories that the prior expects, and has no bound that holds for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from epicrec.data import Catalogue


@dataclass(frozen=True)
class UtilityBounds:
    """Of the mean absolute error of category totals, in expectation: `noisy` is that of the noisy
    totals themselves, `theorem` what the paper states, `repaired` what holds as published."""

    noisy: float
    theorem: float
    repaired: float


def utility_bounds(catalogue: Catalogue, scales: Mapping[str, float]) -> UtilityBounds:
    """The bounds for a release over this catalogue whose noise had these scales by category.

    >>> films = Catalogue.from_columns([1, 2, 3], ["a", "b", "c"], ["X", "X|Y", "Y"])
    >>> found = utility_bounds(films, {"X": 3.0, "Y": 4.0})
    >>> round(found.noisy, 3), round(found.theorem, 3), round(found.repaired, 3)
    (3.5, 7.0, 5.707)
    """
    z = np.array([float(value) for value in scales.values()])
    if not z.size:
        return UtilityBounds(0.0, 0.0, 0.0)
    sizes = np.asarray(catalogue.matrix.sum(axis=0), np.float64).ravel()
    at = [catalogue.categories.index(name) for name in scales]
    rounding = float(np.sqrt(sizes[at]).sum()) / (2 * len(z))
    noise = float(np.sqrt(2 / len(z)) * np.linalg.norm(z))
    return UtilityBounds(float(z.mean()), 2 * float(z.mean()), noise + rounding)
