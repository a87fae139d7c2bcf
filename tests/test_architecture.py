"""The page that says where things are names what is there, and every folder."""

from __future__ import annotations

import re
from pathlib import Path

import epicrec

PACKAGE = Path(epicrec.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_every_place_named_is_there() -> None:
    layers = re.findall(r"^(\S+/|wire\.py) ", PAGE, re.MULTILINE)
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    places = re.findall(r"`([a-z_/0-9]+(?:/|\.py))`", "\n".join(lines))
    assert len(places) > 30
    assert [place for place in (*layers, *places) if not (PACKAGE / place).exists()] == []


def test_every_folder_is_named() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"^(\S+)/ ", PAGE, re.MULTILINE))


def test_every_module_named_in_pages_and_docstrings_is_there() -> None:
    """Paths in backticks, from the root, from the package, or by their end."""
    modules = {path.relative_to(ROOT).as_posix() for path in PACKAGE.rglob("*.py")}
    pages = [*ROOT.glob("[!C]*.md"), *(ROOT / "docs").rglob("*.md"), *PACKAGE.rglob("*.py")]
    named = {
        (page.relative_to(ROOT).as_posix(), place)
        for page in pages
        for place in re.findall(r"`([\w./-]+\.py)(?:::\w+)?`", page.read_text("utf-8"))
    }
    assert len(named) > 100
    assert [
        (page, place)
        for page, place in sorted(named)
        if not (ROOT / place).exists() and not any(m.endswith(f"/{place}") for m in modules)
    ] == []
