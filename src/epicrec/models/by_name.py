"""Recommenders by the name of their method: made from settings, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epicrec import registry
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.models.base import Recommender
from epicrec.models.saving import check_scores, damaged, read_model
from epicrec.parameters import check, check_complete, given, taken

PRIVATE: dict[str, str] = {
    "svd": "covariance-svd",
    "item-knn": "covariance-knn",
    "avg": "private-bias",
    "pcc": "private-bias",
    "cos": "private-bias",
}
"""The private counterparts that an `epsilon` chooses; for lists, `item-knn` has that of `svd`."""


def private_name(method: str, task: str | None = None) -> str:
    """The method that an `epsilon` chooses in place of this one, which may be itself."""
    if method == "item-knn" and task != "ratings":
        return PRIVATE["svd"]
    return PRIVATE.get(method, method)


def task_of(method: str, settings: Mapping[str, Any]) -> str:
    """The task of the model that `make_model` makes."""
    if settings.get("task") is None:
        if settings.get("epsilon") is not None:
            method = private_name(method)
        as_published = bool(settings.get("as_published"))
        return model_class(method, as_published=as_published).task
    return str(settings["task"])


def model_class(method: str, *, as_published: bool = False) -> type[Recommender]:
    """The class behind a method name, ours or another package's, or the paper's own version."""
    return registry.load_class(registry.MODELS, method, Recommender, as_published=as_published)


def make_model(
    method: str,
    *,
    epsilon: float | None = None,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
    as_published: bool | None = None,
    **settings: Any,
) -> Recommender:
    """The model behind a method's name; with an `epsilon`, its private counterpart.

    `as_published` chooses the paper's own version of the method, where there is one. `catalogue`
    and `seed` are offered to all, for those that can use them; any other setting that the model
    does not have is an error.
    """
    if epsilon is not None:
        task = "ratings" if as_published else settings.get("task")
        method, settings = private_name(method, task), {"epsilon": epsilon, **settings}
    cls = model_class(method, as_published=bool(as_published))
    has = taken(cls)
    if not as_published:
        _check_not_the_papers(method, [name for name in settings if name not in has])
    if "epsilon" in settings and "epsilon" not in has:
        private = ", ".join(f"{m} ({PRIVATE[m]})" for m in PRIVATE)
        raise InputError(f"{method} has no private version; those that have: {private}")
    offered = given(catalogue=catalogue, seed=seed)
    settings = {name: value for name, value in offered.items() if name in has} | settings
    check(method, cls, settings)
    check_complete(method, cls, settings)
    return cls(**settings)


def _check_not_the_papers(method: str, unknown: list[str]) -> None:
    """Refuse a setting that only the paper's own version has, and say so."""
    if not unknown or method not in registry.names(registry.published(registry.MODELS)):
        return
    published = taken(model_class(method, as_published=True))
    for name in unknown:
        if name in published:
            raise InputError(f"{name} is the paper's parameter; it goes with as_published=True")


def load(path: str | Path) -> Recommender:
    """Read a model that `save` wrote. Only registered classes are made, never what a file names."""
    meta, arrays = read_model(path)
    method = meta["method"]
    if method not in registry.names(registry.MODELS):
        raise InputError(
            f"{path} holds a {method!r} model, which is not known here; install the package that "
            "brings it, or a newer epicrec"
        )
    cls = model_class(method, as_published=meta["as_published"])
    try:
        check(method, cls, meta["parameters"])
        model = cls(**meta["parameters"])._restore(meta, arrays)
        check_scores(model)
    except Exception as error:  # what is wrong now is what the file holds
        raise damaged(path, error) from error
    return model
