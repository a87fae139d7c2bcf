"""The Spark engine: sums over ratings in a cluster, bit-identical to those of `local`.

It uses DataFrames and `mapInArrow` only, so that Spark Connect works, too. Ratings are grouped by
user once, by a hash of the id, and kept on the executors' disks as one row a user. For a sum, every
task adds up the users of its partition; then one task adds up each slice of the sum, and the
finished slices are collected by the driver. No noise is drawn here: everything is a function of the
data, so a repeated task gives the same numbers, and Spark takes those of one attempt.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from epicrec.arrays import Integers
from epicrec.data import Ratings, Scale
from epicrec.data.public import item_list
from epicrec.engine import RemoteRatings, Statistic
from epicrec.engine.packed_users import SLICE, merged, packed_users, partial_sum
from epicrec.errors import InputError
from epicrec.extras import needs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE = 300.0
"""Seconds for which a job may wait for a machine that runs it."""
COLLECTED_AT_ONCE = 1 << 14
"""So many slices of a sum, 128 MB, are sent to the driver at a time."""
_SMALL_HEAP = (
    "Java has too little memory for its sums. Give it more: "
    'PYSPARK_SUBMIT_ARGS="--driver-memory 6g pyspark-shell" for local[…], '
    "spark.executor.memory in a cluster"
)


@dataclass(frozen=True, eq=False)
class SparkRatings(RemoteRatings):
    """Ratings in a cluster, over public items and, unless they are a history, on a public scale.

    `users` has one row a user: `user`, `items` and, where there is a scale, `values` (see
    `epicrec.engine.packed_users`). A model that learns from sums is fitted on it as on `Ratings`:
    `CovarianceSVD(epsilon=1).fit(SparkRatings.of(frame, items=ids, scale=None))`.
    """

    users: DataFrame
    item_ids: npt.NDArray[Any]
    scale: Scale | None
    partitions: int

    @classmethod
    def of(
        cls,
        frame: DataFrame,
        *,
        items: Any,
        scale: Scale | str | None,
        user: str = "user_id",
        item: str = "item_id",
        rating: str = "rating",
        partitions: int | None = None,
    ) -> Self:
        """From a DataFrame with these columns; without a scale, what was seen and not how it was
        rated. Rows of other items or off the scale are left out. By default there are as many
        partitions as the cluster runs tasks at once."""
        needs("spark", "pyspark")
        from pyspark import StorageLevel

        ids = item_list(items)
        scale = Scale.parse(scale) if isinstance(scale, str) else scale
        with told(frame.sparkSession):
            partitions = partitions or tasks_at_once(frame.sparkSession)
            columns = {"user": user, "item": item, "rating": rating}
            users = by_user(frame, ids, scale, columns, partitions)
            return cls(users.persist(StorageLevel.DISK_ONLY), ids, scale, partitions)

    def __len__(self) -> int:
        from pyspark.sql import functions as F

        with told(self.users.sparkSession):
            found = self.users.agg(F.sum(F.length("items")).alias("bytes")).first()
        return ((found and found["bytes"]) or 0) // 4

    @property
    def n_users(self) -> int:
        with told(self.users.sparkSession):
            return int(self.users.count())

    def as_history(self) -> Self:
        return replace(self, users=self.users.select("user", "items"), scale=None)

    def first_users(self, most: int) -> Self:
        if self.n_users <= most:
            return self
        with told(self.users.sparkSession):
            after = self.users.select("user").orderBy("user").offset(most).first()
        assert after is not None
        return replace(self, users=self.users.where(self.users["user"] < after["user"]))

    def total(self, statistic: Statistic) -> Integers:
        from pyspark import StorageLevel
        from pyspark.sql import functions as F

        out = np.array(statistic(_nobody(self.n_items, self.scale)))  # zeros, as many as there are
        slots = -(-len(out) // SLICE)
        each = partial(partial_sum, statistic=statistic, n_items=self.n_items, scale=self.scale)
        with told(self.users.sparkSession):
            parts = self.users.mapInArrow(each, "slot int, part binary")
            sums = parts.repartition(min(self.partitions, slots), "slot").mapInArrow(
                merged, "slot int, part binary"
            )
            if slots <= COLLECTED_AT_ONCE:
                _fill(out, sums.toArrow())
                return out
            sums = sums.persist(StorageLevel.DISK_ONLY)
            try:
                for first in range(0, slots, COLLECTED_AT_ONCE):
                    here = F.col("slot").between(first, first + COLLECTED_AT_ONCE - 1)
                    _fill(out, sums.where(here).toArrow())
            finally:
                sums.unpersist()
        return out


def by_user(
    frame: DataFrame,
    item_ids: npt.NDArray[Any],
    scale: Scale | None,
    columns: Mapping[str, str],
    partitions: int,
) -> DataFrame:
    """One row a user, `user, items, values`, each partition in the order of users; `columns` are
    the frame's names of `user, item, rating`."""
    rows = _rows(frame, columns["user"], columns["item"], columns["rating"] if scale else None)
    kind = rows.schema["user"].dataType.simpleString()
    schema = f"user {kind}, items binary" + (", values binary" if scale else "")
    together = rows.repartition(partitions, "user").sortWithinPartitions("user")
    return together.mapInArrow(partial(packed_users, item_ids=item_ids, scale=scale), schema)


