"""Data sets in a Spark cluster: the session, and data sets that it reads and converts."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from epicrec.data import Catalogue, Scale, find
from epicrec.data.columns import NAMES, check_names, check_rated
from epicrec.data.datasets import find_dataset, load_items, public_of, whole_or_not
from epicrec.data.embedded import EMBEDDED
from epicrec.data.formats import ALIASES, ratings_file
from epicrec.data.public import Public, write_public
from epicrec.data.simulate import simulate_table
from epicrec.engine.packed_users import whole_users
from epicrec.engine.spark import SparkRatings, tasks_at_once, told
from epicrec.errors import InputError
from epicrec.extras import needs
from epicrec.machine import all_memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWERS_WITHIN = 10.0
"""Seconds in which a master's port must answer."""
CONNECT_PORT = 15002


def session(master: str) -> SparkSession:
    """A session with a master: local[2], spark://host:port, yarn, k8s://…; or sc://host:port for
    Spark Connect. An address where nothing listens is refused before Spark waits for it."""
    needs("spark", "pyspark")
    from pyspark.sql import SparkSession

    kind, _, address = master.partition("://")
    if kind in ("spark", "sc"):
        _check_answers(master, address.partition("/")[0].split(","))
    if kind == "sc":
        needs("spark", "grpc", "google.rpc")
        builder = SparkSession.builder.remote(master)
    else:
        _check_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        builder = SparkSession.builder.master(master).config(map=settings | _heap(master))
    with told(None):
        return builder.appName("epicrec").getOrCreate()


def _heap(master: str) -> dict[str, str]:
    """On one machine, a third of its memory for Java, at most 8 GB: Spark's default of 1 GB is too
    little for a hundred million ratings. `PYSPARK_SUBMIT_ARGS`, where set, decides instead."""
    if not master.startswith("local") or "PYSPARK_SUBMIT_ARGS" in os.environ:
        return {}
    return {"spark.driver.memory": f"{max(1, min(8, (all_memory() or 0) // 3 >> 30))}g"}


def _check_answers(master: str, addresses: list[str]) -> None:
    for address in addresses:
        host, _, port = address.partition(":")
        try:
            socket.create_connection((host, int(port or CONNECT_PORT)), ANSWERS_WITHIN).close()
        except (OSError, ValueError) as error:
            why = error
        else:
            return
    raise InputError(f"no Spark master answers at {master}: {why}; start it or give its address")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not (shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")):
        raise InputError(
            "Spark needs Java 17 or 21, and there is none here; install it, such as Debian's "
            "default-jre-headless, or set JAVA_HOME to where it is"
        )


class RemoteDataset(NamedTuple):
    """Ratings in a cluster with the catalogue of their items, where there is one."""

    name: str
    frame: DataFrame
    ratings: SparkRatings
    catalogue: Catalogue | None


def load_dataset(
    spark: SparkSession, name: str, *, items: str | None, scale: Scale | None, rated: bool
) -> RemoteDataset:
    """A data set as `epicrec.data` finds it, read by the cluster: Parquet or CSV in a folder or
    file that all its machines see, or at an address such as hdfs://…; and its catalogue.

    The items and, where they are rated, the scale are given or in the folder, never guessed.
    """
    known = public_of_remote(name, items, scale)
    if known.items is None or (rated and known.scale is None):
        raise InputError(
            "in a cluster neither items nor scale are guessed from the ratings; give --items and, "
            "for ratings, --scale"
        )
    with told(spark):
        frame = load_frame(spark, name)
        on = known.scale if "rating" in frame.columns or rated else None
        ratings = SparkRatings.of(frame, items=known.items, scale=on)
    called = name.rstrip("/").rpartition("/")[2]
    return RemoteDataset(called, frame, ratings, known.catalogue)


def public_of_remote(name: str, items: str | None, scale: Scale | None) -> Public:
    """What is public of a data set: as given, or as its folder on this machine says."""
    if "://" not in name:
        return public_of(name, items=items, scale=scale)
    listed, described = load_items(items) if items else (None, None)
    return Public(listed, described, scale)


def load_frame(
    spark: SparkSession, name: str, *, columns: Mapping[str, str] | None = None, sep: str = ","
) -> DataFrame:
    """A data set's rows with our names of its columns; `columns` gives the file's names where they
    are neither ours nor usual."""
    if name == EMBEDDED:
        return spark.createDataFrame(simulate_table())
    where, one = (name, name) if "://" in name else _paths(name)
    if one.endswith((".csv", ".csv.gz")):
        frame = spark.read.csv(where, header=True, inferSchema=True, sep=sep)
    else:
        frame = spark.read.parquet(where)
    ours = {theirs: name for name, theirs in (columns or {}).items()}
    return frame.withColumnsRenamed(
        {n: ours.get(n, ALIASES.get(n.lower(), n)) for n in frame.columns}
    )


def _paths(name: str) -> tuple[str, str]:
    """A data set's file or folder of parts, and one file of it, whose name tells the format."""
    path = find_dataset(name)
    found = ratings_file(path) if path.is_dir() else path
    one = next(found.glob("part-*"), found) if found and found.is_dir() else found
    if found is None or one is None or not one.name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(
            f"a cluster reads Parquet and CSV, and {name} is neither; first run epicrec data "
            f"convert {name} FOLDER, and give the folder"
        )
    return str(found.absolute()), one.name


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
    cluster, into a folder that they all see. Returns how many ratings were written, and how many
    were left out.

    Ratings off a given scale, or of items that are not in a given list, are left out. A user's rows
    are adjacent, in the order of items; `ratings.parquet` is a folder of parts.
    """
    folder, known = Path(folder).absolute(), public_of_remote(name, items, scale)
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
    """The rows of listed items on the scale; a user and item that come twice are an error."""
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
