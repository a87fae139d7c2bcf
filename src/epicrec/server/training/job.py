"""Jobs: training and publishing, each in a process of its own so that answers stay quick.

`python -m epicrec.server.training.job train` reads the settings as JSON on stdin and keeps its
progress and its last result in `train.json`. Killed at any moment, it leaves the last good model
and can be started again.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from epicrec.errors import EpicrecError
from epicrec.files import locked
from epicrec.progress import listening
from epicrec.server.settings import Settings
from epicrec.server.training.folders import write_atomically

Task = Literal["train", "publish"]
Status = dict[str, Any]


class Job:
    """Starts the process, reports its progress, and calls `done` at its end."""

    def __init__(self, task: Task, settings: Settings, done: Callable[[Status], None]) -> None:
        self.task, self.settings, self.done = task, settings, done
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._again = False

    @property
    def running(self) -> bool:
        return self._watch is not None and not self._watch.done()

    def start(self, *, again: bool = False) -> bool:
        """Start, unless it is running already: then, with `again`, once more when that is over, for
        what has arrived since. Returns whether it starts, now or then."""
        if self.running:
            self._again |= again
            return again
        self._watch = asyncio.create_task(self._run())
        return True

    async def wait(self) -> None:
        if self._watch is not None:
            await asyncio.wait([self._watch])

    async def stop(self) -> None:
        self._again = False
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
        await self.wait()

    def status(self) -> Status:
        """The last status that the job wrote; 'interrupted' where it died without writing one."""
        status = read_status(self.settings, self.task)
        if status["state"] == "running" and not self.running and not self._is_elsewhere():
            status["state"] = "interrupted"
        return status

    def _is_elsewhere(self) -> bool:
        """Whether another process of this server runs the job."""
        try:
            with locked(_lock_file(self.settings, self.task), wait=False):
                return False
        except BlockingIOError:
            return True

    async def _run(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, self.task, stdin=asyncio.subprocess.PIPE
        )
        await self._process.communicate(json.dumps(self.settings.to_dict()).encode())
        self.done(self.status())
        if self._again:
            self._again = False
            await self._run()


def read_status(settings: Settings, task: Task) -> Status:
    try:
        found: Status = json.loads(_status_file(settings, task).read_text("utf-8"))
    except (OSError, ValueError):
        return {"state": "never run"}
    return found


def run(task: Task, settings: Settings) -> Status:
    """Run the job in this process, unless another runs it, and keep the status file up to date."""
    try:
        with locked(_lock_file(settings, task), wait=False):
            return _work(task, settings)
    except BlockingIOError:
        return read_status(settings, task)


def _work(task: Task, settings: Settings) -> Status:
    from epicrec.server.store.database import Database
    from epicrec.server.training.publish import publish
    from epicrec.server.training.train_lists import train

    path = _status_file(settings, task)
    before = read_status(settings, task)
    status: Status = {"state": "running", "started": int(time.time()), "last": before.get("last")}
    written = 0.0
    parent = os.getppid()

    def say(what: str, done: int, total: int) -> None:
        nonlocal written
        if os.getppid() != parent:  # the server has died; the next one starts its own job
            raise SystemExit(1)
        status.update(what=what, done=done, total=total)
        if time.monotonic() - written > 0.5 or done == total:
            write_atomically(path, json.dumps(status))
            written = time.monotonic()

    write_atomically(path, json.dumps(status))
    database = Database(settings.database_url)
    try:
        with listening(say):
            result = (train if task == "train" else publish)(settings, database)
        status = {"state": "done", "last": result}
    except Exception as error:
        status = {"state": "failed", "last": before.get("last"), "error": _plain(error)}
    finally:
        database.stop()
    status["ended"] = int(time.time())
    write_atomically(path, json.dumps(status))
    return status


def _plain(error: Exception) -> str:
    """Our own errors in full; of others only type and place, as they may quote data."""
    if isinstance(error, EpicrecError):
        return str(error)
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"


def _lock_file(settings: Settings, task: Task) -> Path:
    return settings.folder / f"{task}.lock"


def _status_file(settings: Settings, task: Task) -> Path:
    return settings.folder / f"{task}.json"


def main() -> None:
    task: Task = "publish" if sys.argv[1] == "publish" else "train"
    settings = Settings(**json.load(sys.stdin))
    if hasattr(os, "nice"):  # not on Windows
        os.nice(settings.training_nice)
    sys.exit(0 if run(task, settings)["state"] == "done" else 1)


if __name__ == "__main__":
    main()
