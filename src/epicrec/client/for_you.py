"""For you: the rows that are shown, ranked here by the true history, and kept until it changes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epicrec import wire
from epicrec.client.account import Accounts
from epicrec.client.history import History
from epicrec.client.published import Published
from epicrec.client.ranking import Floats, Row, blended_scores, knows_taste, model_scores, rows_of
from epicrec.client.store import Store
from epicrec.data import Catalogue
from epicrec.models import Recommender


@dataclass(frozen=True)
class ForYou:
    """The rows, and what they were made with."""

    rows: list[Row]
    with_model: bool
    info: wire.ModelInfo | None
    problem: str = ""


class Shelf:
    """The films of a catalogue in rows for one person, without those they do not want."""

    def __init__(
        self, store: Store, catalogue: Catalogue, history: History, accounts: Accounts,
        published: Published,
    ) -> None:  # fmt: skip
        self._store, self._catalogue, self._history = store, catalogue, history
        self._accounts, self._published = accounts, published
        self._kept: tuple[tuple[Any, ...], ForYou] | None = None
        self._ranking = threading.Lock()  # the same rows are not ranked twice at a time

    def unwanted(self) -> list[str]:
        with self._store.reading() as db:
            return [row[0] for row in db.execute("SELECT item_id FROM unwanted")]

    def not_interested(self, item_id: str, wanted: bool = False) -> None:
        verb = "DELETE FROM unwanted WHERE item_id = ?" if wanted else (
            "INSERT OR IGNORE INTO unwanted VALUES (?)"
        )  # fmt: skip
        with self._store.changing() as db:
            db.execute(verb, (item_id,))

    def rows(self, *, compare: bool = False, n: int = 12) -> ForYou:
        """Rows ranked here by the true history; with `compare`, those without the item model."""
        chosen = self._accounts.current is not None
        key = (self._store.changes, self._published.ask_again, compare, n)
        with self._ranking:
            if self._kept is None or self._kept[0] != key:
                self._kept = (key, self._ranked(compare, n))
            found = self._kept[1]
        return replace(found, problem=self._published.problem if chosen else "")

    def forget(self) -> None:
        """Drop the rows that were kept."""
        self._kept = None

    def _ranked(self, compare: bool, n: int) -> ForYou:
        items, ratings = self._history.items(), self._history.ratings()
        kept = None if compare else self._published.model()
        if kept is not None and items and knows_taste(kept[0]):
            scores = model_scores(kept[0], self._catalogue, items, ratings)
            if np.isfinite(scores).any():
                return ForYou(self._in_rows(scores, items, n, kept[0]), True, kept[1])
        scores = blended_scores(self._catalogue, items, self._published.listed)
        return ForYou(self._in_rows(scores, items, n, None), False, kept[1] if kept else None)

    def _in_rows(
        self, scores: Floats, items: list[str], n: int, model: Recommender | None
    ) -> list[Row]:
        return rows_of(self._catalogue, scores, items, self.unwanted(), model=model, n=n)
