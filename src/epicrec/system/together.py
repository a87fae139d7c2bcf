"""A common model on loopback: leader and helper over TLS, devices in process and over HTTPS.

Both servers run on one machine, so the guarantee is void: it is the program that is real here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from epicrec.client.device import Device
from epicrec.client.sending.shared_model_reports import EVERY, WINDOW
from epicrec.collective.contributions import statistic_of
from epicrec.collective.keys import verifying_key
from epicrec.collective.shares import make_report
from epicrec.data import Ratings
from epicrec.progress import report
from epicrec.server import Settings, shared_model
from epicrec.server.shared_model import SharedModelServer, signing_key
from epicrec.system.loopback import running

VOID = (
    "Leader and helper are both yours in this demo, and together they can read every part: the "
    "guarantee is void here. It holds between two operators who share nothing."
)
_START = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Leading:
    """A leader on loopback: its settings and address, and the keys that devices pin."""

    settings: Settings
    part: SharedModelServer
    url: str
    certificate: Path
    leader_key: str
    helper_key: str

    def join(self, device: Device, task: str) -> None:
        """Have a device take part, with the helper's key from the helper and not from here."""
        offer = device.shared_model.look(task, self.helper_key)
        device.shared_model.join(task, offer.leader_key, offer.helper_key, mu=offer.parameters.mu)


@contextmanager
def leading(base: Path, **settings: Any) -> Iterator[Leading]:
    """Leader and helper, each with the other's key, until the block ends."""
    own = {role: Settings(data=str(base / role)) for role in ("leader", "helper")}
    for one in own.values():
        one.folder.mkdir(mode=0o700)
    keys = {role: verifying_key(signing_key(one)).hex() for role, one in own.items()}
    plain: dict[str, Any] = {
        "port": 0, "train_every": 0, "registrations_per_hour": 10**6, "requests_per_minute": 10**6,
    }  # fmt: skip
    helper = Settings(data=own["helper"].data, role="helper", other_key=keys["leader"], **plain)
    with running(helper) as (helper_url, _):
        leader = Settings(
            data=own["leader"].data, role="leader", other_key=keys["helper"],
            other_url=helper_url, other_certificate=str(helper.folder / "tls" / "ca.pem"),
            **plain, **settings,
        )  # fmt: skip
        with running(leader) as (url, service):
            certificate = leader.folder / "tls" / "ca.pem"
            assert service.shared_model is not None
            yield Leading(
                leader, service.shared_model, url, certificate, keys["leader"], keys["helper"]
            )


def train_together(
    lead: Leading,
    task: str,
    histories: Ratings,
    devices: Sequence[tuple[Device, Callable[[], Sequence[str]]]],
    *,
    epsilon: float,
    delta: float,
) -> list[dict[str, Any]]:
    """All rounds of a task: what the leader's operator was told of each.

    Every person of `histories` is a device in this process, whose sealed report is put into the
    leader's book; the others are `devices` with their histories, which report over HTTPS.
    """
    told: list[dict[str, Any]] = []
    most = histories.n_users + len(devices)
    moment = _START
    while not told or "model" not in told[-1]:
        shared_model.start(lead.settings, task, epsilon=epsilon, delta=delta, most=most)
        for device, history in devices:
            if device.shared_model.part is None:
                lead.join(device, task)
            for when in (moment, moment + WINDOW):
                Context().run(device.shared_model.tick, when, history)  # without its own progress
        _report_in_process(lead.part, task, histories)
        told.append(shared_model.collect(lead.settings, task))
        moment += WINDOW + EVERY + timedelta(days=1)
    return told


def _report_in_process(part: SharedModelServer, task: str, histories: Ratings) -> None:
    """A sealed report for each person, as their devices would make it, into the leader's book."""
    with part.store.looking() as book:
        number = book.last_round(task)
        found = book.round(task, number)
    assert found is not None
    what = f"round {number + 1}: devices cut and seal their numbers"
    statistic, people = statistic_of(found.published, histories.item_ids), histories.n_users
    with part.store.transaction() as book:
        for user in range(people):
            if user % 50 == 0:
                report(what, user, people)
            numbers = Context().run(statistic, histories.users_at(np.array([user])))
            book.add_report(task, number, make_report(found.announcement, numbers))
    report(what, people, people)
