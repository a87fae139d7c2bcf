"""S-EpicRec and M-EpicRec as published: (4.5) and (5.3) with independent rounding, leaks included.

M-EpicRec as published counts every item of a history, whatever its other categories, and fixes the
totals of "all release" categories without noise: docs/epicrec.md has two histories that these
exact totals tell apart with certainty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, inf
from typing import Any, Literal, Self, get_args

import numpy as np

from epicrec.arrays import Bools, Floats, Integers
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.papers.epicrec.competitors import global_scales, gs_totals
from epicrec.perturb.contract import Odds, Release, odds_of
from epicrec.perturb.epicrec.layout import Layout, noisy_columns, parts_of
from epicrec.perturb.epicrec.mechanism import Drawn, EpicRec, MEpicRec, SEpicRec
from epicrec.perturb.epicrec.prior import Prior
from epicrec.perturb.epicrec.quantify import (
    drawn_totals,
    quantify,
    rounded_totals,
    sent_shares,
)
from epicrec.perturb.levels import ALL, NO, Level, has_any, treatments
from epicrec.privacy import discrete_laplace

Calibration = Literal["category", "lpa", "gs"]

_EXACTLY = 300.0  # weight of the equalities, which can contradict each other, in the least squares


@dataclass(frozen=True, eq=False)
class PublishedLayout(Layout):
    """A layout whose `exact` categories have their totals fixed without noise.

    Every item with a category is counted, and any without a "no release" category may stand in.
    `matrix` is rows × (noisy + exact).
    """

    exact: Integers = field(kw_only=True)

    @classmethod
    def made(cls, catalogue: Catalogue, levels: dict[str, Level]) -> Self:
        rows = catalogue.rows
        chosen = np.array(list(levels.values()), dtype=object)
        _, clear = treatments(rows.matrix, levels)
        counted = np.asarray(rows.matrix.any(axis=1))
        sendable = counted & ~has_any(rows.matrix, chosen == NO)
        exact = np.flatnonzero((chosen == ALL) & rows.matrix.any(axis=0))
        noisy = noisy_columns(catalogue, levels, counted)
        both = np.concatenate([noisy, exact]).astype(np.int64)
        parts = parts_of(catalogue, noisy, counted, clear, sendable=sendable, told_apart_by=both)
        return cls(**parts, exact=exact)

    def totals(self, items: Integers) -> Integers:
        """The true totals of the noised, then of the exact categories over all items."""
        return self._totals(items, np.concatenate([self.noisy, self.exact]))

    def shares(self, target: Floats, capacity: Integers) -> Floats:
        """(4.5), or (5.3) where totals are exact: which share of each row's items to send."""
        weights = np.ones(len(target))
        weights[len(self.noisy) :] = _EXACTLY
        room = capacity.astype(np.float64)
        if len(self.exact):
            none = len(self.noisy) + np.flatnonzero(target[len(self.noisy) :] <= 0)
            room[np.asarray(self.matrix[:, none].sum(axis=1)).ravel() > 0] = 0
        matrix = self.matrix * weights if len(self.exact) else self.matrix
        return sent_shares(matrix, target * weights, room)

    def items(self, target: Floats, clear: Integers, rng: np.random.Generator) -> Integers:
        """Positions of the items to send: the clear ones, and stand-ins for the other totals."""
        rows = self.row_of_item[clear]
        fixed = np.bincount(rows[rows >= 0], minlength=len(self.capacity))
        share = self.shares(target - self.matrix.T @ fixed, self.capacity - fixed)
        probability = np.where(self.row_of_item >= 0, share[self.row_of_item], 0.0)
        probability[clear] = 1.0
        return np.flatnonzero(rng.random(len(probability)) < probability)


