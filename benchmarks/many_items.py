"""Private lists over many items: time and memory of a fit where items × items would not fit.

    python benchmarks/many_items.py                   200,000 items, 1,000,000 people, 50 each
    python benchmarks/many_items.py 20000 50000 50    items, people, items each

A whole user at ε = 1, Zipf-like popularity, 18 categories; peak memory is that of the process, the
histories included.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import numpy as np

from epicrec.data import Catalogue, Ratings
from epicrec.models.private.covariance import CovarianceSVD


def catalogue(items: int) -> Catalogue:
    rng = np.random.default_rng(1)
    names = np.array([f"category {c}" for c in range(18)])
    genres = ["|".join(names[list({*pair})]) for pair in rng.integers(0, 18, (items, 2)).tolist()]
    years = rng.integers(1930, 2025, items)
    return Catalogue.from_columns(np.arange(items), ["t"] * items, genres, year=years)


def histories(items: int, people: int, each: int) -> Ratings:
    """`each` draws a person, by popularity, the repeated ones once."""
    rng = np.random.default_rng(0)
    edges = np.cumsum(1 / (np.arange(items) + 20.0))
    edges /= edges[-1]
    rows = []
    for start in range(0, people, 10_000):
        size = min(10_000, people - start)
        drawn = np.searchsorted(edges, rng.random((size, each))).astype(np.int32)
        drawn.sort(axis=1)
        rows.append(drawn)
    drawn = np.concatenate(rows)
    del rows
    first = np.ones(drawn.shape, bool)
    first[:, 1:] = drawn[:, 1:] > drawn[:, :-1]
    indptr = np.concatenate([[0], np.cumsum(first.sum(axis=1))]).astype(np.int64)
    seen = drawn[first]
    return Ratings(
        np.arange(people), np.arange(items), indptr, seen, np.ones(len(seen), np.float32), None,
        items_given=True,
    )  # fmt: skip


def main(arguments: list[str]) -> None:
    items, people, each = [int(a) for a in arguments] or (200_000, 1_000_000, 50)
    ratings, public = histories(items, people, each), catalogue(items)
    began = time.perf_counter()
    model = CovarianceSVD(epsilon=1, delta=1e-7, unit="user", feedback="implicit")
    model.fit(ratings, public)
    print(
        json.dumps(
            {
                "items": items,
                "people": people,
                "events": len(ratings),
                "seconds": round(time.perf_counter() - began, 1),
                "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "record": model.record,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
