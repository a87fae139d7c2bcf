"""Netflix: the viewing history of one profile, and the full activity of an account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import pairwise

from epicrec.client.imports.csv_tables import Table, instant, latest, midnight
from epicrec.client.viewing import Evidence, Import, Question, Viewing

SHORT, FULL = "Netflix viewing history", "Netflix account activity"
_FINISHED_MINUTES = 20
_ORDERS = {"month first": (2, 0, 1), "day first": (2, 1, 0), "year first": (0, 1, 2)}
_DATE_PARTS = re.compile(r"^\s*(\d{1,4})\s*[./\-]\s*(\d{1,2})\s*[./\-]\s*(\d{1,4})\.?\s*$")


def is_short(table: Table) -> bool:
    """Two columns, a title and a day; the header is in the account's language."""
    if len(table.header) != 2:
        return False
    dates = [row.get(table.header[1], "") for row in table.rows[:200]]
    read = sum(bool(_DATE_PARTS.match(text)) for text in dates)
    return bool(dates) and 2 * read > len(dates)


def is_full(table: Table) -> bool:
    return table.has("profile name", "start time", "title", "supplemental video type")


def is_thumbs(table: Table) -> bool:
    return table.has("profile name", "title name", "thumbs value")


def read_short(table: Table, answers: Mapping[str, str], today: date) -> Import:
    titles, dates = table.header
    rows = [row for row in table.rows if row.get(titles, "").strip()]
    days = _days([row.get(dates, "") for row in rows], answers.get("date order"), today)
    if isinstance(days, Question):
        return Import(SHORT, questions=(days,))
    unread = tuple(
        f"line {k}: {row.get(dates, '')!r} is no day; read without it"
        for k, (row, day) in enumerate(zip(rows, days, strict=True), start=2)
        if day is None
    )
    return Import(
        SHORT,
        tuple(
            Viewing(
                title=row[titles].strip(),
                source="Netflix",
                watched_at=midnight(day) if day else None,
                raw=f"{row[titles]}, {row.get(dates, '')}",
                maybe_episode=True,
            )
            for row, day in zip(rows, days, strict=True)
        ),
        unread=unread,
    )


def read_full(table: Table, answers: Mapping[str, str], thumbs: Table | None = None) -> Import:
    """What a profile played, with its thumbs where the account's zip has them."""
    profiles = Counter(row.get("profile name", "") for row in table.rows)
    chosen = answers.get("profile")
    if chosen not in profiles:
        if len(profiles) > 1:
            choices = {name: f"{name} ({count:,} lines)" for name, count in profiles.items()}
            ask = Question(
                "profile", "Whose history is it? Several people use this account", choices
            )
            return Import(FULL, questions=(ask,))
        chosen = next(iter(profiles), "")
    dropped: Counter[str] = Counter()
    titles: dict[str, list[tuple[datetime | None, float]]] = {}
    for row in table.rows:
        title = row.get("title", "").strip()
        if row.get("profile name", "") != chosen:
            dropped["of another profile"] += 1
        elif row.get("supplemental video type", "").strip():
            dropped["trailers and clips"] += 1
        elif "autoplayed: user action: none" in row.get("attributes", "").casefold():
            dropped["played by itself"] += 1
        elif title:
            seen = instant(row.get("start time")), _minutes(row.get("duration", ""))
            titles.setdefault(title, []).append(seen)
    stars = _stars(thumbs, chosen)
    viewings = tuple(
        Viewing(
            title=title,
            rating=stars.get(title),
            source="Netflix",
            evidence=(
                Evidence.WATCHED
                if sum(minutes for _, minutes in parts) >= _FINISHED_MINUTES
                else Evidence.STREAMED
            ),
            watched_at=latest(at for at, _ in parts),
            raw=f"{title}, {len(parts)} sittings" if len(parts) > 1 else title,
            maybe_episode=True,
        )
        for title, parts in titles.items()
    )
    return Import(FULL, viewings, dropped=dict(dropped))


def _stars(thumbs: Table | None, profile: str | None) -> dict[str, float]:
    """Thumbs as stars: down, up, twice up."""
    values = {"1": 1.0, "2": 4.0, "3": 5.0}
    return {
        row.get("title name", "").strip(): values[row["thumbs value"].strip()]
        for row in (thumbs.rows if thumbs else ())
        if row.get("profile name", "") == profile and row.get("thumbs value", "").strip() in values
    }


def _minutes(duration: str) -> float:
    """From `01:32:10`."""
    parts = duration.strip().split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return 0
    return int(parts[0]) * 60 + int(parts[1]) + int(parts[2]) / 60


def _days(texts: Sequence[str], answer: str | None, today: date) -> list[date | None] | Question:
    """The dates, in the one order of day and month that fits the whole column."""
    readings = _readings(texts, today)
    if not readings:  # most dates fit no order: keep the titles, drop the days
        return [None] * len(texts)
    order = answer if answer in readings else _evident(readings)
    return _which_order(texts, readings) if order is None else readings[order]


def _readings(texts: Sequence[str], today: date) -> dict[str, list[date | None]]:
    """The dates in each order in which most of them, as many as in no other, are days that were.
    What is no date is None."""
    parts = [_DATE_PARTS.match(text) for text in texts]
    read: dict[str, list[date | None]] = {}
    for order, places in _ORDERS.items():
        days = [_day([int(g) for g in p.groups()], places) if p else None for p in parts]
        read[order] = [day if day and day <= today else None for day in days]
    most = max(sum(day is not None for day in days) for days in read.values())
    readings = {
        order: days for order, days in read.items()
        if sum(day is not None for day in days) == most > len(texts) // 2
    }  # fmt: skip
    if len(readings) > 1 and not any(p and len(p.group(1)) == 4 for p in parts):
        readings.pop("year first", None)  # nobody writes 24/5/31 for a day that can be read else
    return readings


def _evident(readings: Mapping[str, Sequence[date | None]]) -> str | None:
    """The order that needs no question: the only one in which the newest comes first, as Netflix
    lists them, or any where all say the same."""
    falling = [order for order, days in readings.items() if _falling(days)]
    if len(falling) == 1:
        return falling[0]
    alike = len({tuple(days) for days in readings.values()}) == 1
    return next(iter(readings)) if alike else None


def _which_order(texts: Sequence[str], readings: Mapping[str, Sequence[date | None]]) -> Question:
    """Asked about the first date that the orders read differently."""
    at = next(k for k in range(len(texts)) if len({days[k] for days in readings.values()}) > 1)
    return Question(
        "date order",
        f"Which day is {texts[at].strip()}?",
        {order: f"{days[at]:%d %B %Y}" for order, days in readings.items()},
    )


def _day(numbers: Sequence[int], places: tuple[int, int, int]) -> date | None:
    year, month, day = (numbers[k] for k in places)
    year += 2000 if year < 100 else 0
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return found if found.year >= 2007 else None  # streaming began then


def _falling(days: Sequence[date | None]) -> bool:
    known = [day for day in days if day is not None]
    return all(a >= b for a, b in pairwise(known))
