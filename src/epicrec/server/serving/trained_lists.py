"""Trained lists: recommendations from what a training left on disk (`training.folders`).

A training holds factors, and the list of every user known at the time. A category's list is the
product with that category's items. A user who changed since, or a session, is folded in: their
factors are solved from their present history, and nothing is retrained. Where a training adopted
popularity, nobody has factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from epicrec.arrays import Array
from epicrec.server.store.histories import UserHistory
from epicrec.server.training import folders

Ranked = list[tuple[str, float]]


@dataclass(frozen=True, eq=False)
class Folded:
    """A user who changed since the training: their factors (None where nothing is known of their
    taste), the items they have seen, and their list."""

    factors: Array | None
    seen: Array
    top: Array
    scores: Array


@dataclass(eq=False)
class TrainedLists:
    """The newest training, ready to answer."""

    meta: dict[str, Any]
    item_ids: list[str]
    categories: list[str]
    arrays: dict[str, Array]
    gone: set[int] = field(default_factory=set)
    """Positions of items hidden or deleted since the training."""

    def __post_init__(self) -> None:
        self._category_at = {name: at for at, name in enumerate(self.categories)}
        self._item_at = {item_id: at for at, item_id in enumerate(self.item_ids)}
        a = self.arrays
        self._id_of = dict(zip(a["item_keys"].tolist(), self.item_ids, strict=True))
        # small and read at every request: kept in memory
        for name in ("item_keys", "item_factors", "popularity", "category_items", "user_keys"):
            a[name] = np.array(a[name])
        for name in a:  # the others stay mapped; a memmap is slow to slice
            a[name] = a[name].view(np.ndarray)
        self._has_factors = bool(a["item_factors"].any())
        self._popular = np.argsort(-a["popularity"], kind="stable")
        # each category's factors side by side, so that a request need not gather them
        self._factors_in = np.split(
            a["item_factors"][a["category_items"]], a["category_starts"][1:-1]
        )

    # ---- answers --------------------------------------------------------------------------

    def has_category(self, name: str) -> bool:
        return name in self._category_at

    def row_of(self, user_key: int) -> int | None:
        """The row of a user; None for one who came after the training."""
        keys = self.arrays["user_keys"]
        at = int(keys.searchsorted(user_key))
        return at if at < len(keys) and keys[at] == user_key else None

    def for_user(self, row: int, n: int, offset: int = 0, category: str = "") -> Ranked:
        """For a user as they were at the training."""
        a = self.arrays
        listed = self._listed(a["top_items"][row], a["top_scores"][row], n, offset, category)
        if listed is not None:
            return listed
        starts = a["seen_starts"]
        seen = a["seen_items"][starts[row] : starts[row + 1]]
        seen = seen[seen >= 0]  # those who left were overwritten
        factors = a["user_factors"][row]
        return self._ranked(factors if factors.any() else None, seen, n, offset, category)

    def _listed(
        self, top: Array, scores: Array, n: int, offset: int, category: str
    ) -> Ranked | None:
        """A page of a list that was made before; None where the list ends too early."""
        if category or self.gone:
            among = self._places_in(top, category) if category else np.flatnonzero(top >= 0)
            shown = [at for at in among.tolist() if int(top[at]) not in self.gone]
            chosen = shown[offset : offset + n]
            top, scores = top[chosen], scores[chosen]
        else:
            top, scores = top[offset : offset + n], scores[offset : offset + n]
        items, ids = top.tolist(), self.item_ids
        if len(items) < n or items[-1] < 0:
            return None
        return [(ids[item], score) for item, score in zip(items, scores.tolist(), strict=True)]

    def for_own(self, own: UserHistory, n: int, offset: int = 0, category: str = "") -> Ranked:
        """For anyone with this history, by the factors that a training would give them."""
        return self._ranked(self._factors_of(own), self._positions(own.known), n, offset, category)

    def folded(self, own: UserHistory) -> Folded:
        """A user with this history, with the list that a training would write."""
        seen, factors = self._positions(own.known), self._factors_of(own)
        if factors is None:
            return Folded(None, seen, np.zeros(0, np.int32), np.zeros(0, np.float32))
        top, scores = _first(self._scores(factors, ""), seen, self.arrays["top_items"].shape[1])
        return Folded(factors, seen, top, scores)

    def for_folded(self, one: Folded, n: int, offset: int = 0, category: str = "") -> Ranked:
        """For a user who was folded in."""
        listed = self._listed(one.top, one.scores, n, offset, category)
        return listed or self._ranked(one.factors, one.seen, n, offset, category)

    def _ranked(
        self, factors: Array | None, seen: Array, n: int, offset: int, category: str
    ) -> Ranked:
        if factors is None:
            return self.popular(n, offset, category, seen)
        return self._page(self._scores(factors, category), seen, n, offset, category)

    def _factors_of(self, own: UserHistory) -> Array | None:
        liked = self._positions(own.liked)
        if not len(liked) or not self._has_factors:
            return None
        return self._fold_in(liked)

    def _positions(self, item_keys: set[int]) -> Array:
        """The positions of those items that may be recommended."""
        known, wanted = self.arrays["item_keys"], np.array(sorted(item_keys), np.int64)
        at = np.minimum(known.searchsorted(wanted), max(len(known) - 1, 0))
        return at[known[at] == wanted] if len(known) else at[:0]

    def key_of(self, item_id: str) -> int | None:
        """The key of an item that may be recommended."""
        at = self._item_at.get(item_id)
        return None if at is None else int(self.arrays["item_keys"][at])

    def popular(
        self, n: int, offset: int = 0, category: str = "", without: Sequence[int] | Array = ()
    ) -> Ranked:
        """For those of whose taste nothing is known."""
        chosen, hidden = self._popular, self.gone.union(np.asarray(without).tolist())
        if category:
            chosen = chosen[np.isin(chosen, self._items_in(category))]
        first = chosen[: offset + n + len(hidden)].tolist()
        kept = [at for at in first if at not in hidden][offset : offset + n]
        shares = self.arrays["popularity"][kept].tolist()
        return [(self.item_ids[at], share) for at, share in zip(kept, shares, strict=True)]

    def neighbours(self, item_id: str, n: int, offset: int = 0) -> Ranked | None:
        """The items most like one item, by cosine of factors; None if the item is not here."""
        at = self._item_at.get(item_id)
        if at is None or at in self.gone:
            return None
        factors = self.arrays["item_factors"]
        if not factors[at].any():  # popularity was adopted, or nothing is known of the item
            return self.popular(n, offset, without=[at])
        norms = np.linalg.norm(factors, axis=1)
        likeness = factors @ factors[at] / np.maximum(norms * norms[at], 1e-12)
        return self._page(likeness, np.array([at]), n, offset)

    def show_item(self, item_id: str, shown: bool) -> None:
        """Hide an item or show it again, without waiting for the next training."""
        if (at := self._item_at.get(item_id)) is not None:
            (self.gone.discard if shown else self.gone.add)(at)

    def show_only(self, item_keys: set[int]) -> None:
        """Show these items alone."""
        keys = self.arrays["item_keys"].tolist()
        self.gone = {at for at, key in enumerate(keys) if key not in item_keys}

    def _fold_in(self, seen: Array) -> Array:
        """x = (YᵀY + λI + (α - 1) Σ y yᵀ)⁻¹ α Σ y over the items seen (Hu, Koren & Volinsky)."""
        alpha, weight = self.meta["alpha"], self.meta["regularization"]
        own = self.arrays["item_factors"][seen].astype(np.float64)
        left = self.arrays["gram"] + (alpha - 1) * own.T @ own
        left[np.diag_indices(len(left))] += weight
        solved = np.linalg.solve(left, alpha * own.sum(axis=0))
        return solved.astype(np.float32)

    def _items_in(self, category: str) -> Array:
        at, starts = self._category_at[category], self.arrays["category_starts"]
        return self.arrays["category_items"][starts[at] : starts[at + 1]]

    def _places_in(self, items: Array, category: str) -> Array:
        """The places of those items that are in the category."""
        own = self._items_in(category)
        at = np.minimum(own.searchsorted(items), len(own) - 1)
        return np.flatnonzero(own[at] == items)

    def _scores(self, factors: Array, category: str) -> Array:
        at = self._category_at.get(category)
        own = self.arrays["item_factors"] if at is None else self._factors_in[at]
        return np.asarray(own @ factors.astype(np.float32))

    def _page(
        self, scores: Array, without: Array, n: int, offset: int, category: str = ""
    ) -> Ranked:
        """A page of the items by score, of all items or of those in a category."""
        banned = np.concatenate([without, np.array([*self.gone], np.int64)])
        if category:
            among = self._items_in(category)
            banned = np.flatnonzero(np.isin(among, banned))
        best, scores = _first(scores, banned, offset + n)
        items = best[offset:] if not category else among[best[offset:]]
        named = zip(items.tolist(), scores[offset:].tolist(), strict=True)
        return [(self.item_ids[item], score) for item, score in named]

    # ---- on disk --------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a training; an InputError where it is damaged."""
        meta, arrays = folders.read(folder)
        try:
            return cls(meta, meta.pop("item_ids"), meta.pop("categories"), arrays)
        except (OSError, ValueError, KeyError) as error:
            raise folders.unreadable(folder, error) from error


def _first(scores: Array, without: Array, most: int) -> tuple[Array, Array]:
    """The places of the largest scores in order, and these scores, without some places."""
    scores[without] = -np.inf
    most = min(most, len(scores) - len(np.unique(without)))
    if most <= 0:
        return np.zeros(0, np.int64), scores[:0]
    best = np.argpartition(-scores, most - 1)[:most]
    best = best[np.lexsort((best, -scores[best]))]
    return best, scores[best]
