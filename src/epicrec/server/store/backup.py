"""Backup: all of a server's data in one folder, from either database and into either."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, MetaData, Table, func, inspect, select, text

from epicrec.errors import InputError
from epicrec.server.operations.file_permissions import close_folder
from epicrec.server.settings import Settings
from epicrec.server.store.database import Database
from epicrec.server.store.schema import NOT_IN_BACKUPS, metadata, users
from epicrec.server.store.sql import copy_rows

_ROWS = 20_000
_LEDGER = "ledger.jsonl"
_SPENT = (_LEDGER, "published")  # what was published, and what it cost
_FILES = (*_SPENT, "admin.key", "collective.key", "models")
_KEYS = (("users", "user_key"), ("items", "item_key"), ("releases", "release_key"))


def back_up(settings: Settings, folder: Path) -> dict[str, int]:
    """Copy tables (one consistent view, into SQLite), models, ledger and keys into a new folder.

    The server may keep running. Returns the number of rows by table.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder for the backup")
    close_folder(folder)
    source, target = Database(settings.database_url), Database(_file_url(folder))
    try:
        version = source.version()
        if version is None:
            raise InputError("there is nothing to back up: the database has no tables yet")
        target.migrate(version)  # the same version: a running server's tables stay as they are
        rows = _copy(source, target)
    finally:
        source.stop()
        target.stop()
    for name in _FILES:
        _copy_files(settings.folder / name, folder / name)
    close_folder(folder)
    return rows


def restore(settings: Settings, folder: Path) -> dict[str, int]:
    """Bring a backup into a server that is stopped and empty. Returns the number of rows by table.

    What was spent since stays spent: of two ledgers that begin alike the longer is kept.
    """
    if not (folder / "epicrec.sqlite").exists():
        raise InputError(f"{folder} holds no backup: there is no epicrec.sqlite in it")
    newer = _has_longer_ledger(settings.folder, folder)
    close_folder(settings.folder)
    with TemporaryDirectory(
        dir=settings.folder
    ) as aside:  # the copy is migrated, the backup is not
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
    """Whether the ledger here holds all that the backup's does. Two that differ are refused: to
    merge them would be guessing, and neither may be forgotten."""
    own, other = (_whole_lines(folder / _LEDGER) for folder in (here, backup))
    if not own.startswith(other) and not other.startswith(own):
        raise InputError(
            f"{here / _LEDGER} and {backup / _LEDGER} record different releases, and what was "
            "spent is never forgotten; restore into a new data folder, and keep both ledgers: "
            "what each of them records has been published"
        )
    return len(own) >= len(other)


def _whole_lines(path: Path) -> bytes:
    """A ledger without a last line that a crash cut short: it was never acknowledged."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


def _copy(source: Database, target: Database) -> dict[str, int]:
    """Copy every row, in one view of the source and one transaction of the target."""
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
                copy_rows(new, table, [tuple(row) for row in part])
                counts[table.name] += len(part)
        if not target.is_sqlite:  # keys were copied: new ones must follow them
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
    """The tables of a backup with the columns that exist, referenced tables first."""
    found = MetaData()
    names = [t.name for t in metadata.sorted_tables if t not in NOT_IN_BACKUPS]
    here = set(inspect(connection).get_table_names())
    found.reflect(connection, only=[name for name in names if name in here])
    return found.sorted_tables


def _copy_files(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.exists():
        shutil.copy2(source, target)


def _file_url(folder: Path) -> str:
    return f"sqlite:///{folder.resolve() / 'epicrec.sqlite'}"
