"""The private covariance fit: time and memory on Netflix, and how both grow.

    python benchmarks/covariance.py            growth on simulated ratings
    python benchmarks/covariance.py netflix [EVERY]
                                               the whole fit, with the catalogue, of every so
                                               manieth user, where the data is beside the checkout
    python benchmarks/covariance.py before ../before/src [DATA [EVERY]]
                                               pairs of items by another version's code and by ours,
                                               in turns, of every so manieth user of a data set

Every line is one fresh process, so that its peak memory is its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from math import inf
from typing import Any

import numpy as np

from epicrec.data import Catalogue, Ratings, Scale, load_dataset, split_probe
from epicrec.engine.local import local
from epicrec.models.covariance.kernel import memory_needed
from epicrec.models.covariance.model import CovarianceSVD
from epicrec.models.covariance.statistics import PairSums


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


def one_fit(
    ratings: Ratings, catalogue: Catalogue | None = None, **settings: Any
) -> dict[str, Any]:
    given = {"items": ratings.item_ids, "scale": "1:5:1"}
    used, began = time.process_time(), time.perf_counter()
    CovarianceSVD(**{"epsilon": 100.0} | settings).fit(ratings, catalogue, **given)
    return {
        "ratings": len(ratings),
        "items": ratings.n_items,
        "pairs": int(np.sum(ratings.user_counts * (ratings.user_counts - 1) // 2)),
        "seconds": round(time.perf_counter() - began, 2),
        "processor_seconds": round(time.process_time() - used, 2),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "stated_mb": memory_needed(ratings.n_items) // 2**20,
    }


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


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["one"]:
        users, items, per_user = (int(a) for a in arguments[1:])
        one_fit(simulated(50, 60, 5))  # compile
        print(json.dumps(one_fit(simulated(users, items, per_user))))
    elif arguments[:1] == ["before"]:
        compare(*arguments[1:])
    elif arguments[:1] == ["sum"]:
        print(json.dumps(one_sum(arguments[1], int(arguments[2]))))
    elif arguments[:1] == ["netflix"]:
        films = load_dataset("films")
        one_fit(films.ratings, films.catalogue, epsilon=1000.0)  # compile
        dataset = load_dataset("netflix")
        train, catalogue = split_probe(dataset.ratings)[0], dataset.catalogue
        del dataset
        if arguments[1:]:
            train = train.users_at(np.arange(0, train.n_users, int(arguments[1])))
        loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        found = one_fit(train, catalogue, epsilon=1.0, delta=1e-8)
        print(json.dumps({"loaded_mb": loaded, "busy": os.getloadavg()[0]} | found))
    else:
        growth = [(2000, 2000, n) for n in (25, 50, 100, 200)]
        growth += [(2000, n, 50) for n in (1000, 2000, 4000, 8000)]
        for case in growth:
            command = [sys.executable, __file__, "one", *map(str, case)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            print(found.stdout.strip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
