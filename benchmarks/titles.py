"""What does the embedded list of titles know, and how much of it is right?

    epicrec bench titles                    share filled, by column and fame, films and series
    epicrec bench titles agreement          beside a list of facts in film-facts, where it is

Agreement is the share of our directors, cast and running times (within five minutes) that the other
list has too, over films with the same title and year, and the rank correlation of fame with votes.
The other list is only measured against: nothing is copied or corrected from it.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from argparse import Namespace
from collections.abc import Iterable
from typing import Any

import pyarrow.parquet as pq
from _measuring import Parts, show

from epicrec.data.datasets import search_folders
from epicrec.data.embedded import titles_table

COLUMNS = ("directors", "cast", "themes", "language", "length", "fame", "about")
FAMOUS = (60, 30, 0)
"""Titles are counted from each fame to the next."""


def filled(_: Namespace) -> None:
    """The share of titles for which each column is filled."""
    rows = titles_table().to_pylist()
    for kind in ("film", "series"):
        for name, some in _by_fame([row for row in rows if row["kind"] == kind]):
            share = {
                column: round(sum(row[column] not in (None, "") for row in some) / len(some), 3)
                for column in COLUMNS
            }
            show({"kind": kind, "of fame": name, "titles": len(some)} | share)


def agreement(_: Namespace) -> None:
    """The share of our facts that another list has too."""
    from scipy.stats import spearmanr

    folder = next((f / "film-facts" for f in search_folders() if (f / "film-facts").exists()), None)
    if folder is None:
        sys.exit("film-facts is not here")
    other = {
        (_plain(row["title"]), row["year"]): row
        for row in pq.read_table(folder / "facts.parquet").to_pylist()
    }
    rows = [row for row in titles_table().to_pylist() if row["kind"] == "film"]
    pairs = [(row, other.get((_plain(row["title"]), row["year"]))) for row in rows]
    known = [row | {"other": theirs} for row, theirs in pairs if theirs is not None]
    for name, some in _by_fame(known):
        result: dict[str, Any] = {"of fame": name, "films": len(some)}
        for column in ("directors", "cast"):
            result[column] = _share(
                _plain(person) in {_plain(one) for one in row["other"][column]}
                for row in some
                for person in (row[column] or "").split("|")
                if person and row["other"][column]
            )
        result["length"] = _share(
            abs(row["length"] - row["other"]["runtime"]) <= 5
            for row in some
            if row["length"] and row["other"]["runtime"]
        )
        votes = [row["other"]["votes"] for row in some]
        result["fame and votes"] = round(spearmanr([row["fame"] for row in some], votes)[0], 3)
        show(result)


def _by_fame(rows: list[dict[str, Any]]) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    yield "all", rows
    for low, high in zip(FAMOUS, (101, *FAMOUS), strict=False):
        some = [row for row in rows if low <= (row["fame"] or 0) < high]
        if some:
            yield f"{low} to {high - 1}", some


def _share(true: Iterable[bool]) -> float:
    found = list(true)
    return round(sum(found) / max(len(found), 1), 3)


def _plain(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.casefold().replace("&", "and"))
    return re.sub(r"[^a-z0-9]", "", letters)


def parts() -> Parts:
    found = Parts(__doc__)
    found.add("filled", filled)
    found.add("agreement", agreement)
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
