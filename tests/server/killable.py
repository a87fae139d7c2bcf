"""Starts a server, and a training beside it, at each line on stdin; says which of them died.

A line says at which step (see killing.py) which of the two dies: "server COMMIT 7", "training 40".
The other is killed with it. Both are ordinary processes: they listen, write, sync, and die by
SIGKILL.
"""

from __future__ import annotations

import json
import sys
from multiprocessing.connection import wait
from typing import Any

from epicrec.server import Settings
from epicrec.server.main import make_server
from epicrec.server.training import job
from killing import NEVER, start


def serve(settings: dict[str, Any]) -> None:
    make_server(Settings(**settings)).run()


def train(settings: dict[str, Any]) -> None:
    while True:
        job.run("train", Settings(**settings))


def main() -> None:
    settings = json.loads(sys.argv[1])
    for line in sys.stdin:
        who, _, moment = line.strip().partition(" ")
        alive = {
            name: start(moment if name == who else NEVER, work, settings)
            for name, work in (("server", serve), ("training", train))
        }
        dead = wait([process.sentinel for process in alive.values()])
        first = next(name for name, process in alive.items() if process.sentinel in dead)
        for process in alive.values():
            process.kill()
            process.join()
        print(first, alive[first].exitcode, flush=True)


if __name__ == "__main__":
    main()
