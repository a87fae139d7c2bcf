"""Programs on loopback: ports held for them, waiting until they answer, and the admin's key."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

ADMIN = "admin-key-of-the-tests"
PATIENCE = 600.0
"""Seconds until something is taken to hang; nothing is ever measured by it."""
TRUSTED = ssl.create_default_context()
"""Made once: each client that makes its own reads all that the system trusts."""


def wait_for(happened: Callable[[], object], what: str = "it") -> None:
    """Return once something has happened; fail if it never does."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            pytest.fail(f"{what} does not happen")
        time.sleep(0.05)


def run_in_thread(server: Any) -> threading.Thread:
    """Run a server of uvicorn's in a thread and return once it listens."""
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive(), "the server's start")
    assert server.started, "the server did not start"
    return thread


@contextmanager
def held_port(choices: Iterable[int] = (0,)) -> Iterator[int]:
    """The first of these ports that is free (0 is any), ours until the block ends.

    It is bound and not listened on: the system gives it to nobody else, and a server that asks for
    it by number, willing to share it as servers are, may listen there, stop and listen again.
    """
    for port in choices:
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
            yield held.getsockname()[1]
            return
    pytest.skip(f"each of the ports {[*choices]} is taken here")
