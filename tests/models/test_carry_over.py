"""What must hold on every data set, on simulated ones; a benchmark has the rest."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epicrec.data import Dataset, Ratings, Scale, load_dataset

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "carry_over.py"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("carry_over", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


carry_over = script()


def jokes() -> Dataset:
    """Few items that everybody has rated, between -10 and 10, in steps of a hundredth."""
    rng = np.random.default_rng(6)
    users, items = 1500, 40
    people, kinds = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
    values = 1.5 * people @ kinds.T + 2 * rng.normal(size=(users, 1)) + rng.normal(size=items)
    values = np.clip(np.round(values + 3 * rng.normal(size=values.shape), 2), -10, 10)
    user, item = np.nonzero(rng.random((users, items)) < 0.6)
    scale = Scale(-10, 10, 0.01)
    return Dataset("jokes", Ratings.from_columns(user, item, values[user, item], scale=scale), None)


SETS = {
    "books": carry_over.books,
    "films": lambda: load_dataset("films"),
    "jokes": jokes,
}


@pytest.mark.parametrize("name", SETS)
def test_what_must_hold_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ε = 0.1 chance decides on sets as small as these."""
    monkeypatch.setattr(carry_over, "EPSILONS", (1.0, 10.0))
    found = [*carry_over.measured(SETS[name](), 2)]
    assert [*carry_over.broken(found)] == []


def test_what_does_not_hold_is_said() -> None:
    lines = [*carry_over.measured(carry_over.books(300, 200, 2000), 1)]
    for line in lines:
        if line["method"] == "svd":
            line["rmse"] = [9.0]
        if line["unit"] == "user" and line["epsilon"] == 10:
            line["rmse"] = [8.0]
        if line["method"] == "private-bias":
            line["rmse"] = [0.1]
    said = "\n".join(carry_over.broken(lines))
    assert "svd 9.0000 is worse than bias" in said
    assert "8.0000 is worse than the user mean" in said
    assert "user: the error rises from ε = 1 to 10" in said
    assert "private-bias 0.1000" in said


def test_lists_below_popularity_are_said() -> None:
    common = {"data": "films", "unit": "user", "epsilon": 1.0}
    lines = [
        common | {"method": "popularity", "ndcg": [0.2, 0.2]},
        common | {"method": "covariance-svd", "ndcg": [0.19, 0.2]},
    ]
    assert [*carry_over.broken(lines)] == ["films, lists, ε = 1: 0.1950, and popularity 0.2000"]
    lines[1]["ndcg"] = [0.198, 0.198]
    assert [*carry_over.broken(lines)] == []


def test_lists_that_become_worse_with_epsilon_are_said() -> None:
    common = {"data": "films", "unit": "user", "method": "covariance-svd"}
    plain = common | {"method": "popularity", "ndcg": [0.1, 0.1]}
    lines = [
        common | {"epsilon": 1.0, "ndcg": [0.30, 0.31]}, plain | {"epsilon": 1.0},
        common | {"epsilon": 10.0, "ndcg": [0.27, 0.28]}, plain | {"epsilon": 10.0},
    ]  # fmt: skip
    assert [*carry_over.broken(lines)] == ["films: lists become worse from ε = 1 to 10"]
    lines[2]["ndcg"] = [0.25, 0.34]
    assert [*carry_over.broken(lines)] == []


def test_the_page_has_a_row_for_each_set_and_keeps_what_was_not_measured(tmp_path) -> None:
    small = carry_over.books(300, 200, 2000)
    lines = [*carry_over.measured(small, 1)]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n", "utf-8")
    carry_over.page(page, lines)
    text = page.read_text("utf-8")
    assert "| books | 2" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    (row,) = (line for line in text.splitlines() if line.startswith("| books |"))
    films = [line | {"data": "films"} for line in carry_over.measured_lists(small, 1)]
    carry_over.page(page, films)
    after = page.read_text("utf-8").splitlines()
    assert row in after
    (other,) = (line for line in after if line.startswith("| films |"))
    assert other.count("0.") == 6  # lists by two methods, at three ε
    assert after.index(other) < after.index(row), "sets stand in their order"
    carry_over.page(page, [line | {"data": "books"} for line in films])
    (whole,) = (
        line for line in page.read_text("utf-8").splitlines() if line.startswith("| books |")
    )
    assert whole.startswith(row.rstrip("| "))
    assert whole.count("0.") > row.count("0.")
