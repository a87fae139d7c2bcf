"""How good are private lists? nDCG@10 beside private popularity over ε, and fits with many items.

    epicrec bench lists                                  the embedded films; a minute
    epicrec bench lists quality ml-1m 1 2 5 10 20        a set beside the checkout
    epicrec bench lists quality netflix 1 5 --delta 1e-7 --seeds 1 --judged 10000 --from 4
    epicrec bench lists table films books                both units beside popularity
    epicrec bench lists unseen films ml-100k             items that nobody has seen, by features
    epicrec bench lists constants                        each constant halved and doubled
    epicrec bench lists many-items                       200,000 items, 1,000,000 people, 50 each
    epicrec bench lists many-items 20000 50000 50        items, people, items each
    epicrec bench lists answers films ml-1m              randomised response beside its popularity
    epicrec bench lists many-answers 15000 8000 32000    titles, and numbers of people

Quality is the mean of the seeds from 0 on, at user level, with the plan that was chosen. Beside the
sets there are two simulated ones without categories and with few items for each person: `books`
(3,000 people, 10,000 items) and `sparse` (5,000 people, 15,000 items). Differences are paired by
seed: to private popularity and, at rating level, to user level with μ/√2, which is as private.

With many items, where items × items would not fit: time and memory of a fit at ε = 1 with
popularity like Zipf's and 18 categories. The peak is that of the process, including the histories.
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from _measuring import Parts, show

from epicrec.data import Catalogue, Dataset, Ratings, find, load_dataset
from epicrec.data.works import catalogue_works
from epicrec.errors import InputError
from epicrec.evaluate import evaluate, list_metrics
from epicrec.evaluate.protocols import split
from epicrec.evaluate.release_lists import als, folded_in, judged
from epicrec.machine import peak_memory
from epicrec.models import Recommender, make_model
from epicrec.models.private import basis, learner, lists
from epicrec.models.private.answers import Answers, Block, learn_answers
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.perturb.randomised_response import Answering
from epicrec.privacy import gaussian_epsilon, gaussian_mu

CONSTANTS = [
    (lists, "FIRST_COUNTS"), (lists, "COUNTS"),
    (lists, "MOST_COUNTS"), (lists, "FIRST_TASTES"), (lists, "PAYS"),
    (lists, "PER_DIRECTION"), (basis, "DIRECTIONS"), (basis, "RARE"), (basis, "LEAN"),
    (basis, "EMPHASIS"), (learner, "SOFT"), (learner, "HALF"), (learner, "OWN_LENGTH"),
]  # fmt: skip
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


def table(given: Namespace) -> None:
    """Both units over ε: nDCG@10 beside popularity, and beside user level with μ/√2."""
    for name in given.data:
        data, seeds = _set(name), range(given.seeds)
        plain = _each("svd", data, seeds)
        for unit in ("user", "rating"):
            for epsilon in given.epsilon:
                private = {"epsilon": epsilon, "delta": given.delta, "unit": unit}
                found = {
                    "lists": _each("covariance-svd", data, seeds, **private),
                    "popularity": _each("popularity", data, seeds, **private),
                }
                if unit == "rating":
                    half = gaussian_epsilon(gaussian_mu(epsilon, given.delta) / 2**0.5, given.delta)
                    as_user = private | {"epsilon": half, "unit": "user"}
                    found["user level"] = _each("covariance-svd", data, seeds, **as_user)
                row = {"data": name, "unit": unit, "epsilon": epsilon, "seeds": given.seeds}
                row |= {what: _mean(each) for what, each in found.items()}
                row["no privacy"] = _mean(plain)
                for what in [*found][1:]:
                    row[f"over {what}"] = _paired(found["lists"], found[what])
                show(row)


def answers(given: Namespace) -> None:
    """Randomised response over ε: nDCG@10 beside popularity from the same answers."""
    for name in given.data:
        data, seeds = _set(name), range(given.seeds)
        plain = {"svd": _mean(_each("svd", data, seeds)), "als": _mean(_als(data, seeds))}
        for epsilon in given.epsilon:
            lists, popularity = (
                _each(
                    "randomised-response", data, seeds, epsilon=epsilon, settings={"tastes": tastes}
                )
                for tastes in (True, False)
            )
            row = {"data": name, "epsilon": epsilon, "lists": _mean(lists)}
            row |= {"popularity": _mean(popularity), "over": _paired(lists, popularity)}
            show(row | {f"{what}, no privacy": value for what, value in plain.items()})


def _als(data: Dataset, seeds: Iterable[int]) -> list[float]:
    """implicit's ALS, from and for the true histories."""
    found = []
    for seed in seeds:
        train, test = split(data, "topn", 0.2, seed=seed)
        model, train = als(train.as_history()), train.as_history()
        lists = judged(train, test, partial(folded_in, model, train), 10)
        found.append(lists["ndcg"])
    return found


