"""The machine: processors, memory and threads that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar


def processors() -> int:
    """How many processors this process may use, where the system says so; else all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes that are free; where the system does not say, all there are, else None."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    return all_memory()


def all_memory() -> int | None:
    """Bytes of memory there are, free or not; None where the system does not say."""
    if hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def peak_memory() -> float | None:
    """The most memory this process has held, in MB; None where the system keeps no such count."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, else kilobytes


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
