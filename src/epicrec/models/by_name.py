"""Recommenders by the name of their method: made from settings, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from epicrec import registry
from epicrec.data import Catalogue
from epicrec.errors import InputError
from epicrec.models.base import Recommender
from epicrec.models.saving import check_scores, damaged, read_model
from epicrec.parameters import check, check_complete, given, taken

if TYPE_CHECKING:
    from epicrec.models.base import Task
    from epicrec.models.bias import Bias, Popularity
    from epicrec.models.neighbours.items import ItemKNN
    from epicrec.models.private.budget import NoiseKind
    from epicrec.models.private.covariance import CovarianceSVD
    from epicrec.models.private.statistics import Unit
    from epicrec.models.svd import SVD

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


@overload
def model_class(method: Literal["svd"], *, as_published: Literal[False] = ...) -> type[SVD]: ...
@overload
def model_class(
    method: Literal["item-knn"], *, as_published: Literal[False] = ...
) -> type[ItemKNN]: ...
@overload
def model_class(
    method: Literal["covariance-svd"], *, as_published: Literal[False] = ...
) -> type[CovarianceSVD]: ...
@overload
def model_class(
    method: Literal["popularity"], *, as_published: Literal[False] = ...
) -> type[Popularity]: ...
@overload
def model_class(method: Literal["bias"], *, as_published: Literal[False] = ...) -> type[Bias]: ...
@overload
def model_class(method: str, *, as_published: bool = False) -> type[Recommender]: ...
def model_class(method: str, *, as_published: bool = False) -> type[Any]:
    """The class behind the name of a `method`, ours or another package's; with `as_published` the
    paper's own version."""
    return registry.load_class(registry.MODELS, method, Recommender, as_published=as_published)


@overload
def make_model(
    method: Literal["svd", "covariance-svd"],
    *,
    epsilon: float,
    delta: float = ...,
    unit: Unit = ...,
    noise: NoiseKind = ...,
    task: Task = ...,
    factors: int | None = ...,
    features: Sequence[str] | None = ...,
    fame: str | None = ...,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
) -> CovarianceSVD: ...
@overload
def make_model(
    method: Literal["svd"],
    *,
    task: Task = ...,
    factors: int | None = ...,
    features: Sequence[str] | None = ...,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
) -> SVD: ...
@overload
def make_model(
    method: Literal["item-knn"],
    *,
    task: Task = ...,
    k: int = ...,
    kept: int | None = ...,
    shrinkage: float = ...,
    ridge: float = ...,
    damping: float = ...,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
) -> ItemKNN: ...
@overload
def make_model(
    method: str,
    *,
    epsilon: float | None = None,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
    as_published: bool | None = None,
    **settings: Any,
) -> Recommender: ...
def make_model(
    method: str,
    *,
    epsilon: float | None = None,
    catalogue: Catalogue | None = None,
    seed: int | None = None,
    as_published: bool | None = None,
    **settings: Any,
) -> Recommender:
    """The model behind the name of a `method`; with an `epsilon`, its private counterpart.

    `as_published` chooses the paper's own version of the method, where there is one. `catalogue`
    and `seed` are offered to all, for those that can use them; any other of the `settings` that the
    model does not have is an error.

    From a dataframe to private lists: ratings, the public facts of items, and a fit.

    >>> import pandas as pd
    >>> from epicrec import load_dataset
    >>> films = load_dataset("films")
    >>> ratings = films.ratings.to_table().to_pandas()
    >>> items = films.catalogue.to_table().to_pandas()
    >>> model = make_model("svd", epsilon=5.0, delta=1e-6, unit="user").fit(ratings, items)
    >>> lists = model.recommend(["1", "2"], n=3)
    >>> type(lists) is pd.DataFrame, lists.columns.tolist(), len(lists)
    (True, ['user_id', 'item_id', 'score', 'rank'], 6)
    >>> me = pd.DataFrame({"user_id": "me", "item_id": ["alien-1979", "the-matrix-1999"]})
    >>> model.recommend(me, n=3)["rank"].tolist()
    [1, 2, 3]
    >>> round(model.guarantee.epsilon, 6), model.guarantee.unit
    (5.0, 'user')

    The same from polars, lists and all:

    >>> import polars as pl
    >>> ratings, items = pl.from_pandas(ratings).lazy(), pl.from_pandas(items)
    >>> model = make_model("svd", epsilon=5.0, delta=1e-6, unit="user").fit(ratings, items)
    >>> type(model.recommend(pl.from_pandas(me), n=3)) is pl.DataFrame
    True
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
    """Read the model that `save` wrote to `path`. Only registered classes are made, never what a
    file names."""
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
        model: Recommender = cls(**meta["parameters"])._restore(meta, arrays)
        check_scores(model)
    except Exception as error:  # what is wrong now is what the file holds
        raise damaged(path, error) from error
    return model
