"""SQL for what SQLAlchemy does slowly, or differently in SQLite and PostgreSQL."""

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


def insert(connection: Connection, table: Any) -> Any:
    """An INSERT that supports ON CONFLICT: both databases have it, standard SQL does not."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as sqlite_insert

        return sqlite_insert(table)
    from sqlalchemy.dialects.postgresql import insert as postgresql_insert

    return postgresql_insert(table)


def rows_of(connection: Connection, statement: str, values: tuple[Any, ...]) -> list[Any]:
    """The rows that a statement finds, read by the driver itself, for the most frequent queries.

    SQLAlchemy, and a new cursor for each query, take several times as long. Errors are left to
    SQLAlchemy, which knows whether the connection is lost.
    """
    cursor: Any = connection.info.get("cursor")  # kept with the connection
    if cursor is None:
        driver: Any = connection.connection
        binary = {} if connection.dialect.name == "sqlite" else {"binary": True}
        cursor = connection.info["cursor"] = driver.cursor(**binary)
    try:
        found: list[Any] = cursor.execute(statement, values).fetchall()
    except connection.dialect.loaded_dbapi.Error:
        return [tuple(row) for row in connection.exec_driver_sql(statement, values)]
    return found


def keys_by_id(connection: Connection, table: Table, wanted: Collection[str]) -> dict[str, int]:
    """The keys of those ids that exist, in a table whose first two columns are key and id."""
    key, name = (column.name for column in [*table.columns][:2])
    if not wanted:
        return {}
    if connection.dialect.name == "sqlite":
        among: tuple[str, Any] = ("IN (SELECT value FROM json_each(?))", json.dumps(sorted(wanted)))
    else:
        among = ("= ANY(%s)", sorted(wanted))
    asked = f"SELECT {name}, {key} FROM {table.name} WHERE {name} {among[0]}"
    return {row[0]: row[1] for row in connection.exec_driver_sql(asked, (among[1],))}


def put_rows(
    connection: Connection, table: Table, rows: Sequence[Sequence[Any]], instead: str
) -> None:
    """Insert rows of all columns in one statement; where the primary key exists, do `instead`."""
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


def copy_rows(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows of all columns into a table that has none of them, as fast as the driver can."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    if connection.dialect.name == "sqlite":
        places = ", ".join("?" * len(table.columns))
        statement = f'INSERT INTO "{table.name}" ({names}) VALUES ({places})'
        connection.exec_driver_sql(statement, rows)
        return
    cursor: Any = connection.connection.cursor()
    with cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as into:
        for row in rows:
            into.write_row(row)
