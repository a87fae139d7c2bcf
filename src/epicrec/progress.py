"""Progress: long work says how far it is; whoever wants to show it listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]

_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener(what, done, total)` called by everything that runs inside."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(what: str, done: int, total: int) -> None:
    """Tell the listeners, if any, that `done` of `total` steps of this work are behind us."""
    for listener in _listeners:
        listener(what, done, total)