def many_answers(given: Namespace) -> None:
    """Time and memory of learning from answers, for several numbers of people."""
    catalogue = _catalogue(given.titles)
    names = [f"title {i}" for i in range(given.titles)]
    catalogue = replace(catalogue, titles=np.array(names, dtype=object))
    how = Answering(catalogue_works(catalogue), 1.0)
    edges = np.cumsum(1 / (np.arange(given.titles) + 20.0))
    for people in given.people:

        def blocks(people: int = people) -> Iterator[Block]:
            rng = np.random.default_rng(0)
            for start in range(0, people, 1000):
                size = min(1000, people - start)
                bits = rng.random((size, given.titles), dtype=np.float32) < how.lie[0]
                seen = np.searchsorted(edges, rng.random((size, 50)) * edges[-1])
                bits[np.arange(size)[:, None], seen] ^= True
                rows = np.arange(start, start + size)
                yield Block(rows, np.zeros(size, np.int64), np.packbits(bits, axis=1))

        held = Answers(how.works, (how,), blocks, people)
        drawing, began = time.process_time(), time.perf_counter()
        for _ in blocks():
            pass
        drawing = time.process_time() - drawing
        used = time.process_time()
        _, note = learn_answers(held)
        show(
            {
                "titles": given.titles, "people": people, "note": note,
                "seconds": round(time.perf_counter() - began, 1),
                "processor_seconds": round(time.process_time() - used - 2 * drawing, 1),
                "peak_rss_mb": round(peak_memory() or 0),
            }
        )  # fmt: skip


def constants(given: Namespace) -> None:
    """The learner's constants, each halved and doubled: nDCG@10 of each set, unit and ε."""
    sets = {name: _set(name) for name in given.data}
    cells = [(name, unit, e) for name in sets for unit in ("user", "rating") for e in given.epsilon]

    def measured() -> list[float]:
        return [
            _mean(
                _each(
                    "covariance-svd", sets[name], range(given.seeds),
                    epsilon=epsilon, delta=given.delta, unit=unit,
                )
            )
            for name, unit, epsilon in cells
        ]  # fmt: skip

    show({"constant": "", "times": 1, "cells": cells, "ndcg": measured()})
    for module, name in CONSTANTS:
        usual = getattr(module, name)
        for times in (Fraction(1, 2), 2):
            try:
                setattr(module, name, type(usual)(usual * times))
                show({"constant": name, "times": float(times), "ndcg": measured()})
            except InputError:  # a share of all of the budget, or more
                show({"constant": name, "times": float(times), "ndcg": None})
            finally:
                setattr(module, name, usual)


def unseen(given: Namespace) -> None:
    """nDCG@10 among a tenth of the items, of which nobody's history tells: by their features."""
    private = {"epsilon": 5.0, "delta": given.delta, "unit": "user"}
    for name in given.data:
        data, found = load_dataset(name), {}
        for what, settings in (
            ("features", private), ("none", private | {"features": []}), ("not private", {}),
        ):  # fmt: skip
            models = {seed: make_model("svd", seed=seed, **settings) for seed in range(given.seeds)}
            found[what] = _mean([_of_unseen(data, model, at) for at, model in models.items()])
        show({"data": name, "seeds": given.seeds, **found})


