"""What a release costs in lists: those of a server that has seen releases, and of a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from epicrec.arrays import AnyFloats
from epicrec.data import Dataset, Ratings, split_per_user
from epicrec.evaluate.filters import als, binary, check_filter, folded_in
from epicrec.evaluate.metrics import list_metrics
from epicrec.evaluate.protocols import Evaluation
from epicrec.evaluate.releases import (
    Experiment,
    evaluation,
    experiment,
    perturber_for,
    release_all,
)
from epicrec.models.svd import SVD
from epicrec.parameters import given
from epicrec.perturb.contract import Perturber
from epicrec.perturb.epicrec.prior import default_prior
from epicrec.privacy import Guarantee


def topn_cost(
    dataset: Dataset,
    *,
    method: str | Perturber = "s-epicrec",
    epsilon: float | None = None,
    as_published: bool = False,
    settings: Mapping[str, Any] | None = None,
    n: int = 10,
    max_users: int | None = 2000,
    seed: int = 0,
) -> Evaluation:
    """nDCG@n of lists made in six ways; a fifth of each history is held out to be found.

    `true_sent`: the true history sent to a server trained on the others' true histories (ALS).
    `device`: the same model published, and the ranking done on the device: the same lists, nothing
    sent. `popularity`: the same list for all. `perturbed_sent`: the release instead of the history.
    `everybody_perturbed`: a server that has seen only releases. `device_from_perturbed`: its item
    model, ranked on the device with the true history. What was watched is never listed.
    """
    check_filter("als")
    started = time.perf_counter()
    setting = experiment(dataset, seed=seed, max_users=max_users)
    chosen = given(epsilon=epsilon, as_published=as_published or None) | dict(settings or {})
    perturber = perturber_for(setting, method, chosen)
    train, test = split_per_user(setting.people, 0.2, seed=seed)
    [(released, promise)] = release_all(setting, [perturber], train, seed)
    trusted, wary = als(setting.others), als(released)
    scores: dict[str, Callable[[slice], AnyFloats]] = {
        "popularity": lambda part: np.tile(
            setting.others.item_counts.astype(float), (part.stop - part.start, 1)
        ),
        "true_sent": lambda part: folded_in(trusted, train, part),
        "device": lambda part: folded_in(trusted, train, part),
        "perturbed_sent": lambda part: folded_in(trusted, released, part),
        "everybody_perturbed": lambda part: folded_in(wary, released, part),
        "device_from_perturbed": lambda part: folded_in(wary, train, part),
    }
    lists = {name: judged(train, test, score, n) for name, score in scores.items()}
    metrics = {f"ndcg_{name}": found["ndcg"] for name, found in lists.items()}
    metrics |= {f"recall_{name}": found["recall"] for name, found in lists.items()}
    metrics["people"] = train.n_users
    return evaluation(
        setting,
        perturber,
        "release-topn",
        metrics,
        promise,
        started,
        {"seed": seed, "max_users": max_users, "n": n},
    )


def judged(
    train: Ratings, test: Ratings, score: Callable[[slice], AnyFloats], n: int
) -> dict[str, float]:
    best = []
    for start in range(0, train.n_users, 500):
        part = slice(start, min(start + 500, train.n_users))
        values = np.asarray(score(part), dtype=np.float64)
        values[binary(train)[part].nonzero()] = -np.inf
        best.append(np.argsort(-values, axis=1, kind="stable")[:, :n])
    items = np.concatenate(best)
    users = np.repeat(np.arange(len(items)), n)
    ranks = np.tile(np.arange(1, n + 1), len(items))
    relevant = np.column_stack([test.users, test.items])
    return list_metrics(users, items.ravel(), ranks, relevant, n, train.n_items)


def lists_of_releases(
    train: Dataset,
    test: Ratings,
    *,
    method: str,
    settings: Mapping[str, Any],
    n: int = 10,
    seed: int = 0,
) -> tuple[dict[str, float], Guarantee]:
    """Lists of a server that has everybody's release and nothing else: it learns from them as they
    are (`svd` for histories) and ranks by them; the device leaves out what was watched."""
    assert train.catalogue is not None
    catalogue, ratings = train.catalogue, train.ratings
    histories = ratings.as_history().with_items(catalogue.item_ids)
    setting = Experiment(
        train.name, catalogue, histories, histories, default_prior(catalogue), ratings.scale
    )
    perturber = perturber_for(setting, method, settings)
    [(released, promise)] = release_all(setting, [perturber], histories, seed)
    server = SVD(feedback="implicit").fit(released, catalogue)

    def score(part: slice) -> AnyFloats:
        rows = np.arange(part.start, part.stop)
        return server._scores(released.users_at(rows))

    held = test.with_items(catalogue.item_ids)
    return judged(histories, held, score, n), promise
