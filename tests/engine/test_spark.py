"""The Spark engine on a real cluster on loopback: the same numbers as `local`, whatever happens."""

from __future__ import annotations

import os
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

from cluster import ENVIRONMENT, HOME, MARKS, Cluster, answers, in_cluster, wait_for
from epicrec.data import Ratings
from epicrec.engine import spark as engine
from epicrec.engine.local import local
from epicrec.engine.session import session
from epicrec.engine.spark import SparkRatings
from epicrec.errors import InputError
from epicrec.files import write_whole
from epicrec.models import checkpoint
from epicrec.models.bias import Bias
from epicrec.models.covariance.model import CovarianceSVD
from epicrec.models.covariance.statistics import ItemEffects, PairSums
from epicrec.models.private_bias import ForAndAgainst, PrivateBias
from ports import held_port

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
    settings = {"epsilon": 50.0, "unit": "user", "feedback": "implicit", "seed": 3}
    here = CovarianceSVD(**settings).fit(viewers, films)
    there = CovarianceSVD(**settings).fit(in_cluster(spark, viewers), films)
    assert there.record == here.record
    assert there.histories_ is None
    for name in ("offsets_", "factors_"):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))


def test_a_worker_killed_in_the_middle_changes_nothing(
    spark, cluster: Cluster, viewers: Ratings, tmp_path: Path
) -> None:
    """The task says where it runs and waits until its worker is dead."""
    folder = str(tmp_path)

    class Waiting(ItemEffects):
        def __call__(self, part: Ratings) -> Any:
            import os
            import time
            from pathlib import Path

            own, above = os.getpid(), []
            while own > 1:
                above.append(str(own))
                status = Path(f"/proc/{own}/stat").read_text()
                own = int(status.rpartition(")")[2].split()[1])
            Path(folder, f"at-{os.getpid()}").write_text(" ".join(above))
            while len(part) and not Path(folder, "killed").exists():
                time.sleep(0.05)
            return super().__call__(part)

    there = in_cluster(spark, viewers, 2)
    assert len(there) == len(viewers)  # and so they stand on the workers' disks

    def kill() -> None:
        def running() -> list[str]:
            return [p.read_text() for p in tmp_path.glob("at-*") if str(os.getpid()) not in p.name]

        wait_for(lambda: any(running()), "a task")
        above = next(text for text in running() if text).split()
        worker = next(p for p in cluster.processes if str(p.pid) in above)
        worker.kill()
        worker.wait()
        cluster.add_worker()
        (tmp_path / "killed").touch()

    killing = threading.Thread(target=kill)
    killing.start()
    statistic = Waiting("user", 2, viewers.scale)
    found = there.total(statistic)
    killing.join()
    np.testing.assert_array_equal(found, ItemEffects("user", 2, viewers.scale)(viewers))


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


def test_as_spark_ml_knows_recommenders(spark, viewers: Ratings, tmp_path: Path) -> None:
    from epicrec.spark import PrivateRecommender, PrivateRecommenderModel

    here = CovarianceSVD(epsilon=50.0, seed=3).fit(viewers)
    names = {"user_id": "user", "item_id": "item"}
    table = viewers.to_table().select(["user_id", "item_id", "rating"])
    frame = spark.createDataFrame(table).withColumnsRenamed(names)
    estimator = PrivateRecommender(items=viewers.item_ids, scale="1:5:1", epsilon=50.0, seed=3)
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


def test_a_model_that_reads_ratings_says_so(spark, viewers: Ratings) -> None:
    there = in_cluster(spark, viewers, 1)
    for model in (Bias(), CovarianceSVD(), CovarianceSVD(epsilon=1, as_published=True)):
        with pytest.raises(InputError, match="learns from sums"):
            model.fit(there)


def test_spark_connect_and_the_command(tmp_path: Path, viewers: Ratings) -> None:
    """The same file as without a cluster, byte for byte."""
    from epicrec.data.datasets import Dataset, write_dataset

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


def test_nobody_listens_and_no_java(monkeypatch, tmp_path: Path) -> None:
    with held_port() as port:
        for kind in ("spark", "sc"):
            with pytest.raises(InputError, match=f"no Spark master answers at {kind}://127"):
                session(f"{kind}://127.0.0.1:{port}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError, match="needs Java 17 or 21"):
        session("local[1]")


def test_workers_lost_for_good(spark, cluster: Cluster, viewers: Ratings, monkeypatch) -> None:
    """And one comes for those who ask next."""
    there = in_cluster(spark, viewers, 1)
    for process in cluster.processes[1:]:
        process.kill()
        process.wait()
    monkeypatch.setattr(engine, "PATIENCE", 3.0)
    with pytest.raises(InputError, match="no machine of the cluster runs anything"):
        there.total(ItemEffects("user", 2, viewers.scale))
    cluster.add_worker()