@dataclass(frozen=True, eq=False)
class PublishedEpicRec(EpicRec):
    """What both share as published.

    `calibration` is "category" (EpicRec), "lpa" or "gs" (its competitors).
    """

    as_published = True
    status = "claimed"

    calibration: Calibration = field(default="category", kw_only=True)

    def _layout(self, levels: dict[str, Level]) -> PublishedLayout:
        return PublishedLayout.of(self.catalogue, levels)

    def _withheld(self, levels: dict[str, Level]) -> Bools:  # noqa: ARG002
        return np.zeros(len(self.catalogue), np.bool_)

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds:
        """The odds for one item: Σ_j c_ij / z_j over the categories it is counted in.

        A release of several levels bounds nothing for an item that it counts without noise.
        Grouped noise (`gs`) has no scale for each category: the whole ε.
        """
        at = int(catalogue.positions([item_id])[0])
        if at < 0:
            return odds_of(0.0)
        levels, scales = dict(release.kept["levels"]), release.settings["scales"]
        _, (clear,) = treatments(catalogue.rows.matrix[[catalogue.rows.row_of_item[at]]], levels)
        counted = [name for name in catalogue.categories_of(at) if name in release.aggregates]
        if clear or any(levels[name] == ALL for name in counted):
            return odds_of(inf)
        if not counted:
            return odds_of(0.0)
        if not scales:
            return odds_of(release.guarantee.epsilon)
        return odds_of(float(np.sum([1 / scales[name] for name in counted])))

    def _perturbed(
        self, layout: Layout, items: Integers, rng: np.random.Generator, seed: int | None
    ) -> Drawn:
        assert isinstance(layout, PublishedLayout)
        epsilon, names = self._budget(layout, None), layout.categories
        totals = layout.totals(items)
        noised, exact = totals[: len(names)], totals[len(names) :]
        scales: dict[str, float] = {}
        if self.calibration == "gs":
            rows = self.catalogue.rows
            counted = rows.row_of_item[items[layout.counted[items]]]
            most = int(layout.tight.sum(axis=1, dtype=np.int64).max())
            member = rows.matrix[np.ix_(counted, layout.noisy)]
            estimate = gs_totals(member, epsilon, most, rng, seed)
        else:
            lpa = self.calibration == "lpa"
            z = global_scales(layout.tight, epsilon) if lpa else layout.scales(epsilon)
            noisy = noised + discrete_laplace(len(names), z.tolist(), seed=seed)
            scales = dict(zip(names, z.tolist(), strict=True))
            estimate = noisy.astype(np.float64)
        aggregates = dict(zip(names, np.rint(estimate).astype(int).tolist(), strict=True))
        fixed = (self.catalogue.categories[j] for j in layout.exact)
        aggregates |= dict(zip(fixed, exact.tolist(), strict=True))
        target = np.concatenate([estimate, exact.astype(np.float64)])
        sent = layout.items(target, items[layout.clear[items]], rng)
        return Drawn(sent, epsilon, aggregates, scales)

    def _quantified(self, layout: Layout, prior: Prior, rng: np.random.Generator) -> float:
        assert isinstance(layout, PublishedLayout)
        return quantify_published(layout, prior, rng=rng)

    def _check(self) -> None:
        super()._check()
        if self.calibration not in get_args(Calibration):
            raise InputError(f"calibration is 'category', 'lpa' or 'gs', not {self.calibration!r}")


class PublishedSEpicRec(PublishedEpicRec, SEpicRec):
    """S-EpicRec as published (section 4): one level for everything."""


class PublishedMEpicRec(PublishedEpicRec, MEpicRec):
    """M-EpicRec as published (section 5): a level for each category, and **no ε that holds**."""


def quantify_published(
    layout: PublishedLayout, prior: Prior, *, rng: np.random.Generator, literal: bool = False
) -> float:
    """S-PBQ and M-PBQ on a made-up history of the mean number of items, drawn uniformly from the
    whole catalogue; `literal` as in `quantify`."""
    size, alike = prior.size * exp(prior.spread**2 / 2), np.ones(len(prior.weights))
    return quantify(
        1 / layout.unit_shares,
        lambda rng: drawn_totals(layout, size, alike, rng),
        lambda target, rng: rounded_totals(layout, layout.shares(target, layout.capacity), rng),
        rng=rng,
        literal=literal,
    )
