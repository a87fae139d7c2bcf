"""Starts a server, and a training beside it, at each line on stdin; kills both at the next.

Everything is imported once and each life is a fork, so that fifty take seconds. The processes are
otherwise as real as any: they listen, write, sync, and die by SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import implicit.cpu.als  # noqa: F401

from epicrec.server import Settings
from epicrec.server.main import make_server
from epicrec.server.training import fit, job, publish  # noqa: F401


def child(work: object) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()  # type: ignore[operator]
    finally:
        os._exit(0)


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))

    def train() -> None:
        while True:
            job.run("train", settings)
            time.sleep(0.1)

    for line in sys.stdin:
        if line.strip() == "start":
            alive = [child(make_server(settings).run), child(train)]
            print("started", flush=True)
        else:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            print("killed", flush=True)


main()
