"""Tables: a CSV file's header and rows, and the dates and numbers in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from epicrec.errors import InputError

MAX_ROWS = 500_000


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
    first = text[: text.find("\n")] if "\n" in text else text
    delimiter = max(",;\t", key=first.count)
    try:
        lines = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if any(line)]
    except csv.Error as error:
        raise InputError(f"{name} is not a readable CSV: {error}. Export it again") from error
    if not lines:
        raise InputError(f"{name} holds no lines; choose the file as it was exported")
    if len(lines) > MAX_ROWS:
        raise InputError(f"{name} has more than {MAX_ROWS:,} lines; split it")
    header = tuple(cell.strip().casefold() for cell in lines[0])
    return Table(name, header, tuple(dict(zip(header, line, strict=False)) for line in lines[1:]))


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
