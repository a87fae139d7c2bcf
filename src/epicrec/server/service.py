"""Service: the state of a running server, its background jobs, its start and stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from contextlib import ExitStack
from typing import Any

from starlette.concurrency import run_in_threadpool
from threadpoolctl import threadpool_limits

from epicrec.data.datasets import load_catalogue
from epicrec.errors import InputError
from epicrec.files import locked
from epicrec.server.authentication import Callers, RateLimit, admin_key
from epicrec.server.operations.file_permissions import close_folder
from epicrec.server.operations.logs import dropped, event
from epicrec.server.operations.metrics import Gauge, Metrics
from epicrec.server.serving.ranking import Ranking
from epicrec.server.serving.trained_lists import TrainedLists
from epicrec.server.settings import Settings
from epicrec.server.shared_model import SharedModelServer
from epicrec.server.store import catalogue, feedback, users
from epicrec.server.store.database import CATALOGUE, CHANGES, DELETIONS, Database, revisions
from epicrec.server.training import operator_ledger
from epicrec.server.training.folders import seal
from epicrec.server.training.job import Job, Status
from epicrec.server.training.publish import keep_promises, published, published_file

_TICK = 60.0  # seconds, as are the others
_DAY = 86_400
_COUNT_EVERY = 3_600
_FOLLOW_EVERY = 1.0


class Service:
    """The parts of a running server. All belong to the event loop, except the database."""

    def __init__(self, settings: Settings) -> None:
        close_folder(settings.folder)
        models = settings.folder / "models"
        models.mkdir(exist_ok=True, mode=0o700)
        self.settings = settings
        self.database = Database(settings.database_url)
        self.admin_digest = users.digest(admin_key(settings))
        self.callers = Callers(self.database, self._background)
        self.model_alone = operator_ledger.model_alone(settings)
        """Whether everything served is computed from the published model; fixed at the start."""
        self.ranking = Ranking(self.database, settings, model_alone=self.model_alone)
        self.metrics = Metrics(self._gauges)
        self.requests = RateLimit(settings.requests_per_minute, 60)
        self.registrations = RateLimit(settings.registrations_per_hour, 3600)
        self.failures = RateLimit(settings.failures_per_minute, 60)
        self.shared_model = SharedModelServer(settings, self.database) if settings.role else None
        self.training = Job("train", settings, self._trained)
        self.publishing = Job("publish", settings, self._published)
        self.model_problem = ""  # why the published model is not served
        self._counted: dict[str, int] = {}  # rows of the tables when they were last counted
        self._blas: threadpool_limits | None = None
        self._deleted = False  # anybody, since the last checkpoint of the database
        self._seen: dict[int, int] = {}  # the revisions that this process has caught up with
        self._opened: int | None = None  # the training, or the model, that is served
        self._left = False  # anybody, perhaps on another host, since the lists were opened
        self._held, self._keeps = ExitStack(), False
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        self._blas = threadpool_limits(1, "blas")  # requests share the processors
        await run_in_threadpool(self.prepare)
        self.database.start()
        self._seen = await self.database.read(revisions)
        self._opened = self.ranking.newest()
        await self.ranking.open()
        await run_in_threadpool(self._check_published)
        if self._is_keeper():
            await self._begin()
        self._background(self._housekeeping())
        self._background(self._follow())

    async def _begin(self) -> None:
        """Start the jobs that are due; of several workers one does it."""
        if self.settings.train_from and published(self.settings) is None:
            self.publishing.start()
        interrupted = self.training.status()["state"] == "interrupted"
        if not self.model_alone and (
            interrupted
            or self.ranking.problem
            or (self.settings.train_every and await self.ranking.is_outdated())
        ):
            self.training.start()

    def prepare(self) -> None:
        """Migrate the tables, fill the catalogue, remove what would break a guarantee."""
        self.database.migrate()
        keep_promises(self.settings)
        if self.shared_model is not None:
            self.shared_model.end_lost_rounds()
        if self.settings.listed:
            items = load_catalogue(self.settings.listed)
            with self.database.writing() as connection:
                catalogue.fill(connection, items)
                catalogue.keep(connection, items)

    async def stop(self) -> None:
        """End the jobs, write the waiting changes, close."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(self.training.stop(), self.publishing.stop())
        await run_in_threadpool(self.database.stop)
        if self._deleted:
            seal(self.settings.folder / "models")
        self._held.close()
        if self._blas is not None:
            self._blas.restore_original_limits()

    def _background(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _housekeeping(self) -> None:
        trained_at = purged_at = counted_at = time.monotonic()
        await self._count()
        while True:
            await asyncio.sleep(_TICK)
            try:
                if time.monotonic() - counted_at >= _COUNT_EVERY:
                    counted_at = time.monotonic()
                    await self._count()
                if self._deleted:
                    self._deleted = False
                    await run_in_threadpool(seal, self.settings.folder / "models")
                    await run_in_threadpool(self.database.checkpoint)
                if self._left:  # users who left on another host are overwritten here, too
                    self._left = False
                    await self.ranking.open()
                if not self._is_keeper():
                    continue
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

    def _is_keeper(self) -> bool:
        """Whether this process is the one that trains and purges, of all that share the folder."""
        if not self._keeps:
            try:
                lock = self.settings.folder / "housekeeping.lock"
                self._held.enter_context(locked(lock, wait=False))
                self._keeps = True
            except BlockingIOError:
                return False
        return True

    async def _follow(self) -> None:
        """Notice within a second what other processes have changed: workers, hosts, a purge."""
        while True:
            await asyncio.sleep(_FOLLOW_EVERY)
            try:
                await self._catch_up()
            except Exception as error:
                event("following failed", error=type(error).__name__)

    async def _catch_up(self) -> None:
        before, now = self._seen, await self.database.read(revisions)
        if now[DELETIONS] != before[DELETIONS]:
            self.callers.forget_cached()
            self.ranking.forget_cached()
            self._left = not self.database.is_sqlite
        if now[CATALOGUE] != before[CATALOGUE]:
            visible = await self.database.read(catalogue.visible)
            self.ranking.show_only({key for key, _, _ in visible})
        if now[CHANGES] != before[CHANGES] and not self.database.is_sqlite:
            self.ranking.changed(await self.database.read(users.changed_since, before[CHANGES]))
        own = self.training.running or self.publishing.running  # it is opened when the job ends
        if not own and self._opened != (newest := self.ranking.newest()):
            self._opened = newest
            await self.ranking.open()
        self._seen = now

    def _check_published(self) -> None:
        try:
            published_file(self.settings)
            self.model_problem = ""
        except InputError as error:
            self.model_problem = str(error)
            event("published model unreadable", error=str(error))

    async def _count(self) -> None:
        """Count the rows in the background, so that reading the metrics is quick."""

        def counts(connection: Any) -> dict[str, int]:
            found = users.counts(connection) | {"items": catalogue.count(connection)}
            return found | {"feedback": feedback.total(connection)}

        try:
            self._counted = await self.database.read(counts)
        except Exception as error:
            event("counting failed", error=type(error).__name__)

    def _gauges(self) -> list[Gauge]:
        """The current values; only those of a shared model need a query."""
        last = self.training.status().get("last") or {}
        found: list[Gauge] = [
            ("changes_waiting", "Changes that wait to be written", self.database.waiting),
            ("training_running", "Whether a training runs", self.training.running),
            ("publishing_running", "Whether a model is being made", self.publishing.running),
            ("log_lines_dropped", "Lines of the log that nobody read", dropped()),
            ("last_training_timestamp_seconds", "When it ended", last.get("trained_at", 0)),
            ("last_training_seconds", "How long it took", last.get("seconds", 0)),
        ]
        found += [(name, "As last counted, once an hour", n) for name, n in self._counted.items()]
        found += self.shared_model.gauges() if self.shared_model else []
        quality = last.get("quality", {}).items()
        return found + [
            (f"last_training_{name}", name.replace("_", " "), value)
            for name, value in quality
            if isinstance(value, int | float)
        ]

    # ---- what concerns several parts ------------------------------------------------------

    async def forget(self, user_keys: Iterable[int]) -> None:
        """Forget users who were deleted from the database, in memory and on disk."""
        gone = set(user_keys)
        self.metrics.forgotten.inc(len(gone))
        self._deleted = self._deleted or bool(gone)
        self.callers.forget(gone)
        await self.ranking.forget(gone)

    async def purge(self, days: int) -> int:
        """Delete everyone not seen for this many days. Returns how many they were."""
        gone = await self.database.write(users.purge, days)
        await self.forget(gone)
        await run_in_threadpool(self.database.compact)
        return len(gone)

    def training_status(self) -> Status:
        """Progress and last result of the training, and which training is served."""
        if self.model_alone:
            return {"state": "off", "why": operator_ledger.NO_LISTS, "serving": None}
        lists = self.ranking.lists
        serving = lists.meta["training"] if isinstance(lists, TrainedLists) else None
        return self.training.status() | {"serving": serving}

    def _trained(self, status: Status) -> None:
        self._ended("train", status)
        if status["state"] == "done":
            self._opened = self.ranking.newest()
            self._background(self.ranking.open())

    def _published(self, status: Status) -> None:
        self._ended("publish", status)
        self._check_published()
        if status["state"] == "done" and self.model_alone:
            self._background(self.ranking.open())

    def _ended(self, task: str, status: Status) -> None:
        self.metrics.jobs.labels(task, status["state"]).inc()
        event(f"{task} {status['state']}", **(status.get("last") or {}), error=status.get("error"))
