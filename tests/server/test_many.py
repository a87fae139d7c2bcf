"""More than one process: hosts and workers on one PostgreSQL, commands beside a running server."""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from epicrec.client.sending.remote import shown_certificate
from epicrec.errors import InputError
from epicrec.files import locked
from epicrec.server import serve, service
from epicrec.server.operations import tls
from epicrec.server.store import schema, users
from loopback import ADMIN, PATIENCE, wait_for
from server.conftest import prepare, released, running
from server.test_durability import Writer, accounts, check

FILMS = ["heat-1995", "alien-1979", "fargo-1996"]


def test_hosts_on_one_database_know_of_each_other(
    tmp_path: Path, postgresql: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_TICK", 0.2)
    settings = {"database": postgresql(), "catalogue": "films"}
    with running(tmp_path / "one", **settings) as one, running(tmp_path / "two", **settings) as two:
        user, leaver, other = (one.register() for _ in range(3))
        for client in (user, leaver, other):
            client.put(f"/api/user/{client.user_id}/release", json=released(FILMS))
        two.admin.train()
        there = {c.user_id: two.client(c.headers["X-API-Key"]) for c in (user, leaver)}
        own, gone = f"/api/recommend/{user.user_id}", f"/api/user/{leaver.user_id}"
        found = there[user.user_id].get(own, params={"n": 1000}).json()
        assert there[leaver.user_id].get(gone).status_code == 200
        # a key dies, an item goes, a release counts: each on one host, seen on the other
        leaver.delete(gone)
        wait_for(lambda: there[leaver.user_id].get(gone).status_code == 401)
        lists = tmp_path / "two" / "models" / "1" / "top_items.npy"
        wait_for(lambda: bool((np.load(lists) == -1).all(axis=1).any()))  # overwritten there, too
        one.admin.patch(f"/api/item/{found[0]}", json={"IsHidden": True})
        wait_for(lambda: found[0] not in there[user.user_id].get(own, params={"n": 1000}).json())
        row = {"FeedbackType": "read", "UserId": user.user_id, "ItemId": found[1]}
        user.put("/api/feedback", json=[row])  # in clear: what was made up is not left out
        wait_for(lambda: found[1] not in there[user.user_id].get(own, params={"n": 1000}).json())


def test_a_purge_beside_a_running_server_kills_keys_there(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running(folder, catalogue="films") as serving:
        user = serving.register()
        assert user.get(f"/api/user/{user.user_id}").status_code == 200
        with serving.service.database.writing() as connection:
            connection.execute(update(schema.users).values(seen_day=users.today() - 31))
        assert serve(purge=30, data=str(folder)) == {"purged": 1}
        wait_for(lambda: user.get(f"/api/user/{user.user_id}").status_code == 401)


def test_a_second_server_in_one_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir(mode=0o700)
    with (
        locked(folder / "server.lock", wait=False),
        pytest.raises(InputError, match="another server works in"),
    ):
        serve(data=str(folder), http=True, port=0)


def test_a_renewed_certificate_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_CHECK_EVERY", 0.1)
    with running(tmp_path / "server", http=False) as serving:
        _, before = shown_certificate(serving.url)
        names = ["localhost", "127.0.0.1", "films.example"]
        tls.development_certificate(tmp_path / "server" / "tls", names)
        wait_for(lambda: shown_certificate(serving.url)[1] != before)
        after = tls.fingerprint(tmp_path / "server" / "tls" / "server.pem")
        wait_for(lambda: shown_certificate(serving.url)[1] == after)


def test_a_socket_handed_over_waits_while_the_server_restarts(tmp_path: Path) -> None:
    """As systemd does it. A request sent while nobody serves is answered by the next server."""
    settings = {
        "data": tmp_path / "server", "http": "true", "admin_key": ADMIN, "train_every": 0,
        "catalogue": "none",
    }  # fmt: skip
    environment = {f"EPICREC_SERVER_{name.upper()}": str(value) for name, value in settings.items()}
    request = b"GET /api/health/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as kept:
        program = f"{sys.executable} -c 'from epicrec.server import serve; serve()'"
        handed = f"exec 3<&{kept.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec {program}"
        for _ in range(2):
            with socket.create_connection(kept.getsockname(), timeout=PATIENCE) as line:
                line.sendall(request)  # before anybody listens to it
                server = subprocess.Popen(
                    ["bash", "-c", handed], env=os.environ | environment,
                    pass_fds=[kept.fileno()], stderr=subprocess.DEVNULL,
                )  # fmt: skip
                try:
                    assert line.recv(4096).startswith(b"HTTP/1.1 200")
                finally:
                    server.terminate()
                    server.wait(PATIENCE)


class Workers:
    """A server with two workers on PostgreSQL, as a process of its own."""

    def __init__(self, folder: Path, port: int, database: str) -> None:
        self.port = port
        self.settings = {
            "data": str(folder), "port": self.port, "http": True, "admin_key": ADMIN,
            "database": database, "workers": 2, "train_every": 0, "requests_per_minute": 10**6,
        }  # fmt: skip
        prepare(catalogue="films", **self.settings)
        given = {f"EPICREC_SERVER_{k.upper()}": str(v) for k, v in self.settings.items()}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from epicrec.server import serve; serve()"],
            env=os.environ | given, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: self.process.poll() is not None or self.answers())
        wait_for(lambda: len(self.pids()) == 2)

    def pids(self) -> set[int]:
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid), "-f", "spawn_main"], capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        return {int(pid) for pid in found.stdout.split()}

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as probe:
                probe.sendall(b"GET /api/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
                return probe.recv(4096).startswith(b"HTTP/1.1 200")
        except OSError:
            return False

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.mark.slow
def test_workers_are_replaced_without_a_lost_request(
    tmp_path: Path, port: int, postgresql: Callable[[], str]
) -> None:
    server = Workers(tmp_path / "server", port, postgresql())
    failed: list[object] = []
    answered = 0
    stop = threading.Event()

    def ask() -> None:
        nonlocal answered
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        while not stop.is_set():
            try:
                line.request("GET", "/api/items", headers={"X-API-Key": ADMIN})
                answer = line.getresponse()
                answer.read()
                if answer.status != 200:
                    failed.append(answer.status)
                answered += 1
                time.sleep(0.005)  # never long without a request, and room for others
            except (OSError, http.client.HTTPException) as error:
                failed.append(repr(error))
        line.close()

    try:
        first = server.pids()
        asking = [threading.Thread(target=ask) for _ in range(2)]
        for thread in asking:
            thread.start()
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: len(server.pids()) == 2 and not server.pids() & first)
        before = answered
        wait_for(lambda: answered > before + 20)
        stop.set()
        for thread in asking:
            thread.join()
        assert failed == []
        server.process.terminate()
        assert server.process.wait(PATIENCE) == 0
    finally:
        stop.set()
        server.close()


