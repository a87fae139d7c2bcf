"""Trakt: a zip or a file of JSON, told apart by what it holds and not by its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from epicrec.client.imports.csv_tables import instant, latest, stars
from epicrec.client.viewing import Evidence, Import, Viewing

KIND = "Trakt export"
_WATCHED, _RATED = ("watched_at", "last_watched_at"), "rated_at"


def is_export(content: Any) -> bool:
    """Entries on films, series or episodes, as Trakt writes them."""
    return any(True for _ in _entries(content))


def read(contents: Mapping[str, Any]) -> Import:
    """Every film and series once, with its last viewing and its rating."""
    films: dict[tuple[str, int | None, bool], Viewing] = {}
    dropped: Counter[str] = Counter()
    for content in contents.values():
        for entry in _entries(content):
            movie, series = entry.get("movie"), False
            if not isinstance(movie, dict) or entry.get("type", "movie") != "movie":
                movie, series = entry.get("show"), True
            if not isinstance(movie, dict):
                dropped["episodes of no series"] += 1
            elif not any(key in entry for key in (*_WATCHED, _RATED)):
                dropped["only wanted or collected, not watched"] += 1
            elif isinstance(movie.get("title"), str) and movie["title"].strip():
                _add(films, movie, entry, series)
    return Import(KIND, tuple(films.values()), dropped=dict(dropped))


def _entries(content: Any) -> Iterator[dict[str, Any]]:
    for entry in content if isinstance(content, list) else ():
        if isinstance(entry, dict) and any(
            isinstance(entry.get(kind), dict) for kind in ("movie", "show", "episode")
        ):
            yield entry


def _add(
    films: dict[tuple[str, int | None, bool], Viewing], movie: dict[str, Any],
    entry: dict[str, Any], series: bool,
) -> None:  # fmt: skip
    title = movie["title"].strip()
    year = movie.get("year") if isinstance(movie.get("year"), int) else None
    said = movie.get("ids")
    ids: dict[str, Any] = said if isinstance(said, dict) else {}
    known = films.get((title, year, series)) or Viewing(
        title,
        "Trakt",
        year=year,
        imdb_id=str(ids["imdb"]) if ids.get("imdb") else None,
        tmdb_id=str(ids["tmdb"]) if ids.get("tmdb") else None,
        raw=f"{title} ({year or 'no year'})",
        series=title if series else "",
    )
    rating = stars(entry.get("rating"), out_of=10) if _RATED in entry else None
    seen = latest(instant(entry.get(key)) for key in _WATCHED)
    films[title, year, series] = replace(
        known,
        rating=rating if rating is not None else known.rating,
        evidence=Evidence.RATED if rating is not None else known.evidence,
        watched_at=latest((known.watched_at, seen)),
    )
