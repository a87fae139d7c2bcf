"""Plots of comparisons and audits, drawn by altair and saved as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DASHES = {"sound": [1, 0], "as published": [7, 4], "no promise": [2, 3]}
STROKE = {"symbolType": "stroke", "symbolSize": 700, "labelLimit": 260}
"""Legends show lines as they are drawn."""
NAMES = {"rmse": "RMSE, lower is better", "ndcg": "nDCG@10, higher is better"}


def plot_comparison(found: Mapping[str, Any], path: Path) -> None:
    """For each task the metric over ε, with error bars of one standard deviation; dashed lines for
    methods as published, dotted ones for those without a guarantee."""
    import altair as alt

    panels = [_panel(alt, task, table) for task, table in found["tasks"].items()]
    chart = alt.vconcat(*panels, title=f"{found['data']}: every method at equal privacy")
    save(chart.resolve_scale(color="independent", strokeDash="independent"), path)


def _panel(alt: Any, task: str, table: Mapping[str, Any]) -> Any:
    metric, rows = table["metric"], table["rows"]
    values = [
        {
            "method": row["method"],
            "epsilon": row["epsilon"],
            "value": row[metric],
            "low": row[metric] - (row["spread"] or 0.0),
            "high": row[metric] + (row["spread"] or 0.0),
        }
        for row in rows
    ]
    dashes = {row["method"]: DASHES[_kind(row)] for row in rows}
    noisy = alt.Data(values=[value for value in values if value["epsilon"] is not None])
    plain = alt.Data(values=[value for value in values if value["epsilon"] is None])
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), title=NAMES[metric])
    color = alt.Color(
        "method:N", title=None, scale=alt.Scale(domain=[*dashes], scheme="tableau20"), legend=STROKE
    )
    dash = alt.StrokeDash(
        "method:N", title=None, scale=alt.Scale(domain=[*dashes], range=[*dashes.values()]),
        legend=STROKE,
    )  # fmt: skip
    x = alt.X(
        "epsilon:Q", scale=alt.Scale(type="log", nice=False, padding=12),
        title="privacy budget ε (log)",
    )  # fmt: skip
    lines = (
        alt.Chart(noisy)
        .mark_line(point=alt.OverlayMarkDef(size=30))
        .encode(x=x, y=y, color=color, strokeDash=dash)
    )
    bars = (
        alt.Chart(noisy)
        .mark_rule()
        .encode(x=x, y=alt.Y("low:Q", title=NAMES[metric]), y2="high:Q", color=color)
    )
    rules = alt.Chart(plain).mark_rule(strokeWidth=1.5).encode(y=y, color=color, strokeDash=dash)
    return (rules + bars + lines).properties(width=470, height=340, title=task)


def _kind(row: Mapping[str, Any]) -> str:
    if row["epsilon"] is None:
        return "no promise"
    return "as published" if "as published" in row["method"] else "sound"


def plot_claims(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A point for each method; beyond the line at 1 the claim is false."""
    import altair as alt

    shown = [
        {
            "method": row["method"],
            "share": row["share"],
            "verdict": "within the claim" if row["holds"] else "more than claimed",
            "by": row["measure"],
        }
        for row in rows
    ]
    names = [row["method"] for row in shown]
    x = alt.X("share:Q", scale=alt.Scale(type="symlog"), title="found / claimed, 95 % for all")
    points = (
        alt.Chart(alt.Data(values=shown))
        .mark_point(filled=True, size=70)
        .encode(
            x=x,
            y=alt.Y("method:N", sort=names, title=None),
            color=alt.Color("verdict:N", title=None),
            shape=alt.Shape("by:N", title="bound on"),
        )
    )
    line = alt.Chart(alt.Data(values=[{"share": 1.0}])).mark_rule(strokeDash=[4, 3]).encode(x=x)
    chart = (points + line).properties(width=420, height=18 * len(shown))
    save(chart, path)


def save(chart: Any, *paths: Path) -> None:
    """Write a chart as .svg, or as .png at twice the size."""
    for path in paths:
        chart.save(str(path), scale_factor=1 if path.suffix == ".svg" else 2)
