"""Curves of the papers' figures, as SVG and PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epicrec.evaluate.plots import STROKE, save


def curves(
    points: Sequence[Mapping[str, Any]],
    folder: Path,
    name: str,
    titles: tuple[str, str],
    *,
    log: str = "",
    bands: Sequence[Mapping[str, Any]] = (),
    columns: int = 2,
) -> list[Path]:
    """A panel for each `panel` of the points, a line for each `line`, `y` over `x`.

    `titles` are those of x and y; `log` names the axes ("x", "y", "xy") that
    are logarithmic; `bands` are ranges of x to
    shade, by panel.
    """
    import altair as alt

    kinds = ["log" if axis in log else "linear" for axis in "xy"]
    panels = list(dict.fromkeys(point["panel"] for point in points))
    scale = alt.Scale(domain=list(dict.fromkeys(point["line"] for point in points)))
    charts = []
    for panel in panels:
        own = alt.Data(values=[point for point in points if point["panel"] == panel])
        chart = (
            alt.Chart(own)
            .mark_line(point=True)
            .encode(
                x=alt.X(
                    "x:Q", scale=alt.Scale(type=kinds[0], nice=False), title=titles[0],
                    axis=alt.Axis(format="~g"),
                ),
                y=alt.Y("y:Q", scale=alt.Scale(type=kinds[1], zero=False), title=titles[1]),
                color=alt.Color("line:N", title=None, scale=scale, legend=STROKE),
                strokeDash=alt.StrokeDash("line:N", title=None, scale=scale, legend=STROKE),
            )
        )  # fmt: skip
        shaded = [band for band in bands if band["panel"] == panel]
        if shaded:
            band = alt.Chart(alt.Data(values=shaded)).mark_rect(opacity=0.15)
            chart = band.encode(x=alt.X("low:Q", title=titles[0]), x2="high:Q") + chart
        charts.append(chart.properties(width=300, height=220, title=panel))
    return saved(alt.concat(*charts, columns=columns), folder / name)


def saved(chart: Any, base: Path) -> list[Path]:
    """The chart as base.svg and base.png."""
    paths = [base.with_name(f"{base.name}.{kind}") for kind in ("svg", "png")]
    save(chart, *paths)
    return paths
