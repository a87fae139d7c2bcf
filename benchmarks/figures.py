"""Figures do not move: the measurements behind README and docs, of two versions side by side.

    python benchmarks/figures.py --out new.json             # about a quarter of an hour
    PYTHONPATH=../before/src python benchmarks/figures.py --out old.json
    python benchmarks/figures.py --compare old.json new.json

Every figure is a command of `epicrec` with `--json`, so the same list measures any version:
whichever `epicrec` the interpreter finds (`--python`, PYTHONPATH). What cannot be run, where a data
set is absent, is named under "missing". Where noise or a split is drawn, each command is run with
several seeds. A figure is

    equal     every seed gives the same number (to nine digits)
    within    the means differ by at most two standard errors of their difference
    moved     neither; the comparison then ends with status 1

A change that is to leave figures alone leaves them equal. Where a stream of noise had to change,
they are within the spread; of figures that only chance has moved, about one in ten is called moved
with four seeds: run those again with `--only WORDS --seeds 16`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

QUICK, USUAL, FULL = range(3)
ONCE, SEEDS, DRAWS = range(3)

FIGURES = (
    # README.md: what the first commands show
    (QUICK, SEEDS, "evaluate bias --data films"),
    (QUICK, SEEDS, "evaluate item-knn --task ratings --data films"),
    (QUICK, SEEDS, "evaluate svd --task ratings --data films --epsilon 1 --delta 1e-6"),
    (USUAL, ONCE, "evaluate user-knn --task ratings --data films"),
    (USUAL, ONCE, "evaluate popularity --data films"),
    (USUAL, ONCE, "evaluate item-knn --data films"),
    (QUICK, SEEDS, "perturb s-epicrec --history HISTORY --epsilon 0.5"),
    (QUICK, SEEDS, "perturb m-epicrec --history HISTORY --levels LEVELS --epsilon 0.5"),
    (QUICK, SEEDS, "perturb d2p --history HISTORY --epsilon 3"),
    (QUICK, ONCE, "perturb s-epicrec --history HISTORY --seed 0"),
    # docs/covariance.md: RMSE by ε, unit and noise
    (USUAL, ONCE, "evaluate svd --task ratings --data ml-100k"),
    (QUICK, SEEDS, "evaluate svd --task ratings --data ml-100k --epsilon 1"),
    (QUICK, SEEDS, "evaluate item-knn --task ratings --data ml-100k --epsilon 1"),
    (USUAL, SEEDS, "evaluate covariance-svd --task ratings --data ml-100k --epsilon 5"
     " --unit user --delta 1e-5"),
    (USUAL, SEEDS, "evaluate covariance-svd --data ml-100k --as-published --epsilon 1"),
    (USUAL, SEEDS, "evaluate covariance-svd --task ratings --data ml-100k --epsilon 10 --delta 0"
                   " --set noise=laplace"),
    (USUAL, SEEDS, "evaluate covariance-svd --data ml-100k"
                   " --unit user --epsilon 20 --delta 1e-5"),
    (USUAL, ONCE, "evaluate svd --task ratings --data ml-1m --test-fraction 0.1"),
    (USUAL, SEEDS, "evaluate svd --task ratings --data ml-1m --test-fraction 0.1 --epsilon 1"),
    (FULL, SEEDS, "evaluate svd --task ratings --data ml-1m --test-fraction 0.1 --epsilon 10"),
    (FULL, SEEDS, "evaluate svd --task ratings --data ml-1m --test-fraction 0.1 --epsilon 0.1"),
    (FULL, SEEDS, "evaluate item-knn --task ratings --data ml-1m --test-fraction 0.1 --epsilon 1"),
    (FULL, SEEDS, "evaluate svd --task ratings --data ml-1m --test-fraction 0.1 --epsilon 1"
     " --unit user"
                  " --delta 1e-5"),
    (FULL, SEEDS, "evaluate svd --data ml-1m --unit user"
                  " --epsilon 5 --delta 1e-5"),
    (FULL, ONCE, "evaluate svd --task ratings --data netflix --epsilon 1 --delta 1e-8"),
    # docs/d2p.md: quality over p*, as published, and at an honest ε
    (QUICK, SEEDS, "evaluate d2p-svd --data ml-100k --protocol topn --epsilon 3"),
    (USUAL, SEEDS, "evaluate d2p-svd --data ml-100k --protocol topn --epsilon 8"),
    (USUAL, SEEDS, "evaluate d2p-svd --data ml-100k --protocol topn --epsilon 3"
                   " --set correct=false"),
    (USUAL, SEEDS, "evaluate i-d2p --data ml-100k --protocol topn --epsilon 3"),
    (USUAL, SEEDS, "evaluate d2p --data ml-100k --protocol topn --epsilon 3"),
    (USUAL, SEEDS, "evaluate d2p --data ml-100k --protocol topn --as-published --set p=0.5"
                   " --set p_star=0.5 --set lam=1"),
    (USUAL, SEEDS, "evaluate i-d2p --data ml-100k --protocol topn --as-published --set p=0.5"
                   " --set p_star=0.5 --set lam=1"),
    # docs/epicrec.md: category MAE, MAE loss, lists
    (QUICK, SEEDS, "evaluate s-epicrec --data ml-1m --protocol aggregates --epsilon 0.1"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol aggregates --epsilon 1"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol aggregates --epsilon 0.1"
                   " --as-published"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol aggregates --epsilon 0.1"
                   " --as-published --set calibration=lpa"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol aggregates --epsilon 0.1"
                   " --as-published --set calibration=gs"),
    (USUAL, SEEDS, "evaluate m-epicrec --data ml-1m --protocol aggregates --epsilon 0.1"
                   " --max-users 200"),
    (USUAL, ONCE, "evaluate s-epicrec --data ml-100k --protocol aggregates"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-100k --protocol mae-loss --epsilon 0.2"),
    (USUAL, SEEDS, "evaluate s-epicrec --data ml-100k --protocol release-topn --epsilon 1"),
    (FULL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol mae-loss --epsilon 0.2"),
    (FULL, SEEDS, "evaluate s-epicrec --data ml-1m --protocol release-topn --epsilon 1"),
    (FULL, SEEDS, "evaluate s-epicrec --data yelp-2013 --protocol aggregates --epsilon 0.3"),
    # docs/yang.md: MAE and MSE by the paper's protocol, five divisions in one run
    (QUICK, ONCE, "evaluate pcc --data ml-latest-small-2016 --protocol yang"),
    (USUAL, ONCE, "evaluate cos --data ml-latest-small-2016 --protocol yang"),
    (USUAL, ONCE, "evaluate avg --data ml-latest-small-2016 --protocol yang"),
    (QUICK, SEEDS, "evaluate pcc --data ml-latest-small-2016 --protocol yang --epsilon 1"),
    (USUAL, SEEDS, "evaluate avg --data ml-latest-small-2016 --protocol yang --epsilon 1"),
    (USUAL, SEEDS, "evaluate dpi-pcc --data ml-latest-small-2016 --protocol yang --epsilon 1"),
    (USUAL, SEEDS, "evaluate dpi-avg --data ml-latest-small-2016 --protocol yang --epsilon 1"),
    (USUAL, SEEDS, "evaluate dpi-avg --data ml-latest-small-2016 --protocol yang --epsilon 1"
                   " --set debias=true"),
    (USUAL, SEEDS, "evaluate dpi-svd --data ml-latest-small-2016 --protocol yang --epsilon 1"
                   " --set debias=true"),
    (USUAL, SEEDS, "evaluate dpi-pcc --data ml-latest-small-2016 --protocol yang --epsilon 1"
                   " --unit rating --set debias=true"),
    (USUAL, SEEDS, "evaluate dpm-pcc --data ml-latest-small-2016 --protocol yang --epsilon 1"),
    # what audits find, and the papers' tables in short
    (USUAL, DRAWS, "audit s-epicrec"),
    (USUAL, DRAWS, "audit d2p"),
    (USUAL, DRAWS, "audit dpi-pcc"),
    (USUAL, DRAWS, "audit private-bias"),
    (USUAL, DRAWS, "audit covariance-svd"),
    (USUAL, ONCE, "reproduce mcsherry-mironov --quick --out OUT"),
    (USUAL, ONCE, "reproduce epicrec --quick --out OUT"),
    (USUAL, ONCE, "reproduce d2p --quick --out OUT"),
    (FULL, ONCE, "reproduce yang --quick --out OUT"),
    # docs/client.md: through running clients and a running server
    (FULL, SEEDS, "client-quality --data films"),
)  # fmt: skip
"""How much is asked for, how it is repeated (not; with seeds; as it stands, where noise is drawn
without a seed), and the command, which is the figure's name."""

