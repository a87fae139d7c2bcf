"""Disk: files that one process holds at a time, and names that are there after a power cut."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import SoftFileLock, Timeout, has_fcntl, lock_descriptor

_POLL = 0.01  # seconds between looks at a lock that another holds


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[int]:
    """The file, made where it is missing, open for this process alone until the block ends.

    Where another has it, wait for it, or raise BlockingIOError. The system lets go of the lock when
    the process ends, however it ends. The lock is on the file itself; only a system without locks
    on files has a second file beside it, which whoever comes next removes if its owner is gone.
    """
    with ExitStack() as end:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        end.callback(os.close, handle)  # lets go of its lock too
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
    """Have the names in a folder on the disk. Windows does so itself and opens no folders."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
