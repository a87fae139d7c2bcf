"""The experiments of Yang et al. 2019: the four-block protocol, their tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import Dataset, available, load_dataset
from epicrec.evaluate.four_blocks import ALGORITHMS, evaluate_yang, reduced

EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0)

PAPER = {  # as the text of section 4 gives them; the figures are pictures without numbers
    ("non-private", None): (0.75, 1.0),
    ("dpi", 1.0): (1.0, 1.5),
    ("dpm", 1.0): (1.5, 3.0),
}
PAPER_SIZES = {
    "ml-latest-small": (671, 4801),
    "ml-20m (1000)": (1000, 5870),
    "ml-latest (2000)": (1907, 6144),
    "ml-latest (5000)": (4773, 8972),
}
"""Table 2. Of ml-latest-small, the 4,801 items are those with at least 3 ratings."""

PAPER_NOISE = {  # Table 1: the uniform number, and the noise it gives at each ε
    0.8633: (12.9718, 2.5944, 1.8714, 1.2972, 1.1807),
    0.344: (-3.7392, -0.7478, -0.5395, -0.3739, -0.3404),
    0.4569: (-0.9018, -0.1804, -0.1301, -0.0902, -0.0821),
    0.2381: (-7.4196, -1.4839, -1.0704, -0.742, -0.6754),
    0.7712: (7.816, 1.5632, 1.1276, 0.7816, 0.7114),
}
NOISE_EPSILONS = (0.1, 0.5, math.log(2), 1.0, math.log(3))


# ---- audits and the attack -------------------------------------------------------------------


# ---- the paper's tables and figures ---------------------------------------------------------


def laplace_from_uniform(r: float, scale: float) -> float:
    """The Laplace noise that a uniform number gives by inversion, as Table 1 does.

    >>> round(laplace_from_uniform(0.8633, 10.0), 2)
    12.97
    """
    return -scale * math.copysign(1.0, r - 0.5) * math.log(1 - 2 * abs(r - 0.5))


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    datasets: Sequence[Dataset] | None = None,
) -> dict[str, Any]:
    """Table 1, Table 2 and Figures 3-22 again, with the sound default beside them.

    Writes `yang-<data>.svg` and `.png` to the folder and returns the tables and the paths. The
    paper's ml-20m and ml-latest samples are replaced by as many users of ml-1m. `quick` runs the
    first data set, two divisions and ε ∈ {1, 5}.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chosen = list(datasets) if datasets is not None else _paper_datasets()
    chosen = chosen[:1] if quick else chosen
    epsilons, seeds = ((1.0, 5.0), 2) if quick else (EPSILONS, 5)
    rows, sizes, plots = [], [], []
    for dataset in chosen:
        part = errors_table(dataset, epsilons=epsilons, seeds=seeds)
        rows += part
        small = reduced(dataset.ratings)
        paper = PAPER_SIZES.get(dataset.name.replace("-2016", ""))
        sizes.append(
            {
                "data": dataset.name,
                "users": small.n_users,
                "items": small.n_items,
                "paper": " × ".join(map(str, paper)) if paper else "",
            }
        )
        plots += plot_errors(part, folder / f"yang-{dataset.name.replace(' ', '-')}")
    return {
        "paper": "yang",
        "noise": noise_table(),
        "sizes": sizes,
        "errors": rows,
        "plots": [str(path) for path in plots],
    }


def noise_table() -> list[dict[str, float]]:
    """Table 1: the noise that each uniform number gives at ε = 0.1 … ln 3, ours and the paper's."""
    return [
        {"r": r, "epsilon": round(e, 4), "noise": laplace_from_uniform(r, 1 / e), "paper": theirs}
        for r, row in PAPER_NOISE.items()
        for e, theirs in zip(NOISE_EPSILONS, row, strict=True)
    ]