HISTORY = ("alien-1979", "up-2009", "the-matrix-1999", "the-kid-1921", "haxan-1922")
LEVELS = {"Horror": "no release", "Drama": "all release"}

_NOT_FIGURES = (
    "seconds", "_ms", "rss", "overhead", "settings", "assumes", "reproducible", "times", "runs",
)  # fmt: skip
_NOTHING = 1e-9

Values = dict[str, list[float]]


def measure(
    size: int, seeds: int, words: str, python: str
) -> tuple[dict[str, Values], dict[str, str]]:
    """Metric by metric the value for each seed, of every command; and why others are missing."""
    found: dict[str, Values] = {}
    missing: dict[str, str] = {}
    chosen = [row for row in FIGURES if row[0] <= size and words in row[2]]
    with tempfile.TemporaryDirectory() as folder:
        places = _write_inputs(Path(folder))
        for number, (_, repeated, command) in enumerate(chosen, start=1):
            start = time.perf_counter()
            try:
                found[command] = _run(command, _endings(repeated, seeds), places, python)
                said = ", ".join(f"{k} {_mean(v):.4g}" for k, v in [*found[command].items()][:4])
            except RuntimeError as error:
                said = missing[command] = str(error)
            spent = time.perf_counter() - start
            print(f"{number}/{len(chosen)} {spent:.0f} s  {command}: {said}", file=sys.stderr)
    return found, missing


