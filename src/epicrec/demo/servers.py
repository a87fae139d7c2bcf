"""Servers on loopback, for as long as the demo or a measurement needs them.

A recommender server, or leader and helper of a shared model over TLS. Leader and helper run on one
machine here, so the guarantee is void; the programs are the real ones.
"""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from epicrec.client.device import Device
from epicrec.client.sending.shared_model_reports import EVERY, WINDOW
from epicrec.collective.contributions import statistic_of
from epicrec.collective.keys import verifying_key
from epicrec.collective.shares import Report, make_report
from epicrec.data import Ratings
from epicrec.errors import EpicrecError
from epicrec.machine import in_threads
from epicrec.progress import report
from epicrec.server import Settings, shared_model
from epicrec.server.service import Service
from epicrec.server.shared_model import SharedModelServer, signing_key

ADMIN_KEY = secrets.token_urlsafe()
VOID = (
    "Leader and helper are both yours in this demo, and together they can read every part: the "
    "guarantee is void here. It holds between two operators who share nothing."
)
_PATIENCE = 1800.0
_START = datetime(2030, 1, 1, tzinfo=UTC)
_UNLIMITED: dict[str, Any] = {
    "port": 0, "train_every": 0, "registrations_per_hour": 10**6, "requests_per_minute": 10**6,
}  # fmt: skip


@contextmanager
def running(settings: Settings) -> Iterator[tuple[str, Service]]:
    """Run a server in a thread of this process; give its address and its `Service`."""
    from epicrec.server.main import make_server

    made = make_server(settings)
    thread = threading.Thread(target=made.run, daemon=True)
    thread.start()
    try:
        while not made.started:
            if not thread.is_alive():
                raise EpicrecError("the server did not start")
            time.sleep(0.01)
        scheme = "http" if settings.http else "https"
        port = made.servers[0].sockets[0].getsockname()[1]
        app: Any = made.config.app
        yield f"{scheme}://127.0.0.1:{port}", app.state.service
    finally:
        made.should_exit = True
        thread.join(30)


@contextmanager
def running_for_admin(
    base: Path, *, catalogue: Path, **settings: Any
) -> Iterator[tuple[str, httpx.Client, Service]]:
    """Run a server over plain HTTP that trains only when told to; give an admin's client, too."""
    chosen = Settings(
        data=str(base / "server"), catalogue=str(catalogue), http=True, admin_key=ADMIN_KEY,
        training_nice=0, **_UNLIMITED, **settings,
    )  # fmt: skip
    with running(chosen) as (url, service), admin_of(url) as admin:
        yield url, admin, service


def admin_of(url: str, certificate: Path | None = None) -> httpx.Client:
    """An admin's client for a server on loopback."""
    return httpx.Client(
        base_url=url,
        headers={"X-API-Key": ADMIN_KEY},
        trust_env=False,
        verify=ssl.create_default_context(cafile=certificate),
        timeout=_PATIENCE,
        limits=httpx.Limits(max_keepalive_connections=0),  # the server closes idle ones
    )


def learn_releases(admin: httpx.Client) -> None:
    """Have the server learn from the releases it holds, and wait until it serves the result."""
    before = admin.get("/api/dashboard/training").json()["serving"]
    admin.post("/api/dashboard/train").raise_for_status()
    _wait(admin, "training", lambda status: status["serving"] != before)


def wait_until_published(admin: httpx.Client) -> None:
    """Wait until the server has published its item model."""
    report("the server learns its item model", 0, 1)
    _wait(admin, "publishing", lambda status: status["state"] == "done")


def _wait(admin: httpx.Client, job: str, over: Callable[[Any], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        status = admin.get(f"/api/dashboard/{job}").json()
        if over(status):
            return
        if status["state"] == "failed":
            raise EpicrecError(f"the server's {job} failed: {status.get('error')}")
        time.sleep(0.1)
    raise EpicrecError(f"the server's {job} did not end")


# ---- leader and helper ------------------------------------------------------------------------


@dataclass(frozen=True)
class RunningLeader:
    """A running leader: its settings and address, and the keys that devices pin."""

    settings: Settings
    collective: SharedModelServer
    url: str
    certificate: Path
    leader_key: str
    helper_key: str

    def join(self, device: Device, task: str) -> None:
        """Have a device take part, with the helper's key from the helper and not from here."""
        offer = device.shared_model.look(task, self.helper_key)
        device.shared_model.join(task, offer.leader_key, offer.helper_key, mu=offer.parameters.mu)


@contextmanager
def leader_and_helper(base: Path, **settings: Any) -> Iterator[RunningLeader]:
    """Run leader and helper, each with the other's key; `settings` are the leader's."""
    own = {role: Settings(data=str(base / role)) for role in ("leader", "helper")}
    for one in own.values():
        one.folder.mkdir(mode=0o700)
    keys = {role: verifying_key(signing_key(one)).hex() for role, one in own.items()}
    helper = Settings(
        data=own["helper"].data,
        role="helper",
        other_key=keys["leader"],
        runtime=str(base / "runtime"),
        **_UNLIMITED,
    )
    with running(helper) as (helper_url, _):
        leader = Settings(
            data=own["leader"].data, role="leader", other_key=keys["helper"],
            runtime=str(base / "runtime"),
            other_url=helper_url, other_certificate=str(helper.folder / "tls" / "ca.pem"),
            **_UNLIMITED, **settings,
        )  # fmt: skip
        with running(leader) as (url, service):
            certificate = leader.folder / "tls" / "ca.pem"
            assert service.shared_model is not None
            yield RunningLeader(
                leader, service.shared_model, url, certificate, keys["leader"], keys["helper"]
            )


def train_shared_model(
    leader: RunningLeader,
    task: str,
    histories: Ratings,
    devices: Sequence[tuple[Device, Callable[[], Sequence[str]]]],
    *,
    epsilon: float,
    delta: float,
) -> list[dict[str, Any]]:
    """Run all rounds of a task; return what the leader's operator is told of each.

    Every user of `histories` is a device in this process, whose sealed report is put into the
    leader's book. `devices` come with their histories and report over HTTPS.
    """
    told: list[dict[str, Any]] = []
    most = histories.n_users + len(devices)
    moment = _START
    while not told or "model" not in told[-1]:
        shared_model.start(leader.settings, task, epsilon=epsilon, delta=delta, most=most)
        for device, history in devices:
            if device.shared_model.part is None:
                leader.join(device, task)
            for when in (moment, moment + WINDOW):
                Context().run(device.shared_model.tick, when, history)  # without its own progress
        _report_in_process(leader.collective, task, histories)
        told.append(shared_model.collect(leader.settings, task))
        moment += WINDOW + EVERY + timedelta(days=1)
    return told


def _report_in_process(collective: SharedModelServer, task: str, histories: Ratings) -> None:
    """Put a sealed report of each user, as their device would make it, into the leader's book."""
    with collective.store.reading() as book:
        number = book.last_round(task)
        found, shown = book.round(task, number), book.published(task, number)
    assert found is not None
    assert collective.leader is not None
    what = f"round {number + 1}: devices cut and seal their numbers"
    statistic, users = statistic_of(shown, histories.item_ids), histories.n_users
    announcement, done = found.announcement, 0

    def made(user: int) -> Report:
        numbers = Context().run(statistic, histories.users_at(np.array([user])))
        return make_report(announcement, numbers)

    for start in range(0, users, 100):
        reports = list(in_threads(made, range(start, min(start + 100, users))))
        with collective.store.transaction() as book:
            book.take_places(task, number, len(reports))
            book.add_reports(task, number, reports)
        done += len(reports)
        report(what, done, users)
