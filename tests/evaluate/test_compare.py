"""The comparison: everyone is there or refuses with a reason, at the same privacy, on one split."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from distributions import ROOT
from epicrec import registry
from epicrec.cli import main
from epicrec.data import Catalogue, Dataset, Ratings
from epicrec.errors import InputError
from epicrec.evaluate import evaluate
from epicrec.evaluate.compare import CONTENDERS, Plan, compare, equal_theta, quick_plan, spread
from epicrec.evaluate.plots import DASHES
from epicrec.models import make_model

module: Any = importlib.import_module("epicrec.evaluate.compare")


@pytest.fixture(scope="module")
def small(viewers: Ratings, films: Catalogue) -> Dataset:
    return Dataset("small", viewers, films)


@pytest.fixture(scope="module")
def found(small: Dataset) -> dict[str, Any]:
    return compare(small, plan=Plan(epsilons=(2.0,), seeds=2, quick=True))


def test_everyone_is_there_or_says_why_not(found: dict[str, Any]) -> None:
    for table in found["tasks"].values():
        shown = {row["method"] for row in table["rows"]}
        refused = {row["method"] for row in table["refused"]}
        assert not shown & refused
        assert shown | refused == {one.name for one in CONTENDERS}
        assert all(len(row["reason"].split()) > 3 for row in table["refused"])


def test_every_method_of_ours_takes_part() -> None:
    """But for three that are parts of others: dpi and hiding-dpi make what dpi-… learn from, and
    user-knn, pcc and cos are further non-private neighbours."""
    ours = {
        name
        for group in (registry.MODELS, registry.PERTURBERS)
        for name in registry.names(group)
        if registry.entry(group, name).package == registry.OURS
    }
    missing = ours - {one.method for one in CONTENDERS}
    assert missing == {"dpi", "hiding-dpi", "user-knn", "pcc", "cos"}


def test_rows_say_what_is_promised_and_to_whom(found: dict[str, Any]) -> None:
    for table in found["tasks"].values():
        for row in table["rows"]:
            private = row["epsilon"] is not None
            assert (row["status"] != "none") == private
            assert bool(row["unit"]) == bool(row["relation"]) == private
            assert row["trust"]
            assert (row["spread"] is not None) == private
            assert row["spread"] == spread(row["values"])
            assert row[table["metric"]] == pytest.approx(sum(row["values"]) / len(row["values"]))


def test_all_that_take_an_epsilon_have_it(found: dict[str, Any]) -> None:
    for table in found["tasks"].values():
        for row in table["rows"]:
            if row["epsilon"] == 2.0:
                assert row["guarantee"]["epsilon"] == pytest.approx(2.0, rel=1e-6)


def test_it_tells_what_is_known_of_these_methods(found: dict[str, Any]) -> None:
    ratings = {row["method"]: row["rmse"] for row in found["tasks"]["ratings"]["rows"]}
    assert ratings["private-bias"] < ratings["user mean"] < ratings["dpm-pcc, as published"]
    lists = {row["method"]: row["ndcg"] for row in found["tasks"]["lists"]["rows"]}
    assert lists["svd"] > lists["popularity"] > lists["s-epicrec, as published"]


def test_the_papers_noise_is_counted_exactly(viewers: Ratings) -> None:
    settings = equal_theta(0.7, 1e-5, viewers.n_items)
    model = make_model("covariance-svd", as_published=True, seed=0, **settings).fit(viewers)
    assert model.guarantee.epsilon == pytest.approx(0.7, rel=1e-6)
    assert model.guarantee.epsilon <= 0.7


def test_histories_are_compared_by_lists_alone(small: Dataset) -> None:
    seen = Dataset("seen", small.ratings.as_history(), small.catalogue)
    with pytest.raises(InputError, match="lists"):
        compare(seen, tasks=["ratings"])


def test_plans_are_checked() -> None:
    with pytest.raises(InputError, match="above 0"):
        Plan(epsilons=(1.0, -1.0))
    with pytest.raises(InputError, match="seeds"):
        Plan(seeds=0)
    quick = quick_plan(Plan(delta=1e-5))
    assert quick.quick
    assert quick.delta == 1e-5
    assert spread([1.0]) is None
    assert spread([1.0, 3.0]) == pytest.approx(2**0.5)


def test_the_command_prints_draws_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(one for one in CONTENDERS if one.name in ("popularity", "private-bias", "dpals"))
    monkeypatch.setattr("epicrec.evaluate.compare.CONTENDERS", few)
    data = tmp_path / "ratings.csv"
    rows = [f"{u},{i},{1 + (u * i) % 5}" for u in range(40) for i in range(12) if (u + i) % 3]
    data.write_text("\n".join(["user_id,item_id,rating", *rows]))
    plot = tmp_path / "found.svg"
    with pytest.raises(SystemExit):
        main(["compare", "--data", str(data), "-e", "1,2", "--seeds", "2", "--plot", str(plot)])
    text = capsys.readouterr().out
    assert "Not here, as it orders items" in text
    assert "add or remove one" in text
    assert "<svg" in plot.read_text()
    dashes = ",".join(map(str, DASHES["no promise"]))
    legend = plot.read_text().split('aria-roledescription="legend"')[1]
    assert f'stroke-dasharray="{dashes}"' in legend
    with pytest.raises(SystemExit) as ended:
        main(
            ["compare", "--data", str(data), "-e", "1", "--seeds", "1", "--task", "lists", "--json"]
        )
    assert not ended.value.code
    assert [*json.loads(capsys.readouterr().out)["tasks"]] == ["lists"]
    for wrong in (["--task", "films"], ["--epsilon", "a few"]):
        with pytest.raises(SystemExit) as ended:
            main(["compare", "--data", str(data), *wrong])
        assert ended.value.code == 2


def test_a_comparison_that_was_ended_goes_on(
    small: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = tuple(one for one in CONTENDERS if one.name in ("user mean", "private-bias"))
    monkeypatch.setattr(module, "CONTENDERS", few)
    made: list[str] = []
    honest = module._row

    def row(task: Any, contender: Any, *more: Any) -> Any:
        if ended and made:
            raise KeyboardInterrupt
        made.append(contender.name)
        return honest(task, contender, *more)

    monkeypatch.setattr(module, "_row", row)
    plan = Plan(epsilons=(2.0,), seeds=1, keep=tmp_path / "rows")
    ended = True
    with pytest.raises(KeyboardInterrupt):
        compare(small, tasks=["ratings"], plan=plan)
    ended = False
    found = compare(small, tasks=["ratings"], plan=plan)
    assert made == ["user mean", "private-bias"]
    plain = compare(small, tasks=["ratings"], plan=replace(plan, keep=None))
    for one in (found, plain):
        for each in one["tasks"]["ratings"]["rows"]:
            each.pop("seconds")
    assert found == plain
    compare(small, tasks=["ratings"], plan=replace(plan, seeds=2))
    assert len(made) == 6, "other draws are other rows"


@pytest.mark.parametrize(
    ("method", "protocol"),
    [("d2p", "rating"), ("d2p-svd", "yang"), ("popularity", "rating"), ("s-epicrec", "topn"),
     ("dpi", "aggregates"), ("hiding-dpi", "mae-loss"), ("svd", "release-topn")],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(small: Dataset, method: str, protocol: str) -> None:
    with pytest.raises(InputError, match=r"use |measure|is for perturbers"):
        evaluate(method, small, protocol=protocol, settings={"epsilon": 1.0})


def test_every_perturber_of_items_has_category_totals_and_a_loss(small: Dataset) -> None:
    for method in ("s-epicrec", "m-epicrec", "d2p"):
        for protocol in ("aggregates", "mae-loss"):
            result = evaluate(method, small, protocol=protocol, epsilon=1.0, max_users=20)
            assert result.protocol == protocol
            assert result.guarantee.epsilon <= 1.0 + 1e-9


def test_the_protocol_of_d2p(small: Dataset) -> None:
    result = evaluate("d2p", small, protocol="d2p", epsilon=3.0, settings={"seeds": 2, "k": 20})
    assert result.settings["k"] == 20
    assert {"precision@1", "recall@20", "coverage@5"} <= {*result.metrics}
    again = evaluate("svd", small, protocol="d2p", settings={"seeds": 1})
    assert again.metrics["precision@5"] > result.metrics["precision@5"]


@pytest.mark.parametrize("name", ["films", "ml-100k", "ml-1m"])
def test_the_page_has_everyone(name: str) -> None:
    found = json.loads((ROOT / "docs" / "figures" / f"compare-{name}.json").read_text("utf-8"))
    for table in found["tasks"].values():
        said = {row["method"] for row in table["rows"] + table["refused"]}
        assert said == {one.name for one in CONTENDERS}
