"""The extension as it is given away: its permissions, its bytes, its size, what linters say."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from extension.labelled import EXTENSION

ROOT = EXTENSION.parent
LINTER = Path(sys.prefix) / "node/node_modules/.bin/addons-linter"
SOURCES = {path: path.read_text("utf-8") for path in sorted(EXTENSION.rglob("*.js"))}
TOLD = {"title", "year", "kind", "season", "number", "ids", "how", "share", "site", "when"}
"""What is told of something seen."""


def packing() -> Any:
    spec = importlib.util.spec_from_file_location("packing", ROOT / ".ci" / "extension.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_asks_for_no_more_than_it_says() -> None:
    manifest = json.loads((EXTENSION / "manifest.json").read_text("utf-8"))
    assert manifest["permissions"] == ["storage", "scripting", "activeTab"]
    assert manifest["host_permissions"] == ["http://127.0.0.1/*"]
    assert manifest["optional_host_permissions"] == ["*://*/*"]
    assert manifest["incognito"] == "not_allowed"
    assert not {"content_scripts", "web_accessible_resources", "externally_connectable"} & set(
        manifest
    )
    gecko = manifest["browser_specific_settings"]["gecko"]
    assert gecko["data_collection_permissions"]["required"] == [
        "browsingActivity",
        "websiteContent",
    ]


def test_the_same_sources_are_the_same_bytes(tmp_path: Path) -> None:
    pack = packing().pack
    one, two = pack(tmp_path / "one"), pack(tmp_path / "two")
    assert one.read_bytes() == two.read_bytes()
    assert one.stat().st_size < 50_000
    with zipfile.ZipFile(one) as packed:
        names = packed.namelist()
    assert "manifest.json" in names
    assert {Path(name).suffix for name in names} == {".json", ".js", ".html", ".css", ".png"}


def test_the_icons_are_as_they_are_drawn() -> None:
    drawing = packing()
    for size in drawing.SIZES:
        drawn, kept = drawing.draw(size), (EXTENSION / "icons" / f"{size}.png").read_bytes()
        assert drawn[:33] == kept[:33], "a picture of this size"


def test_the_linter_finds_no_fault(tmp_path: Path) -> None:
    if not LINTER.exists():
        pytest.skip(f"addons-linter is not at {LINTER}: run make system where npm is")
    packed = packing().pack(tmp_path)
    said = subprocess.run(
        [LINTER, "--output", "json", packed], capture_output=True, text=True, check=False
    )
    found = json.loads(said.stdout)
    assert found["errors"] == []
    # one source for two browsers: Firefox says that it does not read Chromium's line
    assert [one["code"] for one in found["warnings"]] == ["BACKGROUND_SERVICE_WORKER_IGNORED"]


def test_requests_are_made_in_one_place_and_to_this_machine() -> None:
    asking = r"\b(?:fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\b"
    found = [(path.name, one) for path, text in SOURCES.items() for one in re.findall(asking, text)]
    assert found == [("client.js", "fetch")]
    assert "fetch(`http://127.0.0.1:${port}/extension/${path}`" in SOURCES[EXTENSION / "client.js"]


def test_it_is_read_in_an_hour() -> None:
    lines = [line for text in SOURCES.values() for line in text.splitlines()]
    assert max(map(len, lines)) <= 120
    assert len(lines) < 1_100


def test_nothing_is_made_into_code_or_markup() -> None:
    for path, text in SOURCES.items():
        assert not re.search(r"\beval\b|new Function|innerHTML|outerHTML|insertAdjacent", text), (
            path
        )


def test_what_is_told_is_what_the_sentence_says() -> None:
    """The entry's fields, and the question that asks for a site."""
    (fields,) = re.findall(r"await keep\(\{ (.*?) \}\)", SOURCES[EXTENSION / "background.js"])
    assert {part.partition(":")[0].strip() for part in fields.split(", ")} == TOLD
    asked = " ".join((EXTENSION / "popup.html").read_text("utf-8").split())
    assert (
        "Title, year, kind, season and number, numbers in catalogues, the share watched, the site "
        "and the time go to your own EpicRec on this machine. Where a page does not name a long "
        "video, you are asked, and the name is searched in EpicRec. Nothing else leaves the "
        "browser."
    ) in asked
