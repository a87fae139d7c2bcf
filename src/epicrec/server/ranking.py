"""Ranking: what answers, the newest training or the published model, and whose lists are old."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from epicrec.errors import InputError
from epicrec.models import load as load_model
from epicrec.server.logs import event
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, people, received
from epicrec.server.store.database import Database, revision
from epicrec.server.store.people import Known
from epicrec.server.store.received import Own
from epicrec.server.training import folders
from epicrec.server.training.lists import Folded, Lists, Ranked
from epicrec.server.training.publish import published, published_file
from epicrec.server.training.scored import Scored

T = TypeVar("T")


_MOST_FOLDED = 10_000  # people who changed, remembered with their lists: 20 MB of them


@dataclass
class _Place:
    """For somebody's list, from when their rows are being read: who changes meanwhile loses it."""

    folded: Folded | None = None


class Ranking:
    """The newest training in a folder of them, or with `model_alone` the published model and never
    a training; belongs to the event loop."""

    def __init__(self, database: Database, settings: Settings, *, model_alone: bool) -> None:
        self._database, self._settings, self._model_alone = database, settings, model_alone
        self._models, self._meaning = settings.folder / "models", settings.meaning
        self.lists: Lists | Scored | None = None
        """None before the first training, or before a model is published."""
        self.problem = ""
        """Why the newest does not answer, where it was damaged."""
        self._stale: set[int] = set()  # users whose list on disk is older than what they released
        self._changed: set[int] = set()  # users who wrote while lists were being opened
        self._folded: dict[int, _Place] = {}  # those of them who asked since they last changed

    async def open(self) -> None:
        """Open the newest and swap it in; the last one stays if it cannot be read."""
        self._changed = set()
        try:
            if self._model_alone:
                self.lists = await self._database.read(self._read_model)
                self.problem = ""
                return
            found = await self._database.read(self._read)
        except InputError as error:
            self.problem = str(error)
            event("training unreadable", error=str(error))
            return
        if found is not None:
            self.lists, stale = found
            self._stale = stale | self._changed
            self._folded = {}

    async def recommend(self, user: Known | None, n: int, offset: int, category: str) -> Ranked:
        """From the list on disk where it is up to date, else from what the user released by now."""
        if self.lists is None:
            return []
        if user is None:
            return await run_in_threadpool(self.lists.popular, n, offset, category)
        if isinstance(self.lists, Scored):
            scored = self.lists
            return await self._database.ask(
                self._of_own, user.key, lambda own: scored.for_own(own, n, offset, category)
            )
        row = None if user.key in self._stale else self.lists.row_of(user.key)
        if row is not None:
            return self.lists.for_user(row, n, offset, category)
        return await self._recommend_folded(self.lists, user.key, n, offset, category)

    async def _recommend_folded(
        self, lists: Lists, user_key: int, n: int, offset: int, category: str
    ) -> Ranked:
        """They are folded in once, until they change again."""
        if len(self._folded) >= _MOST_FOLDED and user_key not in self._folded:
            self._folded = {}
        place = self._folded.setdefault(user_key, _Place())
        folded = place.folded
        if folded is None:
            folded = place.folded = await self._database.ask(self._of_own, user_key, lists.folded)
        return lists.for_folded(folded, n, offset, category)

    def _of_own(self, connection: Any, user_key: int, make: Callable[[Own], T]) -> T:
        """What is made of all that somebody has by now."""
        meaning, rating_type = self._meaning, self._settings.rating_type
        return make(received.of_user(connection, user_key, meaning, rating_type))

    def changed(self, user_keys: Iterable[int]) -> None:
        """These users' lists are older than their releases."""
        wrote = set(user_keys)
        self._stale |= wrote
        self._changed |= wrote
        for key in wrote & self._folded.keys():
            del self._folded[key]

    def look_again(self) -> None:
        """Somebody was deleted elsewhere: nothing is remembered of anybody."""
        self._folded = {}

    def show_item(self, item_id: str, shown: bool) -> None:
        """Recommend an item no more, or again, without waiting for the next training."""
        if self.lists is not None:
            self.lists.show_item(item_id, shown)

    def show_only(self, item_keys: set[int]) -> None:
        """The items that may be recommended now, as another process has left them."""
        if self.lists is not None:
            self.lists.show_only(item_keys)

    def newest(self) -> int | None:
        """The number of what is to be opened: of the training, or of the published model."""
        if self._model_alone:
            info = published(self._settings)
            return None if info is None else info.Version
        return folders.current(self._models)

    async def forget(self, user_keys: set[int]) -> None:
        """Overwrite what the trainings on disk hold about these users."""
        self._stale -= user_keys
        self._folded = {k: place for k, place in self._folded.items() if k not in user_keys}
        await run_in_threadpool(folders.scrub, self._models, sorted(user_keys))

    async def is_outdated(self) -> bool:
        """Whether anything was released or taken back since the training, and is to be learned."""
        if self._model_alone:
            return False
        now = await self._database.read(revision)
        return now != (self.lists.meta["revision"] if isinstance(self.lists, Lists) else 0)

    def _read_model(self, connection: Any) -> Scored | None:
        """The published model over the catalogue."""
        file = published_file(self._settings)
        return None if file is None else Scored(load_model(file), catalogue.visible(connection))

    def _read(self, connection: Any) -> tuple[Lists, set[int]] | None:
        """The newest training that is whole, without those who left, and the users who changed
        since. Where it is not the newest of all, `problem` says so."""
        numbers = folders.numbers(self._models)
        if not numbers:
            return None
        problem = ""
        for number in numbers:
            try:
                opened = Lists.open(self._models / str(number))
                break
            except InputError as error:
                problem = problem or f"{error}; an older training answers"
                event("training unreadable", error=str(error))
        else:
            raise InputError(problem.replace("an older training answers", "and none before it is"))
        self.problem = problem
        gone = set(opened.arrays["user_keys"].tolist()) - set(people.keys(connection))
        if gone:  # deleted while the training ran
            folders.scrub(self._models, sorted(gone))
            folders.seal(self._models)
        opened.show_only({key for key, _, _ in catalogue.visible(connection)})
        return opened, set(people.changed_since(connection, opened.meta["revision"]))
