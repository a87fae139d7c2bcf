"""The four papers' experiments: their tables and figures again, the paper's value beside ours."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from epicrec.errors import InputError
from epicrec.extras import needs

PAPERS = {
    "epicrec": "epicrec",
    "mcsherry-mironov": "mcsherry_mironov",
    "d2p": "d2p",
    "yang": "yang",
}
"""The papers, and the modules that run their experiments."""


def reproduce(paper: str, folder: str | Path, *, quick: bool = False) -> dict[str, Any]:
    """A paper's tables and figures, the paper's value beside ours; plots as files in `folder`."""
    if paper not in PAPERS:
        raise InputError(f"there is no paper {paper!r}; choose from {', '.join(PAPERS)}")
    needs("papers", "altair", "vl_convert", "implicit", "threadpoolctl")
    module = import_module(f"epicrec.papers.{PAPERS[paper]}")
    found: dict[str, Any] = module.reproduce(Path(folder), quick=quick)
    return found
