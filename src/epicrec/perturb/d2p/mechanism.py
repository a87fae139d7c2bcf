"""D2P: a history replaced, item by item, by an AlterEgo (Guerraoui et al., VLDB 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.perturb.contract import (
    Odds,
    Perturber,
    Release,
    Sent,
    Told,
    item_ids_of,
    odds_of,
)
from epicrec.perturb.d2p.alteregos import AlterEgos
from epicrec.perturb.d2p.channel import Channel, channel_guarantee
from epicrec.perturb.d2p.groups import GROUPS_VERSION
from epicrec.perturb.d2p.tuning import make_channel
from epicrec.perturb.levels import NO, PERTURBED, Level, Levels, parse_levels, withheld
from epicrec.privacy import Guarantee
from epicrec.privacy.guarantee import Status

_OPTIONS = ("p", "p_star", "lam", "hide", "floor")
"""The settings that a channel is made from, with the catalogue."""
_MOST_IN_GROUPS = 10**8  # members of all groups: what a receiver is ready to make for anybody


@dataclass(frozen=True, eq=False)
class D2P(Perturber):
    """Replace every item of a history at random, mostly by one at some distance (sections 2 and 3).

    The mechanism: each item is kept with probability p*; otherwise it becomes, with probability p,
    any item, else one of its group. Relation: two histories that differ in which item is in one
    place. One item's substitute is drawn without regard to the others, so the release's
    probability changes by at most max T(s, t)/T(s', t), of which ε is the logarithm, computed over
    all triples (`Channel.epsilon`); equation (12) with the true least group is an upper bound.

    Sound where the paper is not: groups come from the public catalogue and have a floor; one draw
    decides between group and everything, not two; it runs on the device. `carry_ratings` sends the
    ratings of the history along, which hides only which item they belong to. `hide` names a
    category: every item of it then reaches items outside it (Figure 13), which are at least half of
    its group. Without options the settings are chosen for ε = 3.

    >>> from epicrec.data.simulate import embedded_items
    >>> films = Catalogue.from_table(embedded_items())
    >>> release = D2P(films, p=0.5, p_star=0.2).release(films.item_ids[:30])
    >>> sum(release.counts), round(release.guarantee.epsilon, 2)
    (30, 5.67)
    """

    status: ClassVar[Status] = "proved"
    units = ("item",)

    catalogue: Catalogue
    p: float | None = field(default=None, kw_only=True)
    p_star: float | None = field(default=None, kw_only=True)
    lam: float | None = field(default=None, kw_only=True)
    hide: str | None = field(default=None, kw_only=True)
    floor: int | None = field(default=None, kw_only=True)
    epsilon: float | None = field(default=None, kw_only=True)
    carry_ratings: bool = field(default=False, kw_only=True)
    seed: int | None = field(default=None, kw_only=True)

    @property
    def channel(self) -> Channel:
        """The public odds of substitution; the same for everyone with these options."""
        return self._made[0]

    @property
    def settings(self) -> dict[str, Any]:
        """p, p*, λ and floor as given or chosen, and what the groups were made from and how."""
        return self._made[1] | {
            "groups": GROUPS_VERSION,
            "as_published": self.as_published,
            "catalogue": self.catalogue.version,
        }

    @property
    def guarantee(self) -> Guarantee:
        """What one release promises."""
        return channel_guarantee(self.channel, carried=self.carry_ratings, seed=self.seed)

    def release(
        self, history: Any, levels: Levels = PERTURBED, *, seed: int | None = None
    ) -> Release:
        """The AlterEgo of a history, which is a sequence of item ids, or a table with `item_id`
        (and `rating`).

        Items outside the catalogue, or of a category with "no release", are not released; all
        others are replaced, whatever their level, by items of the whole catalogue.
        """
        started = perf_counter()
        items, ratings = self._events(history, levels)
        seed = self.seed if seed is None else seed
        substitutes = self.channel.draw(items, seed=seed)
        sent, which, times = np.unique(substitutes, return_inverse=True, return_counts=True)
        means = None if ratings is None else np.bincount(which, ratings, len(sent)) / times
        return Release(
            method=self.method,
            items=tuple(self.catalogue.item_ids[sent].tolist()),
            counts=tuple(times.tolist()),
            ratings=None if means is None else tuple(means.tolist()),
            guarantee=replace(self, seed=seed).guarantee,
            settings=self.settings,
            seconds=perf_counter() - started,
        )

    def budget(self, levels: Levels = PERTURBED) -> float:
        parse_levels(levels, self.catalogue.categories)
        return self.guarantee.epsilon

    def treatment(self, item_ids: Any, levels: Levels = PERTURBED) -> list[Level]:
        """Everything in the catalogue is replaced, but for what is withheld."""
        at = self.catalogue.positions(item_ids_of(item_ids))
        chosen = parse_levels(levels, self.catalogue.categories)
        kept = (at >= 0) & ~withheld(self.catalogue, chosen)[at]
        return [PERTURBED if here else NO for here in kept]

    @classmethod
    def odds(cls, release: Release, item_id: Any, catalogue: Catalogue) -> Odds:
        """At most the release's ε, for exchanging one item of the catalogue for another."""
        known = catalogue.positions([item_id])[0] >= 0
        return odds_of(release.guarantee.epsilon if known else 0.0)

    @classmethod
    def told(cls, sent: Sent, catalogue: Catalogue) -> Told:
        """Substitutes with the channel that drew them, made again from its settings."""
        options: dict[str, Any] = {name: sent.settings.get(name) for name in _OPTIONS}
        floor = options["floor"]
        if sent.settings.get("catalogue") != catalogue.version:
            raise InputError("it was drawn by a list of items that is not known here")
        whole = isinstance(floor, int) and 1 <= floor <= len(catalogue)
        if not whole or floor * len(catalogue) > _MOST_IN_GROUPS:
            raise InputError(f"no substitution has groups of {floor!r} items here")
        perturber = cls(catalogue, **options)
        if perturber.settings != dict(sent.settings):
            raise InputError(f"these settings are not those of {perturber.settings}")
        events = AlterEgos.of(perturber.channel, sent.counts, sent.user_ids, catalogue.item_ids)
        return Told(events=events)

    def _events(
        self, history: Any, levels: Levels
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]:
        """The distinct items of a history to be replaced, in order; their ratings where carried."""
        if not isinstance(self.catalogue, Catalogue):
            raise InputError(
                f"catalogue must be a Catalogue, not a {type(self.catalogue).__name__}"
            )
        chosen = parse_levels(levels, self.catalogue.categories)
        at = self.catalogue.positions(item_ids_of(history))
        items, first = np.unique(at, return_index=True)
        kept = (items >= 0) & ~withheld(self.catalogue, chosen)[items]
        ratings = _ratings_of(history, len(at))[first[kept]] if self.carry_ratings else None
        return items[kept].astype(np.int64), ratings

    @property
    def _made(self) -> tuple[Channel, dict[str, Any]]:
        return _cached_channel(
            self.catalogue, epsilon=self.epsilon, p=self.p, p_star=self.p_star, lam=self.lam,
            hide=self.hide, floor=self.floor,
        )  # fmt: skip


_cached_channel = lru_cache(maxsize=8)(make_channel)


def collected(perturber: D2P, releases: Mapping[Any, Release]) -> AlterEgos:
    """What a server holds: the releases of many users, by their ids, drawn with this perturber.

    Releases that say other settings are refused: their substitutes mean something else.
    """
    item_ids, users = perturber.catalogue.item_ids, sorted(releases)
    for user in users:
        if dict(releases[user].settings) != perturber.settings:
            raise InputError(
                f"the release of {user!r} was drawn with {dict(releases[user].settings)}, not with "
                f"{perturber.settings}; collect it with the perturber that drew it"
            )
    sizes = [len(releases[user].items) for user in users]
    sent = [item for user in users for item in releases[user].items]
    columns = perturber.catalogue.positions(sent) if sent else np.zeros(0, np.int64)
    if (columns < 0).any():
        raise InputError(f"item {sent[int(np.argmin(columns))]!r} is not in the catalogue")
    times = np.array([count for user in users for count in releases[user].counts or ()], np.float64)
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    counts = csr_array((times, columns, indptr), (len(users), len(item_ids)))
    return AlterEgos.of(perturber.channel, counts, np.array(users), item_ids)


# ---- checks -----------------------------------------------------------------------------------


def _ratings_of(history: Any, count: int) -> npt.NDArray[np.float64]:
    import narwhals as nw

    if hasattr(history, "columns") or hasattr(history, "column_names"):
        table = nw.from_native(history, eager_only=True)
        if "rating" in table.columns:
            values = np.asarray(table["rating"].to_list(), np.float64)
            if np.isfinite(values).all() and len(values) == count:
                return values
    raise InputError("carry_ratings needs a table with item_id and a rating in every row")
