"""How good are private lists? nDCG@10 beside private popularity over ε, and fits with many items.

    epicrec bench lists                                  the embedded films; a minute
    epicrec bench lists quality ml-1m 1 2 5 10 20        a set beside the checkout
    epicrec bench lists quality netflix 1 5 --delta 1e-7 --seeds 1 --judged 10000 --from 4
    epicrec bench lists many-items                       200,000 items, 1,000,000 people, 50 each
    epicrec bench lists many-items 20000 50000 50        items, people, items each

Quality is the mean of the seeds from 0 on, at user level, with the plan that was chosen. With many
items, where items × items would not fit: time and memory of a fit at ε = 1 with popularity like
Zipf's and 18 categories. The peak is that of the process, including the histories.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections import Counter

import numpy as np
from _measuring import Parts, show

from epicrec.data import Catalogue, Ratings, load_dataset
from epicrec.evaluate import evaluate
from epicrec.machine import peak_memory
from epicrec.models.private.covariance import CovarianceSVD

SHARES = "released with these shares of the budget"


def quality(given: Namespace) -> None:
    """nDCG@10 of some methods over ε."""
    data = load_dataset(given.data)
    for epsilon in given.epsilon:
        for method in given.methods:
            found, plans, seconds = [], Counter[str](), 0.0
            for seed in range(given.seeds):
                result = evaluate(
                    method, data, protocol="topn", epsilon=epsilon, delta=given.delta,
                    unit=given.unit, seed=seed, relevant_from=given.relevant_from,
                    max_users=given.judged,
                )  # fmt: skip
                found.append(result.metrics["ndcg"])
                plans[result.record] += 1
                seconds += result.seconds["fit"] / given.seeds
            spread = np.std(found, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0.0
            plan = plans.most_common(1)[0][0].removeprefix(SHARES)
            print(
                f"{given.data} ε={epsilon:g} {method}: {np.mean(found):.4f} ± {spread:.4f}, "
                f"fit {seconds:.1f} s{plan}",
                flush=True,
            )


def many_items(given: Namespace) -> None:
    """Time and memory of a fit for lists over many items."""
    ratings = _histories(given.items, given.people, given.each)
    public = _catalogue(given.items)
    began = time.perf_counter()
    model = CovarianceSVD(epsilon=1, delta=1e-7, unit="user", feedback="implicit")
    model.fit(ratings, public)
    show(
        {
            "items": given.items,
            "people": given.people,
            "events": len(ratings),
            "seconds": round(time.perf_counter() - began, 1),
            "peak_rss_mb": round(peak_memory() or 0),
            "record": model.record,
        }
    )


def _catalogue(items: int) -> Catalogue:
    rng = np.random.default_rng(1)
    names = np.array([f"category {c}" for c in range(18)])
    genres = ["|".join(names[list({*pair})]) for pair in rng.integers(0, 18, (items, 2)).tolist()]
    years = rng.integers(1930, 2025, items)
    return Catalogue.from_columns(np.arange(items), ["t"] * items, genres, year=years)


def _histories(items: int, people: int, each: int) -> Ratings:
    """`each` draws a person, by popularity; repeated draws count once."""
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


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("quality", quality)
    part.add_argument("data", nargs="?", default="films")
    part.add_argument("epsilon", nargs="*", type=float, default=[0.3, 1, 5, 20])
    part.add_argument("--delta", type=float, default=1e-5)
    part.add_argument("--unit", default="user", help="'user' or 'rating'")
    part.add_argument("--seeds", type=int, default=4, help="how many, from 0 on")
    part.add_argument("--judged", type=int, help="at most so many users are judged")
    part.add_argument("--from", type=float, dest="relevant_from", help="ratings that are liked")
    part.add_argument("--methods", nargs="+", default=["covariance-svd", "popularity"])
    part = found.add("many-items", many_items)
    part.add_argument("items", nargs="?", type=int, default=200_000)
    part.add_argument("people", nargs="?", type=int, default=1_000_000)
    part.add_argument("each", nargs="?", type=int, default=50)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
