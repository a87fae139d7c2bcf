"""The protocols `rating` and `topn`: split, fit, predict, measure."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from epicrec.data import (
    Catalogue,
    Dataset,
    Ratings,
    find,
    split_per_user,
    split_probe,
    split_random,
)
from epicrec.data.splits import Split, folds_of
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics, rating_metrics
from epicrec.machine import peak_memory
from epicrec.models import Recommender, make_model, model_class
from epicrec.models.by_name import task_of
from epicrec.parameters import given, taken
from epicrec.privacy import Guarantee
from epicrec.progress import report


@dataclass(frozen=True)
class Evaluation:
    """One measured result, with the guarantee of the model."""

    method: str
    data: str
    protocol: str
    guarantee: Guarantee
    metrics: Mapping[str, Any]
    seconds: Mapping[str, float]
    settings: Mapping[str, Any] = field(default_factory=dict)
    asked: str = ""
    """The requested method, where its private counterpart ran instead: svd with an ε."""
    record: str = ""
    """What the model released, and with which share of its budget."""
    folds: Sequence[Mapping[str, Any]] = ()
    """The metrics of each fold of a cross-validation, whose means are the metrics."""
    peak_rss_mb: float | None = field(default_factory=peak_memory)

    def to_dict(self) -> dict[str, Any]:
        """As JSON on the command line."""
        return {
            "method": self.method,
            "asked": self.asked or self.method,
            "data": self.data,
            "protocol": self.protocol,
            "guarantee": self.guarantee.to_dict(),
            "record": self.record,
            "metrics": dict(self.metrics),
            **({"folds": [dict(fold) for fold in self.folds]} if self.folds else {}),
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "peak_rss_mb": None if self.peak_rss_mb is None else round(self.peak_rss_mb, 1),
            "settings": dict(self.settings),
        }


def evaluate_rating(
    model: Recommender, train: Ratings, test: Ratings, *, catalogue: Catalogue | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """Predict the held-out ratings: the errors, and the seconds for fitting and predicting."""
    if test.scale is None:
        raise InputError(
            "the protocol 'rating' needs ratings; use the protocol 'topn' for histories"
        )
    check_predicts(model, "rating")
    start = time.perf_counter()
    model.fit(train, catalogue)
    fitted = time.perf_counter()
    predicted = model.predict(test, histories=model.released(train))["score"].to_numpy()
    seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return rating_metrics(predicted, test.values), seconds


def check_predicts(model: Recommender, protocol: str) -> None:
    """Refuse a model whose scores only order items and are no ratings."""
    if model.task != "ratings":
        raise InputError(
            f"{model.method} orders items by what was seen and predicts no ratings, so the "
            f"protocol {protocol!r} has nothing to measure; use the protocol 'topn', or a model "
            "for ratings, such as svd with the task 'ratings'"
        )


def evaluate_topn(
    model: Recommender,
    train: Ratings,
    test: Ratings,
    *,
    catalogue: Catalogue | None = None,
    n: int = 10,
    relevant_from: float | None = None,
    max_users: int | None = None,
    seed: int = 0,
) -> tuple[dict[str, float], dict[str, float]]:
    """Recommend `n` unseen items to each user with a relevant held-out item.

    Relevant is every held-out item, or those rated at least `relevant_from`. With `max_users` the
    lists of so many users, drawn at random, are judged.
    """
    if n <= 0:
        raise InputError(f"n must be at least 1, got {n}; ask for one item or more")
    held = test if relevant_from is None else test.select(test.values >= relevant_from)
    judged = np.flatnonzero((held.user_counts > 0) & (train.user_counts > 0))
    if len(judged) == 0:
        raise InputError(
            "no user has a rating to learn from and one held out; change the test_fraction"
            if relevant_from is None
            else f"no held-out rating is {relevant_from:g} or more, so nothing would be relevant; "
            "lower relevant_from"
        )
    start = time.perf_counter()
    model.fit(train, catalogue)
    fitted = time.perf_counter()
    if max_users is not None and len(judged) > max_users:
        judged = np.sort(np.random.default_rng(seed).choice(judged, max_users, replace=False))
    lists = model.recommend(model.released(train.users_at(judged)), n=n)
    seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    asked = held.users_at(judged)
    metrics = list_metrics(
        asked.positions(_ids(lists, "user_id")),
        find(train.item_ids, _ids(lists, "item_id")),
        lists["rank"].to_numpy(),
        np.column_stack([asked.users, asked.items]),
        n,
        train.n_items,
    )
    return metrics | {"users": len(judged)}, seconds


def evaluate_model(
    method: str | Recommender,
    dataset: Dataset,
    *,
    protocol: str | None = None,
    test_fraction: float = 0.2,
    folds: int | None = None,
    seed: int = 0,
    n: int = 10,
    relevant_from: float | None = None,
    max_users: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    task: str | None = None,
    as_published: bool | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Split a `dataset`, fit a `method` on one part, and measure it on the other.

    A `probe` column decides the split where there is one; otherwise `test_fraction` and `seed` do:
    over all ratings for the `protocol` `rating`, within each user's for `topn`. With `folds`, each
    of so many parts is held out in turn, and the metrics are the means. The seed also fixes the
    noise of a private method, so the result is repeatable, and its guarantee says that it is not
    private. A model object keeps its own seed.

    Lists have `n` items; relevant is what was held out, or of it what was rated `relevant_from` on;
    `max_users` judges the lists of so many. `epsilon`, `delta`, `unit`, `task` and `as_published`
    are settings that many methods have; any others are in `settings`.
    """
    chosen = given(epsilon=epsilon, delta=delta, unit=unit, task=task)
    chosen |= given(as_published=as_published) | dict(settings or {})
    protocol = protocol or usual_protocol(method, chosen)
    if isinstance(method, Recommender):
        if chosen:
            raise InputError(
                f"{method!r} has its own settings; give {', '.join(chosen)} to its constructor"
            )
        model = copy(method)  # the caller's model stays unfitted
    else:
        model = model_for(method, protocol, dataset.catalogue, seed, chosen)
    report("splitting", 0, 1)
    if folds is None:
        parts: Iterable[Split] = [split(dataset, protocol, test_fraction, seed=seed)]
    else:
        per_user = protocol == "topn"
        parts = folds_of(_over_catalogue(dataset), folds, per_user=per_user, seed=seed)
    found: list[tuple[dict[str, float], dict[str, float]]] = []
    for train, test in parts:
        model = model.clone() if found else model
        if protocol == "rating":
            one = evaluate_rating(model, train, test, catalogue=dataset.catalogue)
        else:
            one = evaluate_topn(
                model, train, test, catalogue=dataset.catalogue,
                n=n, relevant_from=relevant_from, max_users=max_users, seed=seed,
            )  # fmt: skip
        found.append(one)
    metrics, seconds = ([each[which] for each in found] for which in (0, 1))
    return Evaluation(
        model.method, dataset.name, protocol, model.guarantee, _mean(metrics), _mean(seconds),
        settings_of(model, seed, test_fraction) | given(folds=folds),
        asked=method if isinstance(method, str) else "", record=model.record,
        folds=metrics if folds else (),
    )  # fmt: skip


