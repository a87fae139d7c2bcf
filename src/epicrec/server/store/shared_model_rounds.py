"""Rounds of the shared model in the database: `epicrec.collective.rounds.Book` as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from epicrec.collective.rounds import Job, Round
from epicrec.collective.shares import Report
from epicrec.server.store.database import Database
from epicrec.server.store.schema import (
    collective_admitted,
    collective_burnt,
    collective_jobs,
    collective_places,
    collective_published,
    collective_reports,
    collective_rounds,
)
from epicrec.server.store.sql import insert

_AT_ONCE = 500
"""Ids in one statement: SQLite takes 32,766 values at most."""
_LOCK = 0x65706964
"""PostgreSQL's lock for one transaction at a time."""


class SqlBook:
    """A book within one database transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def round(self, task: str, number: int) -> Round | None:
        found = self._value(collective_rounds, "record", task, number)
        return None if found is None else Round.from_encoded(found)

    def last_round(self, task: str) -> int:
        table = collective_rounds
        last = select(func.max(table.c.number)).where(table.c.task == task)
        found = self._connection.execute(last).scalar()
        return -1 if found is None else int(found)

    def tasks(self) -> list[tuple[str, int]]:
        """Task and number of every round."""
        table = collective_rounds
        rows = self._connection.execute(
            select(table.c.task, table.c.number).order_by(table.c.task, table.c.number)
        )
        return [(task, number) for task, number in rows]

    def keep(self, found: Round) -> None:
        given = found.parameters
        self._put(collective_rounds, given.task, given.round, record=found.encoded())

    def publish(self, task: str, number: int, published: bytes) -> None:
        self._put(collective_published, task, number, content=published)

    def published(self, task: str, number: int) -> bytes:
        return self._value(collective_published, "content", task, number) or b""

    def open(self, task: str, number: int, most: int) -> None:
        table = collective_places
        made = insert(self._connection, table).values(task=task, number=number, taken=0, most=most)
        self._connection.execute(
            made.on_conflict_do_update(index_elements=["task", "number"], set_={"most": most})
        )

    def take_places(self, task: str, number: int, places: int) -> bool:
        table = collective_places
        taken = self._connection.execute(
            update(table)
            .where(*_of(table, task, number), table.c.taken + places <= table.c.most)
            .values(taken=table.c.taken + places)
        )
        return taken.rowcount == 1

    def count(self, task: str, number: int) -> int:
        query = select(collective_places.c.taken).where(*_of(collective_places, task, number))
        return self._connection.execute(query).scalar() or 0

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        table = collective_admitted
        self._connection.execute(
            insert(self._connection, table)
            .values(task=task, number=number, token=token, report_id=report_id)
            .on_conflict_do_nothing()
        )
        query = select(table.c.report_id).where(*_of(table, task, number), table.c.token == token)
        return bytes(self._connection.execute(query).scalar_one()) == report_id

    def report(self, task: str, number: int, report_id: bytes) -> Report | None:
        table = collective_reports
        query = select(table.c.public, table.c.leader, table.c.helper).where(
            *_of(table, task, number), table.c.report_id == report_id
        )
        row = self._connection.execute(query).first()
        return None if row is None else Report(report_id, *map(bytes, row))

    def add_reports(self, task: str, number: int, reports: Iterable[Report]) -> None:
        rows = [
            {
                "task": task, "number": number, "report_id": one.id, "public": one.public,
                "leader": one.leader, "helper": one.helper,
            }
            for one in reports
        ]  # fmt: skip
        if rows:
            self._connection.execute(insert(self._connection, collective_reports), rows)

    def reports(self, task: str, number: int, after: bytes, most: int) -> list[Report]:
        table = collective_reports
        query = (
            select(table.c.report_id, table.c.public, table.c.leader, table.c.helper)
            .where(*_of(table, task, number), table.c.report_id > after)
            .order_by(table.c.report_id)
            .limit(most)
        )
        return [Report(*map(bytes, row)) for row in self._connection.execute(query)]

    def drop_reports(self, task: str, number: int, ids: Iterable[bytes]) -> None:
        table = collective_reports
        for part in _parts(ids):
            of_these = (*_of(table, task, number), table.c.report_id.in_(part))
            self._connection.execute(delete(table).where(*of_these))

    def burnt(self, ids: Iterable[bytes]) -> set[bytes]:
        column = collective_burnt.c.report_id
        found: set[bytes] = set()
        for part in _parts(ids):
            known = self._connection.execute(select(column).where(column.in_(part))).scalars()
            found |= {bytes(one) for one in known}
        return found

    def burn(self, ids: Iterable[bytes]) -> None:
        rows = [{"report_id": one} for one in ids]
        if rows:
            made = insert(self._connection, collective_burnt).on_conflict_do_nothing()
            self._connection.execute(made, rows)

    def jobs(self, task: str, number: int) -> int:
        table = collective_jobs
        last = select(func.max(table.c.job)).where(*_of(table, task, number))
        found = self._connection.execute(last).scalar()
        return 0 if found is None else int(found) + 1

    def job(self, task: str, number: int, index: int) -> Job | None:
        table = collective_jobs
        query = select(table.c.asked, table.c.outcome).where(*_of(table, task, number))
        row = self._connection.execute(query.where(table.c.job == index)).first()
        return None if row is None else Job(*map(bytes, row))

    def add_job(self, task: str, number: int, index: int, job: Job) -> None:
        self._connection.execute(
            insert(self._connection, collective_jobs).values(
                task=task, number=number, job=index, asked=job.asked, outcome=job.outcome
            )
        )

    def forget(self, task: str, number: int) -> None:
        table = collective_reports
        self._connection.execute(delete(table).where(*_of(table, task, number)))

    def _value(self, table: Any, column: str, task: str, number: int) -> bytes | None:
        query = select(table.c[column]).where(*_of(table, task, number))
        found = self._connection.execute(query).scalar()
        return None if found is None else bytes(found)

    def _put(self, table: Any, task: str, number: int, **values: bytes) -> None:
        made = insert(self._connection, table).values(task=task, number=number, **values)
        self._connection.execute(
            made.on_conflict_do_update(index_elements=["task", "number"], set_=values)
        )


class SqlStore:
    """A database as the store of rounds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[SqlBook]:
        with self._database.writing() as connection:
            if not self._database.is_sqlite:
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield SqlBook(connection)

    @contextmanager
    def uploading(self) -> Iterator[SqlBook]:
        """On PostgreSQL uploads wait for each other only at the row that counts them."""
        with self._database.writing() as connection:
            yield SqlBook(connection)

    @contextmanager
    def reading(self) -> Iterator[SqlBook]:
        with self._database.reading() as connection:
            yield SqlBook(connection)


def _of(table: Any, task: str, number: int) -> tuple[Any, Any]:
    return table.c.task == task, table.c.number == number


def _parts(ids: Iterable[bytes]) -> Iterator[list[bytes]]:
    asked = list(ids)
    return (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE))
