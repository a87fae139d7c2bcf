"""Leader, helper, devices and the operator's commands as processes that die at any step.

Whatever dies is started again. In the end the sum has every report that was sent exactly once, each
server's noise was drawn once, and every device's ledger says what was used.
"""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import killing
from epicrec.client.device import Device
from epicrec.collective.contributions import one_history, statistic_of
from epicrec.collective.keys import RoundSecret, opener, verifying_key
from epicrec.collective.proofs.field import Q, difference
from epicrec.collective.rounds import Round
from epicrec.collective.shares import NUMBERS, Report, open_share
from epicrec.data.datasets import load_catalogue
from epicrec.server import Settings, serve
from epicrec.server.shared_model import RuntimeKeys, signing_key
from epicrec.server.store.database import Database
from epicrec.server.store.shared_model_rounds import SqlStore
from loopback import PATIENCE, held_port, wait_for
from server.device_part import take_part

TASK, DEVICES = "common-model", 2
HISTORIES = [["alien-1979", "up-2009"], []]
ROLES = ("leader", "helper")


class Town:
    """Two servers, an operator and devices; `moments` are the steps at which each dies next."""

    def __init__(self, folder: Path, moments: dict[str, list[str]]) -> None:
        self.folder, self.moments = folder, {name: iter(all_) for name, all_ in moments.items()}
        self.deaths = 0
        self.running: dict[str, Any] = {}
        self.ports = ExitStack()
        ports = {role: self.ports.enter_context(held_port()) for role in ROLES}
        self.urls = {role: f"https://127.0.0.1:{port}" for role, port in ports.items()}
        for role in ROLES:
            (folder / role).mkdir(mode=0o700)
            serve(check=True, data=str(folder / role))  # certificates, without dying
        self.keys = {
            role: verifying_key(signing_key(Settings(data=str(folder / role)))) for role in ROLES
        }
        for role, other in (ROLES, ROLES[::-1]):
            self.config(role).write_text(
                f'role = "{role}"\ndata = "{folder / role}"\nport = {ports[role]}\n'
                f'catalogue = "films"\ntrain_every = 0\nother_url = "{self.urls[other]}"\n'
                f'other_key = "{self.keys[other].hex()}"\n'
                f'other_certificate = "{self.certificate(other)}"\n'
                f'runtime = "{folder / "run"}"\n'
            )

    def config(self, role: str) -> Path:
        return self.folder / f"{role}.toml"

    def certificate(self, role: str) -> Path:
        return self.folder / role / "tls" / "ca.pem"

    def moment(self, name: str) -> str:
        return next(self.moments.get(name, iter(())), killing.NEVER)

    def serving(self, role: str) -> None:
        """Until this server answers, started again as often as it dies."""
        context = ssl.create_default_context(cafile=self.certificate(role))

        def answers() -> bool:
            if role not in self.running or self.running[role].exitcode is not None:
                self.deaths += role in self.running
                serving = ("serve", "--config", str(self.config(role)))
                self.running[role] = killing.start(self.moment(role), killing.epicrec, *serving)
            try:
                return httpx.get(f"{self.urls[role]}/collective/key", verify=context).is_success
            except httpx.HTTPError:
                return False

        wait_for(answers)

    def until_done(self, name: str, work: Callable[..., None], *given: Any) -> None:
        """Do this with all servers up, again as often as it dies or finds one dead."""
        for _ in range(40):
            for role in ROLES:
                self.serving(role)
            doing = killing.start(self.moment(name), work, *given)
            doing.join(PATIENCE)
            self.deaths += doing.exitcode < 0
            self.watch()
            if doing.exitcode == 0:
                return
        raise AssertionError(f"{name} ended with {doing.exitcode} again and again")

    def operator(self, *words: str) -> None:
        name = f"collective {words[0]}"
        command = ["collective", *words, "--config", str(self.config("leader")), "--task", TASK]
        self.until_done(name, killing.epicrec, *command)

    def device(self, number: int) -> None:
        settings = {
            "folder": str(self.folder / f"device {number}"),
            "url": self.urls["leader"],
            "certificate": str(self.certificate("leader")),
            "task": TASK,
            "leader_key": self.keys["leader"].hex(),
            "helper_key": self.keys["helper"].hex(),
            "history": HISTORIES[number],
        }
        self.until_done("device", take_part, settings)

    def round(self, role: str) -> tuple[Round, bytes | None]:
        database = Database(Settings(data=str(self.folder / role)).database_url)
        try:
            with SqlStore(database).reading() as book:
                found = book.round(TASK, 0)
                assert found is not None
                return found, RuntimeKeys(self.folder / "run", self.keys[role]).get(TASK, 0)
        finally:
            database.stop()

    drawn: dict[str, bytes]

    def watch(self) -> None:
        """A noisy share that was once in the book is there for good."""
        self.drawn = getattr(self, "drawn", {})
        for role in ROLES:
            try:
                share = self.round(role)[0].share
            except AssertionError:
                continue  # before the round
            if share:
                assert self.drawn.setdefault(role, share) == share

    def stop(self) -> None:
        for process in self.running.values():
            process.kill()
            process.join(PATIENCE)
        self.ports.close()


