"""Programs that die at a chosen step: a process counts what it does to disk and network.

A step is an SQL statement, a write, truncation, sync or renaming of a file, or a request or its
answer. The process dies by SIGKILL just before it takes the step. So the moments on both sides of
every step are reached, however fast or slow the machine is.

`python killing.py MOMENT ARGUMENTS…` is `epicrec ARGUMENTS…` that dies at this moment.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx

ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    )
}
"""For processes that import this module."""
NEVER, DEAD = "never", "killed at"


def kill_at(moment: str, say: Callable[[str], object] = lambda _: None) -> None:
    """Make this process die at a moment: "17" is its 17th step, "COMMIT 3" its third commit.

    A step is named by the first word of the statement, the function of `os`, "request" or "answer".
    `say` is called with the name of the last one.
    """
    if moment == NEVER:
        return
    *name, number = moment.split()
    left, lock = int(number), threading.Lock()

    def step(what: str) -> None:
        nonlocal left
        with lock:
            left -= not name or what == name[0]
            if left == 0:
                say(what)
                os.kill(os.getpid(), signal.SIGKILL)

    _hook(step)


def _hook(step: Callable[[str], None]) -> None:
    def before(holder: Any, function: str) -> None:
        real = getattr(holder, function)

        def stepping(*given: Any, **named: Any) -> Any:
            step(function)
            return real(*given, **named)

        setattr(holder, function, stepping)

    for function in ("write", "ftruncate", "fsync", "replace", "rename", "unlink"):
        before(os, function)

    connect = sqlite3.connect

    def connecting(*given: Any, **named: Any) -> sqlite3.Connection:
        made = connect(*given, **named)
        made.set_trace_callback(lambda text: step(text.split(maxsplit=1)[0].rstrip(";").upper()))
        return made

    sqlite3.connect = sqlite3.dbapi2.connect = connecting  # type: ignore[attr-defined]

    ask = httpx.HTTPTransport.handle_request

    def asking(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        step("request")
        answer = ask(self, request)
        answer.read()
        step("answer")
        return answer

    httpx.HTTPTransport.handle_request = asking  # type: ignore[method-assign]


def start(moment: str, work: Callable[..., None], *given: Any) -> BaseProcess:
    """A silent process that does this work and dies at this moment; `work` can be imported."""
    process = multiprocessing.get_context("spawn").Process(
        target=_work_silently, args=(moment, work, *given)
    )
    process.start()
    return process


def _work_silently(moment: str, work: Callable[..., None], *given: Any) -> None:
    with Path(os.devnull).open("w") as nowhere:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere.fileno(), stream.fileno())
    kill_at(moment)
    work(*given)


def epicrec(*arguments: str) -> None:
    """The command."""
    from epicrec.cli import main

    sys.argv[1:] = arguments
    main()


class Lives:
    """A program that serves pages and is started again after each death."""

    _process: subprocess.Popen[str] | None = None

    def begin(self, moment: str, *arguments: str) -> str:
        """Start `epicrec`, to die at this moment; the line in which it is ready, or dead."""
        self._process = subprocess.Popen(
            [sys.executable, __file__, moment, *arguments], env=ENVIRONMENT, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self._process.stderr is not None
        lines = (line for line in self._process.stderr if "open http" in line or DEAD in line)
        return next(lines, "")

    def end(self) -> int:
        """Wait for the end of this life; its exit status."""
        assert self._process is not None
        self._process.communicate()
        return self._process.returncode

    def stop(self) -> int:
        """Ask the program to end, unless its moment comes first; its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self.end()

    def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            self.end()


def main(moment: str, *arguments: str) -> None:
    kill_at(moment, lambda what: print(f"{DEAD} {what}", file=sys.stderr, flush=True))
    epicrec(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
