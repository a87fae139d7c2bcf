"""The labelled pages: reading a set, and what the extension takes its pages for.

`pages/README.md` says what the labels mean.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXTENSION = Path(__file__).parents[2] / "extension"
CONTENT = ("text", "sites", "page", "playing", "watch")
SCRIPTS = "\n".join((EXTENSION / "content" / f"{name}.js").read_text("utf-8") for name in CONTENT)
SIMULATE = (Path(__file__).parent / "simulate.js").read_text("utf-8")
PLAY = (
    f"async (all) => {{ const simulate = {SIMULATE};\n"
    "const told = []; for (const one of all) told.push(await simulate(one)); return told; }"
)
PAGES = Path(__file__).parent / "pages"
OPEN = "open"
SEALED = tuple(sorted(path.stem for path in (PAGES / "sealed").glob("*.zip")))

Label = dict[str, Any]


def read(name: str) -> tuple[list[Label], dict[str, str]]:
    """The labels of a set, and its pages by file name. Only the final figure reads sealed ones."""
    if name == OPEN:
        files = {path.name: path.read_text("utf-8") for path in (PAGES / OPEN).iterdir()}
    else:
        with zipfile.ZipFile(PAGES / "sealed" / f"{name}.zip") as sealed:
            files = {inner: sealed.read(inner).decode("utf-8") for inner in sealed.namelist()}
    return json.loads(files.pop("labels.json")), files


@dataclass
class Figure:
    """Counts of reports and pages, and which files were judged wrongly."""

    reports: int = 0
    right: int = 0
    expected: int = 0
    wrong: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / self.reports

    @property
    def recall(self) -> float:
        return self.right / self.expected


def judge_pages(page: Any, labels: list[Label], files: dict[str, str]) -> Figure:
    """Play each page in a document of its own under its address; compare what was told in the end.

    `page` is any page of a browser that has the extension's scripts (`SCRIPTS`).
    """
    found = Figure()
    for label, said in zip(labels, seen_on(page, labels, files), strict=True):
        right = [one for one in said if label["expected"] and is_right(one, label["expected"])]
        found.reports += len(said)
        found.right += bool(right)
        found.expected += label["expected"] is not None
        if len(said) != len(right) or bool(right) != (label["expected"] is not None):
            found.wrong.append((label["file"], said))
    return found


def seen_on(page: Any, labels: list[Label], files: dict[str, str]) -> list[list[Label]]:
    """The reports of each page; what its frames tell is heard by the page around them."""
    frames = [(label, frame) for label in labels for frame in label.get("frames", [])]
    inner = [
        {"label": label, "frame": frame["address"], "frames": [], "html": files[frame["file"]]}
        for label, frame in frames
    ]
    heard: dict[str, list[Any]] = {label["file"]: [] for label in labels}
    for (label, _), told in zip(frames, play(page, inner), strict=True):
        heard[label["file"]] += told
    outer = [
        {"label": one, "frame": None, "frames": heard[one["file"]], "html": files[one["file"]]}
        for one in labels
    ]
    return [reports(told) for told in play(page, outer)]


def play(page: Any, documents: list[dict[str, Any]]) -> list[list[Any]]:
    """What each document tells; many at a time, since asking takes longer than playing."""
    parts = [documents[at : at + 100] for at in range(0, len(documents), 100)]
    return [told for part in parts for told in page.evaluate(PLAY, part)]


def reports(told: list[Any]) -> list[Label]:
    """What was seen; a report that grew from looked at to watched counts once."""
    seen = [one["said"]["seen"] for one in told if "seen" in one["said"]]
    grown = {work_of(one) for one in seen if one["how"] == "watched"}
    return [one for one in seen if one["how"] == "watched" or work_of(one) not in grown]


def work_of(report: Label) -> tuple[Any, ...]:
    return tuple(report[name] for name in ("title", "year", "kind", "season", "number"))


def plain(text: str) -> str:
    """What is left when case, spaces and punctuation do not count."""
    return "".join(re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).casefold()))


def is_right(report: Label, expected: Label) -> bool:
    titles = {plain(title) for title in (expected["title"], *expected.get("also", []))}
    if (report["how"], report["kind"]) != (expected["how"], expected["kind"]):
        return False
    if plain(report["title"]) not in titles:
        return False
    if any(expected["ids"].get(name) != number for name, number in report["ids"].items()):
        return False
    if report["kind"] == "episode":
        return (report["season"], report["number"]) == (expected["season"], expected["number"])
    return report["year"] in (None, expected["year"])
