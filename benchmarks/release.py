"""Milliseconds for one EpicRec release, beside the paper's programs written down directly.

python benchmarks/release.py [--data ml-1m]

The direct formulation is (4.4) and (4.5) over all items in cvxpy, in the same run and on one core:
calibration, then sanitisation of one noisy vector of totals. Ours is a whole release (noise,
estimate, sanitisation, rounding, choice of items), with and without cached calibration, and with
the budget quantified (N = 10).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from epicrec.data import Catalogue, available, load_dataset
from epicrec.perturb import MEpicRec, Prior, SEpicRec

EPSILON = 0.2


def milliseconds(call: Callable[[], object], rounds: int) -> float:
    """The median processor time of several calls: another program's load does not count."""
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return 1000 * float(np.median(spent))


def direct(catalogue: Catalogue, noisy: np.ndarray) -> dict[str, float]:
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

    return {"calibrate": milliseconds(calibrate, 3), "sanitise": milliseconds(sanitise, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="ml-1m" if "ml-1m" in available() else "films")
    name = parser.parse_args().data
    dataset = load_dataset(name)
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
        cached = milliseconds(lambda d=device, c=chosen: d.release(history, c), 50)

        def anew(d: SEpicRec | MEpicRec = device, c: object = chosen) -> None:
            # a copy of the catalogue has no cached calibration
            fresh = replace(d.catalogue)
            _ = fresh.rows
            type(d)(fresh, epsilon=EPSILON, prior=prior).release(history, c)  # type: ignore[arg-type]

        uncached = milliseconds(anew, 7)
        search = type(device)(films, prior=prior)
        seeds = iter(range(1000))  # another search each time: the result is cached by seed
        quantify = milliseconds(
            lambda s=search, c=chosen, seeds=seeds: s.budget(c, seed=next(seeds)), 5
        )
        results |= {
            f"{letter} release": cached,
            f"{letter} release, calibration included": uncached,
            f"{letter} release, quantification included": cached + quantify,
        }
    plain = SEpicRec(films, epsilon=EPSILON, prior=prior).release(history)
    noisy = np.array([plain.aggregates[name] for name in films.categories], dtype=float)
    theirs = direct(films, noisy)
    results["direct: calibrate"], results["direct: sanitise"] = theirs.values()
    print(f"{name}: {len(films):,} items, {len(films.rows.sizes)} category rows, one core")
    for what, spent in results.items():
        print(f"{what:42}{spent:10.2f} ms")
    whole = sum(theirs.values()) / results["S release, calibration included"]
    each = theirs["sanitise"] / results["S release"]
    print(f"direct / ours, calibration included       {whole:10.1f} ×")
    print(f"direct / ours, calibration cached by both {each:10.1f} ×")


if __name__ == "__main__":
    main()
