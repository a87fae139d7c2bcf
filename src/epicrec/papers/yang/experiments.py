"""The experiments of Yang et al. 2019: the four-block protocol, their tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.data import EMBEDDED, Dataset, available, load_dataset
from epicrec.files import slug
from epicrec.papers.parts import Found, Paper, Part, Rows, Setting
from epicrec.papers.yang.protocol import ALGORITHMS, evaluate_yang, reduced
from epicrec.progress import report

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
PAPER_SSE = (299.203, 11.9681, 6.2275, 2.992, 2.479)
"""The last row of Table 1: the sum of the squares above it."""
NOISE_EPSILONS = (0.1, 0.5, math.log(2), 1.0, math.log(3))


def laplace_from_uniform(r: float, scale: float) -> float:
    """The Laplace noise that a uniform number gives by inversion, as Table 1 does.

    >>> round(laplace_from_uniform(0.8633, 10.0), 2)
    12.97
    """
    return -scale * math.copysign(1.0, r - 0.5) * math.log(1 - 2 * abs(r - 0.5))


def _part_noise(_: Setting) -> Found:
    note = (
        "The uniform numbers are the paper's, of four digits; the noise is what inversion gives "
        "for them. The last row is the sum of squares, here of our noise."
    )
    return Found({"noise of the Laplace mechanism": noise_table()}, note=note)


def _part_errors(setting: Setting) -> Found:
    chosen = paper_datasets()[: 1 if setting.quick else None]
    epsilons, seeds = ((1.0, 5.0), 1) if setting.quick else (EPSILONS, 5)
    rows: Rows = []
    plots: list[Path] = []
    for dataset in chosen:
        part = errors_table(dataset, setting, epsilons=epsilons, seeds=seeds)
        rows += part
        plots += plot_errors(part, setting.folder / f"yang-{slug(dataset.name)}")
    note = (
        "The paper's values are those its text states for ml-latest-small; its figures are "
        "pictures. DPI hides a rating's value and DPM's proof does not hold; the sound default "
        "hides a rating, value and existence. ε₁:ε₂ of DPM is the option similarity_share. Means "
        "over five divisions into four blocks."
    )
    return Found({"sizes": sizes_table(chosen), "MAE and MSE": rows}, plots, note)


def sizes_table(datasets: Sequence[Dataset]) -> Rows:
    """Table 2: users and items after those with fewer than three ratings were left out."""
    rows: Rows = []
    for dataset in datasets:
        small = reduced(dataset.ratings)
        paper = PAPER_SIZES.get(dataset.name.replace("-2016", ""))
        rows.append(
            {
                "data": dataset.name,
                "users": small.n_users,
                "items": small.n_items,
                "paper": " × ".join(map(str, paper)) if paper else "",
            }
        )
    return rows


def noise_table() -> Rows:
    """Table 1: the noise that each uniform number gives at ε = 0.1 … ln 3, ours and the paper's,
    and the sum of its squares."""
    rows: Rows = [
        {"r": r, "epsilon": round(e, 4), "noise": laplace_from_uniform(r, 1 / e), "paper": theirs}
        for r, row in PAPER_NOISE.items()
        for e, theirs in zip(NOISE_EPSILONS, row, strict=True)
    ]
    for e, theirs in zip(NOISE_EPSILONS, PAPER_SSE, strict=True):
        own = [row["noise"] for row in rows if row["epsilon"] == round(e, 4)]
        sse = math.fsum(noise**2 for noise in own)
        rows.append({"r": "SSE", "epsilon": round(e, 4), "noise": sse, "paper": theirs})
    return rows


def errors_table(
    dataset: Dataset, setting: Setting, *, epsilons: Sequence[float] = EPSILONS, seeds: int = 5
) -> Rows:
    """MAE and MSE of every method, algorithm and ε, with the paper's value where it has one."""
    runs: list[tuple[str, str, str, float | None, dict[str, Any]]] = []
    for algorithm in ALGORITHMS:
        runs.append((algorithm, "non-private", algorithm, None, {}))
        for e in epsilons:
            runs += [
                (algorithm, "dpi", f"dpi-{algorithm}", e, {}),
                (algorithm, "dpi, debiased", f"dpi-{algorithm}", e, {"debias": True}),
                (algorithm, "dpm", f"dpm-{algorithm}", e, {}),
                (algorithm, "sound default", algorithm, e, {}),
            ]
    stated = PAPER if dataset.name.startswith("ml-latest-small") else {}

    def made(
        algorithm: str, label: str, method: str, epsilon: float | None, settings: dict[str, Any]
    ) -> dict[str, Any]:
        result = evaluate_yang(method, dataset, epsilon=epsilon, seeds=seeds, settings=settings)
        mae, mse = stated.get((label, epsilon), (None, None))
        return {
            "data": dataset.name, "algorithm": algorithm, "method": label, "epsilon": epsilon,
            "mae": result.metrics["mae"], "paper_mae": mae,
            "mse": result.metrics["mse"], "paper_mse": mse,
            "status": result.guarantee.status, "unit": result.guarantee.unit,
        }  # fmt: skip

    rows: Rows = []
    for run in runs:
        report(f"errors on {dataset.name}", len(rows), len(runs))
        name = f"errors {dataset.name} {run[0]} {run[1]} {run[3]}"
        rows.append(setting.once(name, partial(made, *run)))
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


def paper_datasets() -> list[Dataset]:
    """The paper's sets and samples as far as they are here; as many users of ml-1m where ml-20m and
    ml-latest are not; the embedded films where nothing is."""
    here = available()
    found = [load_dataset(name) for name in ("ml-latest-small-2016",) if name in here]
    for name, n in (("ml-20m", 1000), ("ml-latest", 2000), ("ml-latest", 5000)):
        source = name if name in here else "ml-1m"
        if source in here:
            found.append(sample_users(load_dataset(source), n))
    return found or [load_dataset(EMBEDDED)]


def sample_users(dataset: Dataset, n: int, *, seed: int = 0) -> Dataset:
    """So many users, drawn at random."""
    ratings = dataset.ratings
    chosen = np.random.default_rng(seed).permutation(ratings.n_users)[:n]
    return Dataset(f"{dataset.name} ({n})", ratings.users_at(np.sort(chosen)), dataset.catalogue)


PARTS = Paper(
    "yang",
    "Yang, Li, Sun & Zhang (2019)",
    (
        Part("yang-noise", ("Table 1",), "The noise of the Laplace mechanism", _part_noise),
        Part(
            "yang-errors", ("Table 2", *(f"Figure {n}" for n in range(3, 23))),
            "MAE and MSE by ε", _part_errors,
        ),
    ),
    {"Figure 1": "a drawing of the framework", "Figure 2": "a drawing of the four blocks"},
)  # fmt: skip
