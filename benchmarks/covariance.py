"""The private covariance fit: time and memory on Netflix, and how both grow.

    python benchmarks/covariance.py            growth on simulated ratings
    python benchmarks/covariance.py netflix [EVERY ...]
                                               the whole fit, with the catalogue, of the users whose
                                               ids are divisible by this, where the data is; with
                                               several, how it grows
    python benchmarks/covariance.py spark [EVERY]
                                               that fit by `local` and by Spark on two cores, one
                                               after the other: their ratio, and whether the models
                                               are the same to the bit
    python benchmarks/covariance.py published  the paper's recipe on 10,000 items
    python benchmarks/covariance.py before ../before/src [DATA [EVERY]]
                                               pairs of items by another version's code and by ours,
                                               in turns, of every so manieth user of a data set

Every line is one fresh process, so that its peak memory is its own; Spark's is that of all the
processes it starts.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from math import inf
from typing import Any

import numpy as np
from family import Weighed

from epicrec.data import Catalogue, Ratings, Scale, load_dataset, split_probe
from epicrec.engine import RemoteRatings, local
from epicrec.machine import peak_memory
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.pairs import PairSums, memory_needed


def simulated(users: int, items: int, per_user: int) -> Ratings:
    """Users with `per_user` ratings each, of items with Zipf-like popularity."""
    rng = np.random.default_rng(0)
    weights = 1 / (np.arange(items) + 20.0)
    keys = np.log(weights) + rng.gumbel(size=(users, items))
    chosen = np.sort(np.argpartition(-keys, per_user, axis=1)[:, :per_user], axis=1)
    return Ratings(
        np.arange(users),
        np.arange(items),
        np.arange(users + 1, dtype=np.int64) * per_user,
        chosen.reshape(-1).astype(np.int32),
        rng.integers(1, 6, users * per_user).astype(np.float32),
        Scale(1, 5, 1),
    )


def one_fit(ratings: Any, catalogue: Catalogue | None = None, **settings: Any) -> dict[str, Any]:
    remote = isinstance(ratings, RemoteRatings)  # they bring their items and scale
    given = {} if remote else {"items": ratings.item_ids, "scale": "1:5:1"}
    with Weighed() as weighed:
        model = CovarianceSVD(**{"epsilon": 100.0} | settings).fit(ratings, catalogue, **given)
        figures = weighed.figures()
    learned = [np.ascontiguousarray(array).data for array in (model.offsets_, model.factors_)]
    return figures | {
        "items": ratings.n_items,
        "stated_mb": memory_needed(ratings.n_items) // 2**20,
        "model": hashlib.sha256(b"".join(learned)).hexdigest(),
    }


def simulated_fit(*shape: int, **settings: Any) -> dict[str, Any]:
    one_fit(simulated(50, 60, 5), **settings)  # compile
    ratings = simulated(*shape)
    return {"ratings": len(ratings), "pairs": _pairs(ratings)} | one_fit(ratings, **settings)


def _pairs(ratings: Ratings) -> int:
    return int(np.sum(ratings.user_counts * (ratings.user_counts - 1) // 2))


def netflix_fit(engine: str, every: int) -> dict[str, Any]:
    """The whole fit of the part that is no probe, after loading it: for Spark, until each person's
    ratings stand together on its disk. A seed makes both draw the same noise."""
    films = load_dataset("films")
    one_fit(films.ratings, films.catalogue, epsilon=1000.0)  # compile
    began = time.perf_counter()
    if engine == "local":
        dataset = load_dataset("netflix")
        ratings, catalogue = split_probe(dataset.ratings)[0], dataset.catalogue
        del dataset
        if every > 1:
            ratings = ratings.users_at(np.flatnonzero(ratings.user_ids % every == 0))
        known = {"ratings": len(ratings), "pairs": _pairs(ratings)}
    else:
        ratings, catalogue = in_spark(every)
        known = {"ratings": len(ratings)}
    known |= {"loading_seconds": round(time.perf_counter() - began, 1), "loaded_mb": peak_memory()}
    found = one_fit(ratings, catalogue, epsilon=1.0, delta=1e-8, seed=0)
    return {"engine": engine, "busy": os.getloadavg()[0]} | known | found


def in_spark(every: int) -> tuple[Any, Catalogue | None]:
    from epicrec.data.datasets import public_of
    from epicrec.engine.spark import SparkRatings
    from epicrec.engine.spark_data import load_frame, session

    known = public_of("netflix", items=None, scale=None)
    rows = load_frame(session("local[2]"), "netflix")
    rows = rows.where(~rows["probe"]).where(rows["user_id"] % every == 0)
    return SparkRatings.of(rows, items=known.items, scale="1:5:1"), known.catalogue


def one_sum(name: str, every: int) -> dict[str, Any]:
    """Processor and wall time of the sums over pairs of items, and what they are."""
    whole = load_dataset(name).ratings
    ratings = whole.users_at(np.arange(0, whole.n_users, every))
    del whole
    statistic = PairSums("rating", 2, ratings.scale, np.zeros(ratings.n_items, np.int16))
    local(statistic, ratings.users_at(np.arange(9)))  # compile
    used, began = time.process_time(), time.perf_counter()
    found = local(statistic, ratings)
    return {
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - used, 2),
        "sum": hashlib.sha256(found).hexdigest(),
    }


def compare(before: str, name: str = "films", every: str = "1") -> None:
    """Another version's sums and ours, twice in turns, and the ratio of their best times."""
    best: dict[str, float] = {}
    sums = set()
    for path in [before, os.environ.get("PYTHONPATH", "src")] * 2:
        command = [sys.executable, __file__, "sum", name, every]
        environment = os.environ | {"PYTHONPATH": path}
        found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        figures = json.loads(found.stdout)
        sums.add(figures.pop("sum"))
        best[path] = min(best.get(path, inf), figures["processor_seconds"])
        print(json.dumps({"code": path} | figures), flush=True)
    old, new = best.values()
    print(json.dumps({"same_to_the_bit": len(sums) == 1, "ratio": round(old / new, 2)}))


