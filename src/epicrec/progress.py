"""Progress: long work says how far it is; whoever wants to show it listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have `listener(what, done, total)` called by everything that runs inside.

    Work in other threads is heard where it was started by `epicrec.machine.in_threads`; a thread
    that someone else began is someone else's work.
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


def report(what: str, done: int, total: int) -> None:
    """Tell the listeners, if any, that `done` of `total` steps of this work are behind us."""
    for listener in _listeners.get():
        listener(what, done, total)
