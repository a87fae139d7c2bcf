"""The comparison: every method on one split of one data set, over a grid of ε."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isinf
from pathlib import Path
from typing import Any, Literal

import numpy as np

from epicrec import registry
from epicrec._version import __version__
from epicrec.data import Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.protocols import evaluate_rating, evaluate_topn, split
from epicrec.evaluate.release_lists import lists_of_releases
from epicrec.files import made_once, slug
from epicrec.models import Recommender, make_model, model_class
from epicrec.models.base import Task
from epicrec.parameters import taken
from epicrec.privacy import Guarantee
from epicrec.progress import report

TASKS: tuple[Task, ...] = ("ratings", "lists")
EPSILONS, QUICK_EPSILONS = (0.3, 1.0, 3.0), (1.0, 3.0)
SEEDS, QUICK_SEEDS = 4, 2
METRICS: dict[Task, tuple[str, ...]] = {"ratings": ("rmse", "mae"), "lists": ("ndcg", "recall")}
"""What is measured; the first of each is what the table and the plot show."""

# ---- who takes part -------------------------------------------------------------------------

SERVER = "the server, with everything"
CURATOR = "the server, while it learns"
TWO = "one of two servers, whichever"
NOBODY = "nobody: altered on the device"
ALONE = "nobody: nothing is sent"

MM, EPICREC, D2P, YANG, CHIEN, OURS, COMMON = (
    "McSherry & Mironov 2009", "EpicRec 2016", "D2P 2015", "Yang et al. 2019",
    "Chien et al. 2021, Krichene et al. 2023", "ours", "common knowledge",
)  # fmt: skip


@dataclass(frozen=True)
class Contender:
    """A method with its parameters: one row of the table for each ε.

    `budget` is "grid" where it takes any ε, "own" where its parameters fix one, and "none" where it
    promises nothing. `made` computes parameters from ε, δ and the number of items.
    """

    name: str
    method: str
    whose: str
    trust: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    budget: Literal["grid", "own", "none"] = "grid"
    perturber: bool = False
    made: Callable[[float, float, int], dict[str, Any]] | None = None


def equal_theta(epsilon: float, delta: float, n_items: int) -> dict[str, Any]:
    """The paper's θ at which its noise is worth (ε, δ) by exact composition, as all others are."""
    published: Any = make_model("covariance-svd", as_published=True)
    return {"theta": published.theta_worth(epsilon, delta, n_items), "delta": delta}


def _covariance_as_published(name: str) -> Contender:
    settings = {"as_published": True, "unit": "rating"}
    return Contender(f"{name}, as published", name, MM, CURATOR, settings, made=equal_theta)


CONTENDERS = (
    Contender("user mean", "avg", COMMON, ALONE, budget="none"),
    Contender("popularity", "popularity", COMMON, SERVER, budget="none"),
    Contender("bias", "bias", COMMON, SERVER, budget="none"),
    Contender("item-knn", "item-knn", COMMON, SERVER, budget="none"),
    Contender("svd", "svd", COMMON, SERVER, budget="none"),
    _covariance_as_published("covariance-svd"),
    _covariance_as_published("covariance-knn"),
    Contender("dpi-avg, as published", "dpi-avg", YANG, NOBODY),
    Contender("dpi-pcc, as published", "dpi-pcc", YANG, NOBODY),
    Contender("dpi-cos, as published", "dpi-cos", YANG, NOBODY),
    Contender("dpm-avg, as published", "dpm-avg", YANG, SERVER),
    Contender("dpm-pcc, as published", "dpm-pcc", YANG, SERVER),
    Contender("dpm-cos, as published", "dpm-cos", YANG, SERVER),
    Contender("d2p, as published", "d2p", D2P, SERVER, {"as_published": True}, budget="own"),
    Contender("i-d2p, as published", "i-d2p", D2P, SERVER, {"as_published": True}, budget="own"),
    Contender(
        "s-epicrec, as published", "s-epicrec", EPICREC, NOBODY, {"as_published": True},
        perturber=True,
    ),
    Contender(
        "m-epicrec, as published", "m-epicrec", EPICREC, NOBODY, {"as_published": True},
        perturber=True,
    ),
    Contender("dpals", "dpals", CHIEN, CURATOR),
    Contender("dpi-svd, debiased", "dpi-svd", OURS, NOBODY, {"debias": True}),
    Contender("private-bias", "private-bias", OURS, CURATOR),
    Contender("private popularity, one item", "popularity", OURS, CURATOR, {"unit": "rating"}),
    Contender("private popularity, whole users", "popularity", OURS, CURATOR, {"unit": "user"}),
    Contender("covariance-knn", "covariance-knn", OURS, CURATOR, {"unit": "rating"}),
    Contender("covariance-svd, one rating", "covariance-svd", OURS, CURATOR, {"unit": "rating"}),
    Contender("covariance-svd, whole users", "covariance-svd", OURS, CURATOR, {"unit": "user"}),
    Contender("collective", "collective", OURS, TWO),
    Contender("randomised-response", "randomised-response", OURS, NOBODY),
    Contender(
        "popularity by randomised response", "randomised-response", OURS, NOBODY, {"tastes": False}
    ),
    Contender("d2p", "d2p", OURS, NOBODY),
    Contender("i-d2p", "i-d2p", OURS, NOBODY),
    Contender("d2p-svd", "d2p-svd", OURS, NOBODY),
    Contender("s-epicrec", "s-epicrec", OURS, NOBODY, perturber=True),
)  # fmt: skip
"""In the order of the table: without privacy, the papers as published, the peer, ours."""


