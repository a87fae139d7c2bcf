"""The labelled pages, one half at a time; `pages/README.md` says what the labels mean."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, Literal

PAGES = Path(__file__).parent / "pages"


SEALED = {"sealed": "pages.zip", "second": "second.zip", "third": "third.zip"}


def read(
    half: Literal["open", "sealed", "second", "third"],
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The labels of a half, and its pages by file name. Only the final figure reads sealed ones."""
    if half == "open":
        files = {path.name: path.read_text("utf-8") for path in (PAGES / "open").iterdir()}
    else:
        with zipfile.ZipFile(PAGES / "sealed" / SEALED[half]) as sealed:
            files = {name: sealed.read(name).decode("utf-8") for name in sealed.namelist()}
    return json.loads(files.pop("labels.json")), files
