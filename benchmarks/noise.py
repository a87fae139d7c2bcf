"""Draws per second of the integer noise, beside numpy's float noise and integer noise of OpenDP and
diffprivlib, in one run.

python benchmarks/noise.py                 one thread, a table with ratios
python benchmarks/noise.py --with PYTHON   an interpreter that has diffprivlib, where this has not
python benchmarks/noise.py --full          158 million Gaussian draws, too, into one array
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from epicrec import machine
from epicrec.privacy import add_integer_gaussian, discrete_laplace, integer_gaussian

DRAWS = 4_000_000
FULL = 158_000_000
SCALES = (0.1, 1.0, 50.0, 1e3, 1e6, 2.0**40)
DIFFPRIVLIB = """
import json, sys, time
from diffprivlib.mechanisms import GaussianDiscrete, Geometric
def rate(mechanism):
    draws, start = 0, time.perf_counter()
    while time.perf_counter() < start + 1:
        mechanism.randomise(0)
        draws += 1
    return draws / (time.perf_counter() - start) / 1e6
found = []
for scale in json.loads(sys.argv[1]):
    normal = GaussianDiscrete(epsilon=1.0, delta=1e-5)
    normal._scale = scale  # a draw takes time in proportion to it
    found.append([rate(Geometric(epsilon=1 / scale)), rate(normal) if scale < 1e4 else None])
print(json.dumps(found))
"""


def rate(call: Callable[[], object], draws: int, rounds: int = 5) -> float:
    """Millions per second, best of several."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return draws / best / 1e6


def opendp_rate(law: str, scale: float) -> float | None:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    vector, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * 20_000
    if law == "laplace":
        mechanism = dp.m.make_laplace(vector, dp.l1_distance(T=int), scale=scale)
    else:
        mechanism = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=scale)
    return rate(lambda: mechanism(zeros), len(zeros), rounds=2)


def diffprivlib_rates(pythons: list[str]) -> list[list[float | None]] | None:
    """For each scale that of its Laplace and of its Gaussian integers, by the first interpreter
    that has it."""
    for python in pythons:
        command = [python, "-W", "ignore", "-c", DIFFPRIVLIB, json.dumps(SCALES)]
        done = subprocess.run(command, capture_output=True, text=True)
        if "ModuleNotFoundError" not in done.stderr:
            done.check_returncode()
            found: list[list[float | None]] = json.loads(done.stdout)
            return found
    return None


def beside(ours: float, theirs: float | None) -> str:
    return f"{theirs:10.3f}{ours / theirs:8.0f}" if theirs else f"{'-':>10}{'-':>8}"


def table(pythons: list[str]) -> None:
    rng = np.random.default_rng()
    processors, machine.processors = machine.processors, lambda: 1
    print(f"one thread, millions of draws per second, best of 5 × {DRAWS:,}")
    heads = ("epicrec", "numpy", "ratio", "OpenDP", "ratio", "diffpriv", "ratio")
    print(f"{'law':10}{'scale':>12}", *(f"{h:>{8 if h == 'ratio' else 10}}" for h in heads), sep="")
    others = diffprivlib_rates(pythons)
    for at, (law, draw, floats) in enumerate(
        (("laplace", discrete_laplace, rng.laplace), ("gaussian", integer_gaussian, rng.normal))
    ):
        draw(10, 1)  # compile
        for k, scale in enumerate(SCALES):
            ours = rate(lambda d=draw, s=scale: d(DRAWS, s), DRAWS)
            theirs = rate(lambda f=floats, s=scale: f(0, s, DRAWS), DRAWS)
            tail = beside(ours, opendp_rate(law, scale))
            tail += beside(ours, others[k][at] if others else None)
            print(f"{law:10}{scale:12.4g}{ours:10.1f}{theirs:10.1f}{ours / theirs:8.2f}{tail}")
    few = list(np.linspace(1.5, 40, 20))
    calls = rate(lambda: [discrete_laplace(20, few) for _ in range(100)], 100) * 1e6
    print(f"20 draws with 20 scales: {1e6 / calls:.0f} µs a call")
    machine.processors = processors


def full() -> None:
    statistics = np.zeros(FULL, dtype=np.int64)
    statistics[:] = 1  # touch every page first, so that the peak below is the noise's own
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    add_integer_gaussian(statistics, 12_345.6)
    seconds = time.perf_counter() - start
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"{FULL:,} Gaussian draws added in place on {machine.processors()} threads: "
        f"{seconds:.1f} s, {FULL / seconds / 1e6:.1f} M/s, {extra:.0f} MB beyond the array's "
        f"{statistics.nbytes / 2**20:.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="also draw 158 million")
    parser.add_argument("--with", dest="others", action="append", default=[])
    arguments = parser.parse_args()
    table([sys.executable, *arguments.others])
    if arguments.full:
        full()