def errors_table(
    dataset: Dataset, *, epsilons: Sequence[float] = EPSILONS, seeds: int = 5
) -> list[dict[str, Any]]:
    """MAE and MSE of every method, algorithm and ε, with the paper's value where it has one."""
    rows = []
    for algorithm in ALGORITHMS:
        runs: list[tuple[str, str, float | None, dict[str, Any]]] = [
            ("non-private", algorithm, None, {})
        ]
        for e in epsilons:
            runs += [
                ("dpi", f"dpi-{algorithm}", e, {}),
                ("dpi, debiased", f"dpi-{algorithm}", e, {"debias": True}),
                ("dpm", f"dpm-{algorithm}", e, {}),
                ("sound default", algorithm, e, {}),
            ]
        for label, method, epsilon, settings in runs:
            result = evaluate_yang(method, dataset, epsilon=epsilon, seeds=seeds, settings=settings)
            mae, mse = PAPER.get((label, epsilon), (None, None))
            rows.append(
                {
                    "data": dataset.name,
                    "algorithm": algorithm,
                    "method": label,
                    "epsilon": epsilon,
                    "mae": result.metrics["mae"],
                    "paper_mae": mae,
                    "mse": result.metrics["mse"],
                    "paper_mse": mse,
                    "status": result.guarantee.status,
                    "unit": result.guarantee.unit,
                }
            )
    return rows


def plot_errors(rows: Sequence[Mapping[str, Any]], path: Path) -> list[Path]:
    """Figures 3-22 as one chart a data set: MAE above, MSE below, an algorithm a column."""
    import altair as alt

    epsilons = sorted({row["epsilon"] for row in rows if row["epsilon"] is not None})
    values = [
        {
            "algorithm": {"pcc": "Pcc", "cos": "Cos", "avg": "Avg"}[row["algorithm"]],
            "method": {"dpi": "DPI", "dpm": "DPM", "dpi, debiased": "DPI, debiased"}.get(
                row["method"], row["method"]
            ),
            "epsilon": epsilon,
            "MAE": row["mae"],
            "MSE": row["mse"],
        }
        for row in rows
        for epsilon in ([row["epsilon"]] if row["epsilon"] is not None else epsilons)
    ]
    names = ["DPM", "DPI", "DPI, debiased", "sound default", "non-private"]
    colours = ["#c1432e", "#e0913a", "#b59a3c", "#1b6ca8", "#555555"]
    shapes = [[1, 0], [1, 0], [6, 2], [1, 0], [2, 3]]

    def chart(algorithm: str, metric: str) -> Any:
        data = alt.Data(values=[v for v in values if v["algorithm"] == algorithm])
        return (
            alt.Chart(data, width=230, height=190, title=algorithm if metric == "MAE" else "")
            .mark_line(point=alt.OverlayMarkDef(size=26))
            .encode(
                alt.X("epsilon:Q", title="ε", axis=alt.Axis(values=epsilons, format="d")),
                alt.Y(f"{metric}:Q", title=metric, scale=alt.Scale(zero=False)),
                alt.Color("method:N", title=None, scale=alt.Scale(domain=names, range=colours)),
                alt.StrokeDash("method:N", title=None, scale=alt.Scale(domain=names, range=shapes)),
            )
        )

    columns = ("Pcc", "Cos", "Avg")
    rows_of_charts = [
        alt.hconcat(*(chart(a, metric) for a in columns)).resolve_scale(y="shared")
        for metric in ("MAE", "MSE")
    ]
    figure = alt.vconcat(*rows_of_charts, title=f"{rows[0]['data']}: errors by ε").configure(
        font="DejaVu Sans"
    )
    files = [path.with_name(path.name + ending) for ending in (".svg", ".png")]
    figure.save(str(files[0]))
    figure.save(str(files[1]), ppi=120)
    return files


def _paper_datasets() -> list[Dataset]:
    """ml-latest-small and samples of ml-1m where they are here; the embedded films otherwise."""
    here = available()
    found = [load_dataset(name) for name in ("ml-latest-small-2016",) if name in here]
    if "ml-1m" in here:
        whole = load_dataset("ml-1m")
        found += [sample_users(whole, n) for n in (1000, 2000, 5000)]
    return found or [load_dataset("films")]


def sample_users(dataset: Dataset, n: int, *, seed: int = 0) -> Dataset:
    """So many users, drawn at random."""
    ratings = dataset.ratings
    chosen = np.random.default_rng(seed).permutation(ratings.n_users)[:n]
    return Dataset(f"{dataset.name} ({n})", ratings.users_at(np.sort(chosen)), dataset.catalogue)
