"""A running server for each test that asks, and a throw-away PostgreSQL beside SQLite."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
import pytest

from epicrec.perturb import Release
from epicrec.privacy import Guarantee
from epicrec.server import Settings
from epicrec.server.main import make_server
from epicrec.server.service import Service
from loopback import ADMIN, PATIENCE, TRUSTED, held_port, run_in_thread, wait_for

AFRESH = httpx.Limits(max_keepalive_connections=0)
"""A connection for each request: the server closes idle ones, and a slow test would meet that."""


def released(items: list[str], guarantee: Guarantee | None = None, **more: Any) -> dict[str, Any]:
    """The body of a release of these items."""
    promise = Guarantee.none(unit="item") if guarantee is None else guarantee
    release = Release(method="s-epicrec", items=tuple(items), guarantee=promise)
    return {"Release": release.to_dict(), **more}


class Client(httpx.Client):
    """Speaks to one server with one key."""

    user_id = ""

    def train(self) -> dict[str, Any]:
        """Train, and wait until the result is served."""
        before = self.get("/api/dashboard/training").json()["serving"]
        assert self.post("/api/dashboard/train").json()["Started"]
        wait_for(lambda: self.get("/api/dashboard/training").json()["serving"] != before)
        status: dict[str, Any] = self.get("/api/dashboard/training").json()
        return status


class Running:
    """A server in a thread of this process, and clients that speak to it over loopback."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.server = make_server(settings)
        self.service = self.server.config.app.state.service  # type: ignore[union-attr]
        self._clients: list[httpx.Client] = []

    def start(self) -> None:
        self.thread = run_in_thread(self.server)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"{'http' if self.settings.http else 'https'}://127.0.0.1:{port}"

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        own = self.settings.folder / "tls" / "ca.pem"
        return TRUSTED if self.settings.http else ssl.create_default_context(cafile=own)

    def client(self, key: str | None = None) -> Client:
        headers = {"X-API-Key": key} if key else {}
        made = Client(
            base_url=self.url,
            headers=headers,
            verify=self._trusted,
            timeout=PATIENCE,
            limits=AFRESH,
        )
        self._clients.append(made)
        return made

    @property
    def admin(self) -> Client:
        return self.client(ADMIN)

    def register(self) -> Client:
        answer = self.client().post("/api/register").json()
        made = self.client(answer["Secret"])
        made.user_id = answer["UserId"]
        return made


def prepare(**settings: Any) -> None:
    """What a start does before it listens: tables, catalogue."""
    service = Service(Settings(**settings))
    service.prepare()
    service.database.stop()


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    plain: dict[str, Any] = {
        "data": str(folder),
        "admin_key": ADMIN,
        "http": True,
        "port": 0,
        "train_every": 0,
        "training_nice": 0,
        "registrations_per_hour": 10_000,
        "requests_per_minute": 100_000,
        "failures_per_minute": 100_000,
        "factors": 2,
        "regularization": 1.0,
        "iterations": 10,
    }
    started = Running(Settings(**(plain | settings)))
    started.start()
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def two_running(folder: Path, **settings: Any) -> Iterator[tuple[Running, Running, Any]]:
    """Leader and helper, each with the other's key, over TLS with a development certificate."""
    from epicrec.collective.keys import verifying_key
    from epicrec.server.shared_model import HelperOverHttps, signing_key

    keys = {}
    for role in ("leader", "helper"):
        (folder / role).mkdir(mode=0o700)
        own = Settings(data=str(folder / role))
        keys[role] = verifying_key(signing_key(own)).hex()
    runtime = str(folder / "run")
    with running(
        folder / "helper", role="helper", other_key=keys["leader"], http=False, runtime=runtime
    ) as helper:
        certificate = str(folder / "helper" / "tls" / "ca.pem")
        with running(
            folder / "leader", role="leader", other_key=keys["helper"], http=False,
            other_url=helper.url, other_certificate=certificate, runtime=runtime, **settings,
        ) as leader:  # fmt: skip
            link = HelperOverHttps(leader.settings)
            try:
                yield leader, helper, link
            finally:
                link.close()


@pytest.fixture
def port() -> Iterator[int]:
    """A port for a server in a process of its own."""
    with held_port() as own:
        yield own


@pytest.fixture(scope="session")
def postgresql_port() -> Iterator[int]:
    with held_port() as own:
        yield own


@pytest.fixture(scope="session")
def postgresql_control(postgresql_port: int) -> Iterator[Callable[..., None]]:
    """A PostgreSQL of our own on loopback, and how to call its programs."""
    binaries = _postgresql_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (make system, or apt-get install postgresql)")
    folder = Path(_postgres_folder())
    as_postgres = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    port = postgresql_port

    def call(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [*as_postgres, str(binaries / program), *arguments],
            cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    data, where = str(folder / "data"), f"-c listen_addresses=127.0.0.1 -c port={port} -k {folder}"
    call("initdb", "-D", data, "-U", "epicrec", "-A", "trust", "-E", "UTF8", "--locale=C")
    patience = ["-w", "-t", f"{PATIENCE:.0f}"]

    def control(program: str, *arguments: str) -> None:
        """`start` it, `stop` it, or call another program."""
        if program == "start":
            call("pg_ctl", "-D", data, "-o", where, "-l", str(folder / "log"), *patience, "start")
        elif program == "stop":
            call("pg_ctl", "-D", data, "-m", "immediate", *patience, "stop")
        else:
            call(program, "-h", "127.0.0.1", "-p", str(port), "-U", "epicrec", *arguments)

    control("start")
    try:
        yield control
    finally:
        control("stop")
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgresql(postgresql_control: Callable[..., None], postgresql_port: int) -> Callable[[], str]:
    """Makes empty databases in it."""
    made = 0

    def new_database() -> str:
        nonlocal made
        made += 1
        postgresql_control("createdb", f"test{made}")
        return f"postgresql://epicrec@127.0.0.1:{postgresql_port}/test{made}"

    return new_database


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same test on both databases."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    url: str = request.getfixturevalue("postgresql")()
    return url


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Running]:
    """A server with the embedded films on SQLite."""
    with running(tmp_path / "server", catalogue="films") as started:
        yield started


@pytest.fixture
def either(tmp_path: Path, database_url: str) -> Iterator[Running]:
    """A server with the embedded films, on each of the two databases."""
    with running(tmp_path / "server", catalogue="films", database=database_url) as started:
        yield started


def _postgresql_binaries() -> Path | None:
    """The newest that Debian's packages put in place."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _postgres_folder() -> str:
    """A short path (a Unix socket lies in it) that belongs to whoever runs PostgreSQL."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="epicrec-pg-")
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    return folder
