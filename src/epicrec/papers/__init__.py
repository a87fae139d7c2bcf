"""The four papers' experiments: their tables and figures again, the paper's value beside ours."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epicrec.errors import InputError
from epicrec.extras import needs

if TYPE_CHECKING:
    from epicrec.papers.parts import Paper

PAPERS = {
    "epicrec": "epicrec",
    "mcsherry-mironov": "mcsherry_mironov",
    "d2p": "d2p",
    "yang": "yang",
}
"""The papers, and the packages that hold what is theirs."""


def papers_of(name: str) -> list[Paper]:
    """A paper with all its parts, or all of them."""
    if name != "all" and name not in PAPERS:
        raise InputError(f"there is no paper {name!r}; choose from {', '.join(PAPERS)}, or all")
    packages = [PAPERS[name]] if name != "all" else PAPERS.values()
    return [import_module(f"epicrec.papers.{package}.experiments").PARTS for package in packages]


def reproduce(
    paper: str, folder: str | Path, *, quick: bool = False, seed: int = 0
) -> dict[str, Any]:
    """A paper's tables and figures, or all papers', the paper's value beside ours.

    Plots, `report.md` and `report.html` are written into `folder`. What is finished is kept there,
    so that an interrupted run resumes where it was.
    """
    needs("papers", "altair", "vl_convert", "implicit", "threadpoolctl")
    from epicrec.papers.parts import Setting, make_parts
    from epicrec.papers.report import html, index, markdown

    folder, chosen = Path(folder), papers_of(paper)
    folder.mkdir(parents=True, exist_ok=True)
    parts = list(make_parts(chosen, Setting(folder, quick, seed)))
    pages = {"report.md": markdown(chosen, parts), "report.html": html(chosen, parts)}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return {
        "paper": paper,
        "parts": parts,
        "figures": {
            one.name: dict(index(one, [p for p in parts if p["paper"] == one.name]))
            for one in chosen
        },
        "report": [str(folder / name) for name in pages],
    }