def _mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    if len(found) == 1:
        return dict(found[0])
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def usual_protocol(method: str | Recommender, settings: Mapping[str, Any]) -> str:
    """What measures the model that `fit` makes: `topn` its lists, `rating` its ratings."""
    task = method.task if isinstance(method, Recommender) else task_of(method, settings)
    return "rating" if task == "ratings" else "topn"


def model_for(
    method: str, protocol: str, catalogue: Catalogue | None, seed: int, chosen: Mapping[str, Any]
) -> Recommender:
    """A method with its settings; the protocol `rating` asks for ratings where the task is open."""
    if protocol == "rating" and "task" in taken(model_class(method)):
        chosen = {"task": "ratings"} | dict(chosen)
    return make_model(method, **{"catalogue": catalogue, "seed": seed} | dict(chosen))


def split(
    dataset: Dataset, protocol: str, fraction: float, *, seed: int
) -> tuple[Ratings, Ratings]:
    """What to learn from and what is held out, over the catalogue's items: by the data set's probe,
    else of all ratings for `rating` and of each user's for `topn`."""
    ratings = _over_catalogue(dataset)
    if ratings.probe is not None:
        return split_probe(ratings)
    draw = split_random if protocol == "rating" else split_per_user
    return draw(ratings, fraction, seed=seed)


def _over_catalogue(dataset: Dataset) -> Ratings:
    if dataset.catalogue is None or dataset.ratings.items_given:
        return dataset.ratings
    return dataset.ratings.with_items(dataset.catalogue.item_ids)


def settings_of(model: Recommender, seed: int, test_fraction: float) -> dict[str, Any]:
    """The settings of an evaluation as plain values."""
    own = {name: value for name, value in model.get_params().items() if name != "catalogue"}
    published = given(as_published=model.as_published or None)
    return {"seed": seed, "test_fraction": test_fraction, **published, **own}


def _ids(table: Any, name: str) -> Any:
    column = table[name]
    return column.to_numpy() if column.type != "string" else np.asarray(column.to_pylist())
