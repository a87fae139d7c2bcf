"""McSherry & Mironov's experiment again: accuracy against privacy, the paper's recipe beside ours.

Figure 1 of the paper plots RMSE over θ on the Netflix Prize data; it gives one figure in the text:
both cleaned methods reach Cinematch's 0.9514 at θ ≈ 0.15. Here RMSE stands over the ε that each
noise is worth by exact composition, so that the recipes can be compared at the same privacy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import (
    EMBEDDED,
    Ratings,
    available,
    load_dataset,
    split_probe,
    split_random,
)
from epicrec.evaluate.metrics import rating_metrics
from epicrec.models.covariance.model import CovarianceKNN, CovarianceSVD
from epicrec.progress import report

CINEMATCH, PAPER_THETA = 0.9514, 0.15
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
QUICK_EPSILONS = (1.0, 10.0)
DELTA = {"ml-100k": 1e-5, "ml-1m": 1e-6, "netflix": 1e-8}


def reproduce(folder: str | Path, *, quick: bool = False, seed: int = 0) -> dict[str, Any]:
    """RMSE over ε as a table and a plot in `folder`.

    `quick` takes MovieLens-100k and two budgets; otherwise MovieLens-1M, and the whole Netflix data
    for the default recipe, where they are found. Without them the embedded films stand in.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = available()
    names = [name for name in (["ml-100k"] if quick else ["ml-1m", "netflix"]) if name in found]
    rows = []
    for name in names or [EMBEDDED]:
        ratings = load_dataset(name).ratings
        split = split_random(ratings, 0.1, seed=seed) if ratings.probe is None else None
        train, test = split or split_probe(ratings)
        rows += curves(name, train, test, QUICK_EPSILONS if quick else EPSILONS, seed)
    plots = plot(rows, folder)
    paper = [
        {"what": "Cinematch, which the paper reaches on Netflix", "theta": PAPER_THETA}
        | {"rmse": CINEMATCH, "epsilon": paper_epsilon(PAPER_THETA)}
    ]
    result = {"rmse": rows, "paper": paper, "plots": [str(path) for path in plots]}
    (folder / "mcsherry-mironov.json").write_text(json.dumps(result, indent=1))
    return result


def curves(
    name: str, train: Ratings, test: Ratings, epsilons: tuple[float, ...], seed: int
) -> list[dict[str, Any]]:
    """One row for each recipe, unit and budget."""
    delta = DELTA.get(name, 1e-5)
    settings: list[tuple[str, type[CovarianceSVD], dict[str, Any]]] = [
        ("default, svd", CovarianceSVD, {"unit": "rating"}),
        ("default, svd, whole users", CovarianceSVD, {"unit": "user"}),
    ]
    if name != "netflix":  # both matrices whole, in 64 bits, are too much for ordinary machines
        settings += [
            ("default, knn", CovarianceKNN, {"unit": "rating"}),
            ("as published, svd", CovarianceSVD, {"unit": "rating", "as_published": True}),
        ]
    rows = []
    for at, (recipe, model_type, chosen) in enumerate(settings):
        for epsilon in (*epsilons, None):
            if epsilon is None and "whole users" in recipe:
                continue  # without noise the unit makes no difference
            model = model_type(epsilon=epsilon, delta=delta, seed=seed, **chosen).fit(train)
            scores = model.predict(test, histories=train)["score"].to_numpy()
            rows.append(
                {
                    "data": name,
                    "recipe": recipe,
                    "asked": epsilon,
                    "epsilon": model.guarantee.to_dict()["epsilon"],
                    "delta": model.guarantee.delta,
                    "rmse": round(rating_metrics(scores, test.values)["rmse"], 4),
                }
            )
        report(f"recipes on {name}", at + 1, len(settings))
    means = own_means(train, test)
    error = float(np.sqrt(np.mean((means - test.values) ** 2)))
    rows.append({"data": name, "recipe": "the user's own mean", "asked": None} | {"epsilon": None})
    rows[-1] |= {"delta": 0.0, "rmse": round(error, 4)}
    return rows


def own_means(train: Ratings, test: Ratings) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What a user can predict alone: their mean, with five ratings at the mean of all."""
    mean = float(train.values.mean(dtype=np.float64))
    sums = np.bincount(train.users, train.values - mean, minlength=train.n_users)
    return np.asarray(mean + (sums / (train.user_counts + 5))[test.users])


def paper_epsilon(theta: float, delta: float = 1e-8) -> float:
    """The ε that the paper's own formula gives for θ."""
    return float(theta * np.sqrt(2 * np.log(12 / delta)))


def plot(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """RMSE over ε, a panel for each data set, as SVG and PNG."""
    import altair as alt

    points = [row for row in rows if row["epsilon"] is not None]
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("epsilon:Q", scale=alt.Scale(type="log"), title="privacy budget ε (log)"),
            y=alt.Y("rmse:Q", scale=alt.Scale(zero=False), title="RMSE, lower is better"),
            color=alt.Color("recipe:N", title=None),
            strokeDash=alt.StrokeDash("recipe:N", title=None),
        )
        .properties(width=380, height=280)
        .facet(alt.Facet("data:N", title=None), columns=2)
        .resolve_scale(y="independent", x="independent")
    )
    paths = [folder / f"mcsherry-mironov.{kind}" for kind in ("svg", "png")]
    for path in paths:
        chart.save(str(path), scale_factor=1 if path.suffix == ".svg" else 2)
    return paths
