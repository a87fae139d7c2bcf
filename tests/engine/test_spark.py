"""The Spark engine on a real cluster on loopback: the same numbers as `local`, whatever happens."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cluster import ENVIRONMENT, HOME, MARKS, Cluster, answers, in_cluster
from epicrec.data import Ratings, Scale
from epicrec.data.datasets import Dataset, write_dataset
from epicrec.engine import local
from epicrec.engine import spark as engine
from epicrec.engine import spark_data as connecting
from epicrec.engine.spark import SparkRatings, told
from epicrec.engine.spark_data import session
from epicrec.errors import InputError
from epicrec.files import write_whole
from epicrec.models import checkpoint, load, make_model
from epicrec.models.bias import Bias
from epicrec.models.private.covariance import CovarianceSVD
from epicrec.models.private.pairs import PairSums
from epicrec.models.private.statistics import ForAndAgainst, ItemEffects
from epicrec.models.private_bias import PrivateBias
from loopback import held_port, wait_for

pytestmark = MARKS


def test_sums_are_those_of_local_to_the_bit(spark, viewers: Ratings) -> None:
    there = in_cluster(spark, viewers, 5)
    assert len(there) == len(viewers)
    assert there.n_users == viewers.n_users
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    for statistic in (
        ItemEffects("user", 1, viewers.scale),
        PairSums("rating", 2, viewers.scale, levels),
    ):
        np.testing.assert_array_equal(there.total(statistic), local(statistic, viewers))
    few = there.first_users(10)
    statistic = ItemEffects("user", 2, viewers.scale)
    np.testing.assert_array_equal(few.total(statistic), local(statistic, viewers.first_users(10)))


def test_a_fit_is_that_of_local_to_the_bit(spark, viewers: Ratings, films) -> None:
    settings = {"epsilon": 50.0, "unit": "user", "task": "lists", "seed": 3}
    here = CovarianceSVD(**settings).fit(viewers, films)
    there = CovarianceSVD(**settings).fit(in_cluster(spark, viewers), films)
    assert there.record == here.record
    assert there.histories_ is None
    for name in ("offsets_", "factors_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


STEPS = ("packed_users", "partial_sum", "merged")
"""What tasks do: pack users, add them up, add up the sums."""


def told_by(folder: Path, name: str, work: Any, then: str) -> Any:
    """A task's work that leaves a note of each attempt with the processes it runs in, and has its
    troubles: "waits" until it is told to go on, "fails" at the end of its first attempt, "lags" in
    its first attempt until there is a second one."""
    notes = str(folder)

    def works(batches: Any, **given: Any) -> Any:
        import os
        import time
        from pathlib import Path

        from pyspark import TaskContext

        def wait_for_note(pattern: str) -> None:
            for _ in range(6000):
                if next(Path(notes).glob(pattern), None):
                    return
                time.sleep(0.05)
            raise TimeoutError(pattern)

        own, above = os.getpid(), []
        while own > 1:
            above.append(str(own))
            own = int(Path(f"/proc/{own}/stat").read_text().rpartition(")")[2].split()[1])
        task = TaskContext.get()
        of = f"{name} {task.partitionId()}"
        note = Path(notes, f"{of} {task.attemptNumber()} {task.taskAttemptId()}")
        note.with_name("unfinished " + note.name).write_text(" ".join(above))
        note.with_name("unfinished " + note.name).rename(note)
        if then == "waits":
            wait_for_note("killed")
        yield from work(batches, **given)
        if then == "fails" and task.attemptNumber() == 0:
            raise RuntimeError("all is done, and all is lost")
        if then == "lags" and task.partitionId() == 0 and task.attemptNumber() == 0:
            wait_for_note(f"{of} 1 *")

    return works


def attempts(folder: Path, name: str) -> list[tuple[int, int]]:
    """The partition and number of every attempt there was at a step."""
    notes = [path.name.split() for path in folder.glob(f"{name} *")]
    return sorted((int(partition), int(attempt)) for _, partition, attempt, _ in notes)


@pytest.mark.parametrize("step", ["partial_sum", "merged"])
def test_a_worker_killed_in_the_middle_changes_nothing(
    spark, cluster: Cluster, viewers: Ratings, tmp_path: Path, monkeypatch, step
) -> None:
    """A task waits until its worker is dead: with users on its disk or, when sums are merged, with
    sums that are then taken again."""
    for name in STEPS[1:]:
        work = told_by(tmp_path, name, getattr(engine, name), "waits" if name == step else "")
        monkeypatch.setattr(engine, name, work)
    there = in_cluster(spark, viewers, 2)
    assert len(there) == len(viewers)  # and so they stand on the workers' disks

    def kill() -> None:
        wait_for(lambda: len(attempts(tmp_path, step)) == 2, "a task on each worker")
        above = next(tmp_path.glob("partial_sum *")).read_text().split()
        worker = next(p for p in cluster.processes if str(p.pid) in above)
        worker.kill()
        worker.wait()
        cluster.add_worker()
        (tmp_path / "killed").touch()

    killing = threading.Thread(target=kill)
    killing.start()
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    statistic = PairSums("rating", 2, viewers.scale, levels)
    found = there.total(statistic)
    killing.join()
    np.testing.assert_array_equal(found, local(statistic, viewers))
    for again in STEPS[1 : STEPS.index(step) + 1]:
        assert len(attempts(tmp_path, again)) > 2


def test_a_task_that_fails_when_all_is_done_counts_nobody_twice(
    spark, viewers: Ratings, tmp_path: Path, monkeypatch
) -> None:
    """Every task of every step, after it has given all that it had to give."""
    for name in STEPS:
        monkeypatch.setattr(engine, name, told_by(tmp_path, name, getattr(engine, name), "fails"))
    there = in_cluster(spark, viewers, 2)
    assert len(there) == len(viewers)
    statistic = ItemEffects("user", 2, viewers.scale)
    np.testing.assert_array_equal(there.total(statistic), local(statistic, viewers))
    for name in STEPS:
        found = attempts(tmp_path, name)
        assert {(partition, 1) for partition, _ in found} < {*found}


@pytest.mark.parametrize("step", STEPS)
def test_a_speculative_copy_counts_nobody_twice(
    spark, viewers: Ratings, tmp_path: Path, monkeypatch, step
) -> None:
    """A task that has given all but its end is slow, so Spark runs a copy of it on the other worker
    beside it; then both end."""
    monkeypatch.setattr(engine, step, told_by(tmp_path, step, getattr(engine, step), "lags"))
    there = in_cluster(spark, viewers, 2)
    levels = np.arange(viewers.n_items).astype(np.int16) % 100 - 50
    statistic = PairSums("rating", 2, viewers.scale, levels)
    np.testing.assert_array_equal(there.total(statistic), local(statistic, viewers))
    assert {(0, 0), (0, 1), (1, 0)} <= {*attempts(tmp_path, step)}


class Killed(Exception):
    pass


def test_a_driver_that_ends_goes_on_with_the_sum_of_the_cluster_and_one_draw(
    spark, viewers: Ratings, tmp_path: Path, monkeypatch
) -> None:
    """Between the sum and the draw, and after the draw; without a seed, so that a second draw would
    be another one."""
    there, model, write, asked = in_cluster(spark, viewers, 2), PrivateBias(), write_whole, []
    total = SparkRatings.total
    monkeypatch.setattr(SparkRatings, "total", lambda *given: asked.append(1) or total(*given))
    known = {}

    for last in ("sum", "release", "nothing"):

        def writing(path: Path, fill: Any, last: str = last) -> None:
            write(path, fill)
            if last in path.name:
                with np.load(path) as file:
                    known[last] = file["numbers"]
                raise Killed

        monkeypatch.setattr(checkpoint, "write_whole", writing)
        with suppress(Killed), checkpoint.kept_in(tmp_path / "kept", model):
            model.fit(there)
    assert asked == [1]
    np.testing.assert_array_equal(known["sum"], local(ForAndAgainst(viewers.scale), viewers))
    np.testing.assert_array_equal(known["release"].reshape(2, -1), model.totals_)
    assert (known["release"].ravel() != known["sum"]).any()
    assert {path.name for path in (tmp_path / "kept").iterdir()} <= {"lock"}


LIVE = """
import os, signal, sys
from epicrec.cli import main
from epicrec.models import checkpoint

