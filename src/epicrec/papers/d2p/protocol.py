"""D2P's protocol: a fifth of the trace held out, lists of several lengths judged."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from epicrec.data import Catalogue, Dataset, Ratings, split_random
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.evaluate.protocols import Evaluation
from epicrec.models import Recommender, make_model, model_class
from epicrec.models.d2p.alterego_model import AlterEgoModel
from epicrec.papers.parts import mean_of
from epicrec.parameters import given, taken
from epicrec.progress import report

SIZES = (1, 5, 10, 20)


@dataclass(frozen=True)
class Trial:
    """A data set divided for the protocol: profiles to learn from, what is held out, all that was
    seen, and the whole of it."""

    name: str
    train: Ratings
    test: Ratings
    seen: Ratings
    catalogue: Catalogue | None
    whole: Ratings

    @cached_property
    def judged(self) -> npt.NDArray[np.intp]:
        """Who has something held out."""
        return np.flatnonzero(self.test.user_counts > 0)


def trial(dataset: Dataset, *, seed: int = 0, liked_from: float | None = None) -> Trial:
    """Hold out 20 % of all ratings; a profile is what was rated, or what was liked."""
    if liked_from is None and dataset.name.startswith("jester"):
        liked_from = 0.0
    train, test = split_random(dataset.ratings, 0.2, seed=seed)
    if liked_from is None:
        return Trial(dataset.name, train, test, train, dataset.catalogue, dataset.ratings)
    liked = [part.select(part.values > liked_from) for part in (train, test)]
    return Trial(dataset.name, liked[0], liked[1], train, dataset.catalogue, dataset.ratings)


def jester(dataset: Dataset, *, users: int = 500, at_least: int = 50, seed: int = 0) -> Dataset:
    """Section 4.1.2: 500 users drawn among those with at least 50 ratings."""
    enough = np.flatnonzero(dataset.ratings.user_counts >= at_least)
    if len(enough) < users:
        raise InputError(
            f"{dataset.name} has {len(enough)} users with {at_least} ratings, not {users}"
        )
    drawn = np.sort(np.random.default_rng(seed).choice(enough, users, replace=False))
    return Dataset(dataset.name, dataset.ratings.users_at(drawn), dataset.catalogue)


def measure(
    model: Recommender, data: Trial, *, sizes: Sequence[int] = SIZES, server: bool = False
) -> dict[str, float]:
    """Fit, rank, and judge lists of several lengths; keys are `precision@5` and so on."""
    model.fit(data.train)
    judged = data.judged
    histories = data.train.as_history().users_at(judged)
    if server and isinstance(model, AlterEgoModel):
        scores = model.server_scores(histories.user_ids)
    else:
        scores = model._scores(histories)
    scores = np.array(scores, np.float64)
    seen = data.seen.users_at(judged)
    scores[seen.users, seen.items] = -np.inf
    held = data.test.users_at(judged)
    wanted = np.column_stack([held.users, held.items])
    longest = min(max(sizes), scores.shape[1])
    best = np.argsort(-scores, axis=1, kind="stable")[:, :longest]
    users = np.repeat(np.arange(len(judged)), longest)
    ranks = np.tile(np.arange(1, longest + 1), len(judged))
    out: dict[str, float] = {}
    for n in sizes:
        found = list_metrics(users, best.ravel(), ranks, wanted, n, data.train.n_items)
        out |= {f"{name}@{n}": value for name, value in found.items()}
    return out


def evaluate_d2p(
    method: str,
    dataset: Dataset,
    *,
    epsilon: float | None = None,
    as_published: bool | None = None,
    seed: int = 0,
    seeds: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """Precision, recall, F1, nDCG and coverage at N = 1, 5, 10, 20 by the paper's protocol.

    20 % of all ratings are held out, whoever's they are; a list for each user with something held
    out; what a profile is, the data decide (`trial`). Means over `seeds` draws of the substitutes
    on one division.
    """
    started = time.perf_counter()
    chosen = given(epsilon=epsilon, as_published=as_published) | dict(settings or {})
    if "task" in taken(model_class(method)):
        chosen = {"task": "lists"} | chosen
    data, found = trial(dataset, seed=seed), []
    for number in range(seed, seed + seeds):
        report("drawing and judging", number - seed, seeds)
        model = make_model(method, **{"catalogue": dataset.catalogue, "seed": number} | chosen)
        found.append(measure(model, data))
    plain = {name: value for name, value in model.get_params().items() if name != "catalogue"}
    plain |= given(as_published=model.as_published or None)
    return Evaluation(
        model.method, dataset.name, "d2p", model.guarantee, mean_of(found),
        {"total": time.perf_counter() - started}, {**plain, "seed": seed, "seeds": seeds},
        asked=method, record=model.record,
    )  # fmt: skip