@pytest.mark.soak
@pytest.mark.parametrize("kills", [50])
def test_workers_are_killed_and_nothing_acknowledged_is_lost(
    tmp_path: Path, port: int, postgresql: Callable[[], str], kills: int
) -> None:
    server = Workers(tmp_path / "server", port, postgresql())
    writers = [Writer(server.port, *account) for account in accounts(server.settings)]
    rng = random.Random(0)
    try:
        for writer in writers:
            writer.start()
        for _ in range(kills):
            wait_for(lambda: len(server.pids()) == 2 and server.answers())
            time.sleep(rng.random() / 2)
            check(server.port, rng.choice(writers))
            os.kill(rng.choice(sorted(server.pids())), signal.SIGKILL)
        wait_for(lambda: len(server.pids()) == 2 and server.answers())
        for writer in writers:
            writer.stop.set()
            writer.join()
            check(server.port, writer)
            assert {status for status, _ in writer.refused} <= {503}
        assert sum(writer.acknowledged for writer in writers) > kills
    finally:
        for writer in writers:
            writer.stop.set()
        server.close()


def have_gone_on(writers: list[Writer], before: list[int]) -> bool:
    return all(one.acknowledged > n for one, n in zip(writers, before, strict=True))


@pytest.mark.soak
def test_a_database_that_stops_and_starts_loses_nothing_acknowledged(
    tmp_path: Path,
    port: int,
    postgresql: Callable[[], str],
    postgresql_control: Callable[..., None],
) -> None:
    """It stops at once, in the middle of transactions; meanwhile the answer is 503 and why."""
    server = Workers(tmp_path / "server", port, postgresql())
    writers = [Writer(server.port, *account) for account in accounts(server.settings)]
    try:
        for writer in writers:
            writer.start()
        for _ in range(5):
            before = [writer.acknowledged for writer in writers]
            wait_for(partial(have_gone_on, writers, before))
            postgresql_control("stop")
            for writer in writers:
                writer.refused_since.clear()
            wait_for(lambda: all(writer.refused_since.is_set() for writer in writers))
            assert not server.answers(), "it is not ready"
            postgresql_control("start")
        wait_for(server.answers)
        for writer in writers:
            writer.stop.set()
            writer.join()
            check(server.port, writer)
            assert {status for status, _ in writer.refused} == {503}
            assert all("database" in why for _, why in writer.refused)
        assert len(server.pids()) == 2, "no worker died of it"
    finally:
        for writer in writers:
            writer.stop.set()
        server.close()
