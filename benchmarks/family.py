"""A process and all that it started: Spark's Java and its Python workers, weighed together."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

from epicrec.machine import peak_memory

TICK = os.sysconf("SC_CLK_TCK")


def family() -> list[Path]:
    """This process and its descendants, as they stand in /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(_fields(entry)[1])
    own, found = os.getpid(), []
    for process in parents:
        above = process
        while above not in (0, own):
            above = parents.get(above, 0)
        if above == own:
            found.append(Path("/proc", str(process)))
    return found


def _fields(entry: Path) -> list[str]:
    """What stands behind the name in `stat`: state, parent, …"""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def processor_seconds() -> float:
    """Of the whole family, with those that have ended."""
    total = 0
    for entry in family():
        with suppress(OSError):
            total += sum(int(ticks) for ticks in _fields(entry)[11:15])
    return total / TICK


def memory() -> int:
    """Bytes that the family holds now; what several of them share counts once."""
    total = 0
    for entry in family():
        with suppress(OSError):
            lines = (entry / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


class Weighed:
    """Within it, the most that the family held at once, looked at every two seconds; or that this
    process held alone, since it began."""

    peak = 0

    def __enter__(self) -> Self:
        self._over = Event()
        self._watching = Thread(target=self._watch, daemon=True)
        self._watching.start()
        self._began, self._used = time.perf_counter(), processor_seconds()
        return self

    def _watch(self) -> None:
        while not self._over.wait(2):
            self.peak = max(self.peak, memory())

    def figures(self) -> dict[str, float]:
        """What it took until now."""
        return {
            "seconds": round(time.perf_counter() - self._began, 1),
            "processor_seconds": round(processor_seconds() - self._used, 1),
            "peak_mb": round(max(self.peak / 2**20, peak_memory() or 0)),
        }

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watching.join()
