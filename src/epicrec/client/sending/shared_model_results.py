"""Shared results: the finished rounds of a shared model, and the model computed from them.

Results are fetched without a name and kept as they came, in files. Whenever one is read, the
signatures of both servers over the sums, and over what they were taken with, are checked. The model
is computed here from nothing else.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from epicrec.client.sending.accounts import Accounts
from epicrec.client.store import Store
from epicrec.client.vault import write_private
from epicrec.collective.contributions import items_of
from epicrec.collective.device import Pins
from epicrec.collective.messages import Refusal
from epicrec.collective.results import Taught
from epicrec.collective.shared_model import Collective
from epicrec.collective.task import Task
from epicrec.errors import EpicrecError
from epicrec.privacy import Guarantee

SETTING = FOLDER = "common"
"""The names under which the person's choice and the results are kept."""


@dataclass(frozen=True)
class SharedModel:
    """A shared model, and how it came about."""

    model: Collective
    task: str
    people: tuple[int, ...]
    """How many devices were in the sums, round by round."""

    @property
    def guarantee(self) -> Guarantee:
        return self.model.guarantee


class SharedModelResults:
    """What the rounds of the chosen task have taught so far."""

    def __init__(self, store: Store, folder: Path, accounts: Accounts) -> None:
        self._store, self._accounts = store, accounts
        self._folder = folder / FOLDER
        self.problem = ""
        """What is wrong with what was fetched, or nothing."""
        self._kept: tuple[int, SharedModel | None] | None = None
        self._computing = threading.Lock()  # once, however many pages ask for it

    @property
    def rounds(self) -> int:
        """How many results are here."""
        return next(number for number in count() if not self._path(number).exists())

    def refresh(self) -> None:
        """Fetch the results that are missing here, without a name; nothing where all are."""
        part = self._store.setting(SETTING)
        if part is None or self.model() is not None or self.problem:
            return
        with closing(self._accounts.dial()) as remote:
            for number in count(self.rounds):
                content = remote.round_result(part["task"], number)
                if content is None:
                    return
                self._checked(number, content)
                self._folder.mkdir(exist_ok=True, mode=0o700)
                write_private(self._path(number), content)

    def people(self) -> list[int]:
        """How many devices were in each of the rounds that are over."""
        return [self._read(number).result.people for number in range(self.rounds)]

    def model(self) -> SharedModel | None:
        """The shared model, as soon as all rounds are over."""
        if self._store.setting(SETTING) is None:
            return None
        with self._computing:
            rounds = self.rounds
            if self._kept is None or self._kept[0] != rounds:
                self.problem, found = "", None
                try:
                    found = self._computed(rounds) if rounds else None
                except EpicrecError as error:
                    self.problem = str(error)
                self._kept = (rounds, found)
            return self._kept[1]

    def forget(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._kept, self.problem = None, ""

    def _computed(self, rounds: int) -> SharedModel | None:
        taught = [self._read(number) for number in range(rounds)]
        first = taught[0].result.parameters
        task = Task(name=first.task, mu=first.mu, delta=first.delta, most=first.most)
        model = Collective.of_rounds(task, items_of(taught[0].published), taught)
        if model is None:
            return None
        return SharedModel(model, task.name, tuple(one.result.people for one in taught))

    def _read(self, number: int) -> Taught:
        return self._checked(number, self._path(number).read_bytes())

    def _checked(self, number: int, content: bytes) -> Taught:
        """A result of the chosen task, signed by both servers as they were pinned."""
        part = self._store.setting(SETTING)
        pins = Pins.of(part["leader_key"], part["helper_key"])
        found = Taught.from_encoded(content)
        found.result.check(pins.leader, pins.helper)
        given = found.result.parameters
        if (given.task, given.round) != (part["task"], number):
            raise Refusal("outdatedConfig", f"this is no result of round {number}")
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number}"
