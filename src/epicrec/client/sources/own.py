"""Own: our CSV of a history, written for people and spreadsheets and read back unchanged."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from epicrec.client.sources.records import Evidence, Import, Viewing
from epicrec.client.sources.tables import Table, instant, stars, whole_number
from epicrec.errors import InputError

KIND = "EpicRec history"
COLUMNS = ("title", "year", "imdb_id", "tmdb_id", "watched_at", "rating", "source")
_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def is_own(table: Table) -> bool:
    return table.has("title", "year", "watched_at", "source")


def write(viewings: Iterable[Viewing]) -> str:
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
    return Import(KIND, tuple(_viewing(table, k) for k in range(len(table.rows))))


def _viewing(table: Table, k: int) -> Viewing:
    row = {name: _unguarded(cell) for name, cell in table.rows[k].items()}
    for name, read_cell in (("year", whole_number), ("rating", stars), ("watched_at", instant)):
        if row.get(name, "").strip() and read_cell(row[name]) is None:
            raise InputError(
                f"{table.name}, line {k + 2}: {row[name]!r} is no {name}; a year is a whole "
                "number, a rating 0.5 to 5, watched_at a time such as 2024-05-31T20:15:00+00:00"
            )
    if not row.get("title", "").strip():
        raise InputError(f"{table.name}, line {k + 2} has no title; give one or remove the line")
    rating = stars(row.get("rating", ""))
    return Viewing(
        title=row["title"],
        source=row.get("source") or "own CSV",
        evidence=Evidence.WATCHED if rating is None else Evidence.RATED,
        year=whole_number(row.get("year")),
        imdb_id=row.get("imdb_id") or None,
        tmdb_id=row.get("tmdb_id") or None,
        watched_at=instant(row.get("watched_at", "")),
        rating=rating,
        raw=", ".join(cell for cell in row.values() if cell),
    )


def _guarded(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_STARTS_A_FORMULA) else cell


def _unguarded(cell: str) -> str:
    guarded = cell.startswith("'") and cell[1:].startswith(_STARTS_A_FORMULA)
    return cell[1:] if guarded else cell
