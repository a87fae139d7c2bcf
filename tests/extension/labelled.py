"""The labelled pages, one half at a time; `pages/README.md` says what the labels mean."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, Literal

PAGES = Path(__file__).parent / "pages"


def read(half: Literal["open", "sealed"]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The labels of a half, and its pages by file name. Only the final figure reads "sealed"."""
    if half == "open":
        files = {path.name: path.read_text("utf-8") for path in (PAGES / "open").iterdir()}
    else:
        with zipfile.ZipFile(PAGES / "sealed" / "pages.zip") as sealed:
            files = {name: sealed.read(name).decode("utf-8") for name in sealed.namelist()}
    return json.loads(files.pop("labels.json")), files
