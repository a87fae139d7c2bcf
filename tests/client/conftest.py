"""A real server, a device and its pages, all on loopback."""

from __future__ import annotations

import hashlib
import html
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from epicrec import wire
from epicrec.client.device import Device
from epicrec.client.main import make_client
from epicrec.client.ranking import item_model as published
from epicrec.client.sending.remote import Remote
from epicrec.client.web import jobs as working
from epicrec.client.web.request import State
from epicrec.client.web.security import Door
from epicrec.data import Catalogue, Ratings
from epicrec.models import model_class
from epicrec.server import Settings
from epicrec.server.main import make_server
from loopback import ADMIN, PATIENCE, TRUSTED, run_in_thread, wait_for


@pytest.fixture(autouse=True, scope="session")
def patience() -> Iterator[None]:
    """Pages wait for work and servers however slow this machine is, so that what they show does
    not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(working, "PATIENCE", PATIENCE)
        patch.setattr(published, "_QUICK", PATIENCE)
        yield


@dataclass
class Served:
    """A running recommender server; `seen` are the requests that clients made through `dial`."""

    url: str
    folder: Path
    service: Any
    seen: list[httpx.Request] = field(default_factory=list)

    def dial(self, url: str, **options: Any) -> Remote:
        return Remote(url, transport=_Recording(self.seen), **options)

    def publish(self, ratings: Ratings) -> wire.ModelInfo:
        """Put a model in the place where the server publishes one."""
        model = model_class("svd")(task="lists", factors=20).fit(ratings)
        folder = self.folder / "published"
        folder.mkdir(exist_ok=True)
        model.save(folder / "item-model-1.npz")
        content = (folder / "item-model-1.npz").read_bytes()
        info = wire.ModelInfo(
            Version=1, Hash=hashlib.sha256(content).hexdigest(), Size=len(content), Method="svd",
            Task="lists", Items=ratings.n_items, Created=datetime.now(UTC),
            Guarantee=model.guarantee.to_dict(),
        )  # fmt: skip
        (folder / "current.json").write_text(info.model_dump_json())
        return info

    def held(self, device: Device) -> list[wire.Feedback]:
        account = device.account
        assert account is not None
        remote = Remote(self.url, key=account["secret"])
        try:
            return remote.feedback(account["user_id"])
        finally:
            remote.close()

    def answers_of(self, account: Mapping[str, Any] | None) -> list[bytes]:
        """The answers that the server's database holds under a name, in the order they came."""
        query = (
            "SELECT answers FROM releases JOIN users USING (user_key) "
            "WHERE user_id = ? AND answers IS NOT NULL ORDER BY release_key"
        )
        assert account is not None
        with closing(sqlite3.connect(self.folder / "epicrec.sqlite")) as db:
            return [found for (found,) in db.execute(query, [account["user_id"]])]

    def rows_of(self, account: dict[str, Any]) -> list[Any]:
        """Feedback and answers that the server holds under a name that the device may have
        forgotten; for the admin."""
        own = {"X-API-Key": ADMIN}
        with httpx.Client(
            base_url=self.url, headers=own, timeout=PATIENCE, verify=TRUSTED
        ) as admin:
            found = admin.get(f"/api/user/{account['user_id']}/feedback")
        rows = list(found.json()) if found.status_code == 200 else []
        return rows + self.answers_of(account)

    def train(self) -> None:
        own = {"X-API-Key": ADMIN}
        with httpx.Client(
            base_url=self.url, headers=own, timeout=PATIENCE, verify=TRUSTED
        ) as admin:
            before = admin.get("/api/dashboard/training").json()["serving"]
            admin.post("/api/dashboard/train").raise_for_status()
            status = "/api/dashboard/training"
            wait_for(lambda: admin.get(status).json()["serving"] != before, "the training")


class _Recording(httpx.HTTPTransport):
    def __init__(self, seen: list[httpx.Request]) -> None:
        super().__init__(verify=TRUSTED)
        self._seen = seen

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self._seen.append(request)
        return super().handle_request(request)


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Served]:
    plain: dict[str, Any] = {
        "data": str(folder), "admin_key": ADMIN, "http": True, "port": 0, "train_every": 0,
        "registrations_per_hour": 10_000, "requests_per_minute": 100_000, "factors": 8,
        "iterations": 5, "catalogue": "films", "training_nice": 0,
    }  # fmt: skip
    made = make_server(Settings(**(plain | settings)))
    thread = run_in_thread(made)
    port = made.servers[0].sockets[0].getsockname()[1]
    scheme = "http" if made.config.ssl_certfile is None else "https"
    try:
        yield Served(f"{scheme}://127.0.0.1:{port}", folder, made.config.app.state.service)  # type: ignore[union-attr]
    finally:
        made.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def publishing(tmp_path_factory: pytest.TempPathFactory, viewers: Ratings) -> Iterator[Served]:
    """A server that publishes an item model."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        running.publish(viewers)
        yield running


@pytest.fixture
def device(tmp_path: Path, films: Catalogue, served: Served) -> Iterator[Device]:
    served.seen.clear()
    made = Device(tmp_path / "device", films, server=served.url, dial=served.dial)
    yield made
    made.close()


@dataclass
class Pages:
    """A running client; `http` is a program of the same person, which has the token."""

    device: Device
    door: Door
    http: httpx.Client
    state: State

    @property
    def address(self) -> str:
        """An invitation for one browser."""
        return self.door.invite()

    @property
    def url(self) -> str:
        """Where the pages live."""
        return f"http://{self.door.name}:{self.door.port}"

    @property
    def entrance(self) -> str:
        return f"http://127.0.0.1:{self.door.port}"


def shown_payload(page: str) -> bytes:
    """What the preview says will be sent."""
    found = re.search(r'<pre id="payload"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert found
    return html.unescape(found.group(1)).encode()


@contextmanager
def showing(folder: Path, **options: Any) -> Iterator[Pages]:
    made, _ = make_client(folder, **options)
    thread = run_in_thread(made)
    token = {"Authorization": f"Bearer {(folder / 'token').read_text()}"}
    http = httpx.Client(
        limits=httpx.Limits(max_keepalive_connections=0),  # the server closes idle ones
        base_url=f"http://127.0.0.1:{made.door.port}", headers=token, follow_redirects=True,
        timeout=PATIENCE, verify=TRUSTED,
    )  # fmt: skip
    try:
        yield Pages(made.state.device, made.door, http, made.state)
    finally:
        http.close()
        made.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture
def pages(tmp_path: Path, publishing: Served) -> Iterator[Pages]:
    with showing(tmp_path / "client", server=publishing.url) as running:
        yield running
