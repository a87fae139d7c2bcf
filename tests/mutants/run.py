"""`make mutants`: plant one small fault after the other and say which no test notices.

Each fault is planted in a copy of the checkout, where the tests of its area run. A fault counts as
caught when they fail, or run several times longer than without it. Fails where fewer than 95 % are
caught, where a named fault survives, and where `survivors.toml` does not explain a survivor or
explains one that is caught or gone.

    python tests/mutants/run.py [--list] [PART OF A NAME OR AREA …]
"""

from __future__ import annotations

import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from draw import draw
from faults import AREAS, NAMED, SOURCES, Fault

ROOT = Path(__file__).parents[2]
WORKERS = 2
ENOUGH = 0.95
_LIMIT = 4.0  # times as long as without the fault, and half a minute


def all_faults() -> list[Fault]:
    drawn = [
        fault
        for name, area in AREAS.items()
        if area.drawn
        for fault in draw(ROOT, name, area.places, area.drawn)
    ]
    return [*NAMED, *drawn]


def main(words: list[str]) -> int:
    faults = all_faults()
    if "--list" in words:
        print("\n".join(f"{fault.area}: {fault.name}\n{_change(fault)}" for fault in faults))
        return 0
    chosen = [fault for fault in faults if not words or any(_is_meant(fault, w) for w in words)]
    if not chosen:
        print(f"no fault is called {' '.join(words)}; the areas are {', '.join(AREAS)}")
        return 2
    for fault in chosen:
        _planted_text(ROOT, fault)  # a fault whose code has gone is found before anything runs
    with tempfile.TemporaryDirectory(prefix="epicrec-mutants-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(WORKERS):
            copies.put(_copy(Path(folder) / str(number)))
        survivors = _survivors(chosen, copies)
    return _verdict(chosen, survivors, whole=not words)


def _is_meant(fault: Fault, word: str) -> bool:
    return fault.area == word or (word not in AREAS and word in fault.name)


def _survivors(chosen: list[Fault], copies: SimpleQueue[Path]) -> list[Fault]:
    with ThreadPoolExecutor(WORKERS) as pool:
        areas = sorted({fault.area for fault in chosen})
        usual = dict(zip(areas, pool.map(lambda area: _unharmed(area, copies), areas), strict=True))
        caught = pool.map(lambda fault: _is_caught(fault, usual[fault.area], copies), chosen)
        survivors = []
        for fault, how in zip(chosen, caught, strict=True):
            print(f"{how or 'SURVIVES':9} {fault.area}: {fault.name}", flush=True)
            if not how:
                print(_change(fault), flush=True)
                survivors.append(fault)
    return survivors


def _verdict(chosen: list[Fault], survivors: list[Fault], *, whole: bool) -> int:
    reasons = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text("utf-8"))
    alive = {fault.name for fault in survivors}
    faulty = [
        f"{name} survives, and survivors.toml does not say why" for name in alive - {*reasons}
    ]
    faulty += [f"{f.name} is named and must be caught" for f in NAMED if f.name in alive]
    if whole:
        faulty += [f"{name} is explained and no survivor" for name in {*reasons} - alive]
    caught = 1 - len(survivors) / len(chosen)
    if caught < ENOUGH and whole:
        faulty.append(f"fewer than {ENOUGH:.0%} are caught")
    named = sum(fault in NAMED for fault in chosen)
    print(
        f"{len(chosen)} faults, {named} named and {len(chosen) - named} drawn: {caught:.1%} caught"
    )
    print(*sorted(faulty), sep="\n")
    return int(bool(faulty))


def _copy(folder: Path) -> Path:
    """The files of the checkout that git knows or would take in, with their times."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def _planted_text(root: Path, fault: Fault) -> str:
    text = (root / SOURCES / fault.file).read_text("utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(
            f"{fault.name}: its code stands {text.count(fault.old)} times in {fault.file}, not "
            f"once; bring tests/mutants/faults.py up to date\n{fault.old}"
        )
    return text.replace(fault.old, fault.new)


def _unharmed(area: str, copies: SimpleQueue[Path]) -> float:
    """Seconds the area's tests take without a fault; they must pass."""
    copy = copies.get()
    try:
        started = time.monotonic()
        done = _tests(copy, area, None)
        if done is None or done.returncode:
            said = done and done.stdout + done.stderr
            raise SystemExit(f"the tests of {area} fail without a fault\n{said}")
        return time.monotonic() - started
    finally:
        copies.put(copy)


def _is_caught(fault: Fault, usual: float, copies: SimpleQueue[Path]) -> str | None:
    copy = copies.get()
    path = copy / SOURCES / fault.file
    try:
        planted = _planted_text(copy, fault)
        before, times = path.read_bytes(), path.stat()
        path.write_text(planted, "utf-8")
        try:
            # kernels in other files hold compiled copies of what this one had: none may be used
            compiled = "njit" in planted and fault in NAMED
            done = _tests(copy, fault.area, _LIMIT * usual + 30, compile_anew=compiled)
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    finally:
        copies.put(copy)
    if done is None:
        return "hangs"
    if done.returncode not in (0, 1, 2):  # 2: the tests cannot even be collected
        raise SystemExit(f"pytest itself failed with {fault.name}\n{done.stdout}{done.stderr}")
    return "caught" if done.returncode else None


def _tests(
    copy: Path, area: str, limit: float | None, *, compile_anew: bool = False
) -> subprocess.CompletedProcess[str] | None:
    """Run an area's tests on a copy until the first that fails; None where it takes too long."""
    command = [
        sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider",
        "-m", "not slow and not realdata and not soak", *AREAS[area].tests,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(copy / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    shutil.rmtree(copy / ".hypothesis", ignore_errors=True)
    with tempfile.TemporaryDirectory() as fresh:
        if compile_anew:
            environment["NUMBA_CACHE_DIR"] = fresh
        try:
            return subprocess.run(
                command, cwd=copy, env=environment, capture_output=True, text=True,
                timeout=limit, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None


def _change(fault: Fault) -> str:
    lines = difflib.unified_diff(fault.old.splitlines(), fault.new.splitlines(), lineterm="", n=0)
    return "\n".join(f"    {line}" for line in lines if not line.startswith(("---", "+++", "@@")))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
