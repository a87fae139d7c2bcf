"""How long predictions take: covariance-knn beside covariance-svd, from the same release.

    python benchmarks/predictions.py [DATA ...]       films where none is named

A line is one data set: processor seconds for the held-out ratings, and for lists of ten, of either,
the best of three, and the ratio. Both models are asked in one process, after a call to warm up.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from epicrec.data import load_dataset, split_random
from epicrec.models import make_model

REPEATS = 3
LISTS = 200


def seconds(call: Callable[[], Any]) -> float:
    """The best of a few runs, after one that is not counted."""
    call()
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return round(min(found), 4)


def line(name: str) -> dict[str, Any]:
    data = load_dataset(name)
    train, test = split_random(data.ratings, 0.1, seed=0)
    some = train.users_at(np.arange(min(LISTS, train.n_users)))
    found: dict[str, Any] = {"data": data.name, "ratings": len(test)}
    for method in ("covariance-svd", "covariance-knn"):
        model = make_model(method, epsilon=20.0, seed=0).fit(train, data.catalogue)
        found[f"predict, {method}"] = seconds(partial(model.predict, test, histories=train))
        found[f"lists, {method}"] = seconds(partial(model.recommend, some, n=10))
    for what in ("predict", "lists"):
        slow, fast = (found[f"{what}, covariance-{kind}"] for kind in ("knn", "svd"))
        found[f"{what}, ratio"] = round(slow / fast, 1)
    return found


if __name__ == "__main__":
    for name in sys.argv[1:] or ["films"]:
        print(json.dumps(line(name)), flush=True)
