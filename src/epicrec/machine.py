"""The machine: processors, memory and threads that this process may use."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar


def processors() -> int:
    """How many processors this process may use, or all where the system does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_memory() -> int | None:
    """Free memory in bytes; where the system does not say, all memory, or None."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux
    return all_memory()


def all_memory() -> int | None:
    """All memory in bytes; None where the system does not say."""
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


Task = TypeVar("Task")
Result = TypeVar("Result")


def in_threads(work: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """The results of `work` on each task, in order. Nothing runs before the first is asked for.

    For work that releases Python's lock, such as numba's with `nogil`. Each task runs in a copy of
    the caller's context, so that its progress reaches the caller's listeners.
    """
    tasks = list(tasks)
    if len(tasks) < 2:
        yield from map(work, tasks)
        return
    with ThreadPoolExecutor(min(processors(), len(tasks))) as pool:
        running = [pool.submit(copy_context().run, work, task) for task in tasks]
        for one in running:
            yield one.result()
