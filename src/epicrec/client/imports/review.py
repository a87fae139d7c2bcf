"""Review: what was recognised in browsers and files waits here until it becomes history."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from epicrec.client.history import ENTER, batch_of_today, new_batch
from epicrec.client.matching.matcher import Match, Status
from epicrec.client.store import Store
from epicrec.client.viewing import Evidence, Viewing, Visit
from epicrec.errors import InputError

ASKED = (Status.AMBIGUOUS, Status.SUGGESTED)
"""What the person is asked about."""


@dataclass(frozen=True)
class Draft:
    """One line of a batch that waits for review."""

    row: int
    status: str
    item_id: str | None
    candidates: tuple[str, ...]
    title: str
    year: int | None
    evidence: str
    why: str
    source: str
    times: int
    known: bool
    """The history has it already."""
    key: str = ""
    """Under which an answer is remembered; lines with the same one are asked about once."""


@dataclass(frozen=True)
class ImportBatch:
    id: int
    created: str
    about: str
    state: str
    films: int
    waiting: int
    facts: dict[str, Any] = field(default_factory=dict)


Entered = tuple[int | None, int | None, int | None]
"""A viewing, or the batch and row of a line that waits."""


class Imports:
    """The batches of a store: lines that wait, and what came of them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def answers(self) -> dict[str, str | None]:
        """What the person said about titles, for the matcher."""
        with self.store.reading() as db:
            return {row[0]: row[1] for row in db.execute("SELECT key, item_id FROM answers")}

    def draft(
        self, about: str, found: Iterable[tuple[Visit | Viewing, Match]], facts: dict[str, Any]
    ) -> int:
        """Keep what was recognised for review, lines about the same thing as one."""
        lines: dict[tuple[Any, ...], list[Any]] = {}
        for thing, match in found:
            if match.status is Status.NOT_A_FILM:
                facts["not films"] = facts.get("not films", 0) + 1
                continue
            when = thing.when if isinstance(thing, Visit) else thing.watched_at
            source = thing.source.partition(":")[0] if isinstance(thing, Visit) else thing.source
            rating = thing.rating if isinstance(thing, Viewing) else None
            key = (match.status, match.item_id or match.key, match.evidence, source)
            line = lines.setdefault(key, [match, source, None, None, 0])
            line[2] = max(filter(None, (line[2], when and when.isoformat())), default=None)
            line[3] = rating if rating is not None else line[3]
            line[4] += 1
        with self.store.changing() as db:
            batch = new_batch(self.store, about, "draft", facts)
            db.executemany(
                f"INSERT INTO drafts VALUES ({', '.join('?' * 15)})",
                [
                    _line(batch, row, match, source, when, rating, times)
                    for row, (match, source, when, rating, times) in enumerate(lines.values())
                ],
            )  # fmt: skip
            for name, until in facts.get("scanned", {}).items():
                db.execute("INSERT OR REPLACE INTO scans VALUES (?, ?)", (name, until))
        return batch

    def enter(self, about: str, thing: Viewing, match: Match) -> Entered:
        """Enter one thing as it happens, into the day's batch; what is unsure waits for review, and
        so does what the catalogue does not have.

        Returns the viewing it is (an earlier one where the history has it), or the line that waits.
        """
        if match.status is Status.NOT_A_FILM:
            return None, None, None
        when = None if thing.watched_at is None else thing.watched_at.isoformat()
        with self.store.changing() as db:
            batch = batch_of_today(self.store, about)
            if match.status is Status.MATCHED:
                key = (str(match.item_id), thing.source, match.evidence.value)
                db.execute(
                    ENTER, (batch, *key, match.title, match.why, match.confidence, when, None)
                )
                found = "SELECT id FROM viewings WHERE item_id = ? AND source = ? AND evidence = ?"
                return db.execute(found, key).fetchone()[0], batch, None
            same = db.execute(
                "SELECT row FROM drafts WHERE batch = ? AND key = ? AND evidence = ?",
                (batch, match.key, match.evidence.value),
            ).fetchone()
            if same is not None:
                return None, batch, int(same[0])
            (row,) = db.execute(
                "SELECT coalesce(max(row), -1) + 1 FROM drafts WHERE batch = ?", (batch,)
            ).fetchone()
            db.execute(
                f"INSERT INTO drafts VALUES ({', '.join('?' * 15)})",
                _line(batch, row, match, thing.source, when, None, 1),
            )
            return None, batch, row

    def scanned_until(self, source: str) -> datetime | None:
        with self.store.reading() as db:
            row = db.execute("SELECT until FROM scans WHERE source = ?", (source,)).fetchone()
        return None if row is None else datetime.fromisoformat(row[0])

    def drafts(self, batch: int) -> list[Draft]:
        with self.store.reading() as db:
            rows = db.execute(
                """SELECT d.*, EXISTS (SELECT 1 FROM viewings v WHERE v.item_id = d.item_id
                    AND v.source = d.source AND v.evidence = d.evidence) AS known
                FROM drafts d WHERE batch = ? ORDER BY status, row""",
                (batch,),
            ).fetchall()
        return [
            Draft(row["row"], row["status"], row["item_id"], tuple(json.loads(row["candidates"])),
                  row["title"], row["year"], row["evidence"], row["why"], row["source"],
                  row["times"], bool(row["known"]), row["key"])
            for row in rows
        ]  # fmt: skip

    def keep(self, batch: int, picks: Mapping[int, str | None], dropped: Iterable[int] = ()) -> int:
        """Enter a draft's matched films and the answers; what was not answered goes on waiting.

        `picks` maps rows to a film, or to None for "none of these"; `dropped` rows are not entered.
        """
        with self.store.changing() as db:
            state = db.execute("SELECT state FROM batches WHERE id = ?", (batch,)).fetchone()
            if state is None or state[0] == "undone":
                raise InputError("this import is no longer there; read the file again")
            for row in dropped:
                db.execute("DELETE FROM drafts WHERE batch = ? AND row = ?", (batch, row))
            for row, item in picks.items():
                key = "SELECT key FROM drafts WHERE batch = ? AND row = ?"
                alike = f"batch = ? AND (row = ? OR key <> '' AND key = ({key}))"
                which = (batch, row, batch, row)
                db.execute(
                    "INSERT OR REPLACE INTO answers SELECT key, ? FROM drafts "
                    "WHERE batch = ? AND row = ? AND key <> ''",
                    (item, batch, row),
                )
                if item is None:
                    db.execute(f"DELETE FROM drafts WHERE {alike}", which)
                else:
                    db.execute(
                        "UPDATE drafts SET item_id = ?, status = ?, why = 'you said so', "
                        f"confidence = 1 WHERE {alike}",
                        (item, Status.MATCHED.value, *which),
                    )
            self._answer_elsewhere(db)
            db.execute("UPDATE batches SET state = 'kept' WHERE id = ?", (batch,))
            return _enter_matched(db)

    def not_found(self) -> list[tuple[tuple[int, int], Viewing]]:
        """The lines of kept imports that no catalogue had, each with its place."""
        with self.store.reading() as db:
            rows = db.execute(
                "SELECT * FROM drafts WHERE status = ? AND title <> ''",
                (Status.NOT_IN_CATALOGUE.value,),
            ).fetchall()
        return [
            ((row["batch"], row["row"]),
             Viewing(row["title"], row["source"], Evidence(row["evidence"]), row["year"]))
            for row in rows
        ]  # fmt: skip

    def found_now(self, found: Iterable[tuple[tuple[int, int], Match]]) -> int:
        """Enter what a new catalogue has of them; what is unsure waits for review."""
        with self.store.changing() as db:
            db.executemany(
                "UPDATE drafts SET status = ?, item_id = ?, candidates = ?, why = ?, "
                "confidence = ? WHERE batch = ? AND row = ?",
                [
                    (match.status.value, _text(match.item_id), _candidates(match), match.why,
                     match.confidence, *place)
                    for place, match in found
                    if match.status in (Status.MATCHED, *ASKED)
                ],
            )  # fmt: skip
            return _enter_matched(db)

    def _answer_elsewhere(self, db: sqlite3.Connection) -> None:
        """What was answered in one import is not asked in another."""
        db.execute(
            "UPDATE drafts SET status = ?, why = 'you said so', confidence = 1, item_id = "
            "(SELECT item_id FROM answers a WHERE a.key = drafts.key) WHERE status IN (?, ?) "
            "AND key IN (SELECT key FROM answers WHERE item_id IS NOT NULL)",
            (Status.MATCHED.value, *(status.value for status in ASKED)),
        )
        db.execute(
            "DELETE FROM drafts WHERE key IN (SELECT key FROM answers WHERE item_id IS NULL)"
        )

    def undo(self, batch: int) -> None:
        """Take back all that came in with a batch."""
        with self.store.changing() as db:
            db.execute("DELETE FROM viewings WHERE batch = ?", (batch,))
            db.execute("DELETE FROM drafts WHERE batch = ?", (batch,))
            facts = db.execute("SELECT facts FROM batches WHERE id = ?", (batch,)).fetchone()
            for source in json.loads(facts[0]).get("scanned", {}) if facts else ():
                db.execute("DELETE FROM scans WHERE source = ?", (source,))
            db.execute("UPDATE batches SET state = 'undone' WHERE id = ?", (batch,))

    def batches(self) -> list[ImportBatch]:
        """All that still mean something, newest first."""
        with self.store.reading() as db:
            rows = db.execute(
                """SELECT b.*, (SELECT count(*) FROM viewings v WHERE v.batch = b.id) AS films,
                    (SELECT count(*) FROM drafts d WHERE d.batch = b.id
                        AND (state = 'draft' OR d.status IN (?, ?))) AS waiting
                FROM batches b WHERE state <> 'undone' ORDER BY id DESC LIMIT 50""",
                tuple(status.value for status in ASKED),
            ).fetchall()
        return [
            ImportBatch(row["id"], row["created"], row["about"], row["state"], row["films"],
                  row["waiting"], json.loads(row["facts"]))
            for row in rows
        ]  # fmt: skip