def killed(folder: Path, moments: dict[str, list[str]]) -> Town:
    town = Town(folder, moments)
    try:
        town.operator("start", "--most", "10")
        keys = {role: town.round(role)[1] for role in ROLES}
        for number in range(DEVICES):
            town.device(number)
        town.operator("collect")
        check_books(town, keys)
    finally:
        town.stop()
    return town


def check_books(town: Town, keys: dict[str, Any]) -> None:
    films = load_catalogue("films")
    rounds = {role: town.round(role)[0] for role in ROLES}
    announcement, given = rounds["leader"].announcement, rounds["leader"].parameters
    url = Settings(data=str(town.folder / "leader")).database_url
    with Database(url) as database, SqlStore(database).reading() as book:
        statistic = statistic_of(book.published(TASK, 0), films.item_ids)
    plain = sum(statistic(one_history(films.item_ids, history)) for history in HISTORIES)
    reports = []
    for number in range(DEVICES):
        with closing(Device(town.folder / f"device {number}", films)) as device:
            report = device.shared_model.sealed(TASK, 0)
            assert report is not None
            reports.append(Report.from_encoded(report))
            (entry,) = device.ledger.entries()
            assert entry.guarantee.mu == given.round_mu
    noises = []
    for role in ROLES:
        assert rounds[role].people == DEVICES
        chosen = hashlib.sha256(b"".join(sorted(report.id for report in reports)))
        assert rounds[role].chosen == chosen.digest()
        total = np.frombuffer(rounds[role].share, np.uint64)
        key = opener(RoundSecret.from_encoded(keys[role]).sealing)
        for report in reports:
            share = open_share(announcement, role, key, report)
            total = difference(total, given.proofs.vector(NUMBERS[role], share))
        noises.append(
            (total + np.where(total > Q // 2, 2**64 - Q, 0).astype(np.uint64)).view("<i8")
        )
        # had a report been missing or counted twice, this would be anything modulo q
        assert np.abs(noises[-1]).max() < 8 * given.sigma
        assert 0.7 < noises[-1].std() / given.sigma < 1.3
        assert town.round(role)[1] is None
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.4
    opened = np.frombuffer(rounds["leader"].total, "<i8")
    assert opened.tolist() == (plain + noises[0] + noises[1]).tolist()
    assert rounds["leader"].total == rounds["helper"].total


@pytest.mark.slow
def test_killed_in_the_middle_of_a_round(tmp_path: Path) -> None:
    """Each of the processes once, in the middle of what it does."""
    town = killed(
        tmp_path,
        {
            "leader": ["COMMIT 4"],
            "helper": ["COMMIT 3"],
            "device": ["request 2", "COMMIT 5"],
            "collective collect": ["answer 1"],
        },
    )
    assert town.deaths >= 4


def at_random(seed: int) -> Iterator[tuple[str, str]]:
    rng = np.random.default_rng(seed)
    most = {"leader": 150, "helper": 120, "device": 120, "collective start": 60,
            "collective collect": 80}  # fmt: skip
    for _ in range(10):
        name = str(rng.choice(list(most)))
        yield name, str(rng.integers(1, most[name]))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_thirty_random_steps(tmp_path: Path, seed: int) -> None:
    moments: dict[str, list[str]] = {}
    for name, moment in at_random(seed):
        moments.setdefault(name, []).append(moment)
    killed(tmp_path, moments)
