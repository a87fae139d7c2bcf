"""The experiments of Yang et al. 2019: the four-block protocol, their tables and figures."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from epicrec.data import Dataset, Ratings, available, load_dataset
from epicrec.errors import InputError
from epicrec.evaluate.metrics import rating_metrics
from epicrec.evaluate.protocols import Evaluation, make_model
from epicrec.models import PRIVATE, Recommender
from epicrec.models.private_bias import released_totals
from epicrec.privacy import AuditResult, audit_epsilon
from epicrec.progress import report

EPSILONS = (1.0, 2.0, 3.0, 4.0, 5.0)
ALGORITHMS = ("pcc", "cos", "avg")

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


@dataclass(frozen=True)
class Blocks:
    """Figure 2: what others rated, the active users' training half, and what is to be predicted."""

    others: Ratings
    histories: Ratings
    asked: Ratings


def reduced(ratings: Ratings, k: int = 3) -> Ratings:
    """Without the items, and then the users, that have fewer than k ratings."""
    ratings = ratings.select((ratings.item_counts >= k)[ratings.items])
    ratings = ratings.with_items(ratings.item_ids[ratings.item_counts > 0])
    return ratings.users_at(np.flatnonzero(ratings.user_counts >= k))


def yang_blocks(ratings: Ratings, *, seed: int, k: int = 3, vertical: bool = False) -> Blocks:
    """Users and items halved at random; the active users' ratings of the second half are asked.

    Others' ratings of both halves may be learned from. `vertical` halves the items only: all users
    are active, and their first half is all there is (Avg). An active user with fewer than k ratings
    in the first half is not asked about, as in the paper.
    """
    if ratings.scale is None:
        raise InputError("the protocol 'yang' needs ratings, and got a history without them")
    ratings = reduced(ratings, k)
    rng = np.random.default_rng(seed)
    second, active = (_half(n, rng) for n in (ratings.n_items, ratings.n_users))
    if vertical:
        active[:] = True
    first = ratings.select(~second[ratings.items])
    asked_about = np.flatnonzero(active & (first.user_counts >= k))
    histories = first.users_at(asked_about)
    asked = ratings.select(second[ratings.items]).users_at(asked_about)
    if not len(asked):
        raise InputError(f"nobody has {k} ratings in one half and one in the other; use more data")
    others = histories if vertical else ratings.users_at(np.flatnonzero(~active))
    return Blocks(others, histories, asked)


