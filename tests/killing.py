"""Killing at a step: a process counts what it does to the disk and over the net, and dies there.

A step is an SQL statement, a write, cut, sync or renaming of a file, or a request or its answer.
The process dies by SIGKILL just before the step is taken, so that the moments on both sides of
every step are reached whatever the speed of the machine.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

ENVIRONMENT = os.environ | {
    "PYTHONPATH": os.pathsep.join(
        filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH")))
    )
}
"""For processes that import this."""
NEVER, LIVES = "never", "lives"


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


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["preloaded"])


def fork(moment: str, work: Callable[..., None], *given: Any) -> Any:
    """A process that dies at this moment, of work that can be imported: a fork of one that has
    imported all it needs, so that it costs little more than what it does."""
    process = FORKS.Process(target=_forked, args=(moment, work, *given))
    process.start()
    return process


def _forked(moment: str, work: Callable[..., None], *given: Any) -> None:
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
    """A program that is started once and lives again and again: each life is a fork of a process
    that has imported all it needs, so that a hundred cost little more than what they do."""

    def __init__(self, *needs: str) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, __file__, LIVES, *needs], env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def begin(self, moment: str, *arguments: str) -> str:
        """What a life that dies at this moment says first: it is ready, or dead already."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps([moment, *arguments]) + "\n")
        self._parent.stdin.flush()
        assert self._parent.stdout is not None
        self._life = int(self._parent.stdout.readline())
        self._last = self._said("open http", "killed at")
        return self._last

    def end(self) -> int:
        """How the life ended, when it does."""
        assert self._parent.stdout is not None
        status = int(self._parent.stdout.readline())
        if status == -signal.SIGKILL and "killed at" not in self._last:
            self._said("killed at")
        return status

    def stop(self) -> int:
        """Have the life end by itself, unless its moment comes first."""
        with suppress(ProcessLookupError):
            os.kill(self._life, signal.SIGTERM)
        return self.end()

    def _said(self, *words: str) -> str:
        """The next line with some of these words; nothing where all is over."""
        assert self._parent.stderr is not None
        for line in self._parent.stderr:
            if any(word in line for word in words):
                return line
        return ""

    def close(self) -> None:
        os.killpg(self._parent.pid, signal.SIGKILL)
        self._parent.communicate()


def _live(moment: str, *arguments: str) -> None:
    """One life of `epicrec`; it says at which step it dies."""
    kill_at(moment, lambda what: print(f"killed at {what}", file=sys.stderr, flush=True))
    epicrec(*arguments)


def _give_lives(*needs: str) -> None:
    """Every line of the input is a life; its end is told."""
    for module in needs:
        importlib.import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _live(*json.loads(line))
            os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":  # python killing.py MOMENT and what `epicrec` takes
    given = sys.argv[1:]
    if given[0] == LIVES:
        _give_lives(*given[1:])
    else:
        _live(*given)
