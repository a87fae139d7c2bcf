"""Store: all the device knows, in one SQLite file that only its owner may read.

With a passphrase the database lives in memory and every change writes the sealed file anew; without
one SQLite itself sees to it that a change is on the disk whole or not at all.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from epicrec.client.vault import DamagedError, Vault, WrongPassphraseError, write_private
from epicrec.errors import EpicrecError, InputError
from epicrec.files import locked

PLAIN, SEALED = "history.sqlite", "history.sealed"

VERSION = 1
SCHEMA = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- what was watched: lines that came in together, those that wait for review, the history
CREATE TABLE batches (
    id INTEGER PRIMARY KEY, created TEXT NOT NULL, about TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('draft', 'kept', 'undone')),
    facts TEXT NOT NULL DEFAULT '{}'
);
CREATE TABLE drafts (
    batch INTEGER NOT NULL REFERENCES batches ON DELETE CASCADE, row INTEGER NOT NULL,
    status TEXT NOT NULL, item_id TEXT, candidates TEXT NOT NULL, title TEXT NOT NULL,
    year INTEGER, key TEXT NOT NULL, evidence TEXT NOT NULL, why TEXT NOT NULL,
    confidence REAL NOT NULL, source TEXT NOT NULL, watched_at TEXT, rating REAL,
    times INTEGER NOT NULL, PRIMARY KEY (batch, row)
) WITHOUT ROWID;
CREATE TABLE viewings (
    id INTEGER PRIMARY KEY, batch INTEGER NOT NULL REFERENCES batches, item_id TEXT NOT NULL,
    source TEXT NOT NULL, evidence TEXT NOT NULL, title TEXT NOT NULL, why TEXT NOT NULL,
    confidence REAL NOT NULL, watched_at TEXT, rating REAL,
    UNIQUE (item_id, source, evidence)
);
CREATE INDEX viewings_of_batch ON viewings (batch);
CREATE TABLE answers (key TEXT PRIMARY KEY, item_id TEXT) WITHOUT ROWID;
CREATE TABLE scans (source TEXT PRIMARY KEY, until TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE unwanted (id INTEGER PRIMARY KEY, item_id TEXT NOT NULL UNIQUE);
CREATE TABLE watchlist (id INTEGER PRIMARY KEY, item_id TEXT NOT NULL UNIQUE);

-- the paired browsers, what they told, and the sites they look at
CREATE TABLE pairings (
    id TEXT PRIMARY KEY, created TEXT NOT NULL, origin TEXT NOT NULL, token TEXT NOT NULL,
    key TEXT NOT NULL, seen TEXT
) WITHOUT ROWID;
CREATE TABLE arrivals (
    id TEXT PRIMARY KEY, arrived TEXT NOT NULL, viewing INTEGER, batch INTEGER, row INTEGER
) WITHOUT ROWID;
CREATE TABLE sites (
    name TEXT PRIMARY KEY, allowed INTEGER NOT NULL, seen TEXT, missed TEXT
) WITHOUT ROWID;

-- what leaves: releases, the works they counted, the rounds of a shared model
CREATE TABLE releases (
    id TEXT PRIMARY KEY, created TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('drawn', 'recorded', 'sent')),
    batch TEXT NOT NULL, settings TEXT NOT NULL, record TEXT NOT NULL, payload BLOB NOT NULL,
    sent_at TEXT, epoch TEXT NOT NULL
);
CREATE TABLE counted (
    work TEXT NOT NULL, release TEXT NOT NULL REFERENCES releases ON DELETE CASCADE,
    PRIMARY KEY (work, release)
) WITHOUT ROWID;
CREATE TABLE rounds (
    task TEXT NOT NULL, number INTEGER NOT NULL, due TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'sealed', 'recorded', 'sent', 'over',
        'returned')),
    announcement BLOB NOT NULL, published BLOB NOT NULL, report BLOB, cut BLOB,
    PRIMARY KEY (task, number)
);
"""
"""The one schema, edited in place until 1.0; a store of another version is refused."""


class LockedError(EpicrecError):
    """The store is sealed; a passphrase opens it."""


class InUseError(InputError):
    """Another program has this store open."""