def _enter_matched(db: sqlite3.Connection) -> int:
    """Into the history with what is matched in kept imports; how many entries are new. What waits
    and what no catalogue has stays."""
    kept = "batch IN (SELECT id FROM batches WHERE state = 'kept')"
    entered = db.execute(
        "INSERT OR IGNORE INTO viewings (batch, item_id, source, evidence, title, why, "
        "confidence, watched_at, rating) SELECT batch, item_id, source, evidence, title, "
        f"why, confidence, watched_at, rating FROM drafts WHERE status = ? AND {kept}",
        (Status.MATCHED.value,),
    ).rowcount
    db.execute(f"DELETE FROM drafts WHERE status = ? AND {kept}", (Status.MATCHED.value,))
    return entered


def _candidates(match: Match) -> str:
    return json.dumps([str(c) for c in match.candidates[:8]])


def _line(
    batch: int, row: int, match: Match, source: str, when: str | None, rating: float | None,
    times: int,
) -> tuple[Any, ...]:  # fmt: skip
    """A line of the table of drafts."""
    return (
        batch, row, match.status.value, _text(match.item_id),
        _candidates(match), match.title, match.year, match.key,
        match.evidence.value, match.why, match.confidence, source, when, rating, times,
    )  # fmt: skip


def _text(item_id: Any) -> str | None:
    return None if item_id is None else str(item_id)