def fresh(*arguments: object) -> dict[str, Any]:
    """One line of figures by a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(found.stdout)
    return figures


def growing(cases: list[tuple[object, ...]]) -> None:
    """What each case takes, and how often that of the first."""
    first: dict[str, Any] = {}
    for case in cases:
        found = fresh(*case)
        first = first or found
        for name in ("ratings", "pairs", "processor_seconds", "peak_mb"):
            found[f"times_{name}"] = round(found[name] / first[name], 2)
        print(json.dumps(found), flush=True)


def engines(every: str = "1") -> None:
    found = {}
    for engine in ("local", "spark"):
        found[engine] = fresh("fit", engine, every)
        print(json.dumps(found[engine]), flush=True)
    here, there = found.values()
    ratios = {
        f"times_{name}": round(there[name] / here[name], 2)
        for name in ("seconds", "processor_seconds", "peak_mb")
    }
    print(json.dumps({"same_to_the_bit": here["model"] == there["model"]} | ratios))


def main(arguments: list[str]) -> None:
    kind, *given = arguments or ["growth"]
    if kind == "one":
        print(json.dumps(simulated_fit(*map(int, given))))
    elif kind == "published":
        print(json.dumps(simulated_fit(2000, 10_000, 50, as_published=True)))
    elif kind == "fit":
        print(json.dumps(netflix_fit(given[0], int(given[1]))))
    elif kind == "sum":
        print(json.dumps(one_sum(given[0], int(given[1]))))
    elif kind == "before":
        compare(*given)
    elif kind == "spark":
        engines(*given)
    elif kind == "netflix":
        growing([("fit", "local", every) for every in given or ["1"]])
    else:
        growing([("one", 2000, 2000, n) for n in (25, 50, 100, 200)])
        growing([("one", 2000, n, 50) for n in (1000, 2000, 4000, 8000)])


if __name__ == "__main__":
    main(sys.argv[1:])
