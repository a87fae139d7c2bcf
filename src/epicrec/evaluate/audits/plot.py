"""The table of audits as a picture: what was found over what is claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


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
    chart.save(str(path), scale_factor=1 if path.suffix == ".svg" else 2)
