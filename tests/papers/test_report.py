"""The report of all papers: complete, kept part by part, and the page that is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distributions import ROOT
from epicrec.errors import InputError
from epicrec.papers import PAPERS, papers_of, reproduce
from epicrec.papers.parts import Found, Paper, Part, Setting, make_parts
from epicrec.papers.report import html, index, markdown, shown

FIGURES = {
    "epicrec": [*(f"Figure {n}" for n in ("1", "2", "3", "4", "5(a)", "5(b)", "6(a)", "6(b)", "7",
                                          "8")), "Table 1", "Table 2"],
    "mcsherry-mironov": ["Figure 1", "Figure 2"],
    "d2p": [*(f"Figure {n}" for n in range(1, 18)), *(f"Table {n}" for n in range(1, 5))],
    "yang": [*(f"Figure {n}" for n in range(1, 23)), "Table 1", "Table 2"],
}  # fmt: skip
"""All there are, counted in the papers."""


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_and_table_is_there_or_says_why_not(name: str) -> None:
    [paper] = papers_of(name)
    parts = [{"title": part.title, "shows": part.shows} for part in paper.parts]
    found = dict(index(paper, parts))
    assert [figure for figure in FIGURES[name] if figure not in found] == []
    assert {figure for figure in found if figure.split()[0] != "Theorem"} == {*FIGURES[name]}
    assert not {figure for part in paper.parts for figure in part.shows} & {*paper.not_here}


def test_parts_have_names_of_their_own() -> None:
    names = [part.name for paper in papers_of("all") for part in paper.parts]
    assert len({*names}) == len(names)
    with pytest.raises(InputError, match="or all"):
        papers_of("none")


def made_up(*, broken: bool = False, calls: list[str]) -> Paper:
    def part(name: str) -> Part:
        def make(_: Setting) -> Found:
            if broken and name == "second":
                raise KeyboardInterrupt
            calls.append(name)
            rows = [{"way": "ours | theirs", "error": 0.123456, "paper": None}, {"more": 12345.6}]
            return Found({"errors": rows}, [Path(f"{name}.svg"), Path(f"{name}.png")], "A < B.")

        return Part(name, (f"Figure {len(name)}",), f"The {name}", make)

    return Paper("made-up", "Made & up", (part("first"), part("second")), {"Table 1": "notation"})


def test_a_run_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    calls: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        list(make_parts([made_up(broken=True, calls=calls)], Setting(tmp_path)))
    parts = list(make_parts([made_up(calls=calls)], Setting(tmp_path)))
    assert calls == ["first", "second"]
    assert [part["name"] for part in parts] == calls
    list(make_parts([made_up(calls=calls)], Setting(tmp_path, quick=True)))
    assert calls == ["first", "second"] * 2
    (tmp_path / "parts" / "first.json").write_text("{")
    list(make_parts([made_up(calls=calls)], Setting(tmp_path, quick=True)))
    assert calls[4:] == ["first"]


def test_pages_hold_all_tables(tmp_path: Path) -> None:
    paper = made_up(calls=[])
    parts = list(make_parts([paper], Setting(tmp_path)))
    page, site = markdown([paper], parts, "plots/"), html([paper], parts)
    assert "| Table 1 | not here: notation |" in page
    assert "| ours   theirs | 0.1235 |  |  |" in page
    assert "![The first](plots/first.svg)" in page
    assert page.count("12,346") == 2
    assert "Made &amp; up" in site
    assert "A &lt; B." in site
    assert site.count("<table>") == 3
    assert shown(None) == ""


def test_figure_4_and_table_1_through_the_command(tmp_path: Path) -> None:
    """What needs no data, as `epicrec reproduce` makes it."""
    for name, part in (("epicrec", 0), ("yang", 0)):
        [paper] = papers_of(name)
        [rows] = paper.parts[part].make(Setting(tmp_path)).tables.values()
        for row in rows:
            here = row.get("here", row.get("noise"))
            assert here == pytest.approx(row["paper"], abs=5e-3 * max(1, abs(row["paper"])))


def kept(name: str) -> dict[str, Any]:
    found = json.loads((ROOT / "docs" / "figures" / "reproduction.json").read_text("utf-8"))
    return next(part for part in found if part["name"] == name)


@pytest.mark.parametrize("name", ["epicrec-figure-4", "yang-noise"])
def test_the_page_has_what_is_found_now(name: str, tmp_path: Path) -> None:
    assert kept(name)["tables"] == made(name, tmp_path)


@pytest.mark.realdata
@pytest.mark.parametrize("name", ["d2p-epsilon", "d2p-distances"])
def test_the_page_has_what_is_found_now_on_real_data(
    name: str, tmp_path: Path, real_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPICREC_DATA", str(real_data))
    found = made(name, tmp_path)
    for table, rows in kept(name)["tables"].items():
        for again in found[table]:  # the page may have more data and settings
            assert any(alike(row, again) for row in rows), again


def alike(row: dict[str, Any], again: dict[str, Any]) -> bool:
    return row.keys() == again.keys() and all(
        again[column] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)
        for column, value in row.items()
    )


def made(name: str, folder: Path) -> Any:
    """A part in short, as JSON keeps it."""
    part = next(part for paper in papers_of("all") for part in paper.parts if part.name == name)
    return json.loads(json.dumps(dict(part.make(Setting(folder, quick=True)).tables)))


@pytest.mark.soak
def test_all_of_a_paper_on_the_embedded_films(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("epicrec.experiments", "parts"):
        monkeypatch.setattr(f"epicrec.papers.{module}.available", dict)
    found = reproduce("epicrec", tmp_path, quick=True)
    assert all(Path(path).is_file() for path in found["report"])
    loss = next(part for part in found["parts"] if part["name"] == "epicrec-loss")["tables"]
    rows = {
        (row["method"], row["way"], row["model"]): row for row in loss["recommendation MAE loss"]
    }
    ours = rows["s-epicrec", "default", "als"]
    assert ours["paper at most"] is None
    assert ours["mae_loss"] < rows["s-epicrec", "as published", "als"]["mae_loss"]
