"""The benchmarks: found by name, asked as the pages say, and what must hold on every data set."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distributions import ROOT
from epicrec.cli import main
from epicrec.data import Dataset, Ratings, Scale, load_dataset

FOLDER = ROOT / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))


def script(name: str) -> Any:
    """A benchmark as a module, which finds what it shares with others beside it."""
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"bench_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


models = script("models")


def bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *map(str, words)])
    return int(ended.value.code or 0)


def test_all_are_listed_with_what_they_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("--json") == 0
    rows = json.loads(capsys.readouterr().out)["benchmarks"]
    assert [row["benchmark"] for row in rows] == NAMES
    assert all(len(row["answers"]) > 30 for row in rows)


def test_one_is_run_with_its_own_options_and_status(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps({"figures": {"a": {"x": [1.0]}}}), "utf-8")
    new.write_text(json.dumps({"figures": {"a": {"x": [2.0]}}}), "utf-8")
    assert bench("figures", "--compare", old, old) == 0
    assert "1 equal" in capfd.readouterr().out
    assert bench("figures", "--compare", old, new, "--json") == 1
    found = json.loads(capfd.readouterr().out)
    assert found["benchmark"] == "figures"
    assert found["lines"][-1] == "1 moved"
    assert bench("figures", "--nonsense") == 2


def test_an_unknown_one_and_a_missing_checkout_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench("speed") == 2
    assert "choose from client, figures" in capsys.readouterr().err
    monkeypatch.setattr("epicrec.cli.programs.__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    assert bench("models") == 2
    assert "run this in the checkout" in capsys.readouterr().err


def on_pages() -> list[str]:
    """What follows `epicrec bench` on the pages."""
    pages = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    text = "\n".join(page.read_text("utf-8") for page in pages)
    return sorted({*re.findall(r"epicrec bench ((?:[^`\n#]|#(?! ))+)", text)})


@pytest.mark.parametrize("words", on_pages())
def test_what_pages_ask_for_is_there(words: str) -> None:
    name, *options = shlex.split(words)
    assert script(name).parts().parse(options).work is not None


def test_pages_name_all_of_them() -> None:
    named = {words.split()[0] for words in on_pages()}
    assert named | {"figures"} == {*NAMES}  # which is called as a script, for other versions


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
    "books": models.books,
    "films": lambda: load_dataset("films"),
    "jokes": jokes,
}


@pytest.mark.parametrize("name", SETS)
def test_what_must_hold_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ε = 0.1 chance decides on sets as small as these."""
    monkeypatch.setattr(models, "EPSILONS", (1.0, 10.0))
    found = [*models.measured(SETS[name](), 2)]
    assert [*models.broken(found)] == []


def test_what_does_not_hold_is_said() -> None:
    lines = [*models.measured(models.books(300, 200, 2000), 1)]
    for line in lines:
        if line["method"] == "svd":
            line["rmse"] = [9.0]
        if line["unit"] == "user" and line["epsilon"] == 10:
            line["rmse"] = [8.0]
        if line["method"] == "private-bias":
            line["rmse"] = [0.1]
    said = "\n".join(models.broken(lines))
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
    assert [*models.broken(lines)] == ["films, lists, ε = 1: 0.1950, and popularity 0.2000"]
    lines[1]["ndcg"] = [0.198, 0.198]
    assert [*models.broken(lines)] == []


def test_lists_that_become_worse_with_epsilon_are_said() -> None:
    common = {"data": "films", "unit": "user", "method": "covariance-svd"}
    plain = common | {"method": "popularity", "ndcg": [0.1, 0.1]}
    lines = [
        common | {"epsilon": 1.0, "ndcg": [0.30, 0.31]}, plain | {"epsilon": 1.0},
        common | {"epsilon": 10.0, "ndcg": [0.27, 0.28]}, plain | {"epsilon": 10.0},
    ]  # fmt: skip
    assert [*models.broken(lines)] == ["films: lists become worse from ε = 1 to 10"]
    lines[2]["ndcg"] = [0.25, 0.34]
    assert [*models.broken(lines)] == []


def test_the_page_has_a_row_for_each_set_and_keeps_what_was_not_measured(tmp_path) -> None:
    small = models.books(300, 200, 2000)
    lines = [*models.measured(small, 1)]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- end -->\nafter\n", "utf-8")
    models.page(page, lines)
    text = page.read_text("utf-8")
    assert "| books | 2" in text
    assert "old" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    (row,) = (line for line in text.splitlines() if line.startswith("| books |"))
    films = [line | {"data": "films"} for line in models.measured_lists(small, 1)]
    models.page(page, films)
    after = page.read_text("utf-8").splitlines()
    assert row in after
    (other,) = (line for line in after if line.startswith("| films |"))
    assert other.count("0.") == 6  # lists by two methods, at three ε
    assert after.index(other) < after.index(row), "sets stand in their order"
    models.page(page, [line | {"data": "books"} for line in films])
    (whole,) = (
        line for line in page.read_text("utf-8").splitlines() if line.startswith("| books |")
    )
    assert whole.startswith(row.rstrip("| "))
    assert whole.count("0.") > row.count("0.")
