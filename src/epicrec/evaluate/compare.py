"""Compare: every method on one split of one data set, over a grid of ε."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isinf
from pathlib import Path
from typing import Any

import numpy as np

from epicrec._version import __version__
from epicrec.data import Dataset, Ratings, split_per_user, split_probe, split_random
from epicrec.errors import InputError
from epicrec.evaluate.contenders import CONTENDERS, TASKS, Contender, Task, check_task, others
from epicrec.evaluate.protocols import evaluate_rating, evaluate_topn
from epicrec.evaluate.release_lists import lists_of_releases
from epicrec.files import made_once, slug
from epicrec.models import make_model, model_class
from epicrec.parameters import taken
from epicrec.privacy import Guarantee
from epicrec.progress import report

EPSILONS, QUICK_EPSILONS = (0.3, 1.0, 3.0), (1.0, 3.0)
SEEDS, QUICK_SEEDS = 4, 2
METRICS: dict[Task, tuple[str, ...]] = {"ratings": ("rmse", "mae"), "lists": ("ndcg", "recall")}
"""What is measured; the first of each is what the table and the plot show."""


@dataclass(frozen=True)
class Plan:
    """What is run: budgets, how many draws of the noise, and which of the contenders."""

    epsilons: tuple[float, ...] = EPSILONS
    seeds: int = SEEDS
    delta: float = 1e-6
    quick: bool = False
    keep: Path | None = None
    """Where each row is kept once it is found, so that a run that was ended goes on from there."""

    def __post_init__(self) -> None:
        if not self.epsilons or not all(e > 0 and not isinf(e) for e in self.epsilons):
            raise InputError(f"epsilon is one or more numbers above 0, not {self.epsilons}")
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")


def compare(
    data: Dataset, *, tasks: Sequence[Task] | None = None, plan: Plan | None = None
) -> dict[str, Any]:
    """The table as plain values: for each task its rows, and who refused it and why.

    A tenth of the ratings is held out for `ratings`, a fifth of each history for `lists`; a `probe`
    column decides where there is one. The split is the same for all; only noise differs between
    seeds, so those without noise run once.
    """
    plan = plan or Plan()
    rated = data.ratings.scale is not None
    if tasks and "ratings" in tasks and not rated:
        raise InputError(f"{data.name} has no ratings; compare lists (--task lists)")
    chosen = tuple(tasks or (TASKS if rated else TASKS[1:]))
    found: dict[str, Any] = {}
    for task in chosen:
        train, test = _split(data, task)
        part = Dataset(data.name, train, data.catalogue)
        found[task] = {"metric": METRICS[task][0]} | _rows(task, part, test, plan)
    return {
        "data": data.name,
        "users": data.ratings.n_users,
        "items": data.ratings.n_items,
        "ratings": len(data.ratings),
        "epsilons": list(plan.epsilons),
        "delta": plan.delta,
        "seeds": plan.seeds,
        "quick": plan.quick,
        "tasks": found,
    }


def _split(data: Dataset, task: Task) -> tuple[Ratings, Ratings]:
    ratings = data.ratings
    if data.catalogue is not None and not ratings.items_given:
        ratings = ratings.with_items(data.catalogue.item_ids)
    if ratings.probe is not None:
        return split_probe(ratings)
    if task == "ratings":
        return split_random(ratings, 0.1, seed=0)
    return split_per_user(ratings, 0.2, seed=0)


def _rows(task: Task, data: Dataset, test: Ratings, plan: Plan) -> dict[str, Any]:
    refused, runs = [], []
    for contender in (*CONTENDERS, *others()):
        try:
            check_task(contender, task)
            if contender.perturber and data.catalogue is None:
                raise InputError("works by categories, and these data have no catalogue")
        except InputError as error:
            refused.append({"method": contender.name, "reason": str(error)})
            continue
        grid = plan.epsilons if contender.budget == "grid" else (None,)
        runs += [(contender, epsilon) for epsilon in grid]
    rows = []
    for done, (contender, epsilon) in enumerate(runs):
        report(f"comparing {task}", done, len(runs))
        make = partial(_row, task, contender, epsilon, data, test, plan)
        rows.append(make() if plan.keep is None else _kept(plan, task, data, make))
    report(f"comparing {task}", len(runs), len(runs))
    return {"rows": rows, "refused": refused}


def _kept(plan: Plan, task: Task, data: Dataset, make: partial[dict[str, Any]]) -> dict[str, Any]:
    """A row as it was found before with the same version, data, budgets and draws, or found now."""
    assert plan.keep is not None
    _, contender, epsilon, *_ = make.args
    key = {
        "version": __version__, "data": data.name, "users": data.ratings.n_users,
        "items": data.ratings.n_items, "ratings": len(data.ratings), "task": task,
        "method": contender.name, "epsilon": epsilon, "delta": plan.delta, "seeds": plan.seeds,
    }  # fmt: skip
    plan.keep.mkdir(parents=True, exist_ok=True)
    name = slug("-".join(str(key[part]) for part in ("data", "task", "method", "epsilon")))
    row = made_once(plan.keep / f"{name}.json", key, make)
    return {name: value for name, value in row.items() if name != "key"}


def _row(
    task: Task, contender: Contender, epsilon: float | None, data: Dataset, test: Ratings,
    plan: Plan,
) -> dict[str, Any]:  # fmt: skip
    seeds = 1 if contender.budget == "none" else plan.seeds
    started = time.perf_counter()
    found = [_measured(task, contender, epsilon, data, test, plan.delta, s) for s in range(seeds)]
    promise = found[0][1]
    values = {name: [metrics[name] for metrics, _ in found] for name in METRICS[task]}
    cost = None if isinf(promise.epsilon) else promise.epsilon
    return {
        "method": contender.name,
        "whose": contender.whose,
        "epsilon": epsilon if epsilon is not None else cost,
        "unit": promise.unit if cost is not None else "",
        "relation": promise.relation if cost is not None else "",
        "trust": contender.trust,
        "status": promise.status,
        **{name: float(np.mean(each)) for name, each in values.items()},
        "spread": spread(values[METRICS[task][0]]),
        "values": values[METRICS[task][0]],
        "seconds": round((time.perf_counter() - started) / seeds, 2),
        "guarantee": promise.to_dict(),
    }


def _measured(
    task: Task, contender: Contender, epsilon: float | None, data: Dataset, test: Ratings,
    delta: float, seed: int,
) -> tuple[Mapping[str, float], Guarantee]:  # fmt: skip
    settings = dict(contender.settings)
    if contender.perturber:
        return lists_of_releases(
            data, test, method=contender.method, settings=settings | {"epsilon": epsilon}, seed=seed
        )
    options = taken(model_class(contender.method))
    if contender.made is not None and epsilon is not None:
        settings |= contender.made(epsilon, delta, data.ratings.n_items)
    elif epsilon is not None:
        settings |= {"epsilon": epsilon} | ({"delta": delta} if "delta" in options else {})
    if "feedback" in options:
        settings["feedback"] = "explicit" if task == "ratings" else "implicit"
    model = make_model(contender.method, catalogue=data.catalogue, seed=seed, **settings)
    measure: Callable[..., Any] = evaluate_rating if task == "ratings" else evaluate_topn
    metrics, _ = measure(model, data.ratings, test, catalogue=data.catalogue)
    return metrics, model.guarantee


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of draws; of a single one nothing is known."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def quick_plan(plan: Plan) -> Plan:
    """Fewer budgets and draws."""
    return replace(plan, epsilons=QUICK_EPSILONS, seeds=QUICK_SEEDS, quick=True)
