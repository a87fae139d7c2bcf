"""Contenders: who takes part when methods are compared, whose they are and whom they trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from epicrec import registry
from epicrec.errors import InputError
from epicrec.models import model_class
from epicrec.parameters import taken

Task = Literal["ratings", "lists"]
TASKS: tuple[Task, ...] = ("ratings", "lists")

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
    """A method with its settings, as one line of the table for each ε.

    `budget` is "grid" where it takes any ε, "own" where its settings have one already, and "none"
    where it promises nothing. `settings` may depend on the number of items and on ε and δ.
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
    """The paper's θ at which its noise is worth ε by exact composition: all at the same privacy."""
    from epicrec.papers.mcsherry_mironov.measurements import theta_worth

    return {"theta": theta_worth(epsilon, delta, n_items), "delta": delta}


def _published(name: str) -> Contender:
    settings = {"as_published": True, "unit": "rating"}
    return Contender(f"{name}, as published", name, MM, CURATOR, settings, made=equal_theta)


CONTENDERS = (
    Contender("user mean", "avg", COMMON, ALONE, budget="none"),
    Contender("popularity", "popularity", COMMON, SERVER, budget="none"),
    Contender("bias", "bias", COMMON, SERVER, budget="none"),
    Contender("item-knn", "item-knn", COMMON, SERVER, budget="none"),
    Contender("svd", "svd", COMMON, SERVER, budget="none"),
    _published("covariance-svd"),
    _published("covariance-knn"),
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
    Contender("d2p", "d2p", OURS, NOBODY),
    Contender("i-d2p", "i-d2p", OURS, NOBODY),
    Contender("d2p-svd", "d2p-svd", OURS, NOBODY),
    Contender("s-epicrec", "s-epicrec", OURS, NOBODY, perturber=True),
)  # fmt: skip
"""In the order of the table: without privacy, the papers as published, the peer, ours."""


def check_task(contender: Contender, task: Task) -> None:
    """Refuse a task that a method cannot do, with the reason."""
    if contender.perturber:
        if contender.method == "m-epicrec":
            raise InputError(
                "depends on which categories each person holds back, and is s-epicrec where they "
                "hold back none"
            )
        if task == "ratings":
            raise InputError("releases items by category and no ratings, so predicts none")
        return
    cls = model_class(contender.method)
    both = "feedback" in taken(cls)
    if task == "ratings" and cls.feedback != "explicit" and not both:
        raise InputError("orders items by what was seen, so predicts no ratings")
    if task == "lists" and cls.feedback == "explicit" and not both:
        raise InputError("predicts what a rating will be, and knows nothing of what is chosen")
    if task == "lists" and contender.method == "covariance-knn":
        raise InputError("weighs neighbours by their ratings; for lists there is covariance-svd")
    if task == "lists" and contender.whose == MM:
        raise InputError("measures ratings, not histories")


def others() -> tuple[Contender, ...]:
    """Models of other packages that are installed here, as they come."""
    found = []
    for name in registry.names(registry.MODELS):
        if registry.entry(registry.MODELS, name).package != registry.OURS:
            private = "epsilon" in taken(model_class(name))
            trust = "as its package says"
            budget: Literal["grid", "none"] = "grid" if private else "none"
            package = registry.entry(registry.MODELS, name).package
            found.append(Contender(name, name, package, trust, budget=budget))
    return tuple(found)