def _endings(repeated: int, seeds: int) -> list[list[str]]:
    if repeated == SEEDS:
        return [["--seed", str(seed)] for seed in range(seeds)]
    return [[]] * (seeds if repeated == DRAWS else 1)


def _run(command: str, endings: list[list[str]], places: dict[str, str], python: str) -> Values:
    """The numbers of one command, a value for each ending."""
    values: Values = {}
    for ending in endings:
        words = [places.get(word, word) for word in shlex.split(command)]
        done = subprocess.run(
            [python, "-c", "from epicrec.cli import main; main()", *words, *ending, "--json"],
            capture_output=True, text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(" ".join(done.stderr.split())[-200:])
        for name, value in _numbers(json.loads(done.stdout)):
            values.setdefault(name, []).append(value)
    return values


def _numbers(result: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a result under the path that leads to them, but for times and settings."""
    if isinstance(result, bool | int | float):
        yield path, float(result)
    elif path == "items" or (isinstance(result, list) and result and isinstance(result[0], str)):
        yield f"{path} (how many)", float(len(result))
    elif isinstance(result, list | dict):
        parts = result.items() if isinstance(result, dict) else enumerate(result)
        for key, value in parts:
            if not any(word in str(key) for word in _NOT_FIGURES):
                yield from _numbers(value, f"{path}.{key}".lstrip("."))


def _write_inputs(folder: Path) -> dict[str, str]:
    history, levels = folder / "history.csv", folder / "levels.json"
    history.write_text("\n".join(("item_id", *HISTORY, "")))
    levels.write_text(json.dumps(LEVELS))
    return {"HISTORY": str(history), "LEVELS": str(levels), "OUT": str(folder / "out")}


def compare(old: dict[str, Values], new: dict[str, Values]) -> list[tuple[str, str, str]]:
    """Verdict, figure and what was seen, for all that both have, and what only one has."""
    before, after = _flat(old), _flat(new)
    rows = [(*_verdict(before[name], after[name]), name) for name in before if name in after]
    rows += [("only old", "", name) for name in before if name not in after]
    rows += [("only new", "", name) for name in after if name not in before]
    return [(verdict, name, seen) for verdict, seen, name in rows]


def _flat(found: dict[str, Values]) -> Values:
    return {f"{command} | {name}": v for command, own in found.items() for name, v in own.items()}


def _verdict(old: list[float], new: list[float]) -> tuple[str, str]:
    seen = f"{_mean(old):.6g} → {_mean(new):.6g}"
    if len(old) == len(new) and all(
        math.isclose(a, b, rel_tol=_NOTHING, abs_tol=_NOTHING) or (math.isnan(a) and math.isnan(b))
        for a, b in zip(old, new, strict=True)
    ):
        return "equal", seen
    error = math.sqrt(_squared_error(old) + _squared_error(new))
    seen += f" (two standard errors: {2 * error:.2g})"
    return "within" if abs(_mean(new) - _mean(old)) <= 2 * error + _NOTHING else "moved", seen


def _mean(values: list[float]) -> float:
    return statistics.fmean(values)


def _squared_error(values: list[float]) -> float:
    return statistics.variance(values) / len(values) if len(values) > 1 else 0.0


def _report(old: Path, new: Path) -> int:
    rows = compare(*(json.loads(path.read_text("utf-8"))["figures"] for path in (old, new)))
    for verdict, name, seen in rows:
        if verdict != "equal":
            print(f"{verdict:9} {name}  {seen}")
    counts = {v: sum(row[0] == v for row in rows) for v in dict.fromkeys(row[0] for row in rows)}
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return int("moved" in counts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, help="where the figures go, as JSON; else to stdout")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("OLD", "NEW"))
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const=QUICK, default=USUAL)
    size.add_argument("--full", dest="size", action="store_const", const=FULL)
    parser.add_argument("--only", default="", help="commands that contain these words")
    parser.add_argument("--seeds", type=int, default=4, help="how many, from 0 on")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to measure with")
    given = parser.parse_args()
    if given.compare:
        return _report(*given.compare)
    figures, missing = measure(given.size, given.seeds, given.only, given.python)
    text = json.dumps({"figures": figures, "missing": missing}, indent=1)
    if given.out is None:
        print(text)
    else:
        given.out.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
