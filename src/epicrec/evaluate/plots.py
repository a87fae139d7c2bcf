"""Plots of measurements, drawn by altair and saved as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

DASHES = {"sound": [1, 0], "as published": [7, 4], "no privacy": [2, 3]}
NAMES = {"rmse": "RMSE, lower is better", "ndcg": "nDCG@10, higher is better"}


def plot_comparison(found: Mapping[str, Any], path: Path) -> None:
    """For each task the metric over ε, with error bars of one standard deviation; a dotted line for
    each method without noise."""
    import altair as alt

    panels = [_panel(alt, task, table) for task, table in found["tasks"].items()]
    chart = alt.hconcat(*panels, title=f"{found['data']}: every method at equal privacy")
    save(chart.resolve_scale(color="independent", shape="independent"), path)


def _panel(alt: Any, task: str, table: Mapping[str, Any]) -> Any:
    metric, rows = table["metric"], table["rows"]
    values = [
        {
            "method": row["method"],
            "epsilon": row["epsilon"],
            "value": row[metric],
            "low": row[metric] - (row["spread"] or 0.0),
            "high": row[metric] + (row["spread"] or 0.0),
            "kind": _kind(row),
        }
        for row in rows
    ]
    noisy = alt.Data(values=[value for value in values if value["epsilon"] is not None])
    names = [name for name in dict.fromkeys(row["method"] for row in rows)]
    y = alt.Y("value:Q", scale=alt.Scale(zero=False), title=NAMES[metric])
    color = alt.Color("method:N", sort=names, title=None, scale=alt.Scale(scheme="tableau20"))
    x = alt.X(
        "epsilon:Q", scale=alt.Scale(type="log", nice=False, padding=12),
        title="privacy budget ε (log)",
    )  # fmt: skip
    dash = alt.StrokeDash(
        "kind:N", title=None, scale=alt.Scale(domain=[*DASHES], range=[*DASHES.values()]),
        legend=alt.Legend(symbolType="stroke", symbolSize=900, symbolStrokeColor="#555"),
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
    plain = alt.Data(values=[value for value in values if value["epsilon"] is None])
    rules = alt.Chart(plain).mark_rule(strokeWidth=1.5).encode(y=y, color=color, strokeDash=dash)
    return (rules + bars + lines).properties(width=420, height=360, title=task)


def _kind(row: Mapping[str, Any]) -> str:
    if row["epsilon"] is None:
        return "no privacy"
    return "as published" if "as published" in row["method"] else "sound"


def save(chart: Any, *paths: Path) -> None:
    """Write a chart as .svg, or as .png at twice the size."""
    for path in paths:
        chart.save(str(path), scale_factor=1 if path.suffix == ".svg" else 2)