class Store:
    """One connection, one user, one change at a time."""

    def __init__(self, folder: Path, passphrase: str | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.RLock()
        self._vault: Vault | None = None
        self._written = b""
        self.changes = 0
        """Grows with every change, so that what was computed from the store can be kept."""
        self._hold = _hold(folder)
        try:
            self._db = self._open(passphrase)
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise
        except BaseException:
            self._hold.close()
            raise

    @property
    def is_sealed(self) -> bool:
        return self._vault is not None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._db

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """All of a change or nothing of it; on the disk when the block ends."""
        with self._lock:
            if self._db.in_transaction:  # a change within a change belongs to the outer one
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.commit()
            except BaseException:
                if self._db.in_transaction:  # SQLite ends some itself, as when the disk is full
                    self._db.rollback()
                raise
            self._write_sealed()
            self.changes += 1

    def _write_sealed(self) -> None:
        """Where there is a passphrase: what is in memory onto the disk, or back to what is there,
        so that nothing seems to have happened that did not."""
        if self._vault is None:
            return
        content = self._db.serialize()
        try:
            self._vault.write(content)
        except BaseException:
            self._db.close()
            self._db = _in_memory(self._written)
            raise
        self._written = content

    def setting(self, name: str, default: Any = None) -> Any:
        with self.reading() as db:
            row = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return default if row is None else json.loads(row[0])

    def set(self, **values: Any) -> None:
        with self.changing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO settings VALUES (?, ?)",
                [(name, json.dumps(value)) for name, value in values.items()],
            )

    def seal(self, passphrase: str) -> None:
        """Keep everything under a passphrase from now on; the open file goes."""
        with self._lock:
            vault = Vault.new(self.folder / SEALED, passphrase)
            content = self._db.serialize()
            vault.write(content)
            self._db.close()
            for suffix in ("", "-journal"):
                (self.folder / (PLAIN + suffix)).unlink(missing_ok=True)
            self._db, self._vault, self._written = _in_memory(content), vault, content

    def opens(self, passphrase: str) -> bool:
        """Whether this is the passphrase that the store is under."""
        try:
            Vault.open(self.folder / SEALED, passphrase)
        except WrongPassphraseError:
            return False
        return True

    def unseal(self) -> None:
        """Keep everything in an open file again."""
        with self._lock:
            if self._vault is None:
                return
            plain = _connect(self.folder / PLAIN)
            with plain:
                self._db.backup(plain)
            self._vault.path.unlink()
            self._db.close()
            self._db, self._vault = plain, None

    def copy(self) -> bytes:
        """The whole database, to be moved to another machine."""
        with self._lock:
            return bytes(self._db.serialize())

    def erase(self) -> None:
        """Forget everything. The store is empty afterwards and goes on."""
        with self.changing() as db:
            for table in ("drafts", "viewings", "counted", "releases", "batches", "answers",
                          "scans", "unwanted", "watchlist", "pairings", "arrivals", "sites",
                          "settings"):  # fmt: skip
                db.execute(f"DELETE FROM {table}")
            # that a round had its report is not forgotten: it must not get another one
            db.execute("UPDATE rounds SET state = 'over', report = NULL, cut = NULL")
        with self._lock:
            self._db.execute("VACUUM")

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._hold.close()

    def _open(self, passphrase: str | None) -> sqlite3.Connection:
        sealed = self.folder / SEALED
        if sealed.exists():
            if passphrase is None:
                raise LockedError("the history is under a passphrase; give it to go on")
            self._vault, content = Vault.open(sealed, passphrase)
            self._written = content
            for suffix in ("", "-journal"):  # left by a crash between sealing and removing
                (self.folder / (PLAIN + suffix)).unlink(missing_ok=True)
            return _in_memory(content)
        return _connect(self.folder / PLAIN)

    def _prepare(self) -> None:
        """Make the tables of a new store."""
        if _version(self._db) == 0:
            self._db.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
            self._write_sealed()
        _check_version(self._db, f"the store in {self.folder}")


def restore(folder: Path, content: bytes, passphrase: str | None = None) -> None:
    """Put a copied database in the place of an empty store's, under a passphrase where one is
    given; refuses to overwrite a history.

    Copies do not know of each other, so what is released here from now on is marked as such.
    """
    if (folder / PLAIN).exists() or (folder / SEALED).exists():
        raise InputError(f"{folder} holds a history already; choose an empty folder")
    try:
        with closing(_in_memory(content)) as probe:
            found = {row[0] for row in probe.execute("SELECT name FROM sqlite_master")}
            if {"viewings", "settings"} <= found:
                _check_version(probe, "this copy of a history")
    except (DamagedError, sqlite3.Error):
        found = set()
    if not {"viewings", "settings"} <= found:
        raise InputError("this is no copy of a history; choose the one that 'My data' exported")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if passphrase is None:
        write_private(folder / PLAIN, content)
    else:
        Vault.new(folder / SEALED, passphrase).write(content)
    with closing(Store(folder, passphrase)) as store:
        store.set(restored=secrets.token_hex(8))


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _check_version(db: sqlite3.Connection, what: str) -> None:
    if _version(db) != VERSION:
        raise InputError(
            f"{what} was written by another version of epicrec (format {_version(db)}; this one "
            f"reads {VERSION}); open it with that version, or begin in an empty --folder"
        )


def _hold(folder: Path) -> ExitStack:
    """The folder, for this process alone until this is closed."""
    hold = ExitStack()
    try:
        hold.enter_context(locked(folder / "lock", wait=False))
    except BlockingIOError:
        raise InUseError(
            f"another client uses {folder}; close it, or give this one its own --folder"
        ) from None
    return hold


def _connect(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    os.chmod(path, 0o600)
    return _prepared(sqlite3.connect(path, check_same_thread=False, isolation_level=None))


def _in_memory(content: bytes) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    try:
        db.deserialize(content)
    except BaseException:
        db.close()
        raise
    return _prepared(db)


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    db.row_factory = sqlite3.Row
    try:
        for pragma in ("synchronous = EXTRA", "foreign_keys = ON", "secure_delete = ON",
                       "trusted_schema = OFF"):  # fmt: skip
            db.execute(f"PRAGMA {pragma}")
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        db.close()
        raise DamagedError(f"the store is damaged: {found}. Restore it from a copy")
    return db


def set_aside(folder: Path) -> Path:
    """Move a store that cannot be read out of the way; where it is now. The ledger stays."""
    aside = folder / f"damaged-{datetime.now(UTC):%Y-%m-%d-%H%M%S}"
    aside.mkdir()
    for name in (PLAIN, f"{PLAIN}-journal", SEALED):
        if (folder / name).exists():
            (folder / name).rename(aside / name)
    return aside
