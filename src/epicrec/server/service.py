"""Service: everything a running server holds, started and stopped together."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool

from epicrec.data.datasets import load_catalogue
from epicrec.errors import InputError
from epicrec.server.api.limits import Limit
from epicrec.server.logs import event
from epicrec.server.metrics import Metrics
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, people, releases
from epicrec.server.store.database import Database, revision
from epicrec.server.store.people import Known
from epicrec.server.training import lists as trained
from epicrec.server.training.job import Job, Status
from epicrec.server.training.lists import Lists, Ranked
from epicrec.server.training.publish import published

_TICK = 60.0
_DAY = 86_400
_MOST_KEYS = 200_000


class Service:
    """The state of a running server. All of it belongs to the event loop, except the database."""

    def __init__(self, settings: Settings) -> None:
        settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.settings = settings
        self.models = settings.folder / "models"
        self.models.mkdir(exist_ok=True)
        self.database = Database(settings.database_url)
        self.admin_digest = people.digest(admin_key(settings))
        self.metrics = Metrics()
        self.requests = Limit(settings.requests_per_minute, 60)
        self.registrations = Limit(settings.registrations_per_hour, 3600)
        self.failures = Limit(settings.failures_per_minute, 60)
        self.lists: Lists | None = None
        self.training = Job("train", settings, self._trained)
        self.publishing = Job("publish", settings, lambda status: _log_end("publish", status))
        self._stale: set[int] = set()  # users whose list on disk is older than what they released
        self._changed: set[int] = set()  # users who wrote while lists were being opened
        self._keys: dict[bytes, Known] = {}
        self._forgotten = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        await run_in_threadpool(self.prepare)
        self.database.start()
        await self._open_lists()
        if self.settings.train_from and published(self.settings) is None:
            self.publishing.start()
        interrupted = self.training.status()["state"] == "interrupted"
        if interrupted or (self.settings.train_every and await self._outdated()):
            self.training.start()
        self._background(self._housekeeping())

    def prepare(self) -> None:
        """Tables up to date, catalogue filled."""
        self.database.migrate()
        if self.settings.catalogue:
            items = load_catalogue(self.settings.catalogue)
            with self.database.writing() as connection:
                catalogue.fill(connection, items)

    async def stop(self) -> None:
        """End the jobs, write what waits, close."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self.training.stop(), self.publishing.stop())
        await run_in_threadpool(self.database.stop)

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _housekeeping(self) -> None:
        trained_at = purged_at = time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            try:
                if self._forgotten:
                    self._forgotten = 0
                    await run_in_threadpool(self.database.checkpoint)
                every = self.settings.train_every
                if every and time.monotonic() - trained_at >= every:
                    trained_at = time.monotonic()
                    if await self._outdated():
                        self.training.start()
                if self.settings.purge_days and time.monotonic() - purged_at >= _DAY:
                    purged_at = time.monotonic()
                    event("purged", users=await self.purge(self.settings.purge_days))
            except Exception as error:
                event("housekeeping failed", error=type(error).__name__)

    # ---- who is asking --------------------------------------------------------------------

    async def whose(self, secret_digest: bytes) -> Known | None:
        """The user with this secret. Each is looked up once and remembered until they leave."""
        user = self._keys.get(secret_digest)
        if user is None:
            forgotten = self._forgotten
            user = await self.database.look_up(people.with_secret, secret_digest)
            if user is None:
                return None
            if forgotten == self._forgotten:
                if len(self._keys) >= _MOST_KEYS:
                    self._keys.clear()
                self._keys[secret_digest] = user
        if user.seen_day != (day := people.today()):
            self._keys[secret_digest] = replace(user, seen_day=day)
            self._background(self.database.write(people.seen, user.key, day))
        return user

    # ---- lists ----------------------------------------------------------------------------

    async def recommend(self, user: Known, n: int, offset: int, category: str) -> Ranked:
        """From the list on disk where it is up to date, else from what the user released by now."""
        if self.lists is None:
            return []
        row = self.lists.row_of(user.key)
        if row is not None and user.key not in self._stale:
            return self.lists.for_user(row, n, offset, category)
        released = await self.database.read(releases.items_of, user.key)
        return await run_in_threadpool(self.lists.for_items, released, n, offset, category)

    def changed(self, user_keys: Iterable[int]) -> None:
        """These users' lists are older than their releases."""
        self._stale.update(user_keys)
        self._changed.update(user_keys)

    def training_status(self) -> Status:
        """How far the training is, its last result, and which training is being served."""
        return self.training.status() | {"serving": self.lists and self.lists.meta["training"]}

    async def forget(self, user_keys: list[int]) -> None:
        """Drop every memory of users who were deleted from the database."""
        gone = set(user_keys)
        self._forgotten += len(gone)
        self._keys = {key: user for key, user in self._keys.items() if user.key not in gone}
        self._stale -= gone
        await run_in_threadpool(trained.scrub, self.models, user_keys)

    async def purge(self, days: int) -> int:
        gone = await self.database.write(people.purge, days)
        await self.forget(gone)
        await run_in_threadpool(self.database.compact)
        return len(gone)

    async def _outdated(self) -> bool:
        now = await self.database.read(revision)
        return now != (self.lists.meta["revision"] if self.lists else 0)

    def _trained(self, status: Status) -> None:
        _log_end("train", status)
        if status["state"] == "done":
            self._background(self._open_lists())

    async def _open_lists(self) -> None:
        """Open the newest training and swap it in; the last one stays if it cannot be read."""
        self._changed = set()
        try:
            found = await self.database.read(self._read_lists)
        except InputError as error:
            event("training unreadable", error=str(error))
            return
        if found is not None:
            self.lists, stale = found
            self._stale = stale | self._changed

    def _read_lists(self, connection: Any) -> tuple[Lists, set[int]] | None:
        number = trained.current(self.models)
        if number is None:
            return None
        opened = Lists.open(self.models / str(number))
        gone = set(opened.arrays["user_keys"].tolist()) - set(people.keys(connection))
        if gone:  # deleted while the training ran
            trained.scrub(self.models, sorted(gone))
        shown = {key for key, _, _ in catalogue.visible(connection)}
        keys = opened.arrays["item_keys"].tolist()
        opened.gone = {at for at, key in enumerate(keys) if key not in shown}
        return opened, set(people.changed_since(connection, opened.meta["revision"]))


def admin_key(settings: Settings) -> str:
    """The admin's key: the one set, else the one in `admin.key`, made when it is missing."""
    if settings.admin_key:
        return settings.admin_key
    path = settings.folder / "admin.key"
    try:
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        key = secrets.token_urlsafe(32)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(key + "\n")
        return key


def _log_end(task: str, status: Status) -> None:
    event(f"{task} {status['state']}", **(status.get("last") or {}), error=status.get("error"))
