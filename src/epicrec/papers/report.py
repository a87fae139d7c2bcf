"""The report: every figure and table of the papers as one page, in Markdown and in HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from epicrec.papers.parts import Paper

SHORT = "--quick: less data, fewer settings and draws"
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>The papers, made again</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;display:block;overflow-x:auto;font-size:.85rem}
td,th{border-bottom:1px solid #8884;padding:.2rem .6rem;text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}img{max-width:100%;background:#fff}
:root{color-scheme:light dark}</style>
"""


def markdown(papers: Sequence[Paper], parts: Sequence[Mapping[str, Any]], plots: str = "") -> str:
    """The page as Markdown; `plots` is what stands before the name of a plot's file."""
    lines = ["# The papers, made again", "", *_said(parts), ""]
    for paper in papers:
        own = [part for part in parts if part["paper"] == paper.name]
        lines += [f"## {paper.title}", "", "| figure or table | here |", "| --- | --- |"]
        lines += [f"| {figure} | {_starred(where)} |" for figure, where in index(paper, own)]
        for part in own:
            title = _starred(part["title"])
            lines += ["", f"### {title}", "", *map(_starred, _about(part, parts))]
            for plot in part["plots"]:
                if plot.endswith(".svg"):
                    lines += [f"![{title}]({plots}{plot})", ""]
            for name, rows in part["tables"].items():
                lines += [f"**{_starred(name)}**", "", *_pipes(rows), ""]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _starred(text: str) -> str:
    """A star is one, as in p*, and no emphasis."""
    return text.replace("*", "\\*")


def html(papers: Sequence[Paper], parts: Sequence[Mapping[str, Any]]) -> str:
    """The page as HTML, with the plots' files beside it."""
    out = [HEAD, "<h1>The papers, made again</h1>", *(f"<p>{escape(s)}</p>" for s in _said(parts))]
    for paper in papers:
        own = [part for part in parts if part["paper"] == paper.name]
        found = [{"figure or table": figure, "here": where} for figure, where in index(paper, own)]
        out += [f"<h2>{escape(paper.title)}</h2>", _cells(found)]
        for part in own:
            out.append(f"<h3>{escape(part['title'])}</h3>")
            out += [f"<p>{escape(line)}</p>" for line in _about(part, parts) if line]
            for plot in part["plots"]:
                if plot.endswith(".svg"):
                    out.append(f'<img src="{escape(plot)}" alt="{escape(part["title"])}">')
            for name, rows in part["tables"].items():
                out += [f"<h4>{escape(name)}</h4>", _cells(rows)]
    return "\n".join(out)


def index(paper: Paper, parts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Every figure and table of a paper: the part that shows it, or why none does."""
    found = {figure: part["title"] for part in parts for figure in part["shows"]}
    found |= {figure: f"not here: {reason}" for figure, reason in paper.not_here.items()}
    order = sorted(found, key=lambda figure: (figure.split()[0], _number(figure)))
    yield from ((figure, found[figure]) for figure in order)


def _number(figure: str) -> tuple[int, str]:
    word = figure.split()[1]
    digits = "".join(c for c in word if c.isdigit())
    return int(digits or 0), word


def _said(parts: Sequence[Mapping[str, Any]]) -> list[str]:
    short = [part["key"]["quick"] for part in parts]
    data = sorted({name for part in parts for name in part["key"]["data"]})
    how = f"in short ({SHORT})" if all(short) else "in full"
    if any(short) and not all(short):
        how += f", but for what is said to be in short ({SHORT})"
    return [
        f"Made by epicrec {parts[0]['key']['version']} {how}, with these data at hand: "
        f"{', '.join(data) or 'the embedded films alone'}. Where a table names its data, the "
        "paper's value stands only beside the paper's own data."
    ]


def _about(part: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is to be known of a part; where others are in full, that it is in short."""
    all_short = all(other["key"]["quick"] for other in parts)
    notes = [part["note"], "In short." if part["key"]["quick"] and not all_short else ""]
    said = " ".join(note for note in notes if note)
    return [said, ""] if said else []


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [*dict.fromkeys(name for row in rows for name in row)]


def _pipes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    columns = _columns(rows)
    lines = [columns, ["---"] * len(columns)]
    for row in rows:
        cells = {name: shown(row.get(name)) for name in columns}
        if cells.get("data"):  # as code, which is not broken at a hyphen
            cells["data"] = f"`{cells['data']}`"
        lines.append([*cells.values()])
    return [
        f"| {' | '.join(_starred(cell.replace('|', ' ')) for cell in line)} |" for line in lines
    ]


def _cells(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = _columns(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = [
        "<tr>" + "".join(f"<td>{escape(shown(row.get(name)))}</td>" for name in columns) + "</tr>"
        for row in rows
    ]
    return f"<table><tr>{head}</tr>{''.join(body)}</table>"


def shown(value: Any) -> str:
    """A value as a table has it: four digits, and nothing where there is none.

    >>> shown(0.123456), shown(None), shown(12345.6), shown(3)
    ('0.1235', '', '12,346', '3')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)
