"""The shared model: what this device adds to it, once a round, at moments fixed beforehand.

Off until the person chooses it. The moment of sending is drawn when the device hears of a round,
before the history is read. A report is sealed and stored (`sealed`), entered in the ledger, and
only then may be sent (`recorded`), the same bytes until they arrive; a round never gets a second
one. Everyone who takes part sends the same number of bytes: zeros where there is nothing to add or
it was not computed in time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

import numpy as np

from epicrec.arrays import Array, Integers
from epicrec.client.sending.accounts import Accounts
from epicrec.client.sending.shared_model_results import SETTING, SharedModelResults
from epicrec.client.store import Store
from epicrec.collective.contributions import Statistic, items_of, one_history, statistic_of
from epicrec.collective.device import Pins, take_part
from epicrec.collective.messages import Refusal, byte_fields
from epicrec.collective.proofs.pine import PUBLIC
from epicrec.collective.results import Aborted, Taught
from epicrec.collective.shares import ID, Announcement, Cut, Report, sealed_sizes
from epicrec.collective.task import RoundParameters as Parameters
from epicrec.errors import BudgetExceededError, EpicrecError, InputError
from epicrec.privacy import Guarantee, Ledger

EVERY, WINDOW = timedelta(hours=1), timedelta(hours=24)
"""How often the device asks for a new round, and the time from then on within which its report is
sent."""

Rounds = Literal["every", "one", "none"]
"""In which rounds to take part: all of the task, the next one only, or none."""


class Participation(TypedDict):
    """What the person chose, as it is kept."""

    task: str
    leader_key: str
    helper_key: str
    mu: float | None
    """What the whole task may cost; None: whatever the ledger's limit allows."""
    rounds: Rounds
    problem: str
    heard: str


@dataclass(frozen=True)
class Offer:
    """A task as a person sees it before taking part: the parameters of one of its rounds."""

    leader_key: str
    helper_key: str
    parameters: Parameters
    open: bool

    @property
    def size(self) -> int:
        """How many bytes a report of that round has."""
        sizes = (ID, PUBLIC, *sealed_sizes(self.parameters))
        return len(Report(*(bytes(size) for size in sizes)).encoded())


@dataclass(frozen=True)
class KnownRound:
    """A round that this device has heard of, and the report that it made for it, if any."""

    parameters: Parameters
    item_ids: Array
    """The leader's list, in the order of the numbers."""
    due: str
    state: str
    report: bytes | None
    cut: Cut | None