def check_task(contender: Contender, task: Task) -> None:
    """Refuse a task that a method cannot do, and say why."""
    if contender.perturber:
        if contender.method == "m-epicrec":
            raise InputError(
                "depends on which categories each person holds back, and is s-epicrec where they "
                "hold back none"
            )
        if task == "ratings":
            raise InputError("releases items by category and no ratings, so predicts none")
        return
    cls = _class_of(contender)
    both = "task" in taken(cls)
    if task == "ratings" and cls.task != "ratings" and not both:
        raise InputError("orders items by what was seen, so predicts no ratings")
    if task == "lists" and cls.task == "ratings" and not both:
        raise InputError("predicts what a rating will be, and knows nothing of what is chosen")
    if task == "lists" and contender.method == "covariance-knn":
        raise InputError("weighs neighbours by their ratings; for lists there is covariance-svd")
    if task == "lists" and contender.whose == MM:
        raise InputError("measures ratings, not histories")


def _class_of(contender: Contender) -> type[Recommender]:
    as_published = bool(contender.settings.get("as_published"))
    return model_class(contender.method, as_published=as_published)


def others() -> tuple[Contender, ...]:
    """Models of other packages that are installed here, with their default parameters."""
    found = []
    for name in registry.names(registry.MODELS):
        if registry.entry(registry.MODELS, name).package != registry.OURS:
            private = "epsilon" in taken(model_class(name))
            trust = "as its package says"
            budget: Literal["grid", "none"] = "grid" if private else "none"
            package = registry.entry(registry.MODELS, name).package
            found.append(Contender(name, name, package, trust, budget=budget))
    return tuple(found)


# ---- what is run ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is run: budgets, and how many draws of the noise."""

    epsilons: tuple[float, ...] = EPSILONS
    seeds: int = SEEDS
    delta: float = 1e-6
    quick: bool = False
    keep: Path | None = None
    """Where each finished row is kept, so that an interrupted run resumes."""

    def __post_init__(self) -> None:
        if not self.epsilons or not all(e > 0 and not isinf(e) for e in self.epsilons):
            raise InputError(f"epsilon is one or more numbers above 0, not {self.epsilons}")
        if self.seeds < 1:
            raise InputError(f"seeds must be at least 1, got {self.seeds}")


def compare(
    data: Dataset, *, tasks: Sequence[Task] | None = None, plan: Plan | None = None
) -> dict[str, Any]:
    """The table as plain values: for each task its rows, and which methods refused it and why.

    A tenth of the ratings is held out for `ratings`, a fifth of each history for `lists`; a `probe`
    column decides where there is one. The split is the same for all. Seeds change only the noise,
    so methods without noise run once.
    """
    plan = plan or Plan()
    rated = data.ratings.scale is not None
    if tasks and "ratings" in tasks and not rated:
        raise InputError(f"{data.name} has no ratings; compare lists (--task lists)")
    chosen = tuple(tasks or (TASKS if rated else TASKS[1:]))
    found: dict[str, Any] = {}
    for task in chosen:
        protocol, fraction = ("rating", 0.1) if task == "ratings" else ("topn", 0.2)
        train, test = split(data, protocol, fraction, seed=0)
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
    """A row that was kept with the same version, data, budgets and draws, or else made now."""
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
    options = taken(_class_of(contender))
    if contender.made is not None and epsilon is not None:
        settings |= contender.made(epsilon, delta, data.ratings.n_items)
    elif epsilon is not None:
        settings |= {"epsilon": epsilon} | ({"delta": delta} if "delta" in options else {})
    if "task" in options:
        settings["task"] = task
    model = make_model(contender.method, catalogue=data.catalogue, seed=seed, **settings)
    measure: Callable[..., Any] = evaluate_rating if task == "ratings" else evaluate_topn
    metrics, _ = measure(model, data.ratings, test, catalogue=data.catalogue)
    return metrics, model.guarantee


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of draws; None for a single one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def quick_plan(plan: Plan) -> Plan:
    """Fewer budgets and draws."""
    return replace(plan, epsilons=QUICK_EPSILONS, seeds=QUICK_SEEDS, quick=True)
