"""A real cluster on loopback, for all tests that need one: a master and two workers run as
processes of their own, and are ended by their ids.

What takes time are the starts of Java and of the workers' Python, so there is one cluster and one
session for the whole run.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec.data import Ratings
from loopback import held_port, wait_for

MARKS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves its sockets open
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
"""For modules that use it."""


pyspark = pytest.importorskip("pyspark", reason="needs pyspark: pip install 'epicrec[spark]'")
if shutil.which("java") is None:
    pytest.skip("needs Java 17 or 21, which is not here", allow_module_level=True)

HOME = Path(pyspark.__file__).parent
SOURCES = str(Path(__file__).parents[1] / "src")
ENVIRONMENT = os.environ | {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "600m",
    "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # short lives
    "PYSPARK_PYTHON": sys.executable,
    # a busy machine is slow and not gone
    "PYSPARK_SUBMIT_ARGS": "--conf spark.network.timeout=900s --conf spark.rpc.askTimeout=900s "
    "--conf spark.sql.shuffle.partitions=2 --conf spark.ui.enabled=false "
    "--conf spark.speculation=true --conf spark.speculation.interval=1s pyspark-shell",
    "PYTHONPATH": SOURCES,
}


@dataclass
class Cluster:
    """A master and its workers, one core each."""

    folder: Path
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        what = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
        host = f"127.0.0.{1 + len(self.processes)}"  # Spark knows machines by their addresses
        command = [str(HOME / "bin" / "spark-class"), what, "--host", host]
        log = (self.folder / f"{kind}-{len(self.processes)}.log").open("wb")
        with log:
            process = subprocess.Popen(
                [*command, "--webui-port", "0", *options], stdout=log, stderr=log, env=ENVIRONMENT
            )
        self.processes.append(process)
        return process

    def add_worker(self) -> subprocess.Popen[bytes]:
        room = ["-c", "1", "-m", "1g", "-d", str(self.folder / f"work-{len(self.processes)}")]
        return self.start("Worker", self.master, *room)

    def end(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.terminate()
        for process in self.processes:
            process.wait()


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    with held_port() as port:
        running = Cluster(folder, port)
        try:
            running.start("Master", "--port", str(port))
            wait_for(lambda: answers(port), "the master")
            running.add_worker()
            running.add_worker()
            yield running
        finally:
            running.end()


def session_with(cluster: Cluster) -> Any:
    from epicrec.engine.spark_data import session

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        return session(cluster.master)


def answers(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


def in_cluster(spark: Any, ratings: Ratings, partitions: int | None = None) -> Any:
    """The ratings in the cluster, in no order."""
    from epicrec.engine.spark import SparkRatings

    table = ratings.to_table().select(["user_id", "item_id", "rating"])
    mixed = table.take(np.random.default_rng(5).permutation(len(table)))
    frame = spark.createDataFrame(mixed)
    scale = ratings.scale
    return SparkRatings.of(frame, items=ratings.item_ids, scale=scale, partitions=partitions)
