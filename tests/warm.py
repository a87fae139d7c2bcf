"""A command that begins at once: a fork of a process that has imported all it needs.

`Warm` makes a script that stands for `epicrec` in a shell. It hands its arguments, folder,
environment and streams to the process that waits, passes signals on, and ends as the fork ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

SCRIPT = """#!{python} -IS
import json, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({address!r})
given = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(asked, [len(given).to_bytes(4, "big")], [0, 1, 2])
asked.sendall(given)
told = asked.makefile()
fork = int(told.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(fork, number))
sys.exit(int(told.readline()) % 256)
"""


class Warm:
    """The process that waits; `script` is the command."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "epicrec"
        address = str(folder / "asked")
        self._waiting = subprocess.Popen(
            [sys.executable, __file__, address], stdout=subprocess.PIPE, text=True
        )
        assert self._waiting.stdout is not None
        assert self._waiting.stdout.readline() == "ready\n"
        self.script.write_text(SCRIPT.format(python=sys.executable, address=address), "utf-8")
        self.script.chmod(0o755)

    def close(self) -> None:
        self._waiting.kill()
        self._waiting.communicate()


def _wait(address: str) -> None:
    """Forever, for those who ask; a fork returns with what it is to do."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen()
        print("ready", flush=True)
        while True:
            asked, _ = door.accept()
            with asked:
                if os.fork() == 0:
                    _tell_how_it_ends(asked)
                    return


def _tell_how_it_ends(asked: socket.socket) -> None:
    """Returns in a fork that has become what was asked for; its parent tells how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(asked, 4, 3)
    with asked.makefile("rb") as given:
        arguments, folder, environment = json.loads(given.read(int.from_bytes(size, "big")))
    fork = os.fork()
    if fork:
        for stream in streams:
            os.close(stream)
        asked.sendall(f"{fork}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        asked.sendall(f"{128 - status if status < 0 else status}\n".encode())
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [entry for entry in path if entry not in sys.path]
    sys.argv = ["epicrec", *arguments]


if __name__ == "__main__":
    import preloaded  # noqa: F401
    from epicrec.cli import main

    sys.path.pop(0)  # the tests
    _wait(sys.argv[1])
    main()
