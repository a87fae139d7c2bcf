"""CSV history: our own CSV, written for people and spreadsheets and read back unchanged, and any
other list of films with a column of titles."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from epicrec.client.imports.csv_tables import Table, instant, stars, whole_number
from epicrec.client.viewing import Evidence, Import, Viewing

KIND, LIST = "EpicRec history", "List of films"
COLUMNS = ("title", "year", "imdb_id", "tmdb_id", "watched_at", "rating", "source")
_NAMES = {
    "title": ("title", "titel", "titre", "título", "titulo", "titolo", "film", "movie"),
    "year": ("year", "jahr", "année", "annee", "año", "anno", "release year"),
    "imdb_id": ("imdb_id", "imdb id", "imdb", "const"),
    "tmdb_id": ("tmdb_id", "tmdb id", "tmdb"),
    "watched_at": ("watched_at", "watched", "date watched", "watched date", "date", "datum"),
    "rating": ("rating", "stars", "my rating", "bewertung", "note"),
    "source": ("source",),
}
"""What people call our columns."""
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def is_own(table: Table) -> bool:
    return table.has("title", "year", "watched_at", "source")


def is_list(table: Table) -> bool:
    """Anything with titles; `Name` may be of anything, so it needs a year beside it."""
    names = _columns(table)
    named = "title" in names or ("name" in table.header and "year" in names)
    return named and bool(table.rows)


def write_history(viewings: Iterable[Viewing]) -> str:
    """The history as CSV. A cell that a spreadsheet would take for a formula begins with `'`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for viewing in viewings:
        cells = (
            viewing.title,
            viewing.year,
            viewing.imdb_id,
            viewing.tmdb_id,
            viewing.watched_at.isoformat() if viewing.watched_at else None,
            viewing.rating,
            viewing.source,
        )
        writer.writerow("" if cell is None else _guarded(str(cell)) for cell in cells)
    return text.getvalue()


def read(table: Table) -> Import:
    """Each line for itself: what cannot be read of one is left out and listed."""
    names = {"title": "name"} | _columns(table)
    out_of = (
        5.0 if is_own(table) else _scale(row.get(names.get("rating", ""), "") for row in table.rows)
    )
    viewings: list[Viewing] = []
    unread: list[str] = []
    for k, row in enumerate(table.rows, start=2):
        cells = {name: _unguarded(row.get(column) or "") for name, column in names.items()}
        if not cells["title"].strip():
            unread.append(f"line {k}: it has no title")
            continue
        viewing, problems = _viewing(cells, out_of)
        viewings.append(viewing)
        unread += [f"line {k}: {problem}" for problem in problems]
    kind = KIND if is_own(table) else LIST
    return Import(kind, tuple(viewings), unread=tuple(unread))


def _columns(table: Table) -> dict[str, str]:
    """Our name of each column that the table has, and the table's own."""
    found = {}
    for ours, theirs in _NAMES.items():
        named = next((name for name in theirs if name in table.header), None)
        if named is not None:
            found[ours] = named
    return found


def _scale(ratings: Iterable[str]) -> float:
    """Ten stars where some rating needs them, else five."""
    return 10.0 if any(stars(text) is None and stars(text, 10) for text in ratings) else 5.0


def _viewing(cells: Mapping[str, str], out_of: float) -> tuple[Viewing, list[str]]:
    """A line's film, and what could not be read of it."""
    readers: dict[str, Callable[[str], Any]] = {
        "year": whole_number,
        "rating": lambda text: stars(text, out_of),
        "watched_at": instant,
    }
    said: dict[str, Any] = {}
    problems: list[str] = []
    for name, read_cell in readers.items():
        text = cells.get(name, "").strip()
        said[name] = read_cell(text) if text else None
        if text and said[name] is None:
            problems.append(f"{text!r} is no {name}; read without it")
    viewing = Viewing(
        title=cells["title"],
        source=cells.get("source") or "own CSV",
        evidence=Evidence.WATCHED if said["rating"] is None else Evidence.RATED,
        imdb_id=cells.get("imdb_id") or None,
        tmdb_id=cells.get("tmdb_id") or None,
        raw=", ".join(cell for cell in cells.values() if cell),
        **said,
    )
    return viewing, problems


def _guarded(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_STARTS_A_FORMULA) else cell


def _unguarded(cell: str) -> str:
    guarded = cell.startswith("'") and cell[1:].startswith(_STARTS_A_FORMULA)
    return cell[1:] if guarded else cell
