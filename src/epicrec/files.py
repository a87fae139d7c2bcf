"""Files: written whole or not at all, held by one process at a time, safe after a power cut."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from filelock import SoftFileLock, Timeout, has_fcntl, lock_descriptor

from epicrec.errors import InputError

_ROOM = 1 << 16  # bytes that must fit before anything is written


def check_output(path: str | Path) -> Path:
    """The path, if a file can be written there; checked before the work, not after it."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it, such as {path / 'model.npz'}")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a plain file and is not replaced; choose another name")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; make it first, or choose another one")
    _check_room(path.parent, path)
    return path


def check_folder(folder: str | Path) -> Path:
    """The folder, if it exists or can be made, and files can be written into it."""
    folder = Path(folder)
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(
            f"{folder} cannot be a folder, because {nearest} is a file; choose another name"
        )
    _check_room(nearest, folder)
    return folder


def write_whole(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Have `write(file)` fill a file that gets this name only once it is complete and on disk."""
    path = check_output(path).resolve()  # the target of a link
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, _mode(path))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise refused(path, error) from error


def slug(text: str) -> str:
    """Text as a part of a file's name.

    >>> slug("svd, as published: ε = 0.3")
    'svd-as-published-0.3'
    """
    return re.sub("[^a-z0-9.]+", "-", text.lower()).strip("-")


def made_once(
    path: Path, key: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]
) -> dict[str, Any]:
    """The values kept at the path under this key; made now, and kept, where there are none."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        found = {}
    if found.get("key") != key:
        found = {"key": dict(key), **make()}
        text = json.dumps(found, indent=1, ensure_ascii=False).encode()
        write_whole(path, lambda file: file.write(text))
    return found


def _check_room(folder: Path, path: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise refused(path, error) from error


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or those of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def refused(path: Path, error: OSError) -> InputError:
    """The error for a file that the system does not let us write."""
    why = error.strerror or str(error)
    return InputError(f"cannot write {path}: {why}; make room or rights there, or choose elsewhere")


_POLL = 0.01  # seconds between attempts at a lock that another process holds


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[int]:
    """Open the file, made where it is missing, for this process alone until the block ends.

    Where another process has it, wait for it, or raise BlockingIOError. The system releases the
    lock when the process ends, however it ends. The lock is on the file itself; a system without
    file locks uses a second file beside it, which the next process removes if its owner is gone.
    """
    with ExitStack() as end:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        end.callback(os.close, handle)  # releases its lock, too
        if has_fcntl or sys.platform == "win32":
            held = lock_descriptor(handle, blocking=wait, poll_interval=_POLL)
        else:
            beside = SoftFileLock(f"{path}.lock", mode=0o600, thread_local=False)
            end.callback(beside.release)
            with suppress(Timeout):
                beside.acquire(blocking=wait, poll_interval=_POLL)
            held = beside.is_locked
        if not held:
            raise BlockingIOError(f"another process holds {path}")
        yield handle


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk. Windows does so itself and opens no folders."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
