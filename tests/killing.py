"""Killing at a step: a process counts what it does to the disk and over the net, and dies there.

A step is an SQL statement, a write, cut, sync or renaming of a file, or a request or its answer.
The process dies by SIGKILL just before the step is taken, so that the moments on both sides of
every step are reached whatever the speed of the machine.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    )
}
"""For processes that import this."""
NEVER = "never"


def kill_at(moment: str, say: Callable[[str], object] = lambda _: None) -> None:
    """Let this process die at a moment: "17" is its 17th step, "COMMIT 3" its third commit.

    Steps are named by the first word of the statement, the function of `os`, "request" or "answer".
    `say` hears the name of the last one.
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


if __name__ == "__main__":  # python killing.py MOMENT and what `epicrec` takes
    moment = sys.argv.pop(1)
    kill_at(moment, lambda what: print(f"killed at {what}", file=sys.stderr, flush=True))
    from epicrec.cli import main

    main()
