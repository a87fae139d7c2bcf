"""A recommender server on loopback, for as long as the demo or a measurement needs it."""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from epicrec.errors import EpicrecError
from epicrec.progress import report
from epicrec.server import Settings
from epicrec.server.service import Service

ADMIN_KEY = secrets.token_urlsafe()
_PATIENCE = 1800.0


@contextmanager
def running(settings: Settings) -> Iterator[tuple[str, Service]]:
    """A server in a thread of this process until the block ends: its address, and what it holds."""
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
def serving(base: Path, *, epsilon: float, unit: str) -> Iterator[tuple[str, httpx.Client]]:
    """A server over `base/data` that publishes an item model learned from it; its address, and an
    admin's way in. It ends with the block."""
    settings = Settings(
        data=str(base / "server"), catalogue=str(base / "data"), train_from=str(base / "data"),
        http=True, port=0, admin_key=ADMIN_KEY, train_every=0, registrations_per_hour=10**6,
        requests_per_minute=10**6, publish_epsilon=epsilon, publish_unit=unit,
        limit_epsilon=max(4.0, epsilon), training_nice=0,
    )  # fmt: skip
    with running(settings) as (url, _), admin_of(url) as admin:
        report("the server learns its item model", 0, 1)
        _wait(admin, "publishing", lambda status: status["state"] == "done")
        yield url, admin


def admin_of(url: str, certificate: Path | None = None) -> httpx.Client:
    """An admin's way into a server on loopback."""
    return httpx.Client(
        base_url=url,
        headers={"X-API-Key": ADMIN_KEY},
        trust_env=False,
        verify=ssl.create_default_context(cafile=certificate),
        timeout=_PATIENCE,
        limits=httpx.Limits(max_keepalive_connections=0),  # the server closes idle ones
    )


def learn_releases(admin: httpx.Client) -> None:
    """Have the server learn from the releases it holds, and wait for it."""
    before = admin.get("/api/dashboard/training").json()["serving"]
    admin.post("/api/dashboard/train").raise_for_status()
    _wait(admin, "training", lambda status: status["serving"] != before)


def _wait(admin: httpx.Client, job: str, over: Any) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        status = admin.get(f"/api/dashboard/{job}").json()
        if over(status):
            return
        if status["state"] == "failed":
            raise EpicrecError(f"the server's {job} failed: {status.get('error')}")
        time.sleep(0.1)
    raise EpicrecError(f"the server's {job} did not end")
