"""Ports that nobody else takes before the program that is told of them listens there."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def held_port(choices: Iterable[int] = (0,)) -> Iterator[int]:
    """The first of these ports that is free (0 is any), ours until the block ends: bound and not
    listened on. The system gives it to nobody, and whoever asks for it by number, willing to share
    it as servers are, may listen there, stop and listen again."""
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