class SharedModelReports:
    """This device's part in one task at the chosen server, which is the leader."""

    def __init__(
        self, store: Store, ledger: Ledger, accounts: Accounts, results: SharedModelResults
    ) -> None:
        self._store, self._ledger = store, ledger
        self._accounts, self._results = accounts, results

    # ---- what the person chooses ----------------------------------------------------------

    @property
    def part(self) -> Participation | None:
        found: Participation | None = self._store.setting(SETTING)
        return found

    def look(self, task: str, helper_key: str) -> Offer:
        """What taking part would mean. Asked for without a name; both keys are checked."""
        with closing(self._accounts.dial()) as remote:
            key = remote.signing_key()
            told = remote.open_round(task) if key else None
            first = remote.round_result(task, 0) if key and told is None else None
        if key is None or key.Role != "leader":
            raise InputError(
                "this server leads no common model; choose one that does on the server page"
            )
        pins = Pins.of(key.Key, helper_key)
        if told is not None:
            announcement = Announcement.from_encoded(byte_fields(told, 2)[0])
            announcement.check(pins.leader, pins.helper)
            return Offer(key.Key, helper_key, announcement.parameters, open=True)
        if first is None:
            raise InputError(
                f"no round of a task {task!r} is open at this server; ask its operator for the "
                "name, or come back when it begins"
            )
        result = Taught.from_encoded(first).result
        result.check(pins.leader, pins.helper)
        return Offer(key.Key, helper_key, result.parameters, open=False)

    def join(
        self, task: str, leader_key: str, helper_key: str, *,
        rounds: Rounds = "every", mu: float | None = None,
    ) -> None:  # fmt: skip
        """Take part from now on. The helper's key comes from its operator, not from the leader."""
        Pins.of(leader_key, helper_key)
        before = self.part
        names = (task, leader_key, helper_key)
        if before is None or (before["task"], before["leader_key"], before["helper_key"]) != names:
            self._results.forget()
        chosen = Participation(
            task=task, leader_key=leader_key, helper_key=helper_key, mu=mu, rounds=rounds,
            problem="", heard="",
        )  # fmt: skip
        self._keep(chosen)

    def leave(self) -> None:
        """Ask and send nothing from now on; what was sent stays in the sums it went into."""
        with self._store.changing() as db:
            db.execute("DELETE FROM settings WHERE name = ?", (SETTING,))
            db.execute("UPDATE rounds SET state = 'over' WHERE state <> 'sent'")
        self._results.forget()

    def made(self) -> list[KnownRound]:
        """Every round of the task that this device has heard of."""
        found = []
        for row in self._rows("task = ? ORDER BY number", self._chosen()["task"]):
            announcement = Announcement.from_encoded(row["announcement"])
            found.append(
                KnownRound(
                    announcement.parameters, items_of(row["published"]), row["due"], row["state"],
                    row["report"], row["cut"] and Cut.from_encoded(announcement, row["cut"]),
                )
            )  # fmt: skip
        return found

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
                self._results.refresh()
                self.take_back()
            self.prepare(history)
            self.send_due(moment)
        except BudgetExceededError as error:
            stopped = f"taking part has stopped at your ledger's limit. {error}"
            self._keep({**self._chosen(), "problem": stopped})
        except Refusal as error:
            distrust = f"the servers were not trusted: {error}"
            self._keep({**self._chosen(), "problem": distrust})
        except EpicrecError:
            return  # they cannot be reached: the next time is soon

    def hear(self, moment: datetime) -> None:
        """Ask for the open round and, where it is new, fix the moment at which its report leaves.

        Nothing of the history is read here.
        """
        part = self._chosen()
        told = None
        if part["rounds"] != "none":
            with closing(self._accounts.dial()) as remote:
                told = remote.open_round(part["task"])
        part["heard"] = moment.isoformat()
        self._keep(part)
        if told is None:
            return
        encoded, published = byte_fields(told, 2)
        given = self._agreed(part, Announcement.from_encoded(encoded))
        statistic_of(published, items_of(published))  # refused now, not when the history is read
        wait = timedelta(seconds=secrets.randbelow(int(WINDOW.total_seconds())))
        # in the ledger and not in the store: a copy of this store sent a report for it
        state = "over" if self._entered(given.task, given.round) else "waiting"
        with self._store.changing() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?, NULL, NULL)",
                (given.task, given.round, (moment + wait).isoformat(), state, encoded, published),
            )
            if done.rowcount and part["rounds"] == "one":
                self._keep({**part, "rounds": "none"})

    def prepare(self, history: Callable[[], Sequence[str]]) -> None:
        """Seal and record the reports of rounds that wait; they leave at their own moments."""
        for row in self._rows("state IN ('waiting', 'sealed')"):
            self._seal(row, history)

    def send_due(self, moment: datetime) -> None:
        """Send what is due: what was not prepared by now leaves as zeros, and nothing waits."""
        waits = "state IN ('waiting', 'sealed', 'recorded') AND due <= ?"
        for row in self._rows(waits, moment.isoformat()):
            report = row["report"]
            if row["state"] != "recorded":
                report = self._seal(row, tuple)
            self._accounts.registered()
            with closing(self._accounts.dial()) as remote:
                arrived = remote.put_report(row["task"], row["number"], report)
            self._set(row["task"], row["number"], "sent" if arrived else "over")

    # ---- what is kept ---------------------------------------------------------------------

    def sealed(self, task: str, number: int) -> bytes | None:
        """The report that was made for a round, byte for byte."""
        with self._store.reading() as db:
            row = db.execute(
                "SELECT report FROM rounds WHERE task = ? AND number = ?", (task, number)
            ).fetchone()
        return None if row is None else row["report"]

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

    def _agreed(self, part: Participation, announcement: Announcement) -> Parameters:
        """A round's parameters, if both servers signed them and it costs what was agreed to.

        The rounds of a task share its μ; a leader that opens more of them is refused.
        """
        pins = Pins.of(part["leader_key"], part["helper_key"])
        announcement.check(pins.leader, pins.helper)
        given = announcement.parameters
        if given.task != part["task"]:
            raise Refusal("outdatedConfig", f"{given.task!r} is not the task that was chosen")
        if part["mu"] is not None and given.mu > part["mu"]:
            raise Refusal("outdatedConfig", "this round costs more than was agreed to")
        others = [one.parameters for one in self.made() if one.parameters.round != given.round]
        whole = sum((one.share for one in others), given.share)
        if whole > 1 or any(one.mu != given.mu for one in others):
            raise Refusal("outdatedConfig", "the task has more rounds than it has a budget for")
        return given

    def _seal(self, row: Any, history: Callable[[], Sequence[str]]) -> bytes:
        """A round's report: stored, entered in the ledger, and only then ready to leave."""
        announcement = Announcement.from_encoded(row["announcement"])
        report = row["report"]
        if report is None:
            part = self._chosen()
            pins = Pins.of(part["leader_key"], part["helper_key"])
            item_ids = items_of(row["published"])
            statistic = statistic_of(row["published"], item_ids)
            cut = take_part(
                announcement, row["published"], pins,
                lambda: contribution(statistic, item_ids, history()),
            )  # fmt: skip
            report = cut.sealed().encoded()
            with self._store.changing() as db:
                db.execute(
                    "UPDATE rounds SET report = ?, cut = ?, state = 'sealed' "
                    "WHERE task = ? AND number = ?",
                    (report, cut.encoded(), row["task"], row["number"]),
                )
        self._enter(row["task"], row["number"], announcement.parameters.guarantee())
        return bytes(report)

    def take_back(self) -> None:
        """Return to the ledger what rounds cost that ended without a result.

        Both servers that the report was sealed for sign that their keys are destroyed and nothing
        was shown; a leader alone cannot return anything.
        """
        part = self._chosen()
        pins = Pins.of(part["leader_key"], part["helper_key"])
        mine = "report IS NOT NULL AND state IN ('recorded', 'sent', 'over') AND task = ?"
        for row in self._rows(mine, part["task"]):
            own = Announcement.from_encoded(row["announcement"])
            if row["number"] < self._results.rounds or not _signed_by(own, pins):
                continue
            with closing(self._accounts.dial()) as remote:
                told = remote.round_abort(row["task"], row["number"])
            if told is not None:
                found = Aborted.from_encoded(told)
                found.check(pins.leader, pins.helper)
                if found.announcement != own:
                    raise Refusal("outdatedConfig", "another round than this one was given up")
                self._ledger.take_back(about=_about(row["task"], row["number"]))
                self._set(row["task"], row["number"], "returned")

    def _rows(self, where: str, *values: str) -> list[Any]:
        with self._store.reading() as db:
            return db.execute(f"SELECT * FROM rounds WHERE {where}", values).fetchall()

    def _set(self, task: str, number: int, state: str) -> None:
        with self._store.changing() as db:
            db.execute(
                "UPDATE rounds SET state = ? WHERE task = ? AND number = ?", (state, task, number)
            )

    def _keep(self, part: Participation) -> None:
        self._store.set(**{SETTING: part})

    def _chosen(self) -> Participation:
        part = self.part
        if part is None:
            raise InputError("this device takes no part in a common model; join one first")
        return part


def contribution(statistic: Statistic, item_ids: Array, history: Sequence[str]) -> Integers:
    """What a history adds to a round's sum, without what the leader's list does not have."""
    return np.asarray(statistic(one_history(item_ids, history)), np.int64)


def _signed_by(announcement: Announcement, pins: Pins) -> bool:
    try:
        announcement.check(pins.leader, pins.helper)
    except Refusal:
        return False
    return True


def _about(task: str, number: int) -> str:
    return f"common model {task}, round {number}"
