"""`make mutants`: plant one small fault after the other and say which no test notices.

Each fault is planted in a copy of the checkout, and the tests nearest to its module run there. A
fault is caught when one of them fails, or when they run several times longer than without it.
Faults are the named ones of `faults.py` and some drawn from every module. The run fails if fewer
than 95 % are caught, if a named fault survives, or if `survivors.toml` does not explain a survivor
or explains one that is caught or gone.

    python tests/mutants/run.py [--list] [--each N] [--most N] [PART …]

A part is a package or module (`perturb/d2p`, `data/splits.py`), or words in a named fault's name.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock

from draw import draw
from faults import NAMED
from noticing import Checkout

ROOT = Path(__file__).parents[2]
CHECKOUT = Checkout(ROOT)
WORKERS = 2
ENOUGH = 0.95
SECONDS = 60.0
"""A fault survives when its nearest tests, which take as much processor time as this without it, do
not notice."""
ALL_LEFT_OUT = 5
"""The status of pytest for a file in which every test is slow."""
_TIMES, _MORE, _COMPILING = 4.0, 60.0, 180.0
"""A fault makes tests hang if they take so many times as long and so many seconds more; what has to
be compiled again may take longer."""


@dataclass(frozen=True)
class Plant:
    """A fault and the file it changes."""

    name: str
    file: Path
    """From the root of a checkout."""
    text: str
    """The whole file with the fault in it."""
    named: bool
    tests: tuple[str, ...] = ()
    """Test files to run first."""

    def __str__(self) -> str:
        return f"{self.file.relative_to('src/epicrec')}: {self.name}"

    def change(self) -> str:
        before = (ROOT / self.file).read_text("utf-8").splitlines()
        lines = difflib.unified_diff(before, self.text.splitlines(), lineterm="", n=0)
        shown = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        return "\n".join(f"    {line}" for line in shown)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--list", action="store_true", help="show the faults and plant none")
    parser.add_argument("--each", type=int, default=1, help="faults drawn from a module")
    parser.add_argument("--most", type=int, default=400, help="faults planted in all")
    given = parser.parse_args(words)
    faults = [*_named(), *sorted(_drawn(given.each), key=_by_chance)]
    chosen = [f for f in faults if not given.parts or any(_is_meant(f, p) for p in given.parts)]
    chosen = chosen[: given.most]
    if not chosen:
        print(f"there is no package, module or fault called {' '.join(given.parts)}")
        return 2
    if given.list:
        print(*(f"{fault}\n{fault.change()}" for fault in chosen), sep="\n")
        return 0
    with tempfile.TemporaryDirectory(prefix="epicrec-mutants-") as folder:
        survivors = _survivors(chosen, [Copy(Path(folder) / str(n)) for n in range(WORKERS)])
    return _verdict(chosen, survivors, whole=len(chosen) == len(faults) and given.each == 1)


def _named() -> Iterator[Plant]:
    for fault in NAMED:
        try:
            file = fault.place(CHECKOUT.sources).relative_to(ROOT)
            text = fault.planted(CHECKOUT.sources)
            yield Plant(fault.name, file, text, named=True, tests=fault.tests)
        except LookupError as error:
            raise SystemExit(str(error)) from None


def _drawn(each: int) -> Iterator[Plant]:
    for module in CHECKOUT.modules():
        for drawn in draw(module, each):
            yield Plant(drawn.name, module.relative_to(ROOT), drawn.text, named=False)


def _by_chance(fault: Plant) -> str:
    """Not by module, so that each has the same chance where there are too many."""
    return fault.name.rpartition(":")[2]


def _is_meant(fault: Plant, part: str) -> bool:
    own = fault.file.is_relative_to(Path("src/epicrec") / part)
    return own or (fault.named and part in fault.name)


def _survivors(chosen: list[Plant], copies: list[Copy]) -> list[Plant]:
    free: SimpleQueue[Copy] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def caught(fault: Plant) -> str | None:
        copy = free.get()
        try:
            return copy.catches(fault)
        finally:
            free.put(copy)

    survivors = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for fault, how in zip(chosen, pool.map(caught, chosen), strict=True):
            print(f"{how or 'SURVIVES':9} {fault}", flush=True)
            if not how:
                print(fault.change(), flush=True)
                survivors.append(fault)
    return survivors


def _verdict(chosen: list[Plant], survivors: list[Plant], *, whole: bool) -> int:
    reasons = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text("utf-8"))
    alive = {fault.name for fault in survivors}
    faulty = [
        f"{name} survives, and survivors.toml does not say why" for name in alive - {*reasons}
    ]
    faulty += [f"{fault.name} is named and must be caught" for fault in survivors if fault.named]
    faulty += [
        f"{test.relative_to(ROOT)} fails without a fault"
        for test, usual in Copy.usual.items()
        if usual.status not in (0, ALL_LEFT_OUT)
    ]
    if whole:
        faulty += [f"{name} is explained and no survivor" for name in {*reasons} - alive]
    caught = 1 - len(survivors) / len(chosen)
    if caught < ENOUGH and whole:
        faulty.append(f"fewer than {ENOUGH:.0%} are caught")
    named = sum(fault.named for fault in chosen)
    print(
        f"{len(chosen)} faults, {named} named and {len(chosen) - named} drawn: {caught:.1%} caught"
    )
    print(*sorted(faulty), sep="\n")
    return int(bool(faulty))


@dataclass(frozen=True)
class Run:
    """How a run of pytest ended."""

    status: int | None
    """None where it took too long."""
    said: str
    seconds: float
    processor: float


class Copy:
    """A copy of the checkout in which faults are planted one by one."""

    usual: dict[Path, Run] = {}
    """How each test file runs without a fault, in whichever copy."""
    measuring: defaultdict[Path, Lock] = defaultdict(Lock)

    def __init__(self, folder: Path) -> None:
        """The files that git knows or would take in, with their times."""
        self.folder = folder
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\0")  # fmt: skip
        # and where its entry points lead to, which the environment may know of another checkout
        listed += [str(path.relative_to(ROOT)) for path in ROOT.glob("src/*.egg-info/*")]
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def catches(self, fault: Plant) -> str | None:
        """How the tests notice, file by file until one does; None where they do not."""
        left = SECONDS
        nearest = CHECKOUT.tests_of(ROOT / fault.file)
        with tempfile.TemporaryDirectory() as fresh:
            # kernels in other files hold compiled copies of what this one had: none may be used
            kernels = Path(fresh) if "njit" in fault.text else None
            for test in dict.fromkeys([*(ROOT / name for name in fault.tests), *nearest]):
                usual = self._without_fault(test)
                if usual.status != 0:
                    continue
                how = self._notices(test, fault, usual.seconds, kernels)
                left -= usual.processor
                if how or left < 0:
                    return how
        return None

    def _without_fault(self, test: Path) -> Run:
        with self.measuring[test]:
            if test not in self.usual:
                self.usual[test] = usual = self._run(test)
                if usual.status not in (0, ALL_LEFT_OUT):
                    print(f"{test} fails without a fault\n{usual.said}", flush=True)
            return self.usual[test]

    def _notices(self, test: Path, fault: Plant, usual: float, kernels: Path | None) -> str | None:
        path = self.folder / fault.file
        before, times = path.read_bytes(), path.stat()
        path.write_text(fault.text, "utf-8")
        try:
            limit = _TIMES * usual + _MORE + (_COMPILING if kernels else 0.0)
            done = self._run(test, limit, kernels)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if done.status not in (None, 0, 1, 2):  # 2: the tests cannot even be collected
            raise SystemExit(f"pytest itself failed with {fault.name}\n{done.said}")
        return "hangs" if done.status is None else "caught" if done.status else None

    def _run(self, test: Path, limit: float = 3600.0, kernels: Path | None = None) -> Run:
        """Run the quick tests of a file until the first that fails."""
        command = [
            sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
            "-m", "not slow and not realdata and not soak", str(test.relative_to(ROOT)),
        ]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(self.folder / "src")}
        if kernels is not None:
            environment["NUMBA_CACHE_DIR"] = str(kernels)
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)
        with tempfile.TemporaryFile("w+") as said:
            started = time.monotonic()
            running = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
            status, processor = _ended(running, started + limit)
            said.seek(0)
            return Run(status, said.read(), time.monotonic() - started, processor)


def _ended(running: subprocess.Popen[bytes], end: float) -> tuple[int | None, float]:
    """The exit status, None where it was killed at the end of its time; its processor time."""
    while True:
        pid, status, usage = os.wait4(running.pid, os.WNOHANG)
        if pid or time.monotonic() > end:
            with suppress(ProcessLookupError):  # also what it started
                os.killpg(running.pid, signal.SIGKILL)
            if not pid:
                return running.wait() and None, 0.0
            running.returncode = os.waitstatus_to_exitcode(status)
            return running.returncode, usage.ru_utime + usage.ru_stime
        time.sleep(0.05)


class _Plain(argparse.RawDescriptionHelpFormatter):
    """The text as it is."""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
