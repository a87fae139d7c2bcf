"""Ranking: the training that is being served, and whose lists in it are out of date."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from epicrec.errors import InputError
from epicrec.server.logs import event
from epicrec.server.store import catalogue, people, releases
from epicrec.server.store.database import Database, revision
from epicrec.server.store.people import Known
from epicrec.server.training import lists as trained
from epicrec.server.training.lists import Lists, Ranked


class Ranking:
    """The newest training in a folder of them; belongs to the event loop."""

    def __init__(self, database: Database, models: Path) -> None:
        self._database, self._models = database, models
        self.lists: Lists | None = None
        """None before the first training."""
        self._stale: set[int] = set()  # users whose list on disk is older than what they released
        self._changed: set[int] = set()  # users who wrote while lists were being opened

    async def open(self) -> None:
        """Open the newest training and swap it in; the last one stays if it cannot be read."""
        self._changed = set()
        try:
            found = await self._database.read(self._read)
        except InputError as error:
            event("training unreadable", error=str(error))
            return
        if found is not None:
            self.lists, stale = found
            self._stale = stale | self._changed

    async def recommend(self, user: Known, n: int, offset: int, category: str) -> Ranked:
        """From the list on disk where it is up to date, else from what the user released by now."""
        if self.lists is None:
            return []
        row = self.lists.row_of(user.key)
        if row is not None and user.key not in self._stale:
            return self.lists.for_user(row, n, offset, category)
        released = await self._database.read(releases.items_of, user.key)
        return await run_in_threadpool(self.lists.for_items, released, n, offset, category)

    def changed(self, user_keys: Iterable[int]) -> None:
        """These users' lists are older than their releases."""
        wrote = set(user_keys)
        self._stale |= wrote
        self._changed |= wrote

    def show_item(self, item_id: str, shown: bool) -> None:
        """Recommend an item no more, or again, without waiting for the next training."""
        if self.lists is not None:
            self.lists.show_item(item_id, shown)

    async def forget(self, user_keys: set[int]) -> None:
        """Overwrite what the trainings on disk hold about these users."""
        self._stale -= user_keys
        await run_in_threadpool(trained.scrub, self._models, sorted(user_keys))

    async def is_outdated(self) -> bool:
        """Whether anything was released or taken back since the training."""
        now = await self._database.read(revision)
        return now != (self.lists.meta["revision"] if self.lists else 0)

    def _read(self, connection: Any) -> tuple[Lists, set[int]] | None:
        """The newest training, without those who left, and the users who changed since."""
        number = trained.current(self._models)
        if number is None:
            return None
        opened = Lists.open(self._models / str(number))
        gone = set(opened.arrays["user_keys"].tolist()) - set(people.keys(connection))
        if gone:  # deleted while the training ran
            trained.scrub(self._models, sorted(gone))
        shown = {key for key, _, _ in catalogue.visible(connection)}
        keys = opened.arrays["item_keys"].tolist()
        opened.gone = {at for at, key in enumerate(keys) if key not in shown}
        return opened, set(people.changed_since(connection, opened.meta["revision"]))
