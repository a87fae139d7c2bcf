"""CSV tables: a file's header and rows, and the dates and numbers in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from epicrec.errors import InputError

MAX_ROWS = 500_000
_LONG = 1000  # characters of a line that nothing can be made of


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as dictionaries by column name in small letters, each with its line number."""

    name: str
    header: tuple[str, ...]
    rows: tuple[dict[str, str], ...]

    def has(self, *columns: str) -> bool:
        return set(columns) <= set(self.header)


def read_table(name: str, text: str) -> Table:
    """A CSV, its fields separated by commas, semicolons or tabs."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    lines = _lines(text, delimiter)
    if not lines:
        raise InputError(f"{name} holds no lines; choose the file as it was exported")
    if len(lines) > MAX_ROWS:
        raise InputError(f"{name} has more than {MAX_ROWS:,} lines; split it")
    header = tuple(cell.strip().casefold() for cell in lines[0])
    return Table(name, header, tuple(dict(zip(header, line, strict=False)) for line in lines[1:]))


def _lines(text: str, delimiter: str) -> list[list[str]]:
    """The cells of each line. A quotation mark that is never closed swallows the lines below it:
    where more of them have all their cells if each is read by itself, each is."""
    try:
        whole = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if any(line)]
    except csv.Error:
        whole = []
    if whole and not any("\n" in cell for line in whole for cell in line):
        return whole
    single: list[list[str]] = []
    for line in filter(str.strip, text.split("\n")):
        try:
            single += csv.reader([line], delimiter=delimiter)
        except csv.Error:  # one endless cell
            single.append([line[:_LONG]])
    return max(whole, single, key=lambda lines: sum(len(a) == len(lines[0]) for a in lines))


def whole_number(text: str | None) -> int | None:
    """A year or count, or None where there is none."""
    cleaned = (text or "").strip()
    return int(cleaned) if cleaned.isascii() and cleaned.isdigit() and len(cleaned) < 10 else None


def stars(text: object, out_of: float = 5) -> float | None:
    """A rating in stars, 0.5 to 5, or None where there is none."""
    try:
        value = float(str(text).strip().replace(",", ".")) * (5 / out_of)
    except ValueError:
        return None
    return value if 0.5 <= value <= 5 else None


def instant(text: object) -> datetime | None:
    """A time in UTC from ISO 8601, with or without its hours; None where there is none."""
    try:
        found = datetime.fromisoformat(str(text).strip())
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((t for t in times if t is not None), default=None)
