"""Threads: parts of one work, on all processors that this process may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from epicrec.machine import processors

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(work: Callable[[Part], Result], parts: Iterable[Part]) -> Iterator[Result]:
    """The results of `work` on each part, in order. Nothing runs before the first is asked for.

    For work that lets go of Python's lock, such as numba's with `nogil`. Each part runs in a copy
    of the caller's context, so what it reports reaches who listens here.
    """
    parts = list(parts)
    if len(parts) < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(min(processors(), len(parts))) as pool:
        tasks = [pool.submit(copy_context().run, work, part) for part in parts]
        for task in tasks:
            yield task.result()
