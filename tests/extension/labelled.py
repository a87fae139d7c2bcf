"""The labelled pages, one set at a time; `pages/README.md` says what the labels mean."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "pages"
OPEN = "open"
SEALED = tuple(sorted(path.stem for path in (PAGES / "sealed").glob("*.zip")))


def read(name: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The labels of a set, and its pages by file name. Only the final figure reads sealed ones."""
    if name == OPEN:
        files = {path.name: path.read_text("utf-8") for path in (PAGES / OPEN).iterdir()}
    else:
        with zipfile.ZipFile(PAGES / "sealed" / f"{name}.zip") as sealed:
            files = {inner: sealed.read(inner).decode("utf-8") for inner in sealed.namelist()}
    return json.loads(files.pop("labels.json")), files
