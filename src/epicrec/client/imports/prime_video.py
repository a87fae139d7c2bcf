"""Prime Video: the viewing history of an account's data, and what the well-known exporter of its
watch history writes, in the account's language."""

from __future__ import annotations

import re
from collections import Counter

from epicrec.client.imports.csv_tables import Table, instant
from epicrec.client.viewing import Import, Viewing

KIND = "Prime Video history"
_HOUR, _DATES = "playback hour", ("date watched", "datum angesehen", "fecha de visualización")
_TITLES, _TYPES = ("title", "titel", "título"), ("type", "typ", "tipo")
_EPISODES = ("episode title", "episode", "folge", "episodio")
_SERIES = re.compile(r"series|serie|série|tv|show", re.IGNORECASE)
_SEASON = re.compile(
    r"[\s,:–-]+(?:season|staffel|saison|temporada|stagione|series)\s*\d+.*$", re.IGNORECASE
)


def is_export(table: Table) -> bool:
    dated = _of(table, (_HOUR, *_DATES))
    return bool(dated and _of(table, _TITLES) and (dated == _HOUR or _of(table, _TYPES)))


def read(table: Table) -> Import:
    dates, titles = _of(table, (_HOUR, *_DATES)), _of(table, _TITLES)
    types, episodes = _of(table, _TYPES), _of(table, _EPISODES)
    dropped: Counter[str] = Counter()
    viewings = []
    for row in table.rows:
        title = row.get(titles, "").strip()
        if not title:
            dropped["without a title"] += 1
            continue
        show = _SEASON.sub("", title)
        in_series = bool(
            row.get(episodes, "").strip() or show != title or _SERIES.search(row.get(types, ""))
        )
        viewings.append(
            Viewing(
                title=show,
                source="Prime Video",
                watched_at=instant(row.get(dates, "")),
                raw=title,
                series=show if in_series else "",
            )
        )
    return Import(KIND, tuple(viewings), dropped=dict(dropped))


def _of(table: Table, names: tuple[str, ...]) -> str:
    """The first of these that is a column."""
    return next((name for name in names if name in table.header), "")
