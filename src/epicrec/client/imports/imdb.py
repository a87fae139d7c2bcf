"""IMDb: the ratings of an account, and lists with ratings in them."""

from __future__ import annotations

import re
from collections import Counter

from epicrec.client.imports.csv_tables import Table, instant, stars, whole_number
from epicrec.client.viewing import Evidence, Import, Viewing

KIND = "IMDb ratings"
_CONST = re.compile(r"tt\d{7,}")
# the type is in the account's language: a known one excludes, an unknown one says nothing
_NO_FILM = re.compile(r"episode|video game|podcast|music video", re.IGNORECASE)
_SERIES = re.compile(r"series|serie|série", re.IGNORECASE)


def is_ratings(table: Table) -> bool:
    return table.has("const", "your rating", "title")


def read(table: Table) -> Import:
    viewings = []
    dropped: Counter[str] = Counter()
    for row in table.rows:
        const, rating = row.get("const", "").strip(), stars(row.get("your rating", ""), out_of=10)
        if not _CONST.fullmatch(const):
            dropped["without an IMDb number"] += 1
        elif rating is None:
            dropped["listed, but not rated"] += 1
        elif _NO_FILM.search(row.get("title type", "")):
            dropped["episodes and other things than films and series"] += 1
        else:
            title = row.get("title", "").strip() or row.get("original title", "").strip()
            year = whole_number(row.get("year"))
            viewings.append(
                Viewing(
                    title=title,
                    source="IMDb",
                    evidence=Evidence.RATED,
                    year=year,
                    imdb_id=const,
                    watched_at=instant(row.get("date rated", "")),
                    rating=rating,
                    raw=f"{title} ({year or 'no year'}), {const}",
                    series=title if _SERIES.search(row.get("title type", "")) else "",
                )
            )
    return Import(KIND, tuple(viewings), dropped=dict(dropped))
