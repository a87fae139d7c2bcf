"""How fast is randomisation? Draws of noise beside other libraries, and whole releases.

    epicrec bench noise                           draws a second, with ratios; a minute
    epicrec bench noise draws --with PYTHON       an interpreter that has diffprivlib
    epicrec bench noise draws --full              also 158 million Gaussian draws into one array
    epicrec bench noise release [--data ml-1m]    one EpicRec release beside the paper's programs
    epicrec bench noise d2p                       D2P's Table 4 beside McSherry & Mironov's fit

Releases are measured in processor time on one core. The paper's programs are (4.4) and (4.5) over
all items in cvxpy: calibration, then sanitisation of one noisy vector of totals. Ours is a whole
release with and without cached calibration, and with the budget quantified (N = 10). D2P's paper
has 1/26 of McSherry & Mironov's preprocessing on MovieLens and 1/4.5 on Jester.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np
from _measuring import Parts, seconds, show

from epicrec import machine
from epicrec.data import Catalogue, available, load_dataset
from epicrec.papers.d2p.overhead import overhead
from epicrec.papers.d2p.protocol import jester
from epicrec.perturb import MEpicRec, Prior, SEpicRec
from epicrec.privacy import add_integer_gaussian, discrete_laplace, integer_gaussian

# ---- draws --------------------------------------------------------------------------------------

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


def draws(given: Namespace) -> None:
    """Draws a second of integer noise, beside numpy's floats and integers of other libraries."""
    _table([sys.executable, *given.others], given.draws)
    if given.full:
        _full()


def _table(pythons: list[str], count: int) -> None:
    rng = np.random.default_rng()
    processors, machine.processors = machine.processors, lambda: 1
    print(f"one thread, millions of draws per second, best of 5 × {count:,}")
    heads = ("epicrec", "numpy", "ratio", "OpenDP", "ratio", "diffpriv", "ratio")
    named = (f"{head:>{8 if head == 'ratio' else 10}}" for head in heads)
    print(f"{'noise':10}{'scale':>12}", *named, sep="")
    others = _diffprivlib_rates(pythons)
    for at, (name, draw, floats) in enumerate(
        (("laplace", discrete_laplace, rng.laplace), ("gaussian", integer_gaussian, rng.normal))
    ):
        draw(10, 1)  # compile
        for k, scale in enumerate(SCALES):
            ours = _rate(lambda d=draw, s=scale: d(count, s), count)
            theirs = _rate(lambda f=floats, s=scale: f(0, s, count), count)
            tail = _beside(ours, _opendp_rate(name, scale))
            tail += _beside(ours, others[k][at] if others else None)
            print(f"{name:10}{scale:12.4g}{ours:10.1f}{theirs:10.1f}{ours / theirs:8.2f}{tail}")
    few = list(np.linspace(1.5, 40, 20))
    calls = _rate(lambda: [discrete_laplace(20, few) for _ in range(100)], 100) * 1e6
    print(f"20 draws with 20 scales: {1e6 / calls:.0f} µs a call")
    machine.processors = processors


def _rate(call: Callable[[], object], count: int, rounds: int = 5) -> float:
    """Millions per second, best of several rounds."""
    return count / min(seconds(call, rounds, time.perf_counter)) / 1e6


def _opendp_rate(name: str, scale: float) -> float | None:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    vector, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * 20_000
    if name == "laplace":
        mechanism = dp.m.make_laplace(vector, dp.l1_distance(T=int), scale=scale)
    else:
        mechanism = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=scale)
    return _rate(lambda: mechanism(zeros), len(zeros), rounds=2)


def _diffprivlib_rates(pythons: list[str]) -> list[list[float | None]] | None:
    """For each scale the rates of its Laplace and Gaussian integers, by the first interpreter that
    has it."""
    for python in pythons:
        command = [python, "-W", "ignore", "-c", DIFFPRIVLIB, json.dumps(SCALES)]
        done = subprocess.run(command, capture_output=True, text=True)
        if "ModuleNotFoundError" not in done.stderr:
            done.check_returncode()
            found: list[list[float | None]] = json.loads(done.stdout)
            return found
    return None


def _beside(ours: float, theirs: float | None) -> str:
    return f"{theirs:10.3f}{ours / theirs:8.0f}" if theirs else f"{'-':>10}{'-':>8}"


def _full() -> None:
    statistics = np.zeros(FULL, dtype=np.int64)
    statistics[:] = 1  # touch every page first, so that the peak below is the noise's own
    before = machine.peak_memory() or 0.0
    (spent,) = seconds(lambda: add_integer_gaussian(statistics, 12_345.6), 1, time.perf_counter)
    print(
        f"{FULL:,} Gaussian draws added in place on {machine.processors()} threads: "
        f"{spent:.1f} s, {FULL / spent / 1e6:.1f} M/s, "
        f"{(machine.peak_memory() or 0.0) - before:.0f} MB beyond the array's "
        f"{statistics.nbytes / 2**20:.0f} MB"
    )


