"""Evaluation in a cluster, with the same split and the same model as on one machine.

The driver decides which ratings are held out, from the number of ratings of each user, as
`epicrec.data.splits` does. The model is sent to the histories, and only sums over users come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from epicrec.data import Ratings, find
from epicrec.data.splits import held_at_random, held_per_user
from epicrec.engine.packed_users import marked, marks, ratings_of
from epicrec.engine.spark import SparkRatings, told
from epicrec.engine.spark_data import RemoteDataset
from epicrec.errors import InputError
from epicrec.evaluate.metrics import list_metrics
from epicrec.evaluate.protocols import (
    Evaluation,
    check_predicts,
    model_for,
    settings_of,
    usual_protocol,
)
from epicrec.models import Recommender
from epicrec.parameters import given

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches = Iterable[pa.RecordBatch]
_MEANS = ("precision", "recall", "ndcg")


def evaluate_in_cluster(
    method: str,
    dataset: RemoteDataset,
    *,
    protocol: str | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    n: int = 10,
    relevant_from: float | None = None,
    max_users: int | None = None,
    settings: Mapping[str, Any] | None = None,
    **chosen: Any,
) -> Evaluation:
    """Fit a method that learns from sums on one part of ratings in a cluster, and measure it on the
    other: what `epicrec.evaluate` does on one machine, by the same split and model."""
    chosen = given(**chosen) | dict(settings or {})
    protocol = protocol or usual_protocol(method, chosen)
    if protocol not in ("rating", "topn"):
        raise InputError(
            f"the protocol {protocol!r} runs on one machine; in a cluster there are rating and "
            "topn, and 'epicrec perturb --engine spark' releases a population once"
        )
    model = model_for(method, protocol, dataset.catalogue, seed, chosen)
    if protocol == "rating":
        check_predicts(model, protocol)
    if n <= 0:
        raise InputError(f"n must be at least 1, got {n}; ask for one item or more")
    train, test = _split(dataset, protocol, test_fraction, seed)
    try:
        start = time.perf_counter()
        model.fit(train, dataset.catalogue)
        fitted = time.perf_counter()
        with told(train.users.sparkSession):
            if protocol == "rating":
                metrics = _errors_of(model, train, test)
            else:
                judged = _judged(train, test, relevant_from, max_users, seed)
                metrics = _lists_of(model, judged, n)
        seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    finally:
        train.users.unpersist()
        test.unpersist()
    return Evaluation(
        model.method, dataset.name, protocol, model.guarantee, metrics, seconds,
        settings_of(model, seed, test_fraction), asked=method, record=model.record,
    )  # fmt: skip


def _split(
    dataset: RemoteDataset, protocol: str, fraction: float, seed: int
) -> tuple[SparkRatings, DataFrame]:
    """What to learn from, and users with what is held out: by the data set's probe, or as one
    machine would draw it."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    ratings, frame = dataset.ratings, dataset.frame
    with told(frame.sparkSession):
        if "probe" in frame.columns:
            public: Any = {"items": ratings.item_ids, "scale": ratings.scale}
            parts = [SparkRatings.of(frame.where(kept), **public) for kept in ("!probe", "probe")]
            return parts[0], parts[1].users
        known = ratings.users.select("user", (F.length("items") / 4).cast("long").alias("count"))
        table = known.toArrow().sort_by("user").combine_chunks()
        counts = table["count"].to_numpy()
        draw = held_at_random if protocol == "rating" else held_per_user
        held = marks(table["user"].combine_chunks(), counts, draw(counts, fraction, seed=seed))
        both = ratings.users.join(frame.sparkSession.createDataFrame(held), "user")
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in ratings.users.schema)
        train, test = (
            both.mapInArrow(partial(marked, held=out), kinds).persist(StorageLevel.DISK_ONLY)
            for out in (False, True)
        )
    return replace(ratings, users=train), test


def _asked(train: SparkRatings, test: DataFrame, how: str) -> DataFrame:
    """Users with the ratings to predict, and with their histories where they have one."""
    names = [name for name in test.columns if name != "user"]
    asked = test.withColumnsRenamed({name: f"asked_{name}" for name in names})
    return asked.join(train.users, "user", how)


def _both(batch: pa.RecordBatch, item_ids: Any, scale: Any) -> tuple[Ratings, Ratings]:
    """The ratings to predict, and the histories; user ids are positions."""
    rows = {name: batch[name].fill_null(b"") for name in batch.schema.names[1:]}
    asked = {name.removeprefix("asked_"): rows[name] for name in rows if "asked" in name}
    own = {name: rows[name] for name in rows if "asked" not in name}
    return (
        ratings_of(pa.table(asked), item_ids, scale),
        ratings_of(pa.table(own), item_ids, scale),
    )


