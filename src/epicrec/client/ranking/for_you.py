"""For you: the rows shown to one person, ranked here by the true history, kept until it changes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from epicrec import wire
from epicrec.arrays import Floats, Integers
from epicrec.client.history import History
from epicrec.client.ranking.item_model import FetchedModel
from epicrec.client.ranking.rows import Rows, positions
from epicrec.client.ranking.scores import (
    HIGH,
    Card,
    Row,
    best,
    knows_taste,
    lone_scores,
    model_scores,
    parts_in_score,
    reasons,
    well_liked,
    with_unknown,
)
from epicrec.client.sending.accounts import Accounts
from epicrec.client.sending.shared_model_results import SharedModel, SharedModelResults
from epicrec.client.store import Store
from epicrec.data import Catalogue
from epicrec.models import Recommender

_IN_A_ROW = 12  # films


@dataclass(frozen=True)
class ForYou:
    """The rows, and what they were made with."""

    rows: list[Row]
    with_model: bool
    info: wire.ModelInfo | None
    problem: str = ""
    shared_model: SharedModel | None = None
    """The shared model, where the rows were made with it."""


@dataclass(frozen=True)
class _Watched:
    """What counts of a history, and where it is in the catalogue."""

    items: list[str]
    ratings: dict[str, float]
    liked_items: list[str]
    """Those that contribute to the scores of others, the best liked first."""
    watched: Integers
    liked: Integers
    loved: Integers

    @classmethod
    def of(cls, catalogue: Catalogue, entries: list[tuple[str, float | None]]) -> _Watched:
        items = sorted(item for item, _ in entries)
        ratings = {item: stars for item, stars in entries if stars is not None}
        best_first = sorted((item for item, _ in entries), key=lambda item: -ratings.get(item, 0))
        liked_items = well_liked(best_first, ratings)
        loved = [item for item in liked_items if ratings.get(item, 0) >= HIGH]
        return cls(
            items, ratings, liked_items, positions(catalogue, items),
            positions(catalogue, liked_items), positions(catalogue, loved),
        )  # fmt: skip


@dataclass
class _Ranked:
    """All films by how well they suit a person."""

    scores: Floats
    history: _Watched
    model: Recommender | None
    info: wire.ModelInfo | None
    shared_model: SharedModel | None = None
    rows: dict[int, list[Row]] = field(default_factory=dict)


class Shelf:
    """The films of a catalogue for one person, without those they do not want."""

    def __init__(
        self, store: Store, catalogue: Catalogue, history: History, accounts: Accounts,
        published: FetchedModel, shared_results: SharedModelResults,
    ) -> None:  # fmt: skip
        self._store, self._catalogue, self._history = store, catalogue, history
        self._accounts, self._published, self._shared_results = accounts, published, shared_results
        self._read: tuple[int, _Watched] | None = None
        self._kept: dict[bool, tuple[tuple[Any, ...], _Ranked]] = {}
        self._ranking = threading.Lock()  # the same rows are not ranked twice at a time

    def unwanted(self) -> list[str]:
        return self._listed("unwanted")

    def not_interested(self, item_id: str, wanted: bool = False) -> None:
        self._list("unwanted", item_id, listed=not wanted)

    def watchlist(self) -> list[str]:
        """What the person wants to see, added last first."""
        return self._listed("watchlist")

    def see_later(self, item_id: str, later: bool = True) -> None:
        self._list("watchlist", item_id, listed=later)

    def rows(self, *, compare: bool = False, n: int = _IN_A_ROW) -> ForYou:
        """Rows ranked here by the true history; with `compare`, those without the item model."""
        found = self._ranked(compare)
        if n not in found.rows:
            unwanted = positions(self._catalogue, self.unwanted())
            found.rows[n] = Rows(
                self._catalogue, found.scores, found.history.watched, found.history.liked,
                found.history.loved, unwanted, found.model, n,
            ).all()  # fmt: skip
        problem = self._published.problem if self._accounts.current is not None else ""
        return ForYou(
            found.rows[n], found.model is not None, found.info, problem, found.shared_model
        )

    def first(self, *, compare: bool = False) -> list[str]:
        """The films of the first row."""
        found, unwanted = self._ranked(compare), positions(self._catalogue, self.unwanted())
        hidden = np.concatenate([found.history.watched, unwanted])
        return [str(self._catalogue.item_ids[k]) for k in best(found.scores, hidden, _IN_A_ROW)]

    @property
    def has_model(self) -> bool:
        """Whether it is an item model that ranks."""
        return self._ranked(False).model is not None

    def order(self, among: Integers) -> Integers:
        """These films, what suits the person best first."""
        return among[np.lexsort((among, -self._ranked(False).scores[among]))]

    def why(self, item_id: str) -> Card:
        """This film, with those of the history that contributed most to its score."""
        found = self._ranked(False)
        at = positions(self._catalogue, [item_id])
        liked = found.history.liked
        return reasons(self._catalogue, liked[liked != at], at, found.model)[int(at[0])]

    def similar(self, item_id: str, n: int = _IN_A_ROW) -> list[str]:
        """The films to whose scores this one contributes most, for anybody who watched it."""
        found = self._ranked(False)
        at = positions(self._catalogue, [item_id])
        films = np.arange(len(self._catalogue))
        part = parts_in_score(self._catalogue, at, films, found.model)[0]
        if not (part > 0).any():
            part = parts_in_score(self._catalogue, at, films, None)[0]
        suits = np.empty(len(films))
        suits[self.order(films)] = np.linspace(1e-9, 0, len(films))  # among alike ones
        alike = np.where(part > 0, part + suits, -np.inf)
        return [str(self._catalogue.item_ids[k]) for k in best(alike, at, n)]

    def forget(self) -> None:
        """Drop what was kept."""
        self._read, self._kept = None, {}

    def _ranked(self, compare: bool) -> _Ranked:
        key = (self._store.changes, self._published.ask_again, self._shared_results.rounds)
        with self._ranking:
            if compare not in self._kept or self._kept[compare][0] != key:
                self._kept[compare] = (key, self._rank(compare))
            return self._kept[compare][1]

    def _rank(self, compare: bool) -> _Ranked:
        """By the shared model where there is one, else by the published one, else without."""
        history = self._watched()
        found = _Ranked(np.zeros(0), history, None, None)
        listed = self._published.listed
        lone = lone_scores(self._catalogue, history.items, history.ratings, listed)
        shared = None if compare else self._shared_results.model()
        kept = None if compare else self._published.model()
        found.info = kept[1] if kept else None
        there: list[tuple[Recommender, SharedModel | None]] = [(kept[0], None)] if kept else []
        for model, own in [(shared.model, shared), *there] if shared else there:
            if not history.liked_items or not knows_taste(model):
                continue
            said = history.items if model.task == "ratings" else history.liked_items
            scores = model_scores(model, self._catalogue, said, history.ratings)
            if np.isfinite(scores).any():
                scores = with_unknown(scores, lone)
                return replace(found, scores=scores, model=model, shared_model=own)
        return replace(found, scores=lone)

    def _watched(self) -> _Watched:
        """The history as rankings need it, read once after a change."""
        changes = self._store.changes
        if self._read is None or self._read[0] != changes:
            self._read = (changes, _Watched.of(self._catalogue, self._history.counting()))
        return self._read[1]

    def _listed(self, table: str) -> list[str]:
        with self._store.reading() as db:
            rows = db.execute(f"SELECT item_id FROM {table} ORDER BY id DESC")
            return [row[0] for row in rows]

    def _list(self, table: str, item_id: str, *, listed: bool) -> None:
        with self._store.changing() as db:
            db.execute(f"DELETE FROM {table} WHERE item_id = ?", (item_id,))
            if listed:
                db.execute(f"INSERT INTO {table} (item_id) VALUES (?)", (item_id,))
