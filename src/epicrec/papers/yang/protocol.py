"""Four blocks: the protocol of Yang et al. 2019, users and items each divided in half."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from epicrec.data import Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate.metrics import rating_metrics
from epicrec.evaluate.protocols import Evaluation, check_predicts
from epicrec.models import Recommender, make_model
from epicrec.papers.parts import mean_of
from epicrec.parameters import given
from epicrec.progress import report

ALGORITHMS = ("pcc", "cos", "avg")


@dataclass(frozen=True)
class Blocks:
    """Figure 2: what others rated, the active users' training half, and what is to be predicted."""

    others: Ratings
    histories: Ratings
    asked: Ratings


def reduced(ratings: Ratings, k: int = 3) -> Ratings:
    """Without the items, and then the users, that have fewer than k ratings."""
    ratings = ratings.select((ratings.item_counts >= k)[ratings.items])
    rated = ratings.with_items(ratings.item_ids[ratings.item_counts > 0])
    ratings = replace(rated, items_given=False)
    return ratings.users_at(np.flatnonzero(ratings.user_counts >= k))


def yang_blocks(ratings: Ratings, *, seed: int, k: int = 3, vertical: bool = False) -> Blocks:
    """Users and items halved at random; the active users' ratings of the second half are asked.

    Others' ratings of both halves may be learned from. `vertical` halves the items only: all users
    are active, and their first half is all there is (Avg). An active user with fewer than k ratings
    in the first half is not asked about, as in the paper.
    """
    if ratings.scale is None:
        raise InputError("the protocol 'yang' needs ratings, and got a history without them")
    ratings = reduced(ratings, k)
    rng = np.random.default_rng(seed)
    second, active = (_half(n, rng) for n in (ratings.n_items, ratings.n_users))
    if vertical:
        active[:] = True
    first = ratings.select(~second[ratings.items])
    asked_about = np.flatnonzero(active & (first.user_counts >= k))
    histories = first.users_at(asked_about)
    asked = ratings.select(second[ratings.items]).users_at(asked_about)
    if not len(asked):
        raise InputError(f"nobody has {k} ratings in one half and one in the other; use more data")
    others = histories if vertical else ratings.users_at(np.flatnonzero(~active))
    return Blocks(others, histories, asked)


def _half(n: int, rng: np.random.Generator) -> Any:
    chosen = np.zeros(n, np.bool_)
    chosen[rng.permutation(n)[: n // 2]] = True
    return chosen


def evaluate_yang(
    method: str,
    dataset: Dataset,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    as_published: bool | None = None,
    seed: int = 0,
    seeds: int = 5,
    k: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """MAE and MSE by the paper's protocol, as means over `seeds` divisions (and their spread).

    `avg`, `dpi-avg` and `dpm-avg` are asked vertically, all others in four blocks. After DPI the
    active users' own ratings are altered too; DPM adds noise to their averages; the sound default
    uses them as they are, at home, and alters what it learns from others. `as_published` with an ε
    turns `avg`, `pcc`, `cos` into DPM. Each division has its own noise.
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    asked = method
    if as_published:
        if epsilon is not None and method in ALGORITHMS:
            method = f"dpm-{method}"
        elif not method.startswith(("dpi-", "dpm-")):
            raise InputError("as published there are avg, pcc, cos with an epsilon, dpi-*, dpm-*")
    found, seconds = [], {"fit": 0.0, "predict": 0.0}
    for number in range(seed, seed + seeds):
        report("dividing users and items", number - seed, seeds)
        blocks = yang_blocks(dataset.ratings, seed=number, k=k, vertical=method.endswith("avg"))
        given_settings = given(delta=delta, unit=unit) | dict(settings or {})
        model = make_model(method, **{"epsilon": epsilon, "seed": number} | given_settings)
        check_predicts(model, "yang")
        metrics, spent = _measure(model, blocks)
        found.append(metrics)
        for name in seconds:
            seconds[name] += spent[name]
    spread = {f"{name}_sd": float(np.std([f[name] for f in found])) for name in ("mae", "mse")}
    return Evaluation(
        model.method, dataset.name, "yang", model.guarantee, mean_of(found) | spread, seconds,
        {**model.get_params(), "seed": seed, "seeds": seeds, "k": k}, asked=asked,
    )  # fmt: skip


def _measure(model: Recommender, blocks: Blocks) -> tuple[dict[str, float], dict[str, float]]:
    start = time.perf_counter()
    model.fit(blocks.others)
    fitted = time.perf_counter()
    scores = model.predict(blocks.asked, histories=model.released(blocks.histories))[
        "score"
    ].to_numpy()
    seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return rating_metrics(scores, blocks.asked.values), seconds
