"""Releases of a whole population: what every user's device would send, drawn in a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from epicrec.data import Scale
from epicrec.data.public import item_list
from epicrec.engine.packed_users import ratings_of
from epicrec.engine.spark import by_user, tasks_at_once, told
from epicrec.errors import InputError
from epicrec.extras import needs
from epicrec.perturb import Perturber
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.seeds import derived

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NAMES = ["user", "items", "values", "release"]


def release_population(
    frame: DataFrame,
    perturber: Perturber,
    output: str,
    *,
    items: Any,
    scale: Scale | str | None = None,
    levels: Levels = PERTURBED,
    userCol: str = "user",
    itemCol: str = "item",
    ratingCol: str = "rating",
    seed: int | None = None,
) -> DataFrame:
    """Every user's release: `user, items, values`, and as JSON the `release` that a device sends.

    `items` are the public ids; the scale is for mechanisms that alter ratings. A cluster may repeat
    a task, and computes a table that is not stored again at each use, with fresh noise that would
    cost ε again. So the releases are written to `output`, where there must be nothing yet, by the
    one attempt of each task that Spark commits. The result is read from there. With a `seed`, each
    user's draw is that of `derived(seed, "release", user)`.
    """
    needs("spark", "pyspark")
    scale = Scale.parse(scale) if isinstance(scale, str) else scale
    if perturber.task == "ratings" and scale is None:
        raise InputError(f"{perturber.method} alters ratings; give their scale, such as 1:5:1")
    on = scale if perturber.task == "ratings" else None
    ids = item_list(items)
    columns = {"user": userCol, "item": itemCol, "rating": ratingCol}
    spark = frame.sparkSession
    with told(spark):
        users = by_user(frame, ids, on, columns, tasks_at_once(spark))
        user = users.schema["user"].dataType.simpleString()
        item = "string" if ids.dtype.kind in "US" else "bigint"
        drawn = users.mapInArrow(
            partial(
                _released, perturber=perturber, item_ids=ids, scale=on, levels=levels, seed=seed
            ),
            f"user {user}, items array<{item}>, values array<double>, release string",
        )
        drawn.write.parquet(output)
        return spark.read.parquet(output)


def _released(
    batches: Iterable[pa.RecordBatch],
    perturber: Perturber,
    item_ids: npt.NDArray[Any],
    scale: Scale | None,
    levels: Levels,
    seed: int | None,
) -> Iterator[pa.RecordBatch]:
    kind = pa.string() if item_ids.dtype.kind in "US" else pa.int64()
    kinds = [pa.list_(kind), pa.list_(pa.float64()), pa.string()]
    for batch in batches:
        histories = ratings_of(pa.Table.from_batches([batch]), item_ids, scale)
        drawn = []
        for at, user in enumerate(batch["user"].to_pylist()):
            history: Any = item_ids[histories.items[histories.row(at)]]
            if scale is not None:
                ratings = histories.values[histories.row(at)].astype(np.float64)
                history = pa.table({"item_id": history, "rating": ratings})
            one = perturber.release(history, levels, seed=derived(seed, "release", user)).public()
            drawn.append((list(one.items), list(one.values), one.to_json()))
        columns = [*zip(*drawn, strict=True)] if drawn else [[], [], []]
        arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays([batch["user"], *arrays], _NAMES)