def _half(n: int, rng: np.random.Generator) -> Any:
    chosen = np.zeros(n, np.bool_)
    chosen[rng.permutation(n)[: n // 2]] = True
    return chosen


def evaluate_yang(
    method: str,
    dataset: Dataset,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    unit: str | None = None,
    as_published: bool | None = None,
    seed: int = 0,
    seeds: int = 5,
    k: int = 3,
    settings: Mapping[str, Any] | None = None,
) -> Evaluation:
    """MAE and MSE by the paper's protocol, as means over `seeds` divisions (and their spread).

    `avg`, `dpi-avg` and `dpm-avg` are asked vertically, all others in four blocks. After DPI the
    active users' own ratings are altered too; DPM adds noise to their averages; the sound default
    uses them as they are, at home, and alters what it learns from others. `as_published` with an ε
    turns `avg`, `pcc`, `cos` into DPM. Each division has its own noise.
    """
    if seeds < 1:
        raise InputError(f"seeds must be at least 1, got {seeds}")
    asked = method
    if as_published:
        if epsilon is not None and method in ALGORITHMS:
            method = f"dpm-{method}"
        elif not method.startswith(("dpi-", "dpm-")):
            raise InputError("as published there are avg, pcc, cos with an epsilon, dpi-*, dpm-*")
    found, seconds = [], {"fit": 0.0, "predict": 0.0}
    for number in range(seed, seed + seeds):
        report("dividing users and items", number - seed, seeds)
        blocks = yang_blocks(dataset.ratings, seed=number, k=k, vertical=method.endswith("avg"))
        model = make_model(
            method, epsilon=epsilon, delta=delta, unit=unit, seed=number, settings=settings
        )
        metrics, spent = _measure(model, blocks)
        found.append(metrics)
        for name in seconds:
            seconds[name] += spent[name]
    means = {name: float(np.mean([f[name] for f in found])) for name in found[0]}
    spread = {f"{name}_sd": float(np.std([f[name] for f in found])) for name in ("mae", "mse")}
    return Evaluation(
        asked, dataset.name, "yang", model.guarantee, means | spread, seconds,
        {**model.parameters(), "model": model.method, "seed": seed, "seeds": seeds, "k": k},
    )  # fmt: skip


def _measure(model: Recommender, blocks: Blocks) -> tuple[dict[str, float], dict[str, float]]:
    start = time.perf_counter()
    model.fit(blocks.others)
    fitted = time.perf_counter()
    scores = model.predict(blocks.asked, histories=blocks.histories)["score"].to_numpy()
    seconds = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return rating_metrics(scores, blocks.asked.values), seconds


# ---- audits and the attack -------------------------------------------------------------------


def audit_yang(method: str, *, epsilon: float = 1.0, runs: int = 20_000) -> AuditResult:
    """A 95 % lower bound on the ε of a method's outputs on two neighbouring inputs.

    * `dpi-*`: a person's only rating is the lowest or the highest; the output is what is released.
    * `private-bias` (`avg`, `pcc`, `cos`): a best rating is there or not; the output is its total.
    * `dpm-avg`: one of three ratings is the lowest or the highest; the output is the prediction.
    * `dpm-pcc`, `dpm-cos`: **the attack**. Two items have one and the same rater, who rates them
      alike or not. With r̂_ai - r̂_aj = w'_au (r_ui - r_uj)/Σ|w'| the averages' noise cancels, and
      the two predictions differ only if the ratings do. Needs a few hundred runs.
    """
    if method.startswith("dpi-"):
        outputs = [_dpi_outputs(value, epsilon, runs) for value in (1.0, 5.0)]
    elif method == "dpm-avg":
        outputs = [_dpm_avg_outputs(value, epsilon, runs) for value in (1.0, 5.0)]
    elif method in ("dpm-pcc", "dpm-cos"):
        outputs = [
            np.array([_difference(method, value, epsilon) for _ in range(min(runs, 400))])
            for value in (4.0, 3.0)
        ]
    elif PRIVATE.get(method, method) == "private-bias":
        outputs = [_total_outputs(raters, epsilon, runs) for raters in (1, 2)]
    else:
        raise InputError(f"there is no audit of {method!r} here; use dpi-*, dpm-* or private-bias")
    return audit_epsilon(*outputs)


def _dpi_outputs(value: float, epsilon: float, runs: int) -> Any:
    """Every user is one run: with one rating, `dpi-avg` predicts what was released."""
    ratings = Ratings.from_columns(np.arange(runs), np.zeros(runs, int), np.full(runs, value))
    model = make_model("dpi-avg", epsilon=epsilon).fit(ratings)
    return model.predict(ratings)["score"].to_numpy()


def _dpm_avg_outputs(value: float, epsilon: float, runs: int) -> Any:
    users, items = np.repeat(np.arange(runs), 3), np.tile(np.arange(3), runs)
    ratings = Ratings.from_columns(users, items, np.where(items == 0, value, 3.0))
    model = make_model("dpm-avg", epsilon=epsilon).fit(ratings)
    return model.predict(ratings.select(ratings.items == 0), histories=ratings)["score"].to_numpy()


def _total_outputs(raters: int, epsilon: float, runs: int) -> Any:
    """Every item is one run: its first total, with this many raters who think the best of it."""
    users, items = np.divmod(np.arange(raters * runs), runs)
    ratings = Ratings.from_columns(users, items, np.full(len(users), 5.0))
    return released_totals(ratings, epsilon, None)[0]


def _difference(method: str, value: float, epsilon: float) -> float:
    """How far apart an active user's predictions of y and z are, which only `ann` has rated."""
    rows = [("ann", "x", 3), ("ann", "y", 4), ("ann", "z", value), ("bob", "x", 2), ("bob", "w", 5)]
    others = Ratings.from_columns(*zip(*rows, strict=True))
    own = Ratings.from_columns(["eve"] * 3, ["x", "w", "v"], [3.0, 4.0, 2.0])
    asked = pa.table({"user_id": ["eve", "eve"], "item_id": ["y", "z"]})
    model = make_model(method, epsilon=epsilon).fit(others)
    y, z = model.predict(asked, histories=own)["score"].to_pylist()
    return float(abs(y - z) > 1e-4)


# ---- the paper's tables and figures ---------------------------------------------------------


def laplace_from_uniform(r: float, scale: float) -> float:
    """The Laplace noise that a uniform number gives by inversion, as Table 1 does.

    >>> round(laplace_from_uniform(0.8633, 10.0), 2)
    12.97
    """
    return -scale * math.copysign(1.0, r - 0.5) * math.log(1 - 2 * abs(r - 0.5))


def reproduce_yang(
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
