"""The common model: what this device adds to it, once a round, at moments fixed beforehand.

Off until the person chooses it. The moment of sending is drawn when a round is heard of, before the
history is read. A report is sealed and stored (`sealed`), entered in the ledger, and only then may
be sent (`recorded`), the same bytes until they arrived; a round never gets a second one. Everyone
who takes part sends as many bytes, zeros where there is nothing to add or it was not computed in
time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from epicrec.client.account import Accounts
from epicrec.client.store import Store
from epicrec.collective.device import Pins, take_part
from epicrec.collective.encoding import byte_fields
from epicrec.collective.refusals import Refusal
from epicrec.collective.shares import Announcement, Integers
from epicrec.collective.statistics import Statistic, one_history, statistic_of
from epicrec.errors import BudgetExceededError, EpicrecError, InputError
from epicrec.privacy import Guarantee, Ledger

EVERY, WINDOW = timedelta(hours=1), timedelta(hours=24)
"""How often is asked for a new round, and within which time from then on its report is sent."""


class Part(TypedDict):
    """What the person chose, as it is kept."""

    task: str
    leader_key: str
    helper_key: str
    problem: str
    heard: str


class CommonModel:
    """This device's part in one task at the chosen server, which is the leader."""

    def __init__(
        self, store: Store, ledger: Ledger, accounts: Accounts, item_ids: npt.NDArray[Any]
    ) -> None:
        self._store, self._ledger, self._accounts = store, ledger, accounts
        self._item_ids = item_ids

    # ---- what the person chooses ----------------------------------------------------------

    @property
    def part(self) -> Part | None:
        found: Part | None = self._store.setting("common")
        return found

    def join(self, task: str, leader_key: str, helper_key: str) -> None:
        """Take part from now on. The helper's key comes from its operator, not from the leader."""
        _pins(leader_key, helper_key)
        chosen = Part(task=task, leader_key=leader_key, helper_key=helper_key, problem="", heard="")
        self._store.set(common=chosen)

    def leave(self) -> None:
        """Send nothing from now on; what was sent stays in the sums it went into."""
        with self._store.changing() as db:
            db.execute("DELETE FROM settings WHERE name = 'common'")
            db.execute("UPDATE rounds SET state = 'over' WHERE state <> 'sent'")

    # ---- what happens by itself -----------------------------------------------------------

    def tick(self, moment: datetime, history: Callable[[], Sequence[str]]) -> None:
        """Hear of a new round, prepare what waits, send what is due; problems are kept to show."""
        part = self.part
        if part is None or part["problem"]:
            return
        heard = part["heard"]
        try:
            if not heard or moment - datetime.fromisoformat(heard) >= EVERY:
                self.hear(moment)
            self.prepare(history)
            self.send_due(moment)
        except BudgetExceededError as error:
            stopped = f"taking part has stopped at your ledger's limit. {error}"
            self._store.set(common={**self._chosen(), "problem": stopped})
        except Refusal as error:
            distrust = f"the servers were not trusted: {error}"
            self._store.set(common={**self._chosen(), "problem": distrust})
        except EpicrecError:
            return  # they cannot be reached: the next time is soon

    def hear(self, moment: datetime) -> None:
        """Ask for the open round and, where it is new, fix the moment at which its report leaves.

        Nothing of the history is read here.
        """
        part = self._chosen()
        with closing(self._accounts.dial()) as remote:
            told = remote.open_round(part["task"])
        self._store.set(common={**part, "heard": moment.isoformat()})
        if told is None:
            return
        encoded, published = byte_fields(told, 2)
        announcement = Announcement.from_encoded(encoded)
        pins = _pins(part["leader_key"], part["helper_key"])
        announcement.check(pins.leader, pins.helper)
        given = announcement.parameters
        if given.task != part["task"]:
            raise Refusal("outdatedConfig", f"{given.task!r} is not the task that was chosen")
        statistic_of(published, self._item_ids)  # refused now, and not when the history is read
        wait = timedelta(seconds=secrets.randbelow(int(WINDOW.total_seconds())))
        # in the ledger and not in the store: a copy of this store sent a report for it
        state = "over" if self._entered(given.task, given.round) else "waiting"
        with self._store.changing() as db:
            db.execute(
                "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?, NULL)",
                (given.task, given.round, (moment + wait).isoformat(), state, encoded, published),
            )

    def prepare(self, history: Callable[[], Sequence[str]]) -> None:
        """Seal and record the reports of rounds that wait; they leave at their own moments."""
        for row in self._rows("state IN ('waiting', 'sealed')"):
            self._seal(row, history)

    def send_due(self, moment: datetime) -> None:
        """Send what is due: what was not prepared by now leaves as zeros, and nothing waits."""
        for row in self._rows("state IN ('waiting', 'sealed', 'recorded') AND due <= ?", moment):
            report = row["report"]
            if row["state"] != "recorded":
                report = self._seal(row, tuple)
            self._accounts.registered()
            with closing(self._accounts.dial()) as remote:
                arrived = remote.put_report(row["task"], row["number"], report)
            self._set(row["task"], row["number"], "sent" if arrived else "over")

    # ---- the drawer: what `take_part` asks for --------------------------------------------

    def sealed(self, task: str, number: int) -> bytes | None:
        with self._store.reading() as db:
            row = db.execute(
                "SELECT report FROM rounds WHERE task = ? AND number = ?", (task, number)
            ).fetchone()
        return None if row is None else row["report"]

    def keep(self, task: str, number: int, report: bytes, guarantee: Guarantee) -> None:
        """Stored, entered, and only then ready to leave."""
        with self._store.changing() as db:
            db.execute(
                "UPDATE rounds SET report = ?, state = 'sealed' WHERE task = ? AND number = ?",
                (report, task, number),
            )
        self._enter(task, number, guarantee)

    def _enter(self, task: str, number: int, guarantee: Guarantee) -> None:
        if not self._entered(task, number):
            try:
                self._ledger.spend(guarantee, about=_about(task, number))
            except BudgetExceededError:
                self._set(task, number, "over")
                raise
        self._set(task, number, "recorded")

    def _entered(self, task: str, number: int) -> bool:
        return any(entry.about == _about(task, number) for entry in self._ledger.entries())

    # ---- the rest -------------------------------------------------------------------------

    def _seal(self, row: Any, history: Callable[[], Sequence[str]]) -> bytes:
        announcement = Announcement.from_encoded(row["announcement"])
        if row["state"] == "sealed":  # a crash came before the ledger's entry, or after it
            self._enter(row["task"], row["number"], announcement.parameters.guarantee())
            return bytes(row["report"])
        part = self._chosen()
        pins = _pins(part["leader_key"], part["helper_key"])
        statistic = statistic_of(row["published"], self._item_ids)
        return take_part(
            announcement, row["published"], pins, self,
            lambda: contribution(statistic, self._item_ids, history()),
        )  # fmt: skip

    def _rows(self, where: str, *moments: datetime) -> list[Any]:
        with self._store.reading() as db:
            values = [moment.isoformat() for moment in moments]
            return db.execute(f"SELECT * FROM rounds WHERE {where}", values).fetchall()

    def _set(self, task: str, number: int, state: str) -> None:
        with self._store.changing() as db:
            db.execute(
                "UPDATE rounds SET state = ? WHERE task = ? AND number = ?", (state, task, number)
            )

    def _chosen(self) -> Part:
        part = self.part
        if part is None:
            raise InputError("this device takes no part in a common model; join one first")
        return part


def contribution(
    statistic: Statistic, item_ids: npt.NDArray[Any], history: Sequence[str]
) -> Integers:
    """What a history adds to a round's sum."""
    return np.asarray(statistic(one_history(item_ids, history)), np.int64)


def _about(task: str, number: int) -> str:
    return f"common model {task}, round {number}"


def _pins(leader_key: str, helper_key: str) -> Pins:
    try:
        keys = bytes.fromhex(leader_key), bytes.fromhex(helper_key)
    except ValueError:
        keys = b"", b""
    if len(keys[0]) != 32 or len(keys[1]) != 32:
        raise InputError("a server's signing key has 64 figures from 0 to f; copy it whole")
    return Pins(*keys)
