"""The protocol of Yang et al., the audits, the attack on DPM, and the figures on real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from epicrec.data import Dataset, Ratings, load_dataset
from epicrec.errors import InputError
from epicrec.evaluate import audit
from epicrec.models.private_bias import PrivateBias
from epicrec.papers.parts import Setting
from epicrec.papers.yang.dpi_models import ReleasedRatings
from epicrec.papers.yang.experiments import PAPER_SIZES, PARTS, errors_table, noise_table
from epicrec.papers.yang.protocol import evaluate_yang, reduced, yang_blocks


@pytest.fixture(scope="module")
def watched(viewers: Ratings) -> Dataset:
    return Dataset("films", viewers, None)


# ---- the protocol ---------------------------------------------------------------------------


def ids(ratings: Ratings) -> set[tuple[object, object]]:
    table = ratings.to_table()
    return {*zip(table["user_id"].to_pylist(), table["item_id"].to_pylist(), strict=True)}


def test_four_blocks(viewers: Ratings) -> None:
    blocks = yang_blocks(viewers, seed=1)
    others, active = {u for u, _ in ids(blocks.others)}, {u for u, _ in ids(blocks.asked)}
    assert not others & active
    assert abs(len(others) - len(active)) <= 0.05 * viewers.n_users
    first, second = ({i for _, i in ids(part)} for part in (blocks.histories, blocks.asked))
    assert not first & second, "the halves of items are apart"
    both = {i for _, i in ids(blocks.others)}
    assert both >= first
    assert len(both & second) > 0.9 * len(second), "others' ratings of both halves may be used"
    assert blocks.histories.user_counts.min() >= 3
    assert np.array_equal(blocks.histories.user_ids, blocks.asked.user_ids)


def test_vertical_division(viewers: Ratings) -> None:
    blocks = yang_blocks(viewers, seed=1, vertical=True)
    assert blocks.others is blocks.histories
    assert blocks.histories.n_users > 0.95 * viewers.n_users
    assert not {i for _, i in ids(blocks.others)} & {i for _, i in ids(blocks.asked)}


def test_rare_items_and_users_are_left_out() -> None:
    users, items = [1, 2, 3, 1, 2, 3, 1, 2, 3, 4, 4], [*"aaabbbccc", "c", "d"]
    small = reduced(Ratings.from_columns(users, items, [3] * 11))
    assert small.item_ids.tolist() == ["a", "b", "c"]
    assert small.user_ids.tolist() == [1, 2, 3]


def test_seeds_divide_differently_and_repeat(viewers: Ratings) -> None:
    assert ids(yang_blocks(viewers, seed=1).asked) == ids(yang_blocks(viewers, seed=1).asked)
    assert ids(yang_blocks(viewers, seed=1).asked) != ids(yang_blocks(viewers, seed=2).asked)


def test_too_little_data_is_refused(viewers: Ratings) -> None:
    with pytest.raises(InputError, match="more data"):
        yang_blocks(Ratings.from_columns([1, 2], ["a", "a"], [3, 4]), seed=0)
    with pytest.raises(InputError, match="needs ratings"):
        yang_blocks(viewers.as_history(), seed=0)


def test_active_users_are_altered_after_dpi(
    watched: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no budget to speak of, the own mean is lost too: not so where it stays at home."""
    lost = evaluate_yang("dpi-avg", watched, epsilon=0.01, seeds=1).metrics["mae"]
    own = evaluate_yang("avg", watched, epsilon=0.01, seeds=1).metrics["mae"]
    assert own < lost

    def as_it_is(_: object, histories: Ratings) -> ReleasedRatings:
        return ReleasedRatings(**vars(histories))

    monkeypatch.setattr("epicrec.papers.yang.dpi_models.AfterDPI.released", as_it_is)
    assert evaluate_yang("dpi-avg", watched, epsilon=0.01, seeds=1).metrics["mae"] < lost - 0.05


def test_an_evaluation_is_the_mean_of_its_seeds(watched: Dataset) -> None:
    whole = evaluate_yang("pcc", watched, epsilon=1.0, seeds=2)
    parts = [evaluate_yang("pcc", watched, epsilon=1.0, seeds=1, seed=s) for s in (0, 1)]
    assert whole.metrics["mae"] == pytest.approx(np.mean([p.metrics["mae"] for p in parts]))
    assert whole.metrics["mae_sd"] > 0
    assert whole.protocol == "yang"
    assert (whole.method, whole.asked) == ("private-bias", "pcc")
    assert whole.guarantee.reproducible


def test_as_published_is_dpm(watched: Dataset) -> None:
    result = evaluate_yang("pcc", watched, epsilon=1.0, seeds=1, as_published=True)
    assert result.guarantee.status == "claimed"
    assert (result.method, result.asked) == ("dpm-pcc", "pcc")
    with pytest.raises(InputError, match="as published"):
        evaluate_yang("svd", watched, as_published=True)
    with pytest.raises(InputError, match="seeds"):
        evaluate_yang("pcc", watched, seeds=0)


