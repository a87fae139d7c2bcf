"""The labelled pages, and what the extension's scripts say on each of them.

`pages/README.md` says what the labels mean.
"""

from __future__ import annotations

import json
import re
import unicodedata
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

Label = dict[str, Any]


def read() -> list[Label]:
    labels: list[Label] = json.loads((PAGES / "labels.json").read_text("utf-8"))
    return labels


def outcomes(page: Any, labels: list[Label]) -> list[str]:
    """Of each page: `named`, `asked`, `nothing`, or `wrong` with what was said.

    Each is played in a document of its own under its address. `page` is any page of a browser that
    has the extension's scripts (`SCRIPTS`); what frames tell is heard by the page around them.
    """
    frames = [(label, frame) for label in labels for frame in label.get("frames", [])]
    inner = [document(label, frame["file"], frame["address"]) for label, frame in frames]
    heard: dict[str, list[Any]] = {label["file"]: [] for label in labels}
    for (label, _), told in zip(frames, page.evaluate(PLAY, inner), strict=True):
        heard[label["file"]] += told
    outer = [document(one, one["file"], None) | {"frames": heard[one["file"]]} for one in labels]
    told = page.evaluate(PLAY, outer)
    return [outcome(label, said) for label, said in zip(labels, told, strict=True)]


def document(label: Label, file: str, frame: str | None) -> dict[str, Any]:
    html = (PAGES / file).read_text("utf-8")
    return {"label": label, "frame": frame, "frames": [], "html": html}


def outcome(label: Label, told: list[Any]) -> str:
    """A report that grew from looked at to watched counts once."""
    seen = [one["said"]["seen"] for one in told if "seen" in one["said"]]
    grown = {work_of(one) for one in seen if one["how"] == "watched"}
    said = [one for one in seen if one["how"] == "watched" or work_of(one) not in grown]
    expected = label["expected"]
    if said:
        right = expected and all(is_right(one, expected) for one in said)
        return "named" if right else f"wrong: {said}"
    return "asked" if any("unnamed" in one["said"] for one in told) else "nothing"


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
