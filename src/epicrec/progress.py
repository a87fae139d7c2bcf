"""Progress: long work reports how far it is, and listeners show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener(what, done, total)` called by everything that runs inside.

    Other threads are heard only if `epicrec.machine.in_threads` started them.
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Tell the listeners, if any, that `done` of `total` steps of this work are done."""
    for listener in _listeners.get():
        listener(what, done, total)
