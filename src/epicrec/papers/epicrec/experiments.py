"""EpicRec's tables and figures again: the paper's value beside ours, plots as files."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import Dataset, available, load_dataset
from epicrec.evaluate.release_lists import Experiment, experiment, perturber_for, topn_cost
from epicrec.papers.curves import curves, saved
from epicrec.papers.epicrec.protocol import FOLDS, METHODS, Filter, aggregates, held_out, losses
from epicrec.papers.epicrec.utility import utility_bounds
from epicrec.papers.parts import Found, Paper, Part, Rows, Setting, crowd
from epicrec.perturb import LEVELS
from epicrec.perturb.epicrec.calibrate import category_scales, maximal_rows, optimal_shares
from epicrec.perturb.epicrec.mechanism import EpicRec
from epicrec.perturb.levels import PERTURBED, Levels
from epicrec.progress import report
from epicrec.seeds import derived

VIEWERS = 4000
"""Of the films, where they stand in: a filter of 64 factors remembers a few hundred people whole,
and whatever they release then loses much."""
PEOPLE = 2000
"""Those that a filter learns from where losses are measured."""
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


def _datasets(setting: Setting) -> list[Dataset]:
    """The paper's data where they are found, in short the first of them; else the films."""
    found = available()
    names = [name for name in ("ml-1m", "yelp-2013") if name in found]
    if not names:
        return [crowd(VIEWERS)]
    return [load_dataset(name) for name in (names[:1] if setting.quick else names)]


def _part_figure_4(_: Setting) -> Found:
    return Found({"noise by category, ε = 1": figure_4()})


def _part_totals(setting: Setting) -> Found:
    datasets = _datasets(setting)
    table = category_table(datasets, quick=setting.quick, seed=setting.seed)
    budgets = budget_table(datasets, quick=setting.quick)
    plots = plot_category_mae(table, budgets, setting.folder)
    note = (
        "Mean over people and categories of |released total - true total|. The band is the range "
        'of quantified ε, as the paper shades it. "prior alone" is what public knowledge '
        "achieves with no history at all."
    )
    return Found({"category MAE": table, "quantified ε": budgets}, plots, note)


def _part_loss(setting: Setting) -> Found:
    table = loss_table(_datasets(setting), setting)
    note = (
        "Loss of a filter that learned from everybody's release against one that learned from "
        "histories. The paper's filter is factorisation by stochastic gradient descent (GraphLab); "
        "alternating least squares has the same objective and no step size to choose. Popularity "
        "alone stands beside it."
    )
    return Found({"recommendation MAE loss": table}, plot_loss(table, setting.folder), note)


def _part_utility(setting: Setting) -> Found:
    note = (
        "Theorems 3 and 5 bound the expected MAE by 2‖z‖₁/c. The proof takes the error of rounding "
        "for nothing, so the bound is false where noise is small: rounding stays. Repaired: "
        "√(2/c)·‖z‖₂ for the relaxed solution, which is a projection and so no further from the "
        "truth than the noise is long, and ½·Σ_j √n_j/c for rounding each item by itself, n_j "
        "being the items of category j."
    )
    return Found({"utility": utility_table(_datasets(setting), quick=setting.quick)}, note=note)


def _part_lists(setting: Setting) -> Found:
    table = topn_table(_datasets(setting)[:1], quick=setting.quick, seed=setting.seed)
    return Found({"nDCG@10 and recall": table}, note="What the paper's notion of utility hides.")


def _part_seconds(setting: Setting) -> Found:
    table = time_table(_datasets(setting), seed=setting.seed)
    return Found({"seconds": table}, plot_seconds(table, setting.folder))


def figure_4() -> Rows:
    """The running example of noise calibration: z of each category, and their mean."""
    rows = maximal_rows(np.array(FIGURE_4, np.uint8))
    ours = category_scales(rows, optimal_shares(rows), 1.0).tolist()
    paper = PAPER["figure_4"]
    each = zip(("1", "2", "3", "4", "5"), paper, ours, strict=True)
    table = [
        {"category": n, "paper": z, "here": round(own, 4), "global": 3.0} for n, z, own in each
    ]
    mean = {"paper": float(np.mean(paper)), "here": round(float(np.mean(ours)), 4)}
    return [*table, {"category": "mean", **mean, "global": 3.0}]


