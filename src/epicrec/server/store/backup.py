"""Backup: everything the server knows in one folder, whichever database it came from or goes to."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Connection, MetaData, Table, func, inspect, select, text

from epicrec.errors import InputError
from epicrec.server.rights import close_folder
from epicrec.server.settings import Settings
from epicrec.server.store.database import Database
from epicrec.server.store.schema import NOT_IN_BACKUPS, metadata, users

_ROWS = 20_000
_LEDGER = "ledger.jsonl"
_SPENT = (_LEDGER, "published")  # what was published, and what it cost
_FILES = (*_SPENT, "admin.key", "collective.key", "models")


_KEYS = (("users", "user_key"), ("items", "item_key"), ("releases", "release_key"))


def back_up(settings: Settings, folder: Path) -> dict[str, int]:
    """Copy tables (into SQLite, in one consistent view), models, ledger, admin key; rows by table.

    The server may go on working meanwhile.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder for the backup")
    close_folder(folder)
    source, target = Database(settings.database_url), Database(_file_url(folder))
    try:
        version = source.version()
        if version is None:
            raise InputError("there is nothing to back up: the database has no tables yet")
        target.migrate(version)  # as the tables are: a running server's are left alone
        rows = _copy(source, target)
    finally:
        source.stop()
        target.stop()
    for name in _FILES:
        _copy_files(settings.folder / name, folder / name)
    close_folder(folder)
    return rows


def restore(settings: Settings, folder: Path) -> dict[str, int]:
    """Bring a backup into a server that is stopped and empty; rows by table.

    What was spent since the backup stays spent: of two ledgers that begin alike the longer holds.
    """
    if not (folder / "epicrec.sqlite").exists():
        raise InputError(f"{folder} holds no backup: there is no epicrec.sqlite in it")
    newer = _has_longer_ledger(settings.folder, folder)
    close_folder(settings.folder)
    with TemporaryDirectory(dir=settings.folder) as aside:  # an older backup is brought up to date
        shutil.copy2(folder / "epicrec.sqlite", aside)
        source, target = Database(_file_url(Path(aside))), Database(settings.database_url)
        try:
            source.migrate()
            target.migrate()
            rows = _copy(source, target)
        finally:
            source.stop()
            target.stop()
    for name in _FILES:
        if not (newer and name in _SPENT and (settings.folder / name).exists()):
            _copy_files(folder / name, settings.folder / name)
    close_folder(settings.folder)
    return rows


def _has_longer_ledger(here: Path, backup: Path) -> bool:
    """Whether the ledger here says all that the backup's does. Two that differ are not merged by
    guessing: neither may be forgotten."""
    own, other = (_whole_lines(folder / _LEDGER) for folder in (here, backup))
    if not own.startswith(other) and not other.startswith(own):
        raise InputError(
            f"{here / _LEDGER} and {backup / _LEDGER} record different releases, and what was "
            "spent is never forgotten; restore into a new data folder, and keep both ledgers: "
            "what each of them records has been published"
        )
    return len(own) >= len(other)


def _whole_lines(path: Path) -> bytes:
    """A ledger without a line that a crash cut short, which was never acknowledged."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _copy(source: Database, target: Database) -> dict[str, int]:
    """Every row, in one view of the source and one transaction of the target; rows by table."""
    counts = {}
    with source.reading() as old, target.writing() as new:
        tables = _tables(old)
        if new.execute(select(func.count()).select_from(users)).scalar_one():
            raise InputError("the server to restore into has users; start with an empty one")
        for table in reversed(tables):
            new.execute(table.delete())
        for table in tables:
            counts[table.name] = 0
            found = old.execution_options(yield_per=_ROWS).execute(select(table))
            for part in found.partitions():
                _insert(new, table, [tuple(row) for row in part])
                counts[table.name] += len(part)
        if not target.is_sqlite:  # the keys came as they were: let new ones follow them
            for name, key in _KEYS:
                new.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{name}', '{key}'), "
                        f"coalesce(max({key}), 0) + 1, false) FROM {name}"
                    )
                )
    target.checkpoint()
    return counts


def _tables(connection: Connection) -> list[Table]:
    """What a backup holds, in an order that keeps references whole, with the columns there are."""
    found = MetaData()
    names = [t.name for t in metadata.sorted_tables if t not in NOT_IN_BACKUPS]
    here = set(inspect(connection).get_table_names())
    found.reflect(connection, only=[name for name in names if name in here])
    return found.sorted_tables


def _insert(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Rows as the driver takes them: SQLAlchemy's own way costs several times as much."""
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


def _copy_files(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        shutil.copy2(source, target)


def _file_url(folder: Path) -> str:
    return f"sqlite:///{folder.resolve() / 'epicrec.sqlite'}"
