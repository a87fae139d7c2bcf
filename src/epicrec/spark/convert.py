"""Data sets converted in a cluster: checked rows, in the order of users, as Parquet in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from epicrec.data import Scale, find
from epicrec.data.columns import NAMES, check_names, check_rated
from epicrec.data.datasets import whole_or_not
from epicrec.data.public import Public, write_public
from epicrec.engine.people import whole_users
from epicrec.engine.session import load_frame, public_there
from epicrec.engine.spark import tasks_at_once, told
from epicrec.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def convert_in_cluster(
    spark: SparkSession,
    name: str,
    folder: str | Path,
    *,
    items: str | None = None,
    scale: Scale | None = None,
    columns: Mapping[str, str] | None = None,
    sep: str | None = None,
) -> tuple[int, int]:
    """Write a data set as `epicrec.data.datasets.convert_dataset` does, by the machines of a
    cluster, into a folder that they all see: how many ratings, and how many were left out.

    Ratings of items that are not listed or off the scale are left out where these are given. A
    user's rows stand together, in the order of items; `ratings.parquet` is a folder of parts.
    """
    folder, known = Path(folder).absolute(), public_there(name, items, scale)
    if (folder / "ratings.parquet").exists():
        raise InputError(f"{folder} holds ratings already; name another folder")
    with whole_or_not(folder), told(spark):
        frame = load_frame(spark, name, columns=columns, sep=sep or ",")
        check_names(frame.columns)
        if scale is not None:
            check_rated(frame.columns)
        rows = frame.select([column for column in NAMES if column in frame.columns])
        there, output = tasks_at_once(spark), str(folder / "ratings.parquet")
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in rows.schema)
        together = rows.repartition(there, "user_id").sortWithinPartitions("user_id", "item_id")
        checked = together.mapInArrow(
            partial(_checked, item_ids=known.items, scale=known.scale), kinds
        )
        checked.write.option("compression", "zstd").parquet(output)
        kept, came = spark.read.parquet(output).count(), rows.count()
        rated = known.scale if "rating" in rows.columns else None
        write_public(Public(known.items, known.catalogue, rated), folder)
    return kept, came - kept


def _checked(
    batches: Iterable[pa.RecordBatch], item_ids: Any, scale: Scale | None
) -> Iterator[pa.RecordBatch]:
    """Rows in order that name a user and an item, each pair once, of listed items on the scale."""
    for rows in whole_users(batches, "user_id"):
        table = rows.combine_chunks()
        items, users = table["item_id"].to_numpy(), table["user_id"].to_numpy()
        again = np.flatnonzero((items[1:] == items[:-1]) & (users[1:] == users[:-1]))
        if again.size:
            at = int(again[0])
            raise InputError(
                f"user {users[at]} has item {items[at]} more than once; keep one rating for each "
                "user and item"
            )
        keep = np.ones(len(table), np.bool_)
        if item_ids is not None:
            keep &= find(item_ids, np.asarray(table["item_id"].to_pylist())) >= 0
        if scale is not None and "rating" in table.column_names:
            keep &= scale.holds(table["rating"].to_numpy().astype(np.float32))
        yield from table.filter(pa.array(keep)).combine_chunks().to_batches()
