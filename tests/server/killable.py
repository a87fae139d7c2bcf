"""Starts a server, and a training beside it, at each line on stdin; says when both are dead.

A line says at which step (see killing.py) which of the two dies: "server COMMIT 7", "training 40".
The other is killed with it. Everything is imported once and each life is a fork, so that hundreds
take minutes. The processes are otherwise as real as any: they listen, write, sync, and die by
SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import implicit.cpu.als  # noqa: F401

from epicrec.server import Settings
from epicrec.server.main import make_server
from epicrec.server.training import job, publish, train_lists  # noqa: F401
from killing import NEVER, kill_at


def child(work: Callable[[], None], moment: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        kill_at(moment)
        work()
    finally:
        os._exit(1)


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))

    def serve() -> None:
        make_server(settings).run()

    def train() -> None:
        while True:
            job.run("train", settings)

    for line in sys.stdin:
        who, _, moment = line.strip().partition(" ")
        alive = {
            child(work, moment if name == who else NEVER): name
            for name, work in (("server", serve), ("training", train))
        }
        first, status = os.wait()
        name = alive.pop(first)
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        print(name, os.waitstatus_to_exitcode(status), flush=True)


main()