def test_order_of_methods_on_simulated_viewers(watched: Dataset) -> None:
    def mae(method: str) -> float:
        return evaluate_yang(method, watched, epsilon=1.0, seeds=2).metrics["mae"]

    assert mae("pcc") < mae("dpi-pcc") < mae("dpm-pcc")


# ---- the attack -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "epsilon"), [("dpm-pcc", 0.5), ("dpm-pcc", 2.0), ("dpm-cos", 1.0)]
)
def test_the_attack_breaks_dpm(method: str, epsilon: float) -> None:
    assert audit(method, epsilon=epsilon, runs=800).lower_bound > 1.2 * epsilon


# ---- tables and figures ---------------------------------------------------------------------


def test_table_1_is_the_papers() -> None:
    for row in noise_table():
        assert row["noise"] == pytest.approx(row["paper"], abs=2e-3 * max(1, abs(row["paper"])))


def test_reproduction_writes_tables_and_plots(
    watched: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("epicrec.papers.yang.experiments.paper_datasets", lambda: [watched])
    found = PARTS.parts[1].make(Setting(tmp_path, quick=True))
    assert {row["method"] for row in found.tables["MAE and MSE"]} == {
        "non-private", "dpi", "dpi, debiased", "dpm", "sound default"
    }  # fmt: skip
    assert {path.suffix for path in found.plots} == {".svg", ".png"}
    assert all(path.stat().st_size > 5000 for path in found.plots)
    assert "<svg" in found.plots[0].read_text()


def test_no_value_of_the_paper_stands_beside_other_data(watched: Dataset, tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    rows = errors_table(watched, setting, epsilons=(1.0,), seeds=1)
    assert {row["paper_mae"] for row in rows} == {None}
    named = replace(watched, name="ml-latest-small-2016")
    stated = errors_table(named, setting, epsilons=(1.0,), seeds=1)
    assert {row["paper_mae"] for row in stated} == {None, 0.75, 1.0, 1.5}


@pytest.fixture(scope="module")
def latest(real_data: Path) -> Dataset:
    return load_dataset(real_data / "ml-latest-small-2016")


Errors = Callable[..., dict[str, float]]


@pytest.fixture(scope="module")
def errors(latest: Dataset) -> Errors:
    """What a method errs there; the same methods stand beside several others."""

    @cache
    def found(method: str, epsilon: float | None = None, **settings: bool) -> dict[str, float]:
        return dict(evaluate_yang(method, latest, epsilon=epsilon, settings=settings).metrics)

    return found


@pytest.mark.realdata
def test_size_is_that_of_table_2(latest: Dataset) -> None:
    small = reduced(latest.ratings)
    assert (small.n_users, small.n_items) == PAPER_SIZES["ml-latest-small"]


@pytest.mark.realdata
@pytest.mark.parametrize("method", ["pcc", "cos"])
def test_non_private_errors(errors: Errors, method: str) -> None:
    found = errors(method)
    assert 0.70 <= found["mae"] <= 0.80
    assert 0.85 <= found["mse"] <= 1.1


@pytest.mark.realdata
@pytest.mark.parametrize("method", ["pcc", "cos"])
def test_dpi_and_dpm_fall_with_epsilon(errors: Errors, method: str) -> None:
    dpi_maes, dpm_maes = (
        [errors(f"{kind}-{method}", float(e))["mae"] for e in range(1, 6)]
        for kind in ("dpi", "dpm")
    )
    assert 0.90 <= dpi_maes[0] <= 1.10
    assert 1.2 <= dpm_maes[0] <= 1.6
    for maes in (dpi_maes, dpm_maes):
        assert maes == sorted(maes, reverse=True)
    assert dpi_maes[-1] <= 1.15 * errors(method)["mae"]


@pytest.mark.realdata
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("method", ["avg", "pcc", "cos"])
def test_the_default_is_never_worse_than_dpi(errors: Errors, method: str, epsilon: float) -> None:
    ours = errors(method, epsilon)
    for settings in ({}, {"debias": True}):
        theirs = errors(f"dpi-{method}", epsilon, **settings)
        assert ours["mae"] <= theirs["mae"]
        assert ours["mse"] <= theirs["mse"]
    if epsilon == 1.0:
        assert ours["mae"] <= 0.77
        assert method == "avg" or ours["mae"] <= 0.72


@pytest.mark.realdata
def test_debiasing_pays(errors: Errors) -> None:
    clamped, debiased = errors("dpi-avg", 1.0)["mse"], errors("dpi-avg", 1.0, debias=True)["mse"]
    assert debiased < 0.85 * clamped


@pytest.mark.realdata
@pytest.mark.soak
def test_at_a_million_ratings_privacy_costs_little(real_data: Path) -> None:
    dataset = load_dataset(real_data / "ml-1m")
    ours = evaluate_yang("pcc", dataset, epsilon=1.0, seeds=1).metrics
    plain = evaluate_yang("pcc", dataset, seeds=1).metrics
    assert ours["mae"] <= 1.02 * plain["mae"]


def test_private_bias_is_exported_by_name() -> None:
    assert PrivateBias().method == "private-bias"
