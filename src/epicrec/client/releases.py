"""Releases: draw, enter in the ledger, show, send; in this order, whatever is interrupted.

A release is drawn once and stored (`drawn`). Nobody sees it before its entry is in the ledger and
on the disk (`recorded`); from then on it may be shown and sent as often as needed at no further
cost, because it is always the same bytes (`sent`). Looking at a second draw would cost again, so
there is none: each film of the history enters one draw. After a crash `recover` finds a release
that was drawn and not recorded; the ledger, asked by its id, says whether the entry is there.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from math import isinf
from typing import Any

from epicrec import wire
from epicrec.client.choice import Choice
from epicrec.client.history import now
from epicrec.client.remote import Remote
from epicrec.client.store import Store
from epicrec.data import Catalogue
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import Batch, Release, batch_of
from epicrec.perturb.contract import ledger_entries
from epicrec.privacy import Ledger

KIND = "watch"
MOMENT = "2000-01-01T00:00:00Z"
"""The same for every row of everybody: when something was watched is nobody's business."""


@dataclass(frozen=True)
class Stored:
    """A release as it is in the store; `payload` is what is sent, byte for byte."""

    id: str
    created: str
    state: str
    choice: Choice
    release: Release
    payload: bytes
    everything: bool
    """About the whole history again, and not only about films that no release has counted yet."""
    sent_at: str | None

    @property
    def user_id(self) -> str | None:
        """Whom it is made out to; None where nothing is in it."""
        return self.rows[0]["UserId"] if self.rows else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.payload)
        return found


@dataclass(frozen=True)
class Outlook:
    """What a draw would be about; nothing is drawn for it."""

    fresh: int
    clear: int
    withheld: int
    counted: int
    unknown: int

    @property
    def nothing_new(self) -> bool:
        return self.fresh + self.clear == 0


