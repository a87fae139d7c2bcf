"""`--engine spark` on the commands: what one machine answers, from a cluster."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cluster import MARKS
from epicrec.cli import main
from epicrec.data import Catalogue, Ratings, load_dataset
from epicrec.data.datasets import Dataset, write_dataset
from epicrec.perturb import Release
from loopback import held_port

pytestmark = MARKS


@pytest.fixture(scope="module")
def data(viewers: Ratings, films: Catalogue, tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("data") / "viewers"
    known = replace(viewers, items_given=True, scale_given=True)
    write_dataset(Dataset("viewers", known, films), folder)
    return folder


@pytest.fixture
def run(spark, cluster, capsys) -> Any:  # noqa: ARG001
    """A command's answer, here or in the cluster."""

    def runs(*line: Any, there: bool = False, status: int = 0) -> Any:
        added = ["--engine", "spark", "--master", cluster.master] if there else []
        with pytest.raises(SystemExit) as ended:
            main([*map(str, line), "--json", *added])
        said = capsys.readouterr()
        assert (ended.value.code or 0) == status, said.err
        return said.err if status else json.loads(said.out)

    return runs


MEASURED = [
    ("covariance-svd", "--task", "ratings", "--epsilon", "30", "--unit", "user"),
    ("covariance-svd", "--protocol", "topn", "--epsilon", "30", "--max-users", "20"),
    ("popularity", "--protocol", "topn", "--epsilon", "1", "--relevant-from", "4", "-n", "5"),
]


@pytest.mark.parametrize("line", MEASURED, ids=" ".join)
def test_a_cluster_measures_what_one_machine_does(run, data: Path, line) -> None:
    here, there = (run("evaluate", *line, "--data", data, there=where) for where in (False, True))
    for name in ("seconds", "peak_rss_mb"):
        assert here.pop(name)
        assert there.pop(name)
    metrics = there.pop("metrics")
    assert metrics == pytest.approx(here.pop("metrics"), rel=1e-9)
    assert there == here


def test_a_probe_divides_ratings_in_a_cluster_too(run, viewers: Ratings, films, tmp_path) -> None:
    probe = np.random.default_rng(0).random(len(viewers)) < 0.2
    known = replace(viewers, probe=probe, items_given=True, scale_given=True)
    write_dataset(Dataset("probed", known, films), tmp_path / "probed")
    line = ["evaluate", "private-bias", "--epsilon", 1, "--data", tmp_path / "probed"]
    here, there = (run(*line, there=where)["metrics"] for where in (False, True))
    assert there == pytest.approx(here, rel=1e-9)


def test_a_population_is_released_once(run, data: Path, viewers: Ratings, tmp_path) -> None:
    line = ["perturb", "s-epicrec", "--data", data, "--output", tmp_path / "sent"]
    found = run(*line, there=True)
    assert found["people"] == viewers.n_users
    assert found["guarantee"]["status"] == "proved"
    rows = pq.read_table(tmp_path / "sent").to_pylist()
    assert {row["user"] for row in rows} == {*viewers.user_ids.tolist()}
    assert Release.from_json(rows[0]["release"]).guarantee.to_dict() == found["guarantee"]
    assert "already exists" in run(*line, there=True, status=2)


def test_a_converted_data_set_is_the_same(run, data: Path, viewers: Ratings, tmp_path) -> None:
    found = run("data", "convert", data, tmp_path / "converted", there=True)
    assert (found["ratings"], found["left_out"]) == (len(viewers), 0)
    back = load_dataset(tmp_path / "converted")
    assert (back.ratings.items_given, back.ratings.scale_given) == (True, True)
    assert back.ratings.to_table().equals(load_dataset(data).ratings.to_table())
    again = run("data", "convert", data, tmp_path / "converted", there=True, status=2)
    assert "holds ratings already" in again


def test_bad_rows_leave_no_folder(run, tmp_path: Path) -> None:
    for text, said in (
        ("u,i,r\n1,1,3\n1,1,4\n", "user 1 has item 1 more than once"),
        ("u,i,r\n1,1,3\n1,,4\n", "a row has no item_id"),
    ):
        (tmp_path / "bad.csv").write_text(text)
        line = ["data", "convert", tmp_path / "bad.csv", tmp_path / "out"]
        names = ["--columns", "user=u,item=i,rating=r"]
        assert said in run(*line, *names, there=True, status=2)
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("column", ["user_id", "item_id", "rating"])
def test_a_row_without_something_leaves_no_model_and_no_releases(
    run, data: Path, tmp_path: Path, column
) -> None:
    bad, kept, model = tmp_path / "bad", tmp_path / "kept", tmp_path / "model.npz"
    shutil.copytree(data, bad)
    rows = pq.read_table(bad / "ratings.parquet")
    at = rows.column_names.index(column)
    holes = pc.if_else(np.arange(len(rows)) == 7, None, rows[column])
    pq.write_table(rows.set_column(at, column, holes), bad / "ratings.parquet")
    fit = ["fit", "private-bias", model, "--epsilon", 1, "--data", bad, "--checkpoint", kept]
    sent = [
        "perturb",
        "dpi",
        "--scale",
        "1:5:1",
        "--epsilon",
        1,
        "--data",
        bad,
        "--output",
        tmp_path / "sent",
    ]
    for line in (fit, sent):
        assert f"a row has no {column.removesuffix('_id')}" in run(*line, there=True, status=2)
    assert not [*kept.glob("*.npz")]
    assert {path.name for path in tmp_path.iterdir()} == {"bad", "kept"}


def test_without_a_cluster_nothing_is_written(run, data: Path, tmp_path, monkeypatch) -> None:
    line = ["--data", data, "--epsilon", 1, "--engine", "spark", "--master"]
    lines = [
        ["fit", "private-bias", tmp_path / "model.npz", "--checkpoint", tmp_path / "kept", *line],
        ["perturb", "s-epicrec", "--output", tmp_path / "sent", *line],
    ]
    for line in lines:
        with held_port() as port:
            said = run(*line, f"spark://127.0.0.1:{port}", status=2)
        assert "no Spark master answers" in said
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for line in lines:
        assert "needs Java 17 or 21" in run(*line, "local[1]", status=2)
    assert [path.name for path in tmp_path.rglob("*") if path.name != "lock"] == ["kept"]


REFUSED = {
    ("evaluate", "svd"): "learns from sums",
    ("evaluate", "s-epicrec", "--protocol", "aggregates"): "runs on one machine",
    ("data", "convert", "DATA", "OUT", "--mapped"): "are one machine's",
    ("perturb", "d2p"): "give --data and --output",
    ("perturb", "d2p", "--data", "DATA", "--output", "OUT", "--ledger", "L"): "is one person's",
}


@pytest.mark.parametrize("line", [*REFUSED], ids=" ".join)
def test_what_makes_no_sense_in_a_cluster_is_refused(run, data: Path, tmp_path, line) -> None:
    places = {"DATA": str(data), "OUT": str(tmp_path / "out"), "L": str(tmp_path / "l.json")}
    given = [places.get(word, word) for word in line]
    assert REFUSED[line] in " ".join(run(*given, there=True, status=2).split())
    assert [*tmp_path.iterdir()] == []
