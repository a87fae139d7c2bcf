"""Outbox: releases are drawn, entered in the ledger, shown and sent, in this order.

The order holds whatever is interrupted.

A release is drawn once and stored (`drawn`). Nobody sees it before its entry is in the ledger and
on the disk (`recorded`); from then on it may be shown, and sent until it is known to have arrived
(`sent`), at no further cost, because it is always the same films. Each film of the history enters
one draw, and every draw is a fresh one, also about no film at all: were the last release returned
where nothing is new, what is sent would tell whether something was watched. After a crash
`recover` finds a release that was drawn and not recorded; the ledger, asked by its id, says whether
the entry is there.

Films are told apart by their works (`data.works`), whatever list they are in. Lists may still
name one film so differently that nobody can tell, and a copy of a store does not know what was
counted since. So an epoch is a catalogue and a restoring: within one, each film enters one draw; of
each later one the most expensive release is added to all that was spent before.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace

from epicrec import wire
from epicrec.client.history import now
from epicrec.client.sending.privacy_choice import Choice
from epicrec.client.sending.remote import Remote
from epicrec.client.store import Store
from epicrec.data import Catalogue
from epicrec.data.works import unknown, works_of
from epicrec.errors import BudgetExceededError, InputError
from epicrec.perturb import Batch, Release, batch_of
from epicrec.perturb.contract import ledger_entries
from epicrec.privacy import Guarantee, Ledger

KIND = "watch"
CHOSEN_MOMENT = "You chose the moment to send; that you chose it is not protected."
EVERYTHING, ADDED = "", "added"
"""In the place of a batch's own label: about all films again; the first, or most expensive, of a
later epoch. Both are added in the ledger."""


@dataclass(frozen=True)
class StoredRelease:
    """A release as it is in the store; `payload` is what is sent, byte for byte."""

    id: str
    created: str
    state: str
    choice: Choice
    release: Release
    payload: bytes
    batch: str
    sent_at: str | None

    @property
    def everything(self) -> bool:
        """About the whole history again, and not only about films that no release has counted."""
        return self.batch == EVERYTHING

    @property
    def group(self) -> str | None:
        """What the ledger may take for disjoint from all other groups; None adds to all."""
        return self.batch if self.batch == self.id else None

    @property
    def user_id(self) -> str:
        """The account it is made out to; empty before the first sending."""
        return str(json.loads(self.payload)["UserId"])


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


class CountedFilms:
    """Which films the releases of a store were about, so that none enters two draws.

    What was found of a film holds until a release is drawn or forgotten. It is kept that long,
    because pages ask for it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._about: tuple[Catalogue | None, list[str]] = (None, [])
        self._works: set[str] = set()
        self._found: dict[str, bool] = {}

    def among(self, catalogue: Catalogue, items: Iterable[str]) -> set[str]:
        """Those of these items that a release was about."""
        works, found = self._current(catalogue)
        if not works:
            return set()
        counted = set()
        for item in items:
            if item not in found:
                found[item] = unknown(item) in works or bool(works & works_of(catalogue, item))
            if found[item]:
                counted.add(item)
        return counted

    def _current(self, catalogue: Catalogue) -> tuple[set[str], dict[str, bool]]:
        with self._store.reading() as db:
            releases = [row[0] for row in db.execute("SELECT id FROM releases ORDER BY rowid")]
            if self._about[0] is not catalogue or self._about[1] != releases:
                self._works = {row[0] for row in db.execute("SELECT work FROM counted")}
                self._about, self._found = (catalogue, releases), {}
            return self._works, self._found


