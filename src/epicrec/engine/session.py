"""A Spark session by its master's address, and data sets as it reads them."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from epicrec.data import Catalogue, Scale
from epicrec.data.datasets import find_dataset, load_items, public_of
from epicrec.data.embedded import EMBEDDED
from epicrec.data.formats import ALIASES, ratings_file
from epicrec.data.public import Public
from epicrec.data.simulate import simulate_table
from epicrec.engine.spark import SparkRatings, told
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
    Spark Connect. An address where nobody listens is refused before Spark waits for it."""
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
    """On one machine, a third of its memory for Java, at most 8 GB: its own default, 1 GB, is too
    little for a hundred million ratings. Who says anything of Spark by `PYSPARK_SUBMIT_ARGS` says
    this there, too."""
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
    known = public_there(name, items, scale)
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


def public_there(name: str, items: str | None, scale: Scale | None) -> Public:
    """What is public of a data set: as given or, where it has a folder here, as that says."""
    if "://" not in name:
        return public_of(name, items=items, scale=scale)
    listed, described = load_items(items) if items else (None, None)
    return Public(listed, described, scale)


def load_frame(
    spark: SparkSession, name: str, *, columns: Mapping[str, str] | None = None, sep: str = ","
) -> DataFrame:
    """A data set's rows, whichever they are, with our names of their columns; `columns` gives the
    file's names where they are neither ours nor usual."""
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
    """A data set's file, or its folder of parts, and one of its files, which tells its format."""
    path = find_dataset(name)
    found = ratings_file(path) if path.is_dir() else path
    one = next(found.glob("part-*"), found) if found and found.is_dir() else found
    if found is None or one is None or not one.name.endswith((".parquet", ".csv", ".csv.gz")):
        raise InputError(
            f"a cluster reads Parquet and CSV, and {name} is neither; first run epicrec data "
            f"convert {name} FOLDER, and give the folder"
        )
    return str(found.absolute()), one.name