def category_table(datasets: list[Dataset], *, quick: bool, seed: int) -> list[dict[str, Any]]:
    """Figures 5(a) and 6(a): category MAE by budget, with the gain over `lpa`.

    "prior alone" is the default with so little budget that the history says nothing: what public
    knowledge achieves by itself, and the measure of what a release adds to it.
    """
    budgets = BUDGETS[1:3] if quick else BUDGETS
    people = {"s-epicrec": 60 if quick else 500, "m-epicrec": 30 if quick else 200}
    table: list[dict[str, Any]] = []
    for dataset in datasets:
        for method in METHODS:
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
        for method in METHODS:
            for way in ("as published", "default"):
                device = _device(setting, method, WAYS[way])
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


def loss_table(datasets: list[Dataset], setting: Setting) -> list[dict[str, Any]]:
    """Figures 5(b) and 6(b): recommendation MAE loss by budget, for EpicRec and its competitors.

    In full the means of ten folds. Of m-epicrec also the loss over items with a category of each
    level, as the two rows of Figure 6(b).
    """
    folds = range(1 if setting.quick else FOLDS)
    several = ("as published", "default") if setting.quick else tuple(WAYS)
    ways: dict[tuple[str, Filter], tuple[str, ...]] = {
        ("s-epicrec", "als"): tuple(WAYS),
        ("m-epicrec", "als"): several,
        ("s-epicrec", "svd"): ("default",),
    }
    table: Rows = []
    for dataset in datasets:
        special, most = PAPER["loss_at_most"].get(dataset.name, (0.2, None))
        budgets = (special,) if setting.quick else tuple(sorted({*BUDGETS, special}))
        for method, model in ways:
            cases = tuple(product(ways[method, model], budgets))
            name = f"losses {dataset.name} {method} {model}"
            each = []
            for fold in folds:
                report(name, fold, len(folds))
                make = partial(_losses, dataset, method, model, cases, fold, setting.seed)
                each.append(setting.once(f"{name} {fold}", make)["losses"])
            for (way, epsilon), rows in zip(cases, zip(*each, strict=True), strict=True):
                case = {"data": dataset.name, "method": method, "model": model, "way": way}
                paper = most if epsilon == special and way == "as published" else None
                table.append({**case, "epsilon": epsilon, "paper at most": paper, **_mean(rows)})
    return table


def _losses(
    dataset: Dataset, method: str, model: Filter, cases: Sequence[tuple[str, float]], fold: int,
    seed: int,
) -> dict[str, Rows]:  # fmt: skip
    held = held_out(dataset, model=model, max_users=PEOPLE, fold=fold, seed=seed)
    perturbers = [
        perturber_for(held.setting, method, WAYS[way] | {"epsilon": epsilon})
        for way, epsilon in cases
    ]
    return {"losses": [metrics for metrics, _ in losses(held, perturbers, seed)]}


def _mean(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def utility_table(datasets: list[Dataset], *, quick: bool) -> list[dict[str, Any]]:
    """Theorems 3 and 5: both bounds beside what was measured, also where there is next to no noise.

    Of m-epicrec z is that of one person's levels, so its bounds are those of that person.
    """
    table = []
    for dataset in datasets:
        setting = experiment(dataset)
        for epsilon in (0.2, 1.0, 1000.0):
            device = _device(setting, "s-epicrec", {"epsilon": epsilon, "as_published": True})
            bounds = utility_bounds(setting.catalogue, device.release(()).settings["scales"])
            row: dict[str, Any] = {"data": dataset.name, "epsilon": epsilon}
            row |= {"the theorem": bounds.theorem, "repaired": bounds.repaired}
            for way in ("as published", "default"):
                row[f"measured, {way}"] = aggregates(
                    dataset, epsilon=epsilon, max_users=40 if quick else 300, **WAYS[way]
                ).metrics["category_mae"]
            table.append(row)
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
        theirs = dataset.name in PAPER["loss_at_most"]
        history = setting.catalogue.item_ids[setting.people.items]
        for method in METHODS:
            device = _device(setting, method)
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
                    "paper at most": PAPER["seconds_at_most"][method] if theirs else None,
                    "release": release,
                    "with quantification": release + quantified,
                }
            )
    return table