def _errors_of(model: Recommender, train: SparkRatings, test: DataFrame) -> dict[str, float]:
    """`rating_metrics` over all held-out ratings."""
    work = partial(_errors, model=model)
    rows = _asked(train, test, "left").mapInArrow(work, "n long, square double, off double")
    found = rows.toArrow()
    total = sum(found["n"].to_pylist())
    if not total:
        raise InputError("nothing is held out; change the test_fraction")
    mse = fsum(found["square"].to_pylist()) / total
    return {"rmse": mse**0.5, "mae": fsum(found["off"].to_pylist()) / total, "mse": mse}


def _errors(batches: Batches, model: Recommender) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        asked, histories = _both(batch, model.item_ids_, model.scale_)
        if not len(asked):
            continue
        predicted = model.predict(asked, histories=histories)["score"].to_numpy()
        error = predicted.astype(np.float64) - asked.values
        sums = [len(error)], [float(np.sum(error**2))], [float(np.sum(np.abs(error)))]
        yield pa.RecordBatch.from_arrays([pa.array(s) for s in sums], ["n", "square", "off"])


def _judged(
    train: SparkRatings, test: DataFrame, relevant_from: float | None, most: int | None, seed: int
) -> DataFrame:
    """The users whose lists are judged: those with a history and something relevant held out."""
    spark = test.sparkSession
    work = partial(_relevant, item_ids=train.item_ids, scale=train.scale, least=relevant_from)
    asked = _asked(train, test, "inner")
    kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in asked.schema)
    asked = asked.mapInArrow(work, kinds)
    users = asked.select("user").toArrow().sort_by("user")["user"]
    if not len(users):
        raise InputError(
            "no user has a rating to learn from and one held out that is relevant; change the "
            "test_fraction or lower relevant_from"
        )
    if most is None or len(users) <= most:
        return asked
    chosen = np.random.default_rng(seed).choice(len(users), most, replace=False)
    some = spark.createDataFrame(pa.table({"user": users.take(pa.array(chosen))}))
    return asked.join(some, "user", "left_semi")


def _relevant(
    batches: Batches, item_ids: Any, scale: Any, least: float | None
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        asked, histories = _both(batch, item_ids, scale)
        keep = np.ones(len(asked), np.uint8) if least is None else asked.values >= least
        held = marks(batch["user"], asked.user_counts, np.asarray(keep, np.bool_))
        names = [name for name in batch.schema.names if "asked" in name]
        rows = [batch["user"], *(batch[name] for name in names), held["held"].combine_chunks()]
        (left,) = marked([pa.RecordBatch.from_arrays(rows, ["user", *names, "held"])], held=True)
        some = pc.binary_length(left.column(1)).to_numpy() > 0
        rest = [batch[name] for name in batch.schema.names[1 + len(names) :]]
        whole = pa.RecordBatch.from_arrays([*left.columns, *rest], batch.schema.names)
        yield whole.filter(pa.array(some & (histories.user_counts > 0)))


def _lists_of(model: Recommender, judged: DataFrame, n: int) -> dict[str, float]:
    """`list_metrics` over all judged users."""
    columns = ", ".join(f"{name} double" for name in _MEANS)
    rows = judged.mapInArrow(
        partial(_judge, model=model, n=n), f"users long, {columns}, listed binary"
    )
    found = rows.toArrow()
    users = sum(found["users"].to_pylist())
    means = {name: fsum(found[name].to_pylist()) / users for name in _MEANS}
    both = means["precision"] + means["recall"]
    listed = np.zeros(-(-len(model.item_ids_) // 8), np.uint8)
    for part in found["listed"].to_pylist():
        listed |= np.frombuffer(part, np.uint8)
    return {
        "precision": means["precision"],
        "recall": means["recall"],
        "f1": 2 * means["precision"] * means["recall"] / both if both else 0.0,
        "ndcg": means["ndcg"],
        "coverage": int(np.unpackbits(listed).sum()) / len(model.item_ids_),
        "users": users,
    }


def _judge(batches: Batches, model: Recommender, n: int) -> Iterator[pa.RecordBatch]:
    scale = model.scale_ if model.task == "ratings" else None
    items = model.item_ids_
    for batch in batches:
        if not batch.num_rows:
            continue
        asked, histories = _both(batch, items, scale)
        lists = model.recommend(histories, n=n)
        best = find(items, np.asarray(lists["item_id"].to_pylist()))
        found = list_metrics(
            lists["user_id"].to_numpy(), best, lists["rank"].to_numpy(),
            np.column_stack([asked.users, asked.items]), n, len(items),
        )  # fmt: skip
        listed = np.zeros(len(items), np.bool_)
        listed[best] = True
        sums = [[found[name] * batch.num_rows] for name in _MEANS]
        columns = [[batch.num_rows], *sums, [np.packbits(listed).tobytes()]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column) for column in columns], ["users", *_MEANS, "listed"]
        )
