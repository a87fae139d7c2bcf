"""The page that says where things are names what is there, and every folder."""

from __future__ import annotations

import re
from pathlib import Path

import epicrec

PACKAGE = Path(epicrec.__file__).parent
PAGE = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text("utf-8")


def test_every_place_named_is_there() -> None:
    layers = re.findall(r"^(\S+/|wire\.py) ", PAGE, re.MULTILINE)
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    places = re.findall(r"`([a-z_/0-9]+(?:/|\.py))`", "\n".join(lines))
    assert len(places) > 30
    assert [place for place in (*layers, *places) if not (PACKAGE / place).exists()] == []


def test_every_folder_is_named() -> None:
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(re.findall(r"^(\S+)/ ", PAGE, re.MULTILINE))
