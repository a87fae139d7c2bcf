"""Bulk: many rows in one statement, as the driver takes them.

SQLAlchemy's own way costs several times as much, and a list of values one place for each of them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Table

_ARRAYS = {
    "BIGINT": "bigint[]",
    "INTEGER": "int[]",
    "TEXT": "text[]",
    "DOUBLE PRECISION": "float8[]",
}


def keys_by_id(connection: Connection, table: Table, wanted: Collection[str]) -> dict[str, int]:
    """The keys of those that exist, of a table whose first columns are its key and its id."""
    key, name = (column.name for column in [*table.columns][:2])
    if not wanted:
        return {}
    if connection.dialect.name == "sqlite":
        among: tuple[str, Any] = ("IN (SELECT value FROM json_each(?))", json.dumps(sorted(wanted)))
    else:
        among = ("= ANY(%s)", sorted(wanted))
    asked = f"SELECT {name}, {key} FROM {table.name} WHERE {name} {among[0]}"
    return {row[0]: row[1] for row in connection.exec_driver_sql(asked, (among[1],))}


def put(connection: Connection, table: Table, rows: Sequence[Sequence[Any]], instead: str) -> None:
    """Insert rows of all columns; where one with the same primary key stands, do `instead`."""
    names = ", ".join(column.name for column in table.columns)
    key = ", ".join(column.name for column in table.primary_key)
    end = f"ON CONFLICT ({key}) DO UPDATE SET {instead}"
    start = f"INSERT INTO {table.name} ({names})"
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(table.columns))
        connection.exec_driver_sql(f"{start} VALUES ({places}) {end}", [tuple(row) for row in rows])
        return
    kinds = [_ARRAYS[column.type.compile(connection.dialect)] for column in table.columns]
    places = ", ".join(f"%s::{kind}" for kind in kinds)
    columns = tuple(list(column) for column in zip(*rows, strict=True))
    connection.exec_driver_sql(f"{start} SELECT * FROM unnest({places}) {end}", columns)
