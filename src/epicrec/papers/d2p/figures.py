"""D2P's figures: quality over the parameters, over the honest ε, and over density."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from epicrec.papers.curves import saved


def plot_sweeps(rows: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Pr@5 over p*, p and λ, one panel each, a line for each data set and method."""
    import altair as alt

    titles = {
        "p_star": "p* (λ = 1, p = 0.5)",
        "p": "p (λ = 1, p* = 0)",
        "lam": "λ (p = 0.5, p* = 0)",
    }
    points = [
        {
            "panel": titles[row["swept"]], "value": row[row["swept"]],
            "precision@5": row["precision@5"], "line": f"{row['method']}, {row['data']}",
        }
        for row in rows
    ]  # fmt: skip
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("value:Q", title=None),
            y=alt.Y("precision@5:Q", title="precision of five, as published"),
            color=alt.Color("line:N", title=None),
            strokeDash=alt.StrokeDash("line:N", title=None),
        )
        .properties(width=230, height=220)
        .facet(alt.Facet("panel:N", title=None, sort=list(titles.values())), columns=3)
        .resolve_scale(x="independent")
    )
    return saved(chart, folder / "d2p-sweeps")


def plot_budgets(rows: list[dict[str, Any]], paper: float | None, folder: Path) -> list[Path]:
    """F1@10 over the honest ε, with and without the correction, beside popularity."""
    import altair as alt

    shown = ("corrected", "not corrected", "paper's p and λ, corrected")
    points = [
        {"epsilon": row["epsilon"], "F1": row["f1@10"], "method": method, "way": way}
        for row in rows
        if row["epsilon"] is not None
        for method, _, way in [row["method"].partition(", ")]
        if way in shown
    ]
    levels = [{"F1": rows[0]["f1@10"], "name": "popularity, not private"}]
    if paper is not None:
        levels.append({"F1": paper, "name": "the paper, claimed at ε = 2.9"})
    rules = alt.Chart(alt.Data(values=levels)).mark_rule(color="gray").encode(y="F1:Q")
    labels = (
        alt.Chart(alt.Data(values=levels))
        .mark_text(align="left", dy=-6, color="gray")
        .encode(y="F1:Q", x=alt.value(5), text="name:N")
    )
    panels = []
    for method in dict.fromkeys(point["method"] for point in points):
        own = [point for point in points if point["method"] == method]
        lines = (
            alt.Chart(alt.Data(values=own))
            .mark_line(point=True)
            .encode(
                x=alt.X("epsilon:Q", title="honest ε for one item (change one)"),
                y=alt.Y("F1:Q", title="F1 of ten", scale=alt.Scale(domain=[0, 0.3])),
                color=alt.Color("way:N", title=None, sort=list(shown)),
            )
        )
        panels.append((lines + rules + labels).properties(width=250, height=260, title=method))
    return saved(alt.hconcat(*panels), folder / "d2p-budgets")


def plot_density(rows: list[dict[str, Any]], sizes: Sequence[int], folder: Path) -> list[Path]:
    """Figure 6: recall over N in the parts of different density."""
    import altair as alt

    points = [
        {"part": row["data"], "N": n, "recall": row[f"recall@{n}"]} for row in rows for n in sizes
    ]
    chart = (
        alt.Chart(alt.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=alt.X("N:Q", title="length of the list"),
            y=alt.Y("recall:Q", title="recall at p = p* = 0.5, λ = 1"),
            color=alt.Color("part:N", title=None),
        )
        .properties(width=330, height=240)
    )
    return saved(chart, folder / "d2p-density")