when, name, *line = sys.argv[1:]
write = checkpoint.write_whole

def writing(path, fill):
    for moment in ("before", "after"):
        if (when, name) == (moment, path.name):
            os.kill(os.getpid(), signal.SIGKILL)
        if moment == "before":
            write(path, fill)

checkpoint.write_whole = writing
main(line)
"""
"""A driver that dies just before or after a file of its checkpoint is there."""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("method", "when"),
    [("private-bias", "before"), ("private-bias", "after"), ("covariance-svd", "after")],
)
def test_a_driver_killed_at_every_file_goes_on_with_the_same_draws(
    viewers: Ratings, tmp_path: Path, method, when
) -> None:
    """By SIGKILL, in processes of their own; without a seed, so that a second draw would be another
    one. Each life begins where the last one ended, and the last one ends with a model."""
    known = replace(viewers, items_given=True, scale_given=True)
    write_dataset(Dataset("viewers", known, None), tmp_path / "data")
    kept, model = tmp_path / "kept", tmp_path / "model.npz"
    line = ["fit", method, str(model), "--data", str(tmp_path / "data")]
    line += ["--epsilon", "30", "--checkpoint", str(kept), "--engine", "spark"]

    def live(name: str) -> int:
        command = [sys.executable, "-W", "ignore", "-c", LIVE, when, name, *line]
        return subprocess.run([*command, "--master", "local[1]"], env=ENVIRONMENT).returncode

    def on_disk(kind: str) -> dict[str, list[int]]:
        paths = kept.glob(f"*.{kind}.npz")
        return {path.name: np.load(path)["numbers"].ravel().tolist() for path in paths}

    drawn: dict[str, list[int]] = {}
    for number in range(20):
        for kind in ("sum", "release"):
            name = f"{number:03}.{kind}.npz"
            ended = live(name)
            if ended == 0:
                assert number > 0  # so it was killed at both files
                found = load(model)
                if method == "private-bias" and when == "after":
                    assert drawn == {"000.release.npz": found.totals_.ravel().tolist()}
                assert found.guarantee.epsilon == 30
                assert {path.name for path in kept.iterdir()} <= {"lock"}
                return
            assert ended == -signal.SIGKILL
            assert not model.exists()
            assert (kept / name).exists() == (when == "after")
            assert drawn.items() <= on_disk("release").items()
            drawn = on_disk("release")
    pytest.fail("it never ends")


def test_one_user_with_a_million_ratings_among_others(spark, tmp_path: Path, monkeypatch) -> None:
    """The sums of `local`, and no task holds more than a few copies of that person."""
    from pyspark.sql import functions as F

    n, packed = 1_000_000, engine.packed_users
    notes = str(tmp_path)

    def weighed(batches: Any, **given: Any) -> Any:
        import os
        import tracemalloc
        from pathlib import Path

        import pyarrow as pa

        pool = pa.default_memory_pool()
        before, most = pool.bytes_allocated(), 0
        tracemalloc.start()
        for batch in packed(batches, **given):
            most = max(most, pool.bytes_allocated() - before)
            yield batch
        most += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        Path(notes, str(os.getpid())).write_text(str(most))

    monkeypatch.setattr(engine, "packed_users", weighed)
    everything = F.when(F.col("id") < n, 0).otherwise(1 + F.col("id") % 20)
    frame = spark.range(n + 1000).select(
        everything.alias("user_id"),
        (F.col("id") % n).alias("item_id"),
        (1 + F.col("id") * 7 % 5).alias("rating"),
    )
    stars = Scale(1, 5, 1)
    there = SparkRatings.of(frame, items=np.arange(n), scale=stars)
    at = np.arange(n + 1000)
    here = Ratings.from_columns(
        np.where(at < n, 0, 1 + at % 20), at % n, 1 + at * 7 % 5, scale=stars
    ).with_items(np.arange(n))
    for statistic in (ItemEffects("user", 2, stars), ForAndAgainst(stars)):
        np.testing.assert_array_equal(there.total(statistic), local(statistic, here))
    most = max(int(path.read_text()) for path in tmp_path.iterdir())
    assert 12 * n < most < 200 * n


def test_as_spark_ml_knows_recommenders(spark, viewers: Ratings, tmp_path: Path) -> None:
    from epicrec.spark import PrivateRecommender, PrivateRecommenderModel

    here = CovarianceSVD(task="ratings", epsilon=50.0, seed=3).fit(viewers)
    names = {"user_id": "user", "item_id": "item"}
    table = viewers.to_table().select(["user_id", "item_id", "rating"])
    frame = spark.createDataFrame(table).withColumnsRenamed(names)
    public = {"items": viewers.item_ids, "scale": "1:5:1"}
    estimator = PrivateRecommender(**public, task="ratings", epsilon=50.0, seed=3)
    fitted = estimator.fit(frame)
    assert fitted.guarantee == here.guarantee
    np.testing.assert_array_equal(fitted.recommender.factors_, here.factors_)

    fitted.write().save(str(tmp_path / "model"))
    model = PrivateRecommenderModel.load(str(tmp_path / "model"))
    with pytest.raises(InputError, match="knows no users"):
        model.recommendForAllUsers(3)
    model.setHistories(frame)
    lists = {row["user"]: row["recommendations"] for row in model.recommendForAllUsers(3).collect()}
    expected = here.recommend(viewers, n=3)
    assert {user: [r["item"] for r in rows] for user, rows in lists.items()} == {
        user: [r["item_id"] for r in expected.to_pylist() if r["user_id"] == user]
        for user in viewers.user_ids.tolist()
    }
    one, other = viewers.user_ids[:2].tolist()
    asked = spark.createDataFrame([(one,), (one,), (-1,)], "user long")
    (only,) = model.recommendForUserSubset(asked, 3).collect()
    assert only["user"] == one
    assert [r["item"] for r in only["recommendations"]] == [r["item"] for r in lists[one]]

    item = str(viewers.item_ids[0])
    pairs = spark.createDataFrame(
        [
            (one, item, "a"),
            (other, item, "b"),
            (-1, item, "c"),
            (one, "no such", "d"),
            (None, item, "e"),
        ],
        "user long, item string, note string",
    )
    found = {row["note"]: row["prediction"] for row in model.transform(pairs).collect()}
    same = pa.table({"user_id": [one, other], "item_id": [item, item]})
    told = here.predict(same, histories=viewers)
    assert [found["a"], found["b"]] == pytest.approx(told["score"].to_pylist(), rel=1e-6)
    assert 1 <= found["c"] <= 5  # as anybody
    assert np.isnan([found["d"], found["e"]]).all()
    kept = model.copy({model.coldStartStrategy: "drop"}).transform(pairs)
    assert {row["note"] for row in kept.select("note").collect()} == {"a", "b", "c"}


def test_releases_of_a_population_are_drawn_once(spark, viewers: Ratings, films, tmp_path) -> None:
    from pyspark.ml.recommendation import ALS
    from pyspark.sql import functions as F

    from epicrec.perturb import D2P, DPI, Release
    from epicrec.seeds import derived
    from epicrec.spark import release_population

    table = viewers.to_table().select(["user_id", "item_id", "rating"])
    frame = spark.createDataFrame(table)
    names = {"userCol": "user_id", "itemCol": "item_id", "items": viewers.item_ids}
    perturber = DPI(viewers.scale, epsilon=1.0)
    seeded = release_population(
        frame, perturber, str(tmp_path / "seeded"), scale="1:5:1", seed=4, **names
    )
    for row in seeded.collect():
        at = viewers.row(int(viewers.positions([row["user"]])[0]))
        history = {"item_id": viewers.item_ids[viewers.items[at]], "rating": viewers.values[at]}
        own = perturber.release(pa.table(history), seed=derived(4, "release", row["user"]))
        assert Release.from_json(row["release"]) == own.public()
        assert (tuple(row["items"]), tuple(row["values"])) == (own.items, own.values)
    there = str(tmp_path / "drawn")
    drawn = release_population(frame, D2P(films), there, **names)
    assert drawn.collect() == drawn.collect()
    assert drawn.count() == viewers.n_users
    pairs = drawn.select("user", F.explode(F.arrays_zip("items", "values")).alias("of"))
    numbered = F.hash("of.items").alias("item")  # ALS knows items by numbers
    rated = pairs.select("user", numbered, F.col("of.values").alias("rating"))
    learned = ALS(implicitPrefs=True, rank=2, maxIter=1, seed=0).fit(rated)
    assert learned.userFactors.count() == rated.select("user").distinct().count() > 0
    with pytest.raises(InputError, match="already exists"):
        release_population(frame, D2P(films), there, **names)


def test_bad_rows_and_columns_are_told_without_a_java_trace(spark) -> None:
    def of(rows: list[tuple[Any, ...]], kinds: str, **named: Any) -> SparkRatings:
        frame = spark.createDataFrame(rows, kinds)
        return SparkRatings.of(frame, items=[1, 2], scale="1:5:1", **named)

    names = "user_id long, item_id long, rating double"
    with pytest.raises(InputError, match=r"^a row has no rating; drop [^\n]*$"):
        len(of([(1, 1, 3.0), (1, 2, None)], names, partitions=1))
    with pytest.raises(InputError, match="'rating' among user_id, item_id"):
        of([(1, 1)], "user_id long, item_id long")
    with pytest.raises(InputError, match="'user_id' is double"):
        of([(1.5, 1, 3.0)], "user_id double, item_id long, rating double")
    with pytest.raises(InputError, match="'who' is not among"):
        of([(1, 1, 3.0)], names, user="who")


def test_too_little_memory_for_java_is_told_with_its_remedy(spark) -> None:
    failing = spark.sql("SELECT raise_error('java.lang.OutOfMemoryError: Java heap space')")
    said = r"driver-memory 6g .*\. Nothing was released$"
    with pytest.raises(InputError, match=said), told(spark):
        failing.collect()


def test_a_model_that_reads_ratings_says_so(spark, viewers: Ratings) -> None:
    there = in_cluster(spark, viewers, 1)
    for model in (
        Bias(),
        CovarianceSVD(),
        make_model("covariance-svd", epsilon=1, as_published=True),
    ):
        with pytest.raises(InputError, match="learns from sums"):
            model.fit(there)


def test_spark_connect_and_the_command(tmp_path: Path, viewers: Ratings) -> None:
    """The same file as without a cluster, byte for byte."""
    known = replace(viewers, items_given=True, scale_given=True)
    write_dataset(Dataset("viewers", known, None), tmp_path / "data")
    fit = [sys.executable, "-W", "ignore", "-m", "epicrec", "fit", "covariance-svd"]
    given = ["--data", str(tmp_path / "data"), "--epsilon", "30", "--set", "seed=3"]
    subprocess.run([*fit, str(tmp_path / "here.npz"), *given], env=ENVIRONMENT, check=True)
    with held_port() as port:
        pass  # not held: this server does not share its port
    options = [f"spark.connect.grpc.binding.port={port}", "spark.ui.enabled=false"]
    server = subprocess.Popen(
        [
            str(HOME / "bin" / "spark-submit"), "--master", "local[1]",
            *(part for option in options for part in ("--conf", option)),
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT,
    )  # fmt: skip
    try:
        wait_for(lambda: answers(port), "the server of Spark Connect")
        there = [str(tmp_path / "there.npz"), *given, "--checkpoint", str(tmp_path / "kept")]
        remote = ["--engine", "spark", "--master", f"sc://127.0.0.1:{port}"]
        subprocess.run([*fit, *there, *remote], env=ENVIRONMENT, check=True)
    finally:
        server.terminate()
        server.wait()
    assert (tmp_path / "there.npz").read_bytes() == (tmp_path / "here.npz").read_bytes()


@pytest.mark.parametrize(
    ("gigabytes", "master", "heap"),
    [(24, "local[2]", "8g"), (12, "local[*]", "4g"), (1, "local", "1g"), (64, "yarn", None)],
)
def test_java_has_a_third_of_one_machine(gigabytes, master, heap, monkeypatch) -> None:
    monkeypatch.setattr(connecting, "all_memory", lambda: gigabytes << 30)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    assert connecting._heap(master).get("spark.driver.memory") == heap
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-memory 2g pyspark-shell")
    assert connecting._heap(master) == {}


def test_nobody_listens_and_no_java(monkeypatch, tmp_path: Path) -> None:
    with held_port() as port:
        for kind in ("spark", "sc"):
            with pytest.raises(InputError, match=f"no Spark master answers at {kind}://127"):
                session(f"{kind}://127.0.0.1:{port}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match="needs Java 17 or 21"):
        session("local[1]")


def test_workers_lost_for_good(
    spark, cluster: Cluster, viewers: Ratings, tmp_path: Path, monkeypatch
) -> None:
    """And one comes for those who ask next."""
    there = in_cluster(spark, viewers, 1)
    for process in cluster.processes[1:]:
        process.kill()
        process.wait()
    monkeypatch.setattr(engine, "PATIENCE", 3.0)
    model = PrivateBias()
    with (
        pytest.raises(InputError, match="no machine of the cluster runs anything"),
        checkpoint.kept_in(tmp_path, model),
    ):
        model.fit(there)
    assert not [*tmp_path.glob("*.npz")]  # no sum, and nothing drawn
    cluster.add_worker()
