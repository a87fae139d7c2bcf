"""The plots of the README and of the pages, drawn from tables and figures.

accuracy.svg from covariance.md and, for what others report, papers.md; categories.svg, lists.svg,
alteregos.svg and ratings.svg from the tables of EpicRec, private lists, D2P and Yang et al.;
audit.svg and compare-*.svg from docs/figures. A plot ends with a digest of what it shows and is
only drawn again when that changes: other fonts or another renderer do not make it stale.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import altair as alt
from tables import HERE, Made, Row, read

from epicrec.evaluate.plots import plot_claims, plot_comparison


def plots() -> Made:
    """What is drawn from the tables of pages."""
    charts = {
        "accuracy.svg": accuracy_plot(),
        "categories.svg": category_plot(),
        "lists.svg": list_plot(),
        "alteregos.svg": alterego_plot(),
        "ratings.svg": rating_plot(),
    }
    return {
        name: _drawn(chart.to_dict(), lambda path, chart=chart: chart.save(str(path)))
        for name, chart in charts.items()
    }


def audit() -> Made:
    """What audits found, as a share of what is claimed."""
    rows = read("audit.json")["rows"]
    return {"audit.svg": _drawn(rows, lambda path: plot_claims(rows, path))}


def compare() -> Made:
    """Every method over ε, a plot for each data set."""
    found = [read(f"compare-{data}.json") for data in ("films", "ml-100k", "ml-1m")]
    return {
        f"compare-{one['data']}.svg": _drawn(
            one["tasks"], lambda path, one=one: plot_comparison(one, path)
        )
        for one in found
    }


def _drawn(shown: Any, draw: Callable[[Path], object]) -> Callable[[str], str]:
    """Draw into a file, unless the plot that is there has the digest of what is to be shown."""
    text = json.dumps(shown, sort_keys=True).encode()
    mark = f"<!-- {hashlib.sha256(text).hexdigest()} -->"

    def update(present: str) -> str:
        if mark in present:
            return present
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "plot.svg"
            draw(path)
            return f"{path.read_text('utf-8')}\n{mark}\n"

    return update


# ---- the figures, as the pages' tables have them ------------------------------------------------


def tables(page: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Each table of a page: its head and its rows."""
    for table in re.findall(r"(?:^\|.*\|\n)+", (HERE / page).read_text("utf-8"), re.M):
        head, _, *rows = (
            [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()
        )
        yield head, rows


def table(page: str, *columns: str) -> tuple[list[str], list[list[str]]]:
    """The first table of a page that begins with these columns."""
    return next(found for found in tables(page) if found[0][: len(columns)] == [*columns])


def measured() -> list[Row]:
    """RMSE over ε, as the page of the covariance recommender has it."""
    head, rows = table("covariance.md", "data", "unit")
    names = {
        ("ml-1m, svd", "rating"): "one rating hidden",
        ("ml-1m, svd", "user"): "a whole person hidden",
        ("ml-1m, as published, by the paper's ε", "rating"): "the 2009 recipe, by its own ε",
        ("netflix, svd", "rating"): "one rating hidden",
        ("netflix, svd", "user"): "a whole person hidden",
    }
    return [
        {"data": row[0].partition(",")[0], "series": names[row[0], row[1]], "ε": e, "RMSE": found}
        for row in rows
        if (row[0], row[1]) in names
        for e, found in _over(head[2:], row[2:])
    ]


def reported() -> list[Row]:
    """What others report, as the page of the papers has it."""
    _, rows = table("papers.md", "data", "who", "hidden")
    return [
        {"data": row[0], "who": row[1], "ε": float(row[3]) if row[3] else None,
         "RMSE": float(row[4])}
        for row in rows
        if row[0] in ("ml-1m", "netflix")
    ]  # fmt: skip


def categories() -> list[Row]:
    """The error of categories over ε, as EpicRec's page has it."""
    head, rows = table("epicrec.md", "data, method", "way")
    names = {"`lpa`": "Laplace, global sensitivity", "`gs`": "grouping and smoothing",
             "as published": "EpicRec as published", "**default**": "EpicRec here"}  # fmt: skip
    return [
        {"way": names[row[1]], "ε": e, "error": found}
        for row in rows
        if row[0] == "ml-1m, s-epicrec" and row[1] in names
        for e, found in _over(head[2:], row[2:])
    ]


def lists() -> list[Row]:
    """nDCG of lists over ε, a whole person hidden, as the page of private lists has it."""
    head, rows = table("histories.md", "data", "ε = 0.1")
    return [
        {"data": row[0], "ε": e, "nDCG@10": found, "what": what}
        for row in rows
        if row[0] in ("ml-1m", "ml-100k", "ml-latest-small-2016", "films")
        for what, part in (("with taste", 1), ("popularity alone", 2))
        for e, found in _over(head[1:-1], [_of_two(cell, part) for cell in row[1:-1]])
    ]


def _of_two(cell: str, part: int) -> str:
    """The figure, or the one in brackets after it."""
    found = re.fullmatch(r"([\d.]+) \(([\d.]+)\)", cell)
    return found[part] if found else ""


def alteregos() -> list[Row]:
    """F1 of lists over ε, as D2P's page has it."""
    head, rows = table("d2p.md", "ε", "1", "2")
    names = {
        "d2p-svd": "corrected, settings chosen for ε",
        "d2p-svd, paper's p and λ (floor for ε), corrected": "corrected, the paper's p and λ",
        "d2p-svd, not corrected": "not corrected",
    }
    return [
        {"way": names[row[0]], "ε": e, "F1@10": found}
        for row in rows
        if row[0] in names
        for e, found in _over(head[1:], [cell.strip("*") for cell in row[1:]])
    ]


def ratings() -> list[Row]:
    """MAE over ε, as the page of Yang et al. has it."""
    head, rows = table("yang.md", "", "ε = 0.5")
    names = {
        "DPM-Pcc (broken)": "DPM-Pcc, whose proof does not hold",
        "DPI-Pcc": "DPI-Pcc",
        "**default** (`pcc`, `cos`)": "private-bias",
    }
    return [
        {"way": names[row[0]], "ε": e, "MAE": found}
        for row in rows
        if row[0] in names
        for e, found in _over(head[1:], [cell.strip("*").partition(" / ")[0] for cell in row[1:]])
    ]


def _over(head: list[str], cells: list[str]) -> Iterator[tuple[float, float]]:
    """ε and figure, where a cell is a plain one."""
    for name, cell in zip(head, cells, strict=True):
        epsilon = re.fullmatch(r"(?:ε = )?([\d.]+)", name)
        if epsilon and re.fullmatch(r"[\d.]+", cell):
            yield float(epsilon[1]), float(cell)


def without_privacy() -> list[Row]:
    """The same page's figures without noise."""
    head, rows = table("covariance.md", "data", "unit")
    at = head.index("none")
    return [
        {"data": row[0].partition(",")[0], "who": "ours, without privacy", "ε": None,
         "RMSE": float(row[at])}
        for row in rows
        if row[0] in ("ml-1m, svd", "netflix, svd") and row[at]
    ]  # fmt: skip


# ---- the charts ---------------------------------------------------------------------------------


def accuracy_plot() -> alt.HConcatChart:
    return alt.hconcat(_accuracy("netflix", "Netflix"), _accuracy("ml-1m", "MovieLens-1M"))


def _accuracy(data: str, title: str) -> alt.LayerChart:
    """Only the recipe of 2009 at a small ε is beyond the height of the plot."""
    ours = [row for row in measured() if row["data"] == data]
    others = [row for row in reported() + without_privacy() if row["data"] == data]
    good = [row["RMSE"] for row in [*ours, *others] if "recipe" not in row.get("series", "")]
    low, high = min(good) - 0.01, max(good) + (0.01 if len(good) == len([*ours, *others]) else 0.1)
    y = alt.Y("RMSE:Q", scale=alt.Scale(domain=[low, high], nice=False),
              title="RMSE (smaller is better)")  # fmt: skip
    base = alt.Chart(alt.Data(values=ours)).encode(
        x=_epsilon(0.09, 45),
        y=y,
        color=alt.Color(
            "series:N",
            title=None,
            legend=alt.Legend(orient="bottom", columns=3, labelLimit=260),
            sort=["one rating hidden", "a whole person hidden"],
        ),
    )
    points = alt.Chart(alt.Data(values=[row for row in others if row["ε"]]))
    points = points.encode(x=_epsilon(0.09, 45), y=y)
    rules = alt.Chart(alt.Data(values=[row for row in others if not row["ε"]])).encode(y=y)
    return alt.layer(
        base.mark_line(clip=True),
        base.mark_point(filled=True, size=45, clip=True),
        points.mark_point(shape="diamond", filled=True, size=90, color="#333"),
        points.mark_text(dy=10, dx=6, align="left", color="#333").encode(text="who:N"),
        rules.mark_rule(strokeDash=[4, 3], color="#333"),
        rules.mark_text(dy=-7, dx=4, align="left", x=0, color="#333").encode(text="who:N"),
    ).properties(width=330, height=260, title=title)


def _epsilon(low: float, high: float) -> alt.X:
    return alt.X(
        "ε:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(values=[0.05, 0.1, 0.3, 1, 3, 10, 20]),
        title="ε (smaller is more private)",
    )


def category_plot() -> alt.LayerChart:
    ways = ["EpicRec here", "EpicRec as published", "grouping and smoothing"]
    y = alt.Y(
        "error:Q",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(values=[3, 5, 10, 20, 40]),
        title="mean error of a category's count",
    )
    title = "What a release tells of categories, MovieLens-1M"
    return _lines(categories(), _epsilon(0.045, 1.1), y, "way", title, sort=ways)


def list_plot() -> alt.LayerChart:
    y = alt.Y("nDCG@10:Q", title="nDCG@10 (larger is better)")
    title = "Lists with a whole person hidden"
    return _lines(lists(), _epsilon(0.09, 11), y, "data", title, dashed="what")


def alterego_plot() -> alt.LayerChart:
    y = alt.Y("F1@10:Q", title="F1@10 (larger is better)")
    x = alt.X("ε:Q", title="ε (smaller is more private)")
    return _lines(alteregos(), x, y, "way", "d2p-svd on ML-100K")


def rating_plot() -> alt.LayerChart:
    y = alt.Y("MAE:Q", scale=alt.Scale(zero=False), title="MAE (smaller is better)")
    title = "Ratings of ml-latest-small-2016"
    return _lines(ratings(), _epsilon(0.45, 5.5), y, "way", title)


def _lines(
    rows: list[Row], x: alt.X, y: alt.Y, by: str, title: str, *, sort: Any = None, dashed: str = ""
) -> alt.LayerChart:
    color = alt.Color(f"{by}:N", title=None, sort=sort, legend=alt.Legend(labelLimit=260))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, color=color)
    lines = base.mark_line()
    if dashed:
        stroke = alt.Legend(symbolType="stroke", symbolStrokeColor="#333")
        lines = lines.encode(
            strokeDash=alt.StrokeDash(f"{dashed}:N", title=None, sort=None, legend=stroke)
        )
    points = base.mark_point(filled=True, size=45)
    return (lines + points).properties(width=420, height=240, title=title)
