"""EpicRec's tables and figures again: the paper's value beside ours, plots as files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import EMBEDDED, Dataset, available, load_dataset
from epicrec.evaluate.releases import (
    EPICREC,
    Experiment,
    aggregates,
    experiment,
    mae_loss,
    topn_cost,
)
from epicrec.perturb import LEVELS
from epicrec.perturb.epicrec.calibrate import category_scales, maximal_rows, optimal_shares
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.progress import report
from epicrec.seeds import derived

BUDGETS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
WAYS: dict[str, dict[str, Any]] = {
    "lpa": {"as_published": True, "calibration": "lpa"},
    "gs": {"as_published": True, "calibration": "gs"},
    "as published": {"as_published": True},
    "default": {},
}
FIGURE_4 = ((1, 1, 1, 0, 0), (1, 0, 1, 0, 0), (1, 0, 1, 1, 0), (1, 0, 0, 0, 1), (0, 1, 0, 1, 0))
PAPER: dict[str, Any] = {
    "figure_4": [3.61, 2.36, 3.34, 2.36, 1.38],
    "budget": {
        ("s-epicrec", "ml-1m"): 0.23,
        ("s-epicrec", "yelp-2013"): 0.25,
        ("m-epicrec", "ml-1m"): 0.29,
        ("m-epicrec", "yelp-2013"): 0.33,
    },
    "loss_at_most": {"ml-1m": (0.2, 0.05), "yelp-2013": (0.3, 0.03)},
    "seconds_at_most": {"s-epicrec": 0.7, "m-epicrec": 1.5},
}


def reproduce(folder: str | Path, *, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """Run the experiments, write `epicrec.json` and the plots into `folder`, and return the tables.

    `quick` takes fewer people and budgets. Where the paper's data is absent the embedded films
    stand in, and the table says so.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = available()
    names: list[str] = [name for name in ("ml-1m", "yelp-2013") if name in found] or [EMBEDDED]
    datasets = [load_dataset(name) for name in (names[:1] if quick else names)]
    tables: dict[str, Any] = {
        "figure_4": figure_4(),
        "category_mae": category_table(datasets, quick=quick, seed=seed),
        "budget": budget_table(datasets, quick=quick),
        "mae_loss": loss_table(datasets, quick=quick, seed=seed),
        "topn": topn_table(datasets[:1], quick=quick, seed=seed),
        "seconds": time_table(datasets, seed=seed),
    }
    tables["plots"] = [str(path) for path in plot_category_mae(tables["category_mae"], folder)]
    (folder / "epicrec.json").write_text(json.dumps(tables, indent=1), encoding="utf-8")
    return tables


def figure_4() -> dict[str, Any]:
    """The running example of noise calibration."""
    rows = maximal_rows(np.array(FIGURE_4, np.uint8))
    ours = category_scales(rows, optimal_shares(rows), 1.0)
    return {"paper": PAPER["figure_4"], "ours": [round(z, 4) for z in ours.tolist()]}