def tasks_at_once(spark: Any) -> int:
    """How many tasks the cluster runs at the same time, as Spark itself divides a range."""
    from pyspark.sql import functions as F

    found: int = spark.range(1 << 20).select(F.spark_partition_id()).distinct().count()
    return max(1, found)


@contextmanager
def told(spark: SparkSession | None) -> Iterator[None]:
    """Turn what goes wrong in the cluster into an `InputError` with a readable reason."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with _waiting(spark) as gave_up:
        try:
            yield
        except (PySparkException, Py4JError) as error:
            ours = re.findall(r"epicrec\.errors\.InputError: (.+)", str(error))
            first = str(error).strip().split("\n")[0]
            why = "no machine of the cluster runs anything" if gave_up.is_set() else first
            if "OutOfMemoryError" in str(error):
                why = _SMALL_HEAP
            raise InputError(
                ours[0] if ours else f"Spark did not finish: {why}. Nothing was released"
            ) from error


@contextmanager
def _waiting(spark: SparkSession | None) -> Iterator[Event]:
    """Give up jobs of which no machine runs a task for `PATIENCE` seconds; Spark itself would wait
    for ever. With Spark Connect this is left to the server."""
    from pyspark.errors import PySparkException

    over, gave_up = Event(), Event()
    try:
        context = spark and spark.sparkContext
    except PySparkException:
        context = None
    if context is None:
        yield gave_up
        return

    def watch() -> None:
        tracker, alive = context.statusTracker(), time.monotonic()
        while not over.wait(PATIENCE / 30):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if not stages or any(stage and stage.numActiveTasks for stage in stages):
                alive = time.monotonic()
            elif time.monotonic() - alive > PATIENCE:
                gave_up.set()
                context.cancelAllJobs()

    watching = Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield gave_up
    finally:
        over.set()
        watching.join()


def _rows(frame: DataFrame, user: str, item: str, rating: str | None) -> DataFrame:
    """The columns by our names; ids as whole numbers or text, ratings as numbers."""
    from pyspark.sql.types import IntegralType, StringType

    columns, there = [], ", ".join(frame.columns)
    for name in (user, item):
        kind = frame.schema[name].dataType if name in frame.columns else None
        if not isinstance(kind, IntegralType | StringType):
            has = f"is {kind.simpleString()}" if kind else f"is not among {there}"
            raise InputError(f"the column {name!r} {has}; give whole numbers or text as ids")
        columns.append(frame[name].cast("string" if isinstance(kind, StringType) else "long"))
    if rating is not None:
        if rating not in frame.columns:
            raise InputError(
                f"there is no column {rating!r} among {there}; add the ratings, "
                "or leave the scale out and learn from what was seen"
            )
        columns.append(frame[rating].cast("double").cast("float"))
    names = ["user", "item", "rating"]
    return frame.select(*(c.alias(name) for c, name in zip(columns, names, strict=False)))


def _nobody(n_items: int, scale: Scale | None) -> Ratings:
    none = np.zeros(0, np.int64)
    empty = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Ratings(none, np.arange(n_items), np.zeros(1, np.int64), *empty, scale)


def _fill(out: Integers, slices: Any) -> None:
    for slot, part in zip(slices["slot"].to_pylist(), slices["part"], strict=True):
        found = np.frombuffer(part.as_buffer(), np.int64)
        out[slot * SLICE : slot * SLICE + len(found)] = found