class Releases:
    """The releases of a store, with the ledger they are entered in."""

    def __init__(self, store: Store, ledger: Ledger, counted: CountedFilms | None = None) -> None:
        self.store, self.ledger = store, ledger
        self._counted = counted or CountedFilms(store)

    # ---- before ---------------------------------------------------------------------------

    def outlook(self, catalogue: Catalogue, items: list[str], choice: Choice) -> Outlook:
        parts = self._parts(catalogue, items, choice)
        known = int((catalogue.positions(items) >= 0).sum())
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
        chosen_moment: bool = True,
    ) -> StoredRelease:
        """Draw what the history has that no release has counted yet, and enter it in the ledger.

        `everything` counts all films again, which adds to what they cost before. With
        `chosen_moment` the guarantee says that the moment is the person's. Where the ledger's limit
        does not allow it, raises BudgetExceededError and forgets the draw unseen.
        """
        parts = self._parts(catalogue, items, choice)
        counted = parts.perturbed if everything else parts.fresh
        perturber = choice.perturber(catalogue)
        release = perturber.release(counted + parts.clear, choice.levels(catalogue))
        if len(release.items) > wire.MOST_ROWS:
            raise InputError(f"a release holds at most {wire.MOST_ROWS:,} films; release fewer")
        identity, epoch = secrets.token_hex(8), self._epoch(catalogue)
        payload = payload_of(release, identity, user_id)
        if chosen_moment:
            release = _assuming(release, CHOSEN_MOMENT)
        batch = EVERYTHING if everything else self._batch(identity, epoch, release.guarantee)
        works = {work for item in counted for work in works_of(catalogue, item)}
        with self.store.changing() as db:
            db.execute(
                "INSERT INTO releases VALUES (?, ?, 'drawn', ?, ?, ?, ?, NULL, ?)",
                (
                    identity, now(), batch, json.dumps(choice.to_dict()), release.to_json(),
                    payload, epoch,
                ),
            )  # fmt: skip
            db.executemany(
                "INSERT INTO counted VALUES (?, ?)", [(work, identity) for work in works]
            )
        return self._record(identity)

    def _epoch(self, catalogue: Catalogue) -> str:
        return f"{catalogue.version} {self.store.setting('restored', '')}".strip()

    def _batch(self, identity: str, epoch: str, guarantee: Guarantee) -> str:
        """The release's own label; ADDED where films may be counted that another epoch counted,
        and no release that was added already in this epoch costs as much."""
        own = self._select("WHERE epoch = ?", epoch)
        ids = {stored.id for stored in own}
        elsewhere = any(
            entry.guarantee.epsilon > 0 and _release_of(entry.about) not in ids
            for entry in self.ledger.entries()
            if not entry.disclosure
        )
        paid = any(s.batch == ADDED and _covers(s.release.guarantee, guarantee) for s in own)
        return ADDED if elsewhere and not paid else identity

    def recover(self) -> None:
        """Finish what a crash interrupted: every draw is recorded, or gone unseen. And what is
        recorded here and not in the ledger, whose file was lost, is entered again."""
        entered = {_release_of(entry.about) for entry in self.ledger.entries()}
        for stored in self._select("ORDER BY rowid"):
            if stored.state != "drawn" and stored.id in entered:
                continue
            try:
                self._record(stored.id)
            except BudgetExceededError:
                continue

    def _record(self, identity: str) -> StoredRelease:
        """Into the ledger, then, and only then, into sight."""
        stored = self.get(identity)
        self._enter(stored)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET state = 'recorded' WHERE id = ? AND state = 'drawn'",
                (identity,),
            )
        return self.get(identity)

    def _enter(self, stored: StoredRelease) -> None:
        """The ledger's entries of a release, those that are not there yet."""
        there = {entry.about for entry in self.ledger.entries()}
        for what, guarantee in ledger_entries(stored.release):
            about = f"release {stored.id}: {what}"
            if about in there:
                continue
            try:
                self.ledger.spend(
                    guarantee, about=about, group=stored.group,
                    disclosure=guarantee.status == "none",
                )  # fmt: skip
            except BudgetExceededError:
                if stored.state == "drawn" and not any(stored.id in known for known in there):
                    with self.store.changing() as db:
                        db.execute("DELETE FROM releases WHERE id = ?", (stored.id,))
                raise

    # ---- sending --------------------------------------------------------------------------

    def send(self, identity: str, remote: Remote, *, chosen_moment: bool = True) -> StoredRelease:
        """Send the stored bytes. Where they arrived unnoticed, this changes nothing there."""
        stored = self.get(identity)
        if stored.state == "drawn":
            raise InputError("this release is not in the ledger yet; preview it again")
        self._enter(stored)  # changes nothing unless the ledger's file was lost
        if chosen_moment and CHOSEN_MOMENT not in stored.release.guarantee.assumes:
            self._note_the_moment(stored)
        remote.put_release(stored.user_id, stored.payload)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET state = 'sent', sent_at = ? WHERE id = ?", (now(), identity)
            )
        return self.get(identity)

    def _note_the_moment(self, stored: StoredRelease) -> None:
        """What was drawn by the schedule is sent by hand: its guarantee, and the ledger, say so."""
        release, about = _assuming(stored.release, CHOSEN_MOMENT), f"release {stored.id}: by hand"
        if all(entry.about != about for entry in self.ledger.entries()):
            free = replace(release.guarantee, epsilon=0.0, delta=0.0, mu=None, status="proved")
            self.ledger.spend(free, about=about, group=stored.group)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET record = ? WHERE id = ?", (release.to_json(), stored.id)
            )

    def readdress(self, identity: str, user_id: str) -> None:
        """Make a release out to another account: the same films, drawn once, at no further cost."""
        payload = payload_of(self.get(identity).release, identity, user_id)
        with self.store.changing() as db:
            db.execute(
                "UPDATE releases SET payload = ?, state = 'recorded' WHERE id = ?",
                (payload, identity),
            )

    # ---- looking --------------------------------------------------------------------------

    def get(self, identity: str) -> StoredRelease:
        found = self._select("WHERE id = ?", identity)
        if not found:
            raise InputError("there is no such release; look at the ledger for those there are")
        return found[0]

    def all(self) -> list[StoredRelease]:
        """Every recorded release, newest first."""
        return self._select("WHERE state <> 'drawn' ORDER BY rowid DESC")

    def latest(self) -> StoredRelease | None:
        found = self._select("WHERE state <> 'drawn' ORDER BY rowid DESC LIMIT 1")
        return found[0] if found else None

    def unsent(self) -> list[StoredRelease]:
        return self._select("WHERE state = 'recorded' ORDER BY rowid")

    def any_sent(self) -> bool:
        with self.store.reading() as db:
            return db.execute("SELECT 1 FROM releases WHERE state = 'sent'").fetchone() is not None

    def _select(self, where: str, *values: str) -> list[StoredRelease]:
        with self.store.reading() as db:
            rows = db.execute(f"SELECT * FROM releases {where}", values).fetchall()
        return [
            StoredRelease(
                id=row["id"], created=row["created"], state=row["state"],
                choice=Choice.from_dict(json.loads(row["settings"])),
                release=Release.from_json(row["record"]), payload=row["payload"],
                batch=row["batch"], sent_at=row["sent_at"],
            )
            for row in rows
        ]  # fmt: skip

    def _sent_items(self) -> set[str]:
        return {str(item) for stored in self.all() for item in stored.release.items}

    def _parts(self, catalogue: Catalogue, items: list[str], choice: Choice) -> Batch:
        counted = self._counted.among(catalogue, items)
        return batch_of(choice.perturber(catalogue), items, choice.levels(catalogue), counted)


def _assuming(release: Release, sentence: str) -> Release:
    assumes = (*release.guarantee.assumes, sentence)
    return replace(release, guarantee=replace(release.guarantee, assumes=assumes))


def _covers(paid: Guarantee, other: Guarantee) -> bool:
    """Whether what was added for one release is enough for another, of the same kind."""
    alike = (paid.unit, paid.relation, paid.delta) == (other.unit, other.relation, other.delta)
    return alike and paid.epsilon >= other.epsilon


def _release_of(about: str) -> str:
    """The release that a ledger's entry is about."""
    return about.removeprefix("release ").partition(":")[0]


def payload_of(release: Release, identity: str, user_id: str) -> bytes:
    """The body of the request: the release without what the device keeps of it. Whether the moment
    was the person's own is the device's to know."""
    assumes = tuple(said for said in release.guarantee.assumes if said != CHOSEN_MOMENT)
    sent = replace(release.public(), guarantee=replace(release.guarantee, assumes=assumes))
    message = {
        "ReleaseId": identity, "UserId": user_id, "FeedbackType": KIND, "Release": sent.to_dict(),
    }  # fmt: skip
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