class Releases:
    """The releases of a store, with the ledger they are entered in."""

    def __init__(self, store: Store, ledger: Ledger) -> None:
        self.store, self.ledger = store, ledger

    # ---- before ---------------------------------------------------------------------------

    def outlook(self, catalogue: Catalogue, items: list[str], choice: Choice) -> Outlook:
        parts = self._parts(catalogue, items, choice)
        known = int((catalogue.positions(items) >= 0).sum()) if items else 0
        perturbed = len(parts.perturbed)
        sent_clear = self._sent_items()
        return Outlook(
            fresh=len(parts.fresh),
            clear=len([item for item in parts.clear if item not in sent_clear]),
            withheld=known - perturbed - len(parts.clear),
            counted=perturbed - len(parts.fresh),
            unknown=len(items) - known,
        )

    # ---- drawing --------------------------------------------------------------------------

    def draw(
        self,
        catalogue: Catalogue,
        items: list[str],
        choice: Choice,
        user_id: str,
        *,
        everything: bool = False,
    ) -> Stored:
        """Draw what the history has that no release has counted yet, and enter it in the ledger.

        `everything` counts all films again, which adds to what they cost before. Where the ledger's
        limit does not allow it, raises BudgetExceededError and forgets the draw unseen.
        """
        parts = self._parts(catalogue, items, choice)
        counted = parts.perturbed if everything else parts.fresh
        if len(counted) + len(parts.clear) > wire.MOST_ROWS:
            raise InputError(f"a release holds at most {wire.MOST_ROWS:,} films; release fewer")
        perturber = choice.perturber(catalogue)
        release = perturber.release(counted + parts.clear, choice.levels(catalogue))
        identity = secrets.token_hex(8)
        with self.store.changing() as db:
            db.execute(
                "INSERT INTO releases VALUES (?, ?, 'drawn', ?, ?, ?, ?, ?, NULL)",
                (
                    identity, now(), "" if everything else identity, json.dumps(choice.to_dict()),
                    release.to_json(), payload_of(release, user_id),
                    None if isinf(release.guarantee.epsilon) else release.guarantee.epsilon,
                ),
            )  # fmt: skip
            db.executemany(
                "INSERT OR IGNORE INTO counted VALUES (?, ?)",
                [(item, identity) for item in counted],
            )
        return self._record(identity)

    def recover(self) -> None:
        """Finish what a crash interrupted: every draw is recorded, or gone unseen."""
        with self.store.reading() as db:
            drawn = [row[0] for row in db.execute("SELECT id FROM releases WHERE state = 'drawn'")]
        for identity in drawn:
            try:
                self._record(identity)
            except BudgetExceededError:
                continue

    def _record(self, identity: str) -> Stored:
        """Into the ledger, then, and only then, into sight."""
        stored = self.get(identity)
        self._enter(stored)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET state = 'recorded' WHERE id = ? AND state = 'drawn'",
                (identity,),
            )
        return self.get(identity)

    def _enter(self, stored: Stored) -> None:
        """The ledger's entries of a release, those that are not there yet."""
        there = {entry.about for entry in self.ledger.entries()}
        group = None if stored.everything else stored.id
        for what, guarantee in ledger_entries(stored.release):
            about = f"release {stored.id}: {what}"
            if about in there:
                continue
            try:
                self.ledger.spend(
                    guarantee, about=about, group=group, disclosure=guarantee.status == "none"
                )
            except BudgetExceededError:
                if stored.state == "drawn" and not any(stored.id in known for known in there):
                    with self.store.changing() as db:
                        db.execute("DELETE FROM releases WHERE id = ?", (stored.id,))
                raise

    # ---- sending --------------------------------------------------------------------------

    def send(self, identity: str, remote: Remote) -> Stored:
        """Send the stored bytes. Sending them again changes nothing on the server."""
        stored = self.get(identity)
        if stored.state == "drawn":
            raise InputError("this release is not in the ledger yet; preview it again")
        self._enter(stored)  # changes nothing unless the ledger's file was lost
        remote.put_feedback(stored.payload)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET state = 'sent', sent_at = ? WHERE id = ?", (now(), identity)
            )
        return self.get(identity)

    def readdress(self, identity: str, user_id: str) -> None:
        """Make a release out to another account: the same films, drawn once, at no further cost."""
        payload = payload_of(self.get(identity).release, user_id)
        with self.store.changing() as db:
            db.execute("UPDATE releases SET payload = ? WHERE id = ?", (payload, identity))

    # ---- looking --------------------------------------------------------------------------

    def get(self, identity: str) -> Stored:
        found = self._select("WHERE id = ?", identity)
        if not found:
            raise InputError("there is no such release; look at the ledger for those there are")
        return found[0]

    def all(self) -> list[Stored]:
        """Every recorded release, newest first."""
        return self._select("WHERE state <> 'drawn' ORDER BY rowid DESC")

    def latest(self) -> Stored | None:
        found = self._select("WHERE state <> 'drawn' ORDER BY rowid DESC LIMIT 1")
        return found[0] if found else None

    def unsent(self) -> list[Stored]:
        return self._select("WHERE state = 'recorded' ORDER BY rowid")

    def _select(self, where: str, *values: str) -> list[Stored]:
        with self.store.reading() as db:
            rows = db.execute(f"SELECT * FROM releases {where}", values).fetchall()
        return [
            Stored(
                id=row["id"], created=row["created"], state=row["state"],
                choice=Choice.from_dict(json.loads(row["settings"])),
                release=Release.from_json(row["record"]), payload=row["payload"],
                everything=row["batch"] == "", sent_at=row["sent_at"],
            )
            for row in rows
        ]  # fmt: skip

    def _sent_items(self) -> set[str]:
        return {row["ItemId"] for stored in self.all() for row in stored.rows}

    def _parts(self, catalogue: Catalogue, items: list[str], choice: Choice) -> Batch:
        with self.store.reading() as db:
            counted = {row[0] for row in db.execute("SELECT item_id FROM counted")}
        return batch_of(choice.perturber(catalogue), items, choice.levels(catalogue), counted)


def payload_of(release: Release, user_id: str) -> bytes:
    """The body of the request, as any recommender with Gorse's interface takes it."""
    rows = [
        {
            "FeedbackType": KIND, "UserId": user_id, "ItemId": str(item), "Value": value,
            "Timestamp": MOMENT, "Comment": "",
        }
        for item, value in zip(release.items, release.values, strict=True)
    ]  # fmt: skip
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode()
