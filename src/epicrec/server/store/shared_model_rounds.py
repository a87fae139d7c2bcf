"""Rounds of the shared model in the database: `epicrec.collective.rounds.Book` as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, delete, func, select

from epicrec.collective.rounds import Round
from epicrec.collective.shares import Report
from epicrec.server.store.database import Database
from epicrec.server.store.schema import (
    collective_admitted,
    collective_burnt,
    collective_keys,
    collective_reports,
    collective_rounds,
)
from epicrec.server.store.sql import insert

_AT_ONCE = 500
"""Ids in one statement: SQLite takes 32,766 values at most."""


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

    def key(self, task: str, number: int) -> bytes | None:
        return self._value(collective_keys, "key", task, number)

    def keep_key(self, task: str, number: int, key: bytes) -> None:
        self._put(collective_keys, task, number, key=key)

    def forget(self, task: str, number: int) -> None:
        for table in (collective_keys, collective_reports):
            self._connection.execute(delete(table).where(*_of(table, task, number)))

    def burn(self, ids: Iterable[bytes]) -> set[bytes]:
        new: set[bytes] = set()
        asked = list(dict.fromkeys(ids))
        column = collective_burnt.c.report_id
        for part in (asked[at : at + _AT_ONCE] for at in range(0, len(asked), _AT_ONCE)):
            known = self._connection.execute(select(column).where(column.in_(part))).scalars()
            fresh = set(part) - {bytes(one) for one in known}
            if fresh:
                rows = [{"report_id": one} for one in fresh]
                self._connection.execute(insert(self._connection, collective_burnt), rows)
            new |= fresh
        return new

    def report(self, task: str, number: int, report_id: bytes) -> Report | None:
        table = collective_reports
        query = select(table.c.leader, table.c.helper).where(
            *_of(table, task, number), table.c.report_id == report_id
        )
        row = self._connection.execute(query).first()
        return None if row is None else Report(report_id, bytes(row[0]), bytes(row[1]))

    def add_report(self, task: str, number: int, report: Report) -> None:
        self._connection.execute(
            insert(self._connection, collective_reports).values(
                task=task, number=number, report_id=report.id, leader=report.leader,
                helper=report.helper,
            )
        )  # fmt: skip

    def reports(self, task: str, number: int) -> Iterator[Report]:
        table = collective_reports
        query = (
            select(table.c.report_id, table.c.leader, table.c.helper)
            .where(*_of(table, task, number))
            .order_by(table.c.report_id)
        )
        rows = self._connection.execute(query.execution_options(yield_per=64))
        return (Report(bytes(one), bytes(leader), bytes(helper)) for one, leader, helper in rows)

    def count(self, task: str, number: int) -> int:
        table = collective_reports
        query = select(func.count()).select_from(table).where(*_of(table, task, number))
        return int(self._connection.execute(query).scalar_one())

    def admit(self, task: str, number: int, token: bytes, report_id: bytes) -> bool:
        table = collective_admitted
        self._connection.execute(
            insert(self._connection, table)
            .values(task=task, number=number, token=token, report_id=report_id)
            .on_conflict_do_nothing()
        )
        query = select(table.c.report_id).where(*_of(table, task, number), table.c.token == token)
        return bytes(self._connection.execute(query).scalar_one()) == report_id

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
    """A database as the store of rounds; on PostgreSQL a lock admits one writer at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def transaction(self) -> Iterator[SqlBook]:
        with self._database.writing() as connection:
            if not self._database.is_sqlite:
                connection.exec_driver_sql("LOCK TABLE collective_rounds IN EXCLUSIVE MODE")
            yield SqlBook(connection)

    @contextmanager
    def looking(self) -> Iterator[SqlBook]:
        """The book for reading; it waits for nobody and makes nobody wait."""
        with self._database.reading() as connection:
            yield SqlBook(connection)


def _of(table: Any, task: str, number: int) -> tuple[Any, Any]:
    return table.c.task == task, table.c.number == number
