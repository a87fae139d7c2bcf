"""Service: everything a running server holds, started and stopped together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from starlette.concurrency import run_in_threadpool

from epicrec.data.datasets import load_catalogue
from epicrec.server.api.limits import Limit
from epicrec.server.collective import Part
from epicrec.server.known import Callers, admin_key
from epicrec.server.logs import event
from epicrec.server.metrics import Metrics
from epicrec.server.ranking import Ranking
from epicrec.server.rights import close_folder
from epicrec.server.settings import Settings
from epicrec.server.store import catalogue, people
from epicrec.server.store.database import Database
from epicrec.server.training import ledger
from epicrec.server.training.job import Job, Status
from epicrec.server.training.lists import Lists
from epicrec.server.training.publish import keep_promises, published

_TICK = 60.0
_DAY = 86_400


class Service:
    """The state of a running server. All of it belongs to the event loop, except the database."""

    def __init__(self, settings: Settings) -> None:
        close_folder(settings.folder)
        models = settings.folder / "models"
        models.mkdir(exist_ok=True, mode=0o700)
        self.settings = settings
        self.database = Database(settings.database_url)
        self.admin_digest = people.digest(admin_key(settings))
        self.callers = Callers(self.database, self._background)
        self.model_alone = ledger.model_alone(settings)
        """Whether everything served is computed from the published model; fixed at the start."""
        self.ranking = Ranking(self.database, settings, model_alone=self.model_alone)
        self.metrics = Metrics()
        self.requests = Limit(settings.requests_per_minute, 60)
        self.registrations = Limit(settings.registrations_per_hour, 3600)
        self.failures = Limit(settings.failures_per_minute, 60)
        self.collective = Part(settings, self.database) if settings.role else None
        self.training = Job("train", settings, self._trained)
        self.publishing = Job("publish", settings, self._published)
        self._deleted = False  # since the database was last brought to the disk as a whole
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        await run_in_threadpool(self.prepare)
        self.database.start()
        await self.ranking.open()
        if self.settings.train_from and published(self.settings) is None:
            self.publishing.start()
        interrupted = self.training.status()["state"] == "interrupted"
        if not self.model_alone and (
            interrupted or (self.settings.train_every and await self.ranking.is_outdated())
        ):
            self.training.start()
        self._background(self._housekeeping())

    def prepare(self) -> None:
        """Tables up to date, catalogue filled, nothing left that breaks a promise."""
        self.database.migrate()
        keep_promises(self.settings)
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
                if self._deleted:
                    self._deleted = False
                    await run_in_threadpool(self.database.checkpoint)
                every = self.settings.train_every
                if every and time.monotonic() - trained_at >= every:
                    trained_at = time.monotonic()
                    if await self.ranking.is_outdated():
                        self.training.start()
                if self.settings.purge_days and time.monotonic() - purged_at >= _DAY:
                    purged_at = time.monotonic()
                    event("purged", users=await self.purge(self.settings.purge_days))
            except Exception as error:
                event("housekeeping failed", error=type(error).__name__)

    # ---- what concerns several parts ------------------------------------------------------

    def changed(self, user_keys: Iterable[int]) -> None:
        """These users released something, or took it back."""
        self.ranking.changed(user_keys)

    async def forget(self, user_keys: Iterable[int]) -> None:
        """Drop every memory of users who were deleted from the database."""
        gone = set(user_keys)
        self._deleted = self._deleted or bool(gone)
        self.callers.forget(gone)
        await self.ranking.forget(gone)

    async def purge(self, days: int) -> int:
        """Forget everyone not seen for so many days; how many they were."""
        gone = await self.database.write(people.purge, days)
        await self.forget(gone)
        await run_in_threadpool(self.database.compact)
        return len(gone)

    def training_status(self) -> Status:
        """How far the training is, its last result, and which training is being served."""
        if self.model_alone:
            return {"state": "off", "why": ledger.NO_LISTS, "serving": None}
        lists = self.ranking.lists
        serving = lists.meta["training"] if isinstance(lists, Lists) else None
        return self.training.status() | {"serving": serving}

    def _trained(self, status: Status) -> None:
        _log_end("train", status)
        if status["state"] == "done":
            self._background(self.ranking.open())

    def _published(self, status: Status) -> None:
        _log_end("publish", status)
        if status["state"] == "done" and self.model_alone:
            self._background(self.ranking.open())


def _log_end(task: str, status: Status) -> None:
    event(f"{task} {status['state']}", **(status.get("last") or {}), error=status.get("error"))
