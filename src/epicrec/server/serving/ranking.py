"""Ranking: decides what to serve, a list of the newest training or the published model's order.

Where the published model was learned from the stored ratings, it alone answers. Otherwise the lists
of the newest training do, and users who changed since then are folded in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from epicrec.errors import InputError
from epicrec.models import load as load_model
from epicrec.server.operations.logs import event
from epicrec.server.serving.published_model import PublishedModel
from epicrec.server.serving.trained_lists import Folded, Ranked, TrainedLists
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, histories, users
from epicrec.server.store.database import Database, revision
from epicrec.server.store.histories import UserHistory
from epicrec.server.store.users import StoredUser
from epicrec.server.training import folders
from epicrec.server.training.publish import published, published_file

T = TypeVar("T")

_MOST_FOLDED = 10_000  # users who changed, remembered with their lists: 20 MB


@dataclass
class _Place:
    """Holds the list of a user from the moment their rows are read; a change meanwhile drops it."""

    folded: Folded | None = None


class Ranking:
    """Answers from the newest training, or with `model_alone` from the published model and never
    from a training. Belongs to the event loop."""

    def __init__(self, database: Database, settings: Settings, *, model_alone: bool) -> None:
        self._database, self._settings, self._model_alone = database, settings, model_alone
        self._models, self._rules = settings.folder / "models", settings.feedback_rules
        self.lists: TrainedLists | PublishedModel | None = None
        """None before the first training, or before a model is published."""
        self.problem = ""
        """Why the newest training does not answer, where it is damaged."""
        self._stale: set[int] = set()  # users who changed after their list was made
        self._changed: set[int] = set()  # users who wrote while lists were being opened
        self._folded: dict[int, _Place] = {}  # those of them who asked since

    async def open(self) -> None:
        """Open the newest training or model; the last one stays if that is unreadable."""
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

    async def recommend(
        self, user: StoredUser | None, n: int, offset: int, category: str
    ) -> Ranked:
        """From the list on disk where it is up to date, else from the user's present history."""
        if self.lists is None:
            return []
        if user is None:
            return await run_in_threadpool(self.lists.popular, n, offset, category)
        if isinstance(self.lists, PublishedModel):
            model = self.lists
            return await self._database.ask(
                self._of_user, user.key, lambda own: model.for_own(own, n, offset, category)
            )
        row = None if user.key in self._stale else self.lists.row_of(user.key)
        if row is not None:
            return self.lists.for_user(row, n, offset, category)
        return await self._recommend_folded(self.lists, user.key, n, offset, category)

    async def _recommend_folded(
        self, lists: TrainedLists, user_key: int, n: int, offset: int, category: str
    ) -> Ranked:
        """Fold a user in once, until they change again."""
        if len(self._folded) >= _MOST_FOLDED and user_key not in self._folded:
            self._folded = {}
        place = self._folded.setdefault(user_key, _Place())
        folded = place.folded
        if folded is None:
            folded = place.folded = await self._database.ask(self._of_user, user_key, lists.folded)
        return lists.for_folded(folded, n, offset, category)

    def _of_user(self, connection: Any, user_key: int, make: Callable[[UserHistory], T]) -> T:
        """What `make` makes of a user's present history."""
        rating_type = self._settings.rating_type
        return make(histories.of_user(connection, user_key, self._rules, rating_type))

    def changed(self, user_keys: Iterable[int]) -> None:
        """These users' lists are out of date."""
        wrote = set(user_keys)
        self._stale |= wrote
        self._changed |= wrote
        for key in wrote & self._folded.keys():
            del self._folded[key]

    def forget_cached(self) -> None:
        """A user was deleted by another process: forget everybody's list."""
        self._folded = {}

    def show_item(self, item_id: str, shown: bool) -> None:
        """Hide an item or show it again, without waiting for the next training."""
        if self.lists is not None:
            self.lists.show_item(item_id, shown)

    def show_only(self, item_keys: set[int]) -> None:
        """Show these items alone, as another process has changed the catalogue."""
        if self.lists is not None:
            self.lists.show_only(item_keys)

    def newest(self) -> int | None:
        """The number of the newest training, or the version of the published model."""
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
        """Whether anything has changed since the training that the next one would learn."""
        if self._model_alone:
            return False
        now = await self._database.read(revision)
        return now != (self.lists.meta["revision"] if isinstance(self.lists, TrainedLists) else 0)

    def _read_model(self, connection: Any) -> PublishedModel | None:
        """The published model over the catalogue."""
        file = published_file(self._settings)
        return (
            None
            if file is None
            else PublishedModel(load_model(file), catalogue.visible(connection))
        )

    def _read(self, connection: Any) -> tuple[TrainedLists, set[int]] | None:
        """The newest undamaged training, without the users who left, and the users who changed
        since. Where a newer one is damaged, `problem` says so."""
        numbers = folders.numbers(self._models)
        if not numbers:
            return None
        problem = ""
        for number in numbers:
            try:
                opened = TrainedLists.open(self._models / str(number))
                break
            except InputError as error:
                problem = problem or f"{error}; an older training answers"
                event("training unreadable", error=str(error))
        else:
            raise InputError(problem.replace("an older training answers", "and none before it is"))
        self.problem = problem
        gone = set(opened.arrays["user_keys"].tolist()) - set(users.keys(connection))
        if gone:  # deleted while the training ran
            folders.scrub(self._models, sorted(gone))
            folders.seal(self._models)
        opened.show_only({key for key, _, _ in catalogue.visible(connection)})
        return opened, set(users.changed_since(connection, opened.meta["revision"]))