def plot_category_mae(table: Rows, budgets: Rows, folder: Path) -> list[Path]:
    """Figures 5(a) and 6(a), the quantified ε as a band."""
    points = [
        {
            "panel": f"{row['data']}, {row['method']}",
            "x": row["epsilon"],
            "line": way,
            "y": row[way],
        }
        for row in table
        for way in [*WAYS, "prior alone"]
    ]
    bands = [
        {"panel": f"{row['data']}, {row['method']}", "low": row["least"], "high": row["most"]}
        for row in budgets
        if row["way"] == "as published"
    ]
    titles = ("privacy budget ε (log)", "category MAE (log), lower is better")
    return curves(points, folder, "epicrec-category-mae", titles, log="xy", bands=bands)


def plot_loss(table: Rows, folder: Path) -> list[Path]:
    """Figures 5(b) and 6(b), with the loss of popularity alone."""
    points = [
        {
            "panel": f"{row['data']}, {row['method']}", "x": row["epsilon"], "line": name,
            "y": row[metric],
        }
        for row in table
        if row["model"] == "als"
        for name, metric in ((row["way"], "mae_loss"), ("popularity alone", "mae_loss_popularity"))
    ]  # fmt: skip
    titles = ("privacy budget ε", "recommendation MAE loss, lower is better")
    return curves(points, folder, "epicrec-loss", titles)


def plot_seconds(table: Rows, folder: Path) -> list[Path]:
    """Figure 7: the paper's limits and what it takes here."""
    import altair as alt

    values = [
        {"data": row["data"], "method": row["method"], "what": what, "seconds": row[what]}
        for row in table
        for what in ("paper at most", "with quantification", "release")
        if row[what] is not None
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_point(filled=True, size=80)
        .encode(
            x=alt.X("seconds:Q", scale=alt.Scale(type="log"), title="seconds (log)"),
            y=alt.Y("method:N", title=None),
            color=alt.Color("what:N", title=None),
        )
        .properties(width=300, height=60)
        .facet(alt.Facet("data:N", title=None), columns=1)
    )
    return saved(chart, folder / "epicrec-seconds")


def _device(setting: Experiment, method: str, settings: Mapping[str, Any] | None = None) -> EpicRec:
    """The mechanism with the experiment's prior."""
    made = perturber_for(setting, method, settings or {})
    assert isinstance(made, EpicRec)
    return made


def _levels(setting: Experiment, method: str, seed: int) -> Levels:
    if method == "s-epicrec":
        return PERTURBED
    drawn = np.random.default_rng(derived(seed, "levels of one")).integers(len(LEVELS), size=1000)
    return {name: LEVELS[k] for name, k in zip(setting.catalogue.categories, drawn, strict=False)}


PARTS = Paper(
    "epicrec",
    "EpicRec (Shen & Jin, CCS 2016)",
    (
        Part("epicrec-figure-4", ("Figure 4",), "Noise calibration", _part_figure_4),
        Part(
            "epicrec-totals", ("Figure 5(a)", "Figure 6(a)"), "Category totals by ε", _part_totals
        ),
        Part("epicrec-loss", ("Figure 5(b)", "Figure 6(b)"), "Recommendation loss", _part_loss),
        Part(
            "epicrec-utility", ("Theorem 3", "Theorem 5"), "The utility theorems", _part_utility
        ),
        Part("epicrec-seconds", ("Figure 7",), "Running time", _part_seconds),
        Part("epicrec-lists", (), "What a release costs in lists", _part_lists),
    ),
    {
        "Figure 1": "a drawing of the attacker",
        "Figure 2": "a drawing of the system, which is here to run (epicrec demo)",
        "Figure 3": "a drawing of the architecture, which is here to run (epicrec demo)",
        "Figure 8": "pictures of the authors' program; ours is epicrec client",
        "Table 1": "a survey of related work, nothing measured",
        "Table 2": "notation",
    },
)  # fmt: skip
