"""History: what the person watched, and how we know."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from epicrec.client.store import Store
from epicrec.client.viewing import Evidence
from epicrec.errors import InputError

COUNTS_AT_FIRST = (Evidence.WATCHED, Evidence.RATED, Evidence.STREAMED)
"""Looking up a film's page is interest, not watching, until the person says otherwise."""
BY_HAND = "by hand"


@dataclass(frozen=True)
class Film:
    """One film of the history, and how we know of it."""

    item_id: str
    sources: tuple[str, ...]
    evidence: tuple[str, ...]
    counts: bool
    confidence: float
    why: str
    watched_at: str | None
    rating: float | None


class History:
    """The viewings of a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # ---- what counts ----------------------------------------------------------------------

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """The evidence that counts as having watched."""
        chosen = self.store.setting("evidence")
        return COUNTS_AT_FIRST if chosen is None else tuple(Evidence(name) for name in chosen)

    def items(self) -> list[str]:
        """The ids of all films that count, in order of their ids."""
        with self.store.reading() as db:
            rows = db.execute(
                f"SELECT DISTINCT item_id FROM viewings WHERE {self._counting()} ORDER BY item_id"
            )
            return [row[0] for row in rows]

    def ratings(self) -> dict[str, float]:
        """The person's ratings, in stars, of the films that count."""
        with self.store.reading() as db:
            rows = db.execute(
                f"SELECT item_id, {_STARS} FROM viewings "
                f"WHERE rating IS NOT NULL AND {self._counting()} GROUP BY item_id"
            )
            return {row[0]: row[1] for row in rows}

    def counting(self) -> list[tuple[str, float | None]]:
        """Every film that counts with its stars, in the order of `newest`."""
        return self._newest(self._counting())

    def _counting(self) -> str:
        names = ", ".join(f"'{kind.value}'" for kind in self.evidence)
        return f"evidence IN ({names})" if names else "0"

    # ---- looking --------------------------------------------------------------------------

    def count(self) -> int:
        with self.store.reading() as db:
            found: int = db.execute("SELECT count(DISTINCT item_id) FROM viewings").fetchone()[0]
        return found

    def newest(self) -> list[tuple[str, float | None]]:
        """Every film with its stars, what was watched last first, then what was entered last."""
        return self._newest("1")

    def _newest(self, which: str) -> list[tuple[str, float | None]]:
        with self.store.reading() as db:
            rows = db.execute(
                f"SELECT item_id, {_STARS} FROM viewings WHERE {which} GROUP BY item_id "
                "ORDER BY max(watched_at) DESC, max(id) DESC"
            ).fetchall()
        return [(row[0], row[1]) for row in rows]

    def films(self, only: Iterable[str] | None = None) -> list[Film]:
        """The films, newest entry first; `only` these, where given."""
        chosen = list(only or ())
        among = "1" if only is None else f"item_id IN ({', '.join('?' * len(chosen))})"
        with self.store.reading() as db:
            rows = db.execute(
                f"""SELECT item_id, group_concat(DISTINCT source) AS sources,
                    group_concat(DISTINCT evidence) AS kinds,
                    max({self._counting()}) AS counts, max(confidence) AS confidence,
                    min(why) AS why, max(watched_at) AS watched_at, {_STARS} AS rating
                FROM viewings WHERE {among}
                GROUP BY item_id ORDER BY max(id) DESC""",
                chosen,
            ).fetchall()
        return [
            Film(
                row["item_id"], tuple(row["sources"].split(",")), tuple(row["kinds"].split(",")),
                bool(row["counts"]), row["confidence"], row["why"], row["watched_at"],
                row["rating"],
            )
            for row in rows
        ]  # fmt: skip

    def viewings(self) -> list[dict[str, Any]]:
        """Every entry, for the export."""
        with self.store.reading() as db:
            rows = db.execute("SELECT * FROM viewings ORDER BY id").fetchall()
        return [dict(row) for row in rows]

    # ---- changing -------------------------------------------------------------------------

    def add(self, item_ids: Iterable[str], *, about: str = "added by hand", source: str = BY_HAND,
            ratings: Mapping[str, float] | None = None) -> int:  # fmt: skip
        """Enter films the person named; how many were new."""
        with self.store.changing() as db:
            batch = batch_of_today(self.store, about)
            before = db.total_changes
            db.executemany(
                ENTER,
                [
                    (batch, item, source, Evidence.WATCHED.value, "", "you said so", 1.0,
                     None, (ratings or {}).get(item))
                    for item in item_ids
                ],
            )  # fmt: skip
            added = db.total_changes - before
            db.execute(
                "DELETE FROM batches WHERE id = ? AND NOT EXISTS (SELECT 1 FROM viewings "
                "WHERE batch = batches.id)",
                (batch,),
            )
        return added

    def rate(self, item_id: str, stars: float | None) -> None:
        """The person's own stars, which overrule those of imports; None takes them back. What is
        rated was watched."""
        if stars is not None and not 0.5 <= stars <= 5:
            raise InputError("stars are a number from 0.5 to 5")
        with self.store.changing() as db:
            self.add([item_id])
            db.execute(
                "UPDATE viewings SET rating = ? WHERE item_id = ? AND source = ?",
                (stars, item_id, BY_HAND),
            )

    def remove(self, item_id: str) -> None:
        with self.store.changing() as db:
            db.execute("DELETE FROM viewings WHERE item_id = ?", (item_id,))

    def replace(self, item_id: str, right: str) -> None:
        """The entries of one film, and the answers that led to it, belong to another."""
        with self.store.changing() as db:
            db.execute(
                "UPDATE OR REPLACE viewings SET item_id = ?, why = 'you said so', confidence = 1 "
                "WHERE item_id = ?",
                (right, item_id),
            )
            db.execute("UPDATE answers SET item_id = ? WHERE item_id = ?", (right, item_id))


_STARS = f"coalesce(max(CASE WHEN source = '{BY_HAND}' THEN rating END), avg(rating))"
ENTER = (
    "INSERT OR IGNORE INTO viewings (batch, item_id, source, evidence, title, why, confidence, "
    "watched_at, rating) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def new_batch(store: Store, about: str, state: str, facts: dict[str, Any]) -> int:
    """Begin a batch: what comes in together and can be taken back together."""
    with store.changing() as db:
        made = db.execute(
            "INSERT INTO batches (created, about, state, facts) VALUES (?, ?, ?, ?)",
            (now(), about, state, json.dumps(facts)),
        )
    return int(made.lastrowid or 0)


def batch_of_today(store: Store, about: str) -> int:
    """The day's batch of what comes in one by one."""
    with store.changing() as db:
        found = db.execute(
            "SELECT id FROM batches WHERE about = ? AND state = 'kept' "
            "AND substr(created, 1, 10) = ? ORDER BY id DESC",
            (about, now()[:10]),
        ).fetchone()
    return new_batch(store, about, "kept", {}) if found is None else int(found[0])


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
