"""The database: opened, migrated, read by many threads, written by one in groups.

`synchronous=FULL` makes SQLite sync its log at every commit, so acknowledged means durable. A sync
takes milliseconds; the writer therefore commits all waiting changes in one transaction, each inside
its own savepoint, and acknowledges them after the commit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, select, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.concurrency import run_in_threadpool

from epicrec.errors import EpicrecError, InputError
from epicrec.server.operations.file_permissions import close, opener
from epicrec.server.store import schema

P = ParamSpec("P")
T = TypeVar("T")

_AT_ONCE = 256
_WAITING = 10_000
_CONNECT_SECONDS = 5
_READ_SECONDS = 5
_MIGRATION_LOCK = 0x65706963

MIGRATIONS = Path(__file__).parent / "migrations"

CHANGES, DELETIONS, CATALOGUE = 1, 2, 3
"""The rows of `state`: they count all changes, deletions of users, changes to the catalogue."""

UNAVAILABLE = (OperationalError, InterfaceError, PoolTimeoutError)
"""Errors of the database itself, not of a statement."""


class Database:
    """An open database; `read` and `write` run a function of a connection off the event loop."""

    def __init__(self, url: str) -> None:
        try:
            self.is_sqlite = make_url(url).get_backend_name() == "sqlite"
            # the values of a statement must not reach a log through an error
            self.engine = create_engine(
                url, hide_parameters=True, pool_size=8, max_overflow=8,
                connect_args={} if self.is_sqlite else {"connect_timeout": _CONNECT_SECONDS},
            )  # fmt: skip
        except (ArgumentError, ImportError) as error:
            raise InputError(f"cannot open the database {_public(url)}: {error}") from error
        if self.is_sqlite:
            event.listen(self.engine, "connect", _prepare_sqlite)
            event.listen(self.engine, "begin", _begin_sqlite)
        self._queue: queue.Queue[_Change | None] = queue.Queue(_WAITING)
        self._thread: threading.Thread | None = None
        self._looking: Connection | None = None  # of `look_up`, stays open

    def migrate(self, to: str = "head") -> None:
        """Bring the tables up to date. SQLite's file is readable by its owner alone."""
        try:
            if self.is_sqlite and (file := self.engine.url.database):
                with open(file, "ab", opener=opener):  # SQLite gives its log the same permissions
                    pass
                for end in ("", "-wal", "-shm"):
                    close(Path(file + end))
            with self.engine.begin() as connection:
                config = _migrations()
                config.attributes["connection"] = connection
                if not self.is_sqlite:  # of several servers that start at once one does it
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
                command.upgrade(config, to)
        except (OSError, OperationalError) as error:
            raise self._unusable(error) from error

    def version(self) -> str | None:
        """The version of the tables; None where there are none. Nothing is made or changed."""
        if self.is_sqlite and not Path(self.engine.url.database or "").is_file():
            return None
        try:
            with self.engine.connect() as connection:
                return MigrationContext.configure(connection).get_current_revision()
        except OperationalError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> EpicrecError:
        why = getattr(error, "orig", error)
        return EpicrecError(f"cannot use the database {_public(str(self.engine.url))}: {why}")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent view of the database until the block ends."""
        with self.engine.connect() as connection:
            if not self.is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction; committed when the block ends, undone when it raises."""
        writer = self.engine.connect().execution_options(epicrec_writes=True)
        with writer as connection, connection.begin():
            yield connection

    async def read(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def call() -> T:
            with self.reading() as connection:
                return function(connection, *args, **kwargs)

        return await run_in_threadpool(_twice, call)

    async def ask(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read by one statement, which is consistent in itself and needs no transaction."""

        def call() -> T:
            with self._autocommit() as connection:
                return function(connection, *args, **kwargs)

        return await run_in_threadpool(_twice, call)

    async def look_up(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Read a few rows by their keys, one call at a time, over a connection that stays open. In
        SQLite this is quicker than handing it to a thread."""

        def call() -> T:
            try:
                if self._looking is None:
                    self._looking = self._autocommit()
                return function(self._looking, *args, **kwargs)
            except Exception:
                self._stop_looking()
                raise

        return call() if self.is_sqlite else await run_in_threadpool(_twice, call)

    async def write(
        self, function: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run the change in the writer's next transaction; returns once it is durable."""
        loop = asyncio.get_running_loop()
        change = _Change(lambda c: function(c, *args, **kwargs), loop, loop.create_future())
        try:
            self._queue.put_nowait(change)
        except queue.Full:
            raise BusyError("too many changes wait to be written; try again in a moment") from None
        result: T = await change.done
        return result

    # ---- the writer -----------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many changes wait to be written."""
        return self._queue.qsize()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write the waiting changes, then close."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._stop_looking()
        end = time.monotonic() + _READ_SECONDS
        while self.engine.pool.checkedout() and time.monotonic() < end:  # type: ignore[attr-defined]
            time.sleep(0.01)  # a read outlives its caller; dispose would leave its connection open
        self.engine.dispose()

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.invalidate()
            self._looking.close()
            self._looking = None

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            changes = [first]
            last = False
            while len(changes) < _AT_ONCE and not last:
                try:
                    change = self._queue.get_nowait()
                except queue.Empty:
                    break
                if change is None:
                    last = True
                else:
                    changes.append(change)
            self._commit(changes)
            if last:
                return

    def _commit(self, changes: list[_Change]) -> None:
        try:
            with self.writing() as connection:
                for change in changes:
                    change.run(connection)
        except Exception as error:
            for change in changes:
                change.error = error
        for change in changes:
            change.acknowledge()

    # ---- housekeeping ---------------------------------------------------------------------

    def compact(self) -> None:
        """Free the space of deleted rows without blocking anybody: SQLite has overwritten them
        already, PostgreSQL removes them from its pages."""
        if not self.is_sqlite:
            with self._autocommit() as connection:
                connection.exec_driver_sql("VACUUM users, feedback, releases")
        self.checkpoint()

    def checkpoint(self) -> None:
        """Empty SQLite's log, which holds pages as they were before a deletion."""
        if self.is_sqlite:
            with self._autocommit() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()

    def _autocommit(self) -> Connection:
        return self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")


def _twice(call: Callable[[], T]) -> T:
    """Read, and once more where the database has restarted since the connection was made."""
    try:
        return call()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        return call()


class BusyError(EpicrecError):
    """The server is overloaded; the same request may be sent again."""


class _Change:
    """A change that waits for the writer, and the future of the caller who waits for it."""

    def __init__(
        self,
        function: Callable[[Connection], Any],
        loop: asyncio.AbstractEventLoop,
        done: asyncio.Future[Any],
    ) -> None:
        self.function, self.loop, self.done = function, loop, done
        self.result: Any = None
        self.error: Exception | None = None

    def run(self, connection: Connection) -> None:
        try:
            with connection.begin_nested():
                self.result = self.function(connection)
        except UNAVAILABLE:
            raise  # on a full disk SQLite has undone the whole transaction, others' changes too
        except Exception as error:
            self.error = error

    def acknowledge(self) -> None:
        def answer() -> None:
            if self.done.done():  # the caller has gone away
                return
            if self.error is not None:
                self.done.set_exception(self.error)
            else:
                self.done.set_result(self.result)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(answer)


def newest_version() -> str:
    """The version of the tables that this program needs."""
    return str(ScriptDirectory.from_config(_migrations()).get_current_head())


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config


def cause(error: BaseException) -> str:
    """Why the database cannot be used, in plain words and without quoting a statement."""
    codes: list[str] = []
    at: BaseException | None = error
    while at is not None:  # a failed rollback hides the first error, which is the cause
        found = getattr(at, "orig", at)
        codes.append(
            getattr(found, "sqlite_errorname", None) or getattr(found, "sqlstate", None) or ""
        )
        at = at.__context__
    if {"SQLITE_FULL", "53100"} & {*codes}:
        return "the database's disk is full"
    if any(code.startswith("SQLITE_BUSY") for code in codes):
        return "another program keeps the database locked"
    if isinstance(error, PoolTimeoutError):
        return "every connection to the database is in use"
    told = next(filter(None, reversed(codes)), "")
    return f"the database cannot be used ({told})" if told else "the database cannot be reached"


def revision(connection: Connection) -> int:
    """The number of changes so far."""
    return revisions(connection)[CHANGES]


def revisions(connection: Connection) -> dict[int, int]:
    """All counters; they tell other processes what has changed."""
    rows = connection.execute(select(schema.state.c.id, schema.state.c.revision))
    return {row.id: int(row.revision) for row in rows}


def next_revision(connection: Connection, *also: int) -> int:
    """Count a change, here and in the other given counters. Returns the number of changes."""
    change = (
        update(schema.state)
        .where(schema.state.c.id.in_((CHANGES, *also)))
        .values(revision=schema.state.c.revision + 1)
        .returning(schema.state.c.id, schema.state.c.revision)
    )
    found = {row.id: row.revision for row in connection.execute(change)}
    return int(found[CHANGES])


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # we begin transactions and savepoints ourselves
    for pragma in (
        "busy_timeout = 10000",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "secure_delete = ON",  # overwrite deleted rows
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # a writer locks at once: SQLite refuses a reader that becomes a writer half-way
        writes = options.get("epicrec_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _public(url: str) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(not a URL)"
