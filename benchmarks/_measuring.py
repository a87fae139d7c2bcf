"""What the benchmarks share: their parts as commands, timing, processes and their memory."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from epicrec.machine import peak_memory


class Parts:
    """The parts of a benchmark, each a command with its own options; the first is the default."""

    def __init__(self, doc: str | None) -> None:
        self._parser = argparse.ArgumentParser(
            description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        self._parts = self._parser.add_subparsers(metavar="PART")

    def add(self, name: str, work: Callable[[argparse.Namespace], int | None]) -> Any:
        """Add a part, which is asked for by name; its options are added to what is returned."""
        part = self._parts.add_parser(name, help=(work.__doc__ or "").splitlines()[0])
        part.set_defaults(work=work)
        return part

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Words without the name of a part belong to the first one."""
        known = [*self._parts.choices, "-h", "--help"]
        named = bool(words) and words[0] in known
        return self._parser.parse_args(words if named else [known[0], *words])

    def run(self) -> int:
        """Do what the command line says; the exit status."""
        given = self.parse(sys.argv[1:])
        return int(given.work(given) or 0)


def show(figures: dict[str, Any]) -> None:
    """One line of JSON."""
    print(json.dumps(figures), flush=True)


def seconds(
    work: Callable[[], object], rounds: int, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """What each round took. Processor time leaves out what else the machine does."""
    spent = []
    for _ in range(rounds):
        began = clock()
        work()
        spent.append(clock() - began)
    return spent


def fresh(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work` in a process of its own, so that its peak memory is its own."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: there.send(work(*arguments))
    )
    process.start()
    there.close()
    found = here.recv()
    process.join()
    return found


def run_to_end(*command: str, given: bytes = b"") -> dict[str, Any]:
    """Run a command: its seconds, processor time and peak memory."""
    began = time.perf_counter()
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    )
    assert started.stdin is not None
    started.stdin.write(given)
    started.stdin.close()
    _, status, used = os.wait4(started.pid, 0)
    if status:
        code = os.waitstatus_to_exitcode(status)
        raise SystemExit(f"{' '.join(command)} ended with status {code}")
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_rss_mb": used.ru_maxrss // 1024,
    }


class Weighed:
    """A process and all that it started, such as Spark's Java and Python workers, weighed together.

    The peak is the most that they held at once, read every two seconds, or what this process held
    alone since it began.
    """

    peak = 0

    def __enter__(self) -> Self:
        self._over = Event()
        self._watching = Thread(target=self._watch, daemon=True)
        self._watching.start()
        self._began, self._used = time.perf_counter(), processor_seconds()
        return self

    def _watch(self) -> None:
        while not self._over.wait(2):
            self.peak = max(self.peak, _family_memory(os.getpid()))

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


def _family(own: int) -> list[Path]:
    """A process and its descendants in /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(_fields(entry)[1])
    found = []
    for process in parents:
        above = process
        while above not in (0, own):
            above = parents.get(above, 0)
        if above == own:
            found.append(Path("/proc", str(process)))
    return found


def _fields(entry: Path) -> list[str]:
    """The fields of `stat` after the name: state, parent, …"""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def processor_seconds(process: int | None = None) -> float:
    """Processor time of a process and all that it started, including what has ended."""
    total = 0
    for entry in _family(process or os.getpid()):
        with suppress(OSError):
            total += sum(int(ticks) for ticks in _fields(entry)[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def _family_memory(process: int) -> int:
    """Bytes that the family holds now; what several of them share counts once."""
    total = 0
    for entry in _family(process):
        with suppress(OSError):
            lines = (entry / "smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024
