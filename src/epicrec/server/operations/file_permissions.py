"""File permissions: what the server keeps is open to its own user alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from epicrec.errors import InputError

_FOLDER, _FILE = 0o700, 0o600
_KEPT = (
    "admin.key", "collective.key", "common", "epicrec.sqlite", "epicrec.sqlite-shm",
    "epicrec.sqlite-wal", "housekeeping.lock", "ledger.jsonl", "metrics", "models",
    "publish.json", "publish.lock", "published",
    "server.lock", "tls", "train.json", "train.lock",
)  # fmt: skip
"""The contents of a server's data folder; anything else in it is left alone."""


def close_folder(folder: Path) -> None:
    """Make the data folder where it is missing, and close it and what the server keeps in it to
    everybody else."""
    folder.mkdir(parents=True, exist_ok=True, mode=_FOLDER)
    if folder.stat().st_mode & stat.S_ISVTX:
        raise InputError(f"{folder} is shared by all users; name a folder of the server's own")
    _close(folder, _FOLDER)
    for name in _KEPT:
        close(folder / name)


def close(path: Path) -> None:
    """Close a file, or a folder with its contents, to everybody else, where it exists."""
    if path.is_dir():
        _close(path, _FOLDER)
        for inside in path.iterdir():
            close(inside)
    elif path.exists():
        _close(path, _FILE)


def opener(path: str, flags: int) -> int:
    """For `open`: a new file is closed to everybody else from its first byte."""
    return os.open(path, flags, _FILE)


def _close(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        try:
            path.chmod(mode)
        except OSError as error:
            raise InputError(
                f"{path} is open to others and cannot be closed to them ({error.strerror}); let "
                "the user the server runs as own it (chown)"
            ) from error