# ---- releases -----------------------------------------------------------------------------------

EPSILON = 0.2


def release(given: Namespace) -> None:
    """Milliseconds for one EpicRec release, beside the paper's programs written down directly."""
    dataset = load_dataset(given.data)
    films = dataset.catalogue
    assert films is not None
    ratings = dataset.ratings.with_items(films.item_ids)
    prior = Prior.from_histories(films, ratings)
    history = films.item_ids[ratings.items[ratings.row(int(np.argsort(ratings.user_counts)[-300]))]]
    levels = {films.categories[k]: "no release" for k in range(0, len(films.categories), 6)}
    levels |= {films.categories[k]: "all release" for k in range(1, len(films.categories), 6)}
    results: dict[str, float] = {}
    for device, chosen in (
        (SEpicRec(films, epsilon=EPSILON, prior=prior), "perturbed release"),
        (MEpicRec(films, epsilon=EPSILON, prior=prior), levels),
    ):
        device.release(history, chosen)
        letter = device.method[0].upper()
        cached = _milliseconds(lambda d=device, c=chosen: d.release(history, c), 50)

        def anew(d: SEpicRec | MEpicRec = device, c: object = chosen) -> None:
            # a copy of the catalogue has no cached calibration
            fresh = replace(d.catalogue)
            _ = fresh.rows
            type(d)(fresh, epsilon=EPSILON, prior=prior).release(history, c)  # type: ignore[arg-type]

        uncached = _milliseconds(anew, 7)
        search = type(device)(films, prior=prior)
        seeds = iter(range(1000))  # another search each time: the result is cached by seed
        quantify = _milliseconds(
            lambda s=search, c=chosen, seeds=seeds: s.budget(c, seed=next(seeds)), 5
        )
        results |= {
            f"{letter} release": cached,
            f"{letter} release, calibration included": uncached,
            f"{letter} release, quantification included": cached + quantify,
        }
    plain = SEpicRec(films, epsilon=EPSILON, prior=prior).release(history)
    noisy = np.array([plain.aggregates[name] for name in films.categories], dtype=float)
    theirs = _direct(films, noisy)
    results["direct: calibrate"], results["direct: sanitise"] = theirs.values()
    print(f"{given.data}: {len(films):,} items, {len(films.rows.sizes)} category rows, one core")
    for what, spent in results.items():
        print(f"{what:42}{spent:10.2f} ms")
    whole = sum(theirs.values()) / results["S release, calibration included"]
    each = theirs["sanitise"] / results["S release"]
    print(f"direct / ours, calibration included       {whole:10.1f} ×")
    print(f"direct / ours, calibration cached by both {each:10.1f} ×")


def _direct(catalogue: Catalogue, noisy: np.ndarray) -> dict[str, float]:
    """The programs over all items, as the paper states them, with cvxpy's default solver."""
    import cvxpy

    matrix = catalogue.matrix.astype(float)

    def calibrate() -> None:
        w = cvxpy.Variable(matrix.shape[1], pos=True)
        error = cvxpy.sum(cvxpy.inv_pos(w))
        cvxpy.Problem(cvxpy.Minimize(error), [matrix @ w <= EPSILON]).solve(solver="CLARABEL")

    def sanitise() -> None:
        d = cvxpy.Variable(matrix.shape[0])
        low, high = (cvxpy.Variable(matrix.shape[1], nonneg=True) for _ in range(2))
        totals = matrix.T @ d
        cvxpy.Problem(
            cvxpy.Minimize(0.5 * cvxpy.sum_squares(low + high)),
            [noisy - low <= totals, totals <= noisy + high, d >= 0, d <= 1],
        ).solve(solver="CLARABEL")

    return {"calibrate": _milliseconds(calibrate, 3), "sanitise": _milliseconds(sanitise, 3)}


def _milliseconds(call: Callable[[], object], rounds: int) -> float:
    return 1000 * median(seconds(call, rounds))


def d2p(_: Namespace) -> None:
    """D2P's overhead, as a ratio to McSherry & Mironov's preprocessing."""
    for name in ("ml-100k", "jester1-part1", "ml-1m"):
        if name in available():
            dataset = load_dataset(name)
            show(overhead(jester(dataset) if "jester" in name else dataset))


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("draws", draws)
    part.add_argument("--draws", type=int, default=DRAWS, help="in each round")
    part.add_argument("--with", dest="others", action="append", default=[], metavar="PYTHON")
    part.add_argument("--full", action="store_true", help=f"also draw {FULL:,}")
    part = found.add("release", release)
    part.add_argument("--data", default="ml-1m" if "ml-1m" in available() else "films")
    found.add("d2p", d2p)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
