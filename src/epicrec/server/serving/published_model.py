"""Published model: recommendations from it and the asker's own history, and from nothing else.

Used where the model is published from the stored ratings: users learn only what the model, which is
public, says about what they themselves gave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from epicrec.data import Ratings, find
from epicrec.models import Recommender
from epicrec.server.serving.trained_lists import Ranked
from epicrec.server.store.histories import UserHistory

History = Mapping[int, float | None]
"""Keys of the items of a user, each with the rating where they gave one."""


class PublishedModel:
    """A published model over those items of the catalogue that it knows."""

    def __init__(self, model: Recommender, items: Iterable[tuple[int, str, list[str]]]) -> None:
        self.model = model
        listed = list(items)
        places = find(model.item_ids_, [item_id for _, item_id, _ in listed])
        known = [item for item, at in zip(listed, places, strict=True) if at >= 0]
        self._id_of = {key: item_id for key, item_id, _ in known}
        self._key_of = {item_id: key for key, item_id, _ in known}
        self._in: dict[str, set[int]] = {}
        for key, _, categories in known:
            for name in categories:
                self._in.setdefault(name, set()).add(key)
        self._gone: set[int] = set()

    def has_category(self, name: str) -> bool:
        return name in self._in

    def key_of(self, item_id: str) -> int | None:
        return self._key_of.get(item_id)

    def for_own(self, own: UserHistory, n: int, offset: int = 0, category: str = "") -> Ranked:
        """The model's order for a user's ratings, or for what they like where it is for
        lists."""
        if self.model.task == "ratings":
            return self._best({**own.ratings}, own.known, n, offset, category)
        return self._best(dict.fromkeys(own.liked), own.known, n, offset, category)

    def _best(
        self, history: History, known: Set[int], n: int, offset: int, category: str
    ) -> Ranked:
        """The model's order for a history, without the items they know."""
        among = (self._in[category] if category else self._id_of.keys()) - self._gone - known
        allowed = [self._id_of[key] for key in sorted(among)]
        # the whole order, so that pages fit together where scores are equal
        found = self.model.recommend(self._ratings(history), n=len(allowed) or 1, items=allowed)
        page = found.slice(offset, n)
        rows = zip(page["item_id"].to_pylist(), page["score"].to_pylist(), strict=True)
        return [(str(item_id), float(score)) for item_id, score in rows]

    def popular(self, n: int, offset: int = 0, category: str = "") -> Ranked:
        """The model's order for an empty history."""
        return self._best({}, set(), n, offset, category)

    def neighbours(self, item_id: str, n: int, offset: int = 0) -> Ranked | None:
        """The model's order for a history of this item alone; None if the item is not here."""
        key = self._key_of.get(item_id)
        if key is None or key in self._gone:
            return None
        scale = self.model.scale_
        return self._best({key: scale.high if scale else None}, {key}, n, offset, "")

    def show_item(self, item_id: str, shown: bool) -> None:
        """Hide an item or show it again."""
        if (key := self._key_of.get(item_id)) is not None:
            (self._gone.discard if shown else self._gone.add)(key)

    def show_only(self, item_keys: set[int]) -> None:
        """Show these items alone."""
        self._gone = self._id_of.keys() - item_keys

    def _ratings(self, history: History) -> Ratings:
        """One user's history over the model's items; it may be empty."""
        scale = self.model.scale_ if self.model.task == "ratings" else None
        given = {
            self._id_of[key]: 1.0 if scale is None else value
            for key, value in history.items()
            if key in self._id_of and (scale is None or _is_on(scale, value))
        }
        at = find(self.model.item_ids_, list(given))
        order = np.argsort(at)
        return Ratings(
            user_ids=np.array(["asker"]),
            item_ids=self.model.item_ids_,
            indptr=np.array([0, len(at)], np.int64),
            items=at[order].astype(np.int32),
            values=np.array(list(given.values()), np.float32)[order],
            scale=scale,
        )


def _is_on(scale: Any, value: float | None) -> bool:
    return value is not None and bool(scale.holds(np.array([value]))[0])
