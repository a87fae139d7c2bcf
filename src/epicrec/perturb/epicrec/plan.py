"""Plan: all about a release that is public, worked out once for a catalogue and its levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Bools, Floats, Integers
from epicrec.data import Catalogue
from epicrec.perturb.epicrec.calibrate import (
    category_scales,
    global_scales,
    maximal_rows,
    optimal_shares,
)
from epicrec.perturb.epicrec.prior import Prior, RowPrior
from epicrec.perturb.levels import ALL, NO, PERTURBED, Level, has_any, treatments

_DENSE_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Plan:
    """Which items are counted, which may stand in, and which are sent as they are.

    `noisy` are the positions of the categories whose totals are noised, `exact` of those whose
    totals the paper fixes without noise (never in the sound version). The stand-ins come from rows
    of items alike in those categories: `matrix` is rows × (noisy + exact), `capacity` the number of
    items in each, `row_of_item` the row of each item or -1. `tight` holds the rows that bind the
    noise, over `noisy`, and `unit_shares` the best 1/z at ε = 1.
    """

    catalogue: Catalogue
    levels: dict[str, Level]
    noisy: Integers
    exact: Integers
    counted: Bools
    clear: Bools
    matrix: Any
    capacity: Integers
    row_of_item: Integers
    tight: npt.NDArray[np.uint8]
    unit_shares: Floats
    cache: dict[Any, Any] = field(default_factory=dict)

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the noised categories."""
        return tuple(self.catalogue.categories[j] for j in self.noisy)

    def totals(self, items: Integers) -> Integers:
        """The true totals of the noisy, then the exact categories over the counted items."""
        rows = self.catalogue.rows
        counted = items[self.counted[items]]
        per_row = np.bincount(rows.row_of_item[counted], minlength=len(rows.sizes))
        used = np.flatnonzero(per_row)
        columns = np.concatenate([self.noisy, self.exact])
        return np.asarray(per_row[used] @ rows.matrix[np.ix_(used, columns)].astype(np.int64))

    def scales(self, epsilon: float, calibration: str) -> Floats:
        """The noise scale of each noisy category."""
        key = (epsilon, calibration)
        if key not in self.cache:
            self.cache[key] = (
                global_scales(self.tight, epsilon)
                if calibration == "lpa"
                else category_scales(self.tight, self.unit_shares, epsilon)
            )
        scales: Floats = self.cache[key]
        return scales

    def row_prior(self, prior: Prior) -> RowPrior:
        """The prior over this plan's rows, and the number of items a history has in them."""
        if prior not in self.cache:
            member = self.row_of_item >= 0
            weights = np.bincount(
                self.row_of_item[member],
                weights=prior.weights[member],
                minlength=len(self.capacity),
            )
            mass = float(weights.sum())
            self.cache[prior] = RowPrior(
                self.matrix[:, : len(self.noisy)],
                weights / mass,
                prior.size * mass,
                prior.spread,
                prior.taste,
            )
        found: RowPrior = self.cache[prior]
        return found


_PLANS: WeakKeyDictionary[Catalogue, dict[Any, Plan]] = WeakKeyDictionary()
_PLANS_KEPT = 64


def plan_for(catalogue: Catalogue, levels: dict[str, Level], *, as_published: bool) -> Plan:
    """The plan, from the cache where the same was asked for before."""
    plans = _PLANS.setdefault(catalogue, {})
    key = (tuple(levels.values()), as_published)
    if key not in plans:
        while len(plans) >= _PLANS_KEPT:
            plans.pop(next(iter(plans)))
        plans[key] = _plan(catalogue, levels, as_published)
    return plans[key]


def _plan(catalogue: Catalogue, levels: dict[str, Level], as_published: bool) -> Plan:
    rows = catalogue.rows
    chosen = np.array(list(levels.values()), dtype=object)
    perturbed, clear = treatments(rows.matrix, levels)
    if as_published:
        # every history item is counted, whatever its other categories; see docs/epicrec.md
        counted = np.asarray(rows.matrix.any(axis=1))
        sendable = counted & ~has_any(rows.matrix, chosen == NO)
        exact = np.flatnonzero((chosen == ALL) & rows.matrix.any(axis=0))
    else:
        counted = sendable = perturbed
        exact = np.zeros(0, np.int64)
    # a category that no counted item has is 0 for everybody and is left out
    noisy = np.flatnonzero((chosen == PERTURBED) & rows.matrix[counted].any(axis=0))
    columns = np.concatenate([noisy, exact]).astype(np.int64)
    alike, merged = np.unique(rows.matrix[np.ix_(sendable, columns)], axis=0, return_inverse=True)
    row_to_plan = np.full(len(rows.sizes), -1, np.int64)
    row_to_plan[sendable] = merged.ravel()
    capacity = np.bincount(row_to_plan[sendable], rows.sizes[sendable], len(alike)).astype(np.int64)
    tight = maximal_rows(rows.matrix[np.ix_(counted, noisy)])
    return Plan(
        catalogue=catalogue,
        levels=levels,
        noisy=noisy,
        exact=exact,
        counted=counted[rows.row_of_item],
        clear=clear[rows.row_of_item],
        matrix=_lean(alike),
        capacity=capacity,
        row_of_item=row_to_plan[rows.row_of_item],
        tight=tight,
        unit_shares=optimal_shares(tight) if len(noisy) else np.zeros(0),
    )


def _lean(matrix: npt.NDArray[np.uint8]) -> Any:
    """A float matrix, sparse where it is large."""
    if matrix.size <= _DENSE_CELLS:
        return matrix.astype(np.float64)
    from scipy.sparse import csr_array

    return csr_array(matrix.astype(np.float64))
