"""Letterboxd: the zip of an account, or one list out of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from epicrec.client.imports.csv_tables import Table, instant, latest, stars, whole_number
from epicrec.client.viewing import Evidence, Import, Question, Viewing

KIND = "Letterboxd export"
_LISTS = frozenset({"watched", "ratings", "diary", "reviews"})
_CHOICES = {"watched": "Films I watched", "watchlist": "Films I want to watch"}


def is_list(table: Table) -> bool:
    return table.has("date", "name", "year", "letterboxd uri")


def read(tables: Sequence[Table], answers: Mapping[str, str]) -> Import:
    """Every film once, with its best evidence: a rating, the day in the diary, or its mark."""
    films: dict[tuple[str, int | None], Viewing] = {}
    dropped: Counter[str] = Counter()
    for table in tables:
        path = PurePosixPath(table.name.replace("\\", "/"))
        kind = next((name for name in (*_LISTS, "watchlist") if name in path.stem.casefold()), None)
        if kind is None and table.has("rating"):
            kind = "ratings"
        if kind is None and len(tables) == 1:
            kind = answers.get("list")
            if kind not in _CHOICES:
                text = f"What does {path.name} list? The file itself does not say"
                return Import(KIND, questions=(Question("list", text, _CHOICES),))
        if kind not in _LISTS or {"deleted", "orphaned"} & set(path.parts):
            reason = "only wanted, not watched" if kind == "watchlist" else "in other lists"
            dropped[reason] += len(table.rows)
            continue
        for row in table.rows:
            _add(films, row, kind)
    return Import(KIND, tuple(films.values()), dropped=dict(dropped))


def _add(films: dict[tuple[str, int | None], Viewing], row: Mapping[str, str], kind: str) -> None:
    title, year = row.get("name", "").strip(), whole_number(row.get("year"))
    if not title:
        return
    rating = stars(row.get("rating", ""))
    seen = instant(row.get("watched date") or row.get("date", ""))
    known = films.get((title, year))
    if known is None:
        known = Viewing(title, "Letterboxd", year=year, raw=f"{title} ({year or 'no year'})")
    films[title, year] = replace(
        known,
        rating=rating if rating is not None else known.rating,
        evidence=Evidence.RATED if rating is not None else known.evidence,
        # the diary knows the day of watching, the other lists only when they were filled in
        watched_at=(
            latest((seen, known.watched_at)) if kind == "diary" else known.watched_at or seen
        ),
    )
