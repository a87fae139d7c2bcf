"""Works: which film or series an entry of a catalogue is, whatever list it is in.

Lists number the same film differently, and no number is in all of them. So a work has several
names, and two entries are the same work if they share one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from epicrec.client.matching.titles import compact, normalise
from epicrec.client.viewing import FILM, SERIES
from epicrec.data import Catalogue


def work_ids(
    title: str,
    year: int | None,
    *,
    kind: str = FILM,
    imdb_id: str | None = None,
    tmdb_id: str | None = None,
    alternatives: Iterable[str] = (),
) -> frozenset[str]:
    """The names of a work: its numbers at IMDb and TMDB, and each title with its year and kind.

    Lists disagree about the year by one, so the next year is in a name too. Two works that share
    only such a name are taken for one, which withholds a film and never counts one twice.

    >>> heat = work_ids("Heat", 1995)
    >>> bool(heat & work_ids("HEAT", 1996, imdb_id="tt0113277")), heat & work_ids("Heat", 1986)
    (True, frozenset())
    """
    names = {f"imdb {imdb_id}"} if imdb_id else set()
    if tmdb_id:
        names.add(f"tmdb {kind} {tmdb_id}")
    titles = {compact(normalise(name)) for name in (title, *alternatives)} - {""}
    years = (year, year + 1) if year else (0,)
    return frozenset(names | {f"{kind} {name} {y}" for name in titles for y in years})


def works_of(catalogue: Catalogue, item_id: str) -> frozenset[str]:
    """The names of an item of a catalogue; its id alone where the catalogue has no title of it."""
    at = int(catalogue.positions([item_id])[0])
    if at < 0 or not str(catalogue.titles[at]).strip():
        return frozenset({unknown(item_id)})
    found = work_ids(
        str(catalogue.titles[at]),
        int(catalogue.years[at]) or None,
        kind=SERIES if column(catalogue, "kind", at) == SERIES else FILM,
        imdb_id=column(catalogue, "imdb_id", at),
        tmdb_id=column(catalogue, "tmdb_id", at),
        alternatives=(column(catalogue, "alternatives", at) or "").split("|"),
    )
    return found or frozenset({unknown(item_id)})


def unknown(item_id: str) -> str:
    """The name of an item if nothing is known of it but its id in some list."""
    return f"item {item_id}"


_TEXTS: WeakKeyDictionary[Catalogue, dict[str, list[str | None]]] = WeakKeyDictionary()


def texts(catalogue: Catalogue, name: str) -> list[str | None]:
    """A column that a catalogue has beside title, year and categories, as text; None throughout
    where it has none. Kept, as pages ask for it film by film."""
    known = _TEXTS.setdefault(catalogue, {})
    if name not in known:
        there = catalogue.extra is not None and name in catalogue.extra.column_names
        values: list[Any] = (
            catalogue.extra[name].to_pylist()
            if there and catalogue.extra is not None
            else [None] * len(catalogue)
        )
        known[name] = [None if value is None else str(value) for value in values]
    return known[name]


def column(catalogue: Catalogue, name: str, at: int) -> str | None:
    """What a catalogue says of an item beside title, year and categories."""
    return texts(catalogue, name)[at]
