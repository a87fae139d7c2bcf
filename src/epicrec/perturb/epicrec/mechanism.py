"""S-EpicRec and M-EpicRec: noisy category totals, and items to match, instead of a history."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

from epicrec.arrays import Bools, Floats, Integers
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.contract import (
    Odds,
    Perturber,
    Release,
    Sent,
    Told,
    item_ids_of,
    nothing_left,
    odds_of,
)
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel
from epicrec.perturb.epicrec.calibrate import check_epsilon
from epicrec.perturb.epicrec.layout import Layout
from epicrec.perturb.epicrec.prior import Prior, default_prior, posterior
from epicrec.perturb.epicrec.quantify import quantify_layout
from epicrec.perturb.epicrec.sanitise import choose_items, fit_rows, round_keeping_totals
from epicrec.perturb.levels import (
    ALL,
    NO,
    PERTURBED,
    Level,
    Levels,
    has_any,
    parse_level,
    parse_levels,
    public_levels,
    treatments,
    withheld,
)
from epicrec.privacy import Guarantee, discrete_laplace
from epicrec.privacy.guarantee import Status

CLEAR = "Items whose categories are all 'all release' are sent as they are and are not protected."
PUBLIC_PRIOR = "The catalogue, the prior and the levels were chosen without looking at the history."

_PUBLIC_SEED = (
    20161024  # quantification imitates histories; the same budget for the same public data
)


@dataclass(frozen=True, eq=False)
class EpicRec(Perturber):
    """What both share. Constructors only store; `release` validates.

    The mechanism (proof in docs/epicrec.md): the totals of each category over the counted items
    plus discrete Laplace noise of scale z_j with max_i Σ_j c_ij/z_j ≤ ε, checked in rational
    arithmetic. Neighbouring histories differ in one item; the totals then differ by c_i, so the
    noisy totals are ε-differentially private. All that is sent is a function of them, of
    public data, and of the items whose categories are all "all release".

    `epsilon` None takes the quantified budget; `prior` None the catalogue's popularity; an
    explicit `seed` makes the noise repeatable and not private.
    """

    status: ClassVar[Status] = "proved"
    units = ("item",)
    calibration = "category"
    """How a release says that each category has a noise scale of its own."""

    catalogue: Catalogue
    epsilon: float | None = field(default=None, kw_only=True)
    prior: Prior | None = field(default=None, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    @abstractmethod
    def _levels(self, levels: Levels) -> dict[str, Level]:
        """The level of every category."""

    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        """As every perturber's; items outside the catalogue are not released.

        The device keeps the levels and how many items are sent as they are.
        """
        started = perf_counter()
        self._check()
        seed = self.seed if seed is None else seed
        rng = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
        chosen = self._levels(levels)
        layout = self._layout(chosen)
        items = self.catalogue.positions(item_ids_of(history))
        items = np.unique(items[items >= 0])
        items = items[~self._withheld(chosen)[items]]
        clear = items[layout.clear[items]]
        drawn = Drawn(clear[:0])
        if len(layout.noisy):
            drawn = self._perturbed(layout, items, rng, seed)
        sent = np.union1d(drawn.items, clear)
        return Release(
            method=self.method,
            items=tuple(self.catalogue.item_ids[sent].tolist()),
            guarantee=self._guarantee(layout, drawn.epsilon, seed),
            settings={
                "epsilon": drawn.epsilon,
                "scales": drawn.scales,
                "calibration": self.calibration,
                "as_published": self.as_published,
                "catalogue": self.catalogue.version,
            },
            aggregates=drawn.aggregates,
            kept={"levels": chosen, "clear": len(clear)},
            seconds=perf_counter() - started,
        )

    def budget(self, levels: Levels = PERTURBED, *, seed: int | None = None) -> float:
        """The ε that a release at these levels takes: as given, or quantified on public data.

        The quantified one is the same every time unless a `seed` asks for another search.
        """
        self._check()
        return self._budget(self._layout(self._levels(levels)), seed)

    def treatment(self, item_ids: Any, levels: Levels = PERTURBED) -> list[Level]:
        """What happens to each item at these levels; "no release" also outside the catalogue."""
        self._check()
        chosen = self._levels(levels)
        layout = self._layout(chosen)
        at = self.catalogue.positions(item_ids_of(item_ids))
        known = (at >= 0) & ~self._withheld(chosen)[at]
        clear, counted = known & layout.clear[at], known & layout.counted[at]
        return [ALL if c else PERTURBED if p else NO for c, p in zip(clear, counted, strict=True)]

    def _layout(self, levels: dict[str, Level]) -> Layout:
        """What is public about a release at these levels."""
        return Layout.of(self.catalogue, public_levels(levels))

    def _withheld(self, levels: dict[str, Level]) -> Bools:
        """Which items of the catalogue enter no part of a release."""
        return withheld(self.catalogue, levels)

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds:
        """The odds for one item: ε_i = Σ_j c_ij / z_j, which is at most the release's ε.

        An item that is withheld, or not in the catalogue, costs nothing; one sent as it is,
        everything.
        """
        at = int(catalogue.positions([item_id])[0])
        if at < 0:
            return odds_of(0.0)
        row = catalogue.rows.matrix[[catalogue.rows.row_of_item[at]]]
        (perturbed,), (clear,) = treatments(row, dict(release.kept["levels"]))
        if clear:
            return odds_of(inf)
        noised = [name for name in catalogue.categories_of(at) if name in release.aggregates]
        if not perturbed or not noised:
            return odds_of(0.0)
        return odds_of(float(np.sum([1 / release.settings["scales"][name] for name in noised])))

    @classmethod
    def told(cls, sent: Sent, catalogue: Catalogue) -> Told:
        """The categories' totals with their noise, which is all that stand-ins were made from; and
        items without a noised category, which are no stand-ins and were sent as they are."""
        scales, noised = dict(sent.settings.get("scales", {})), set(sent.aggregates)
        if noised - scales.keys():
            raise InputError("totals without a scale of their noise cannot be corrected")
        totals = {
            name: (float(sent.aggregates[name]), 2 * float(scales[name]) ** 2 * sent.releases)
            for name in sent.aggregates
            if name in set(catalogue.categories)
        }
        hidden = np.array([name in noised for name in catalogue.categories], np.bool_)
        clear = ~has_any(catalogue.rows.matrix, hidden)[catalogue.rows.row_of_item]
        items = csr_array(sent.counts.multiply(clear[None, :]))
        items.eliminate_zeros()
        as_it_is = Channel.identity(len(catalogue))
        events = AlterEgos.of(as_it_is, items, sent.user_ids, catalogue.item_ids)
        return Told(events=events if items.nnz else None, totals=totals)

    # ---- the noisy totals ------------------------------------------------------------------

    def _perturbed(
        self, layout: Layout, items: Integers, rng: np.random.Generator, seed: int | None
    ) -> Drawn:
        epsilon, names = self._budget(layout, None), layout.categories
        scales = layout.scales(epsilon)
        noisy = layout.totals(items) + discrete_laplace(len(names), scales.tolist(), seed=seed)
        return Drawn(
            self._stand_ins(layout, noisy.astype(np.float64), scales, rng),
            epsilon,
            dict(zip(names, noisy.tolist(), strict=True)),
            dict(zip(names, scales.tolist(), strict=True)),
        )

    def _stand_ins(
        self, layout: Layout, noisy: Floats, scales: Floats, rng: np.random.Generator
    ) -> Integers:
        """Items with about the true totals, from noisy totals and public data only."""
        prior = self._prior()
        rows = layout.row_prior(prior)
        target, size = posterior(rows, noisy, scales)
        usual, capacity = rows.shares * size, layout.capacity
        x = fit_rows(layout.matrix, target, capacity.astype(np.float64), usual, usual)
        counts = round_keeping_totals(layout.matrix, x, target, capacity, rng)
        return choose_items(counts, layout.row_of_item, prior.weights, rng)

    # ---- what is public --------------------------------------------------------------------

    def _budget(self, layout: Layout, seed: int | None) -> float:
        if self.epsilon is not None:
            return float(self.epsilon)
        if not len(layout.noisy):
            raise InputError("nothing is perturbed at these levels, so there is no budget to find")
        prior = self._prior()
        key = ("budget", prior, seed)
        if key not in layout.cache:
            rng = np.random.default_rng(_PUBLIC_SEED if seed is None else seed)
            layout.cache[key] = self._quantified(layout, prior, rng)
        return float(layout.cache[key])

    def _quantified(self, layout: Layout, prior: Prior, rng: np.random.Generator) -> float:
        return quantify_layout(layout, prior, rng=rng)

    def _prior(self) -> Prior:
        if self.prior is not None:
            return self.prior
        return default_prior(self.catalogue)

    def _guarantee(self, layout: Layout, epsilon: float | None, seed: int | None) -> Guarantee:
        if epsilon is None:
            if layout.clear.any():
                return Guarantee.none(unit="item")
            return nothing_left()
        return Guarantee(
            epsilon=epsilon,
            unit="item",
            relation="add or remove one",
            status=self.status,
            assumes=(PUBLIC_PRIOR, CLEAR) if layout.clear.any() else (PUBLIC_PRIOR,),
        ).seeded(seed)

    def _check(self) -> None:
        if not isinstance(self.catalogue, Catalogue):
            raise InputError(
                f"catalogue must be a Catalogue, not a {type(self.catalogue).__name__}"
            )
        if self.epsilon is not None:
            check_epsilon(self.epsilon)
        if self.prior is not None and len(self.prior.weights) != len(self.catalogue):
            raise InputError(
                f"the prior knows {len(self.prior.weights):,} items and the catalogue has "
                f"{len(self.catalogue):,}; build the prior from this catalogue"
            )


class SEpicRec(EpicRec):
    """S-EpicRec (section 4): one level for everything.

    >>> from epicrec.data import Catalogue
    >>> films = Catalogue.from_columns([1, 2, 3], ["A", "B", "C"], ["Crime", "Crime|War", "War"])
    >>> SEpicRec(films, epsilon=1.0).release([1, 2], "all release").items
    (1, 2)
    >>> print(SEpicRec(films, epsilon=1.0).release([1, 2]).guarantee.epsilon)
    1.0
    """

    def _levels(self, levels: Levels) -> dict[str, Level]:
        if not isinstance(levels, str):
            raise InputError("S-EpicRec takes one level for everything; use MEpicRec for several")
        return dict.fromkeys(self.catalogue.categories, parse_level(levels))


class MEpicRec(EpicRec):
    """M-EpicRec (section 5): a level for each category; the strictest of an item's levels wins.

    Sound where the paper is not: an item with a "no release" category enters no total, one with a
    "perturbed release" category enters noisy totals only, and no exact total is ever used. A
    category with "no release" is noised like one that was never watched, so that no release tells
    that it is withheld: made-up items of it may be sent.

    >>> from epicrec.data import Catalogue
    >>> films = Catalogue.from_columns([1, 2, 3], ["A", "B", "C"], ["Crime", "Crime|War", "War"])
    >>> MEpicRec(films).release([1, 2, 3], {"Crime": "no release", "War": "all release"}).items
    (3,)
    """

    def _levels(self, levels: Levels) -> dict[str, Level]:
        return parse_levels(levels, self.catalogue.categories)


@dataclass(frozen=True)
class Drawn:
    """Stand-in items and the noisy totals they were made from; no ε where nothing was noised."""

    items: Integers
    epsilon: float | None = None
    aggregates: dict[str, int] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