def category_table(datasets: list[Dataset], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Figures 5(a) and 6(a): category MAE by budget, with the gain over `lpa`.

    "prior alone" is the default with so little budget that the history says nothing: what public
    knowledge achieves by itself, and the measure of what a release adds to it.
    """
    budgets = BUDGETS[1:3] if quick else BUDGETS
    people = {"s-epicrec": 60 if quick else 500, "m-epicrec": 30 if quick else 200}
    table: list[dict[str, Any]] = []
    for dataset in datasets:
        for method in EPICREC:
            alone = aggregates(
                dataset, method=method, epsilon=1e-5, max_users=people[method], seed=seed
            ).metrics["category_mae"]
            for epsilon in budgets:
                report(f"category totals, {dataset.name}, {method}", len(table), 0)
                errors = {
                    way: aggregates(
                        dataset,
                        method=method,
                        epsilon=epsilon,
                        max_users=people[method],
                        seed=seed,
                        **how,
                    ).metrics["category_mae"]
                    for way, how in WAYS.items()
                }
                row = {"data": dataset.name, "method": method, "epsilon": epsilon, **errors}
                row["prior alone"] = alone
                row |= {
                    f"{way} below lpa": 1 - errors[way] / errors["lpa"]
                    for way in ("as published", "default")
                }
                table.append(row)
    return table


def budget_table(datasets: list[Dataset], *, quick: bool) -> list[dict[str, Any]]:
    """The quantified ε over ten searches, with the levels of the paper's experiments."""
    table = []
    for dataset in datasets:
        setting = experiment(dataset)
        for method in EPICREC:
            for way in ("as published", "default"):
                device = EPICREC[method](
                    setting.catalogue, prior=setting.prior, as_published=way == "as published"
                )
                levels = [_levels(setting, method, k) for k in range(3 if quick else 10)]
                budgets = [device.budget(chosen, seed=k) for k, chosen in enumerate(levels)]
                table.append(
                    {
                        "data": dataset.name,
                        "method": method,
                        "way": way,
                        "paper": PAPER["budget"].get((method, dataset.name)),
                        "mean": float(np.mean(budgets)),
                        "least": min(budgets),
                        "most": max(budgets),
                    }
                )
    return table


def loss_table(datasets: list[Dataset], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Figures 5(b) and 6(b): recommendation MAE loss at the paper's budgets."""
    table = []
    for dataset in datasets:
        epsilon, most = PAPER["loss_at_most"].get(dataset.name, (0.2, None))
        cases = [("s-epicrec", "als", "default"), ("s-epicrec", "svd", "default")]
        if not quick:
            cases += [
                ("s-epicrec", "als", "as published"),
                ("m-epicrec", "als", "default"),
                ("m-epicrec", "als", "as published"),
            ]
        for method, model, way in cases:
            metrics = mae_loss(
                dataset, method=method, epsilon=epsilon, model=model,  # type: ignore[arg-type]
                max_users=300 if quick else 5000, seed=seed, **WAYS[way],
            ).metrics  # fmt: skip
            case = {"data": dataset.name, "method": method, "model": model, "way": way}
            table.append({**case, "epsilon": epsilon, "paper at most": most, **metrics})
    return table


def topn_table(datasets: list[Dataset], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """nDCG@10, which the paper does not have: what its utility notion hides."""
    people = 200 if quick else 2000
    table = []
    for dataset in datasets:
        for way in ("default", "as published"):
            for epsilon in (0.25,) if quick else (0.25, 1.0):
                metrics = topn_cost(
                    dataset, epsilon=epsilon, max_users=people, seed=seed, **WAYS[way]
                ).metrics
                table.append({"data": dataset.name, "epsilon": epsilon, "way": way, **metrics})
    return table


def time_table(datasets: list[Dataset], *, seed: int) -> list[dict[str, Any]]:
    """Figure 7: seconds for one release with and without quantification."""
    table = []
    for dataset in datasets:
        setting = experiment(dataset, seed=seed, max_users=1)
        history = setting.catalogue.item_ids[setting.people.items]
        for method in EPICREC:
            device = EPICREC[method](setting.catalogue, prior=setting.prior)
            levels = _levels(setting, method, seed)
            device.release(history, levels)
            started = time.perf_counter()
            device.budget(levels, seed=derived(seed, "search"))
            quantified = time.perf_counter() - started
            release = float(np.median([device.release(history, levels).seconds for _ in range(9)]))
            table.append(
                {
                    "data": dataset.name,
                    "method": method,
                    "paper at most": PAPER["seconds_at_most"][method],
                    "release": release,
                    "with quantification": release + quantified,
                }
            )
    return table


def plot_category_mae(table: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Category MAE by budget, one panel for each data set and method, as SVG and PNG."""
    import altair as alt

    shown = [*WAYS, "prior alone"]
    panels = list(dict.fromkeys(f"{row['data']}, {row['method']}" for row in table))
    points = [
        {"panel": f"{row['data']}, {row['method']}", "epsilon": row["epsilon"], "way": way}
        | {"category MAE": row[way]}
        for row in table
        for way in shown
    ]
    budgets = sorted({row["epsilon"] for row in table})
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X(
                "epsilon:Q",
                scale=alt.Scale(type="log", domain=[budgets[0], budgets[-1]], nice=False),
                axis=alt.Axis(values=budgets, format="g", title="privacy budget ε (log)"),
            ),
            y=alt.Y(
                "category MAE:Q",
                scale=alt.Scale(type="log", nice=False, padding=10),
                title="category MAE (log), lower is better",
            ),
            color=alt.Color("way:N", sort=shown, title=None),
            strokeDash=alt.StrokeDash("way:N", sort=shown, legend=None),
        )
        .properties(width=330, height=240)
        .facet(alt.Facet("panel:N", title=None, sort=panels), columns=2)
        .resolve_scale(y="independent")
    )
    paths = [folder / f"epicrec-category-mae.{kind}" for kind in ("svg", "png")]
    for path in paths:
        chart.save(str(path), scale_factor=1 if path.suffix == ".svg" else 2)
    return paths


def _levels(setting: Experiment, method: str, seed: int) -> Levels:
    if method == "s-epicrec":
        return PERTURBED
    drawn = np.random.default_rng(derived(seed, "levels of one")).integers(len(LEVELS), size=1000)
    return {name: LEVELS[k] for name, k in zip(setting.catalogue.categories, drawn, strict=False)}