def _of_unseen(data: Dataset, model: Recommender, seed: int) -> float:
    history = data.ratings.as_history()
    rated = np.flatnonzero(history.item_counts >= 5)
    held = np.zeros(history.n_items, np.bool_)
    held[np.random.default_rng(seed).choice(rated, len(rated) // 10, replace=False)] = True
    train, test = history.select(~held[history.items]), history.select(held[history.items])
    judged = np.flatnonzero((train.user_counts > 0) & (test.user_counts > 0))
    model.fit(train, data.catalogue)
    lists = model.recommend(train.users_at(judged), n=10, items=history.item_ids[held])
    asked, ids = test.users_at(judged), np.asarray(lists["item_id"].to_pylist())
    users = asked.positions(lists["user_id"].to_numpy())
    wanted = np.column_stack([asked.users, asked.items])
    ranks, n = lists["rank"].to_numpy(), history.n_items
    return list_metrics(users, find(history.item_ids, ids), ranks, wanted, 10, n)["ndcg"]


def _each(method: str, data: Dataset, seeds: Iterable[int], **options: Any) -> list[float]:
    return [
        evaluate(method, data, protocol="topn", seed=seed, **options).metrics["ndcg"]
        for seed in seeds
    ]


def _mean(each: list[float]) -> float:
    return round(float(np.mean(each)), 4)


def _paired(ones: list[float], others: list[float]) -> list[float]:
    """The mean of the differences, and its standard error."""
    found = np.array(ones) - np.array(others)
    return [round(float(found.mean()), 4), round(float(found.std(ddof=1) / len(found) ** 0.5), 4)]


def _set(name: str) -> Dataset:
    sizes = {"books": (3000, 10_000, 4), "sparse": (5000, 15_000, 8)}
    if name not in sizes:
        return load_dataset(name)
    ratings = _few_each(*sizes[name])
    ids = ratings.item_ids
    nothing = Catalogue.from_columns(ids, [f"item {i}" for i in ids], [""] * len(ids))
    return Dataset(name, ratings, nothing)


def _few_each(people: int, items: int, mean: int) -> Ratings:
    """Tastes in twelve groups of items that nothing public tells apart; popularity like Zipf's."""
    rng = np.random.default_rng(people)
    fame = rng.permutation((np.arange(items) + 20.0) ** -0.9)
    group, users, seen = rng.integers(0, 12, items), [], []
    for user in range(people):
        chances = np.cumsum(fame * (0.3 + 8.4 * rng.dirichlet(np.full(12, 0.3))[group]))
        drawn = rng.random(2 + rng.geometric(1 / mean)) * chances[-1]
        found = np.unique(np.searchsorted(chances[:-1], drawn))
        users.append(np.full(len(found), user))
        seen.append(found)
    return Ratings.from_columns(np.concatenate(users), np.concatenate(seen)).with_items(
        np.arange(items)
    )


def many_items(given: Namespace) -> None:
    """Time and memory of a fit for lists over many items."""
    ratings = _histories(given.items, given.people, given.each)
    public = _catalogue(given.items)
    began = time.perf_counter()
    model = CovarianceSVD(epsilon=1, delta=1e-7, unit="user", task="lists")
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
    for part in (found.add("table", table), found.add("constants", constants)):
        part.add_argument("data", nargs="*", default=["films", "books", "sparse"])
        part.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 1, 3, 10])
        part.add_argument("--delta", type=float, default=1e-5)
        part.add_argument("--seeds", type=int, default=4, help="how many, from 0 on")
    part = found.add("unseen", unseen)
    part.add_argument("data", nargs="*", default=["films"])
    part.add_argument("--delta", type=float, default=1e-5)
    part.add_argument("--seeds", type=int, default=2, help="how many, from 0 on")
    part = found.add("answers", answers)
    part.add_argument("data", nargs="*", default=["films", "books", "sparse"])
    part.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 0.3, 0.5, 1, 2, 3])
    part.add_argument("--seeds", type=int, default=4, help="how many, from 0 on")
    part = found.add("many-answers", many_answers)
    part.add_argument("titles", nargs="?", type=int, default=15_000)
    part.add_argument("people", nargs="*", type=int, default=[8000, 32_000, 128_000, 500_000])
    part = found.add("many-items", many_items)
    part.add_argument("items", nargs="?", type=int, default=200_000)
    part.add_argument("people", nargs="?", type=int, default=1_000_000)
    part.add_argument("each", nargs="?", type=int, default=50)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
