"""The layout of a release: everything about it that is public, for a catalogue and its levels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Bools, Floats, Integers
from epicrec.data import Catalogue
from epicrec.perturb.epicrec.calibrate import category_scales, maximal_rows, optimal_shares
from epicrec.perturb.epicrec.prior import Prior, RowPrior
from epicrec.perturb.levels import PERTURBED, Level, treatments

_DENSE_CELLS = 1 << 20
_LAYOUTS_KEPT = 64


@dataclass(frozen=True, eq=False)
class Layout:
    """Which items are counted, which may stand in, and which are sent as they are.

    `noisy` are the positions of the categories whose totals are noised. Stand-ins come from rows
    of items alike in those categories: `matrix` is rows × noisy, `capacity` the number of items in
    each row, `row_of_item` the row of each item or -1. `tight` holds the rows that bind the noise,
    and `unit_shares` the best 1/z at ε = 1.
    """

    catalogue: Catalogue
    noisy: Integers
    counted: Bools
    clear: Bools
    matrix: Any
    capacity: Integers
    row_of_item: Integers
    tight: npt.NDArray[np.uint8]
    unit_shares: Floats
    cache: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, catalogue: Catalogue, levels: dict[str, Level]) -> Self:
        """The layout at these levels, from the cache where it was made before."""
        layouts = _LAYOUTS.setdefault(catalogue, {})
        key = (cls, *levels.values())
        if key not in layouts:
            while len(layouts) >= _LAYOUTS_KEPT:
                layouts.pop(next(iter(layouts)))
            layouts[key] = cls.made(catalogue, levels)
        found: Self = layouts[key]
        return found

    @classmethod
    def made(cls, catalogue: Catalogue, levels: dict[str, Level]) -> Self:
        """The layout at these levels: noise for every category that a counted item has."""
        perturbed, clear = treatments(catalogue.rows.matrix, levels)
        noisy = noisy_columns(catalogue, levels, perturbed)
        return cls(**parts_of(catalogue, noisy, perturbed, clear))

    @property
    def categories(self) -> tuple[str, ...]:
        """The names of the noised categories."""
        return tuple(self.catalogue.categories[j] for j in self.noisy)

    def totals(self, items: Integers) -> Integers:
        """The true totals of the noised categories over the counted items."""
        return self._totals(items, self.noisy)

    def _totals(self, items: Integers, columns: Integers) -> Integers:
        rows = self.catalogue.rows
        counted = items[self.counted[items]]
        per_row = np.bincount(rows.row_of_item[counted], minlength=len(rows.sizes))
        used = np.flatnonzero(per_row)
        return np.asarray(per_row[used] @ rows.matrix[np.ix_(used, columns)].astype(np.int64))

    def scales(self, epsilon: float) -> Floats:
        """The noise scale of each noised category."""
        if epsilon not in self.cache:
            self.cache[epsilon] = category_scales(self.tight, self.unit_shares, epsilon)
        scales: Floats = self.cache[epsilon]
        return scales

    def row_prior(self, prior: Prior) -> RowPrior:
        """The prior over this layout's rows, and the number of items a history has in them."""
        if prior not in self.cache:
            member = self.row_of_item >= 0
            weights = np.bincount(
                self.row_of_item[member],
                weights=prior.weights[member],
                minlength=len(self.capacity),
            )
            mass = float(weights.sum())
            self.cache[prior] = RowPrior(
                self.matrix, weights / mass, prior.size * mass, prior.spread, prior.taste
            )
        found: RowPrior = self.cache[prior]
        return found


_LAYOUTS: WeakKeyDictionary[Catalogue, dict[Any, Any]] = WeakKeyDictionary()


def noisy_columns(catalogue: Catalogue, levels: dict[str, Level], counted: Bools) -> Integers:
    """The categories to be noised; one that no counted item has is 0 for everybody and left out."""
    chosen = np.array(list(levels.values()), dtype=object)
    return np.flatnonzero((chosen == PERTURBED) & catalogue.rows.matrix[counted].any(axis=0))


def parts_of(
    catalogue: Catalogue, noisy: Integers, counted: Bools, clear: Bools, *,
    sendable: Bools | None = None, told_apart_by: Integers | None = None,
) -> dict[str, Any]:  # fmt: skip
    """A layout's fields, from which category rows are counted and which are sent as they are.

    Unless given, stand-ins are the counted items, told apart by the noised categories.
    """
    rows = catalogue.rows
    sendable = counted if sendable is None else sendable
    columns = noisy if told_apart_by is None else told_apart_by
    alike, merged = np.unique(rows.matrix[np.ix_(sendable, columns)], axis=0, return_inverse=True)
    row_to_own = np.full(len(rows.sizes), -1, np.int64)
    row_to_own[sendable] = merged.ravel()
    capacity = np.bincount(row_to_own[sendable], rows.sizes[sendable], len(alike)).astype(np.int64)
    tight = maximal_rows(rows.matrix[np.ix_(counted, noisy)])
    return {
        "catalogue": catalogue,
        "noisy": noisy,
        "counted": counted[rows.row_of_item],
        "clear": clear[rows.row_of_item],
        "matrix": _lean(alike),
        "capacity": capacity,
        "row_of_item": row_to_own[rows.row_of_item],
        "tight": tight,
        "unit_shares": optimal_shares(tight) if len(noisy) else np.zeros(0),
    }


def _lean(matrix: npt.NDArray[np.uint8]) -> Any:
    """A float matrix, sparse where it is large."""
    if matrix.size <= _DENSE_CELLS:
        return matrix.astype(np.float64)
    from scipy.sparse import csr_array

    return csr_array(matrix.astype(np.float64))
