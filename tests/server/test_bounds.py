"""What one client may take: connections, time, rows, bytes. And what no client waits for."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from killing import ENVIRONMENT
from loopback import ADMIN, PATIENCE, wait_for
from server.conftest import Client, Running, released, running


def connect(serving: Running) -> socket.socket:
    host, port = serving.url.split("//")[1].split(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def test_half_a_request_is_dropped(tmp_path: Path) -> None:
    """Headers that never end, nothing at all, half a body, a second request that stops half-way."""
    with running(tmp_path / "server", catalogue="films", read_timeout=3) as serving:
        whole = b"GET /api/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        begun = [
            b"GET /api/items HTTP/1.1\r\nHost: x\r\nX-", b"",
            b"POST /api/register HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
            whole + b"GET /api/i",
        ]  # fmt: skip
        lines, said = [], []
        for start in begun:
            lines.append(connect(serving))
            lines[-1].sendall(start)
        for line in lines:
            heard = b""
            try:
                while more := line.recv(4096):
                    heard += more
            except ConnectionResetError:
                pass
            line.close()
            said.append(heard)
        assert said[:2] == [b"", b""]
        assert said[2].startswith(b"HTTP/1.1 408")
        assert said[3].startswith(b"HTTP/1.1 200")
        wait_for(lambda: not serving.server.server_state.connections)


def test_endless_headers_are_cut(serving: Running) -> None:
    with connect(serving) as line:
        try:
            line.sendall(b"GET / HTTP/1.1\r\n")
            for _ in range(200):
                line.sendall(b"X-A: " + b"a" * 1000 + b"\r\n")
            heard = line.recv(4096)
        except OSError:
            heard = b""
    assert not heard.startswith(b"HTTP/1.1 2")
    wait_for(lambda: not serving.server.server_state.connections)


def test_connections_have_an_end(tmp_path: Path) -> None:
    with running(tmp_path / "server", connections_per_address=3) as serving:
        held = [connect(serving) for _ in range(3)]
        wait_for(lambda: len(serving.server.server_state.connections) == 3)
        refused = serving.client().get("/api/health/live")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "too many connections" in refused.json()["detail"]
        held.pop().close()
        wait_for(lambda: serving.client().get("/api/health/live").status_code == 200)
        for line in held:
            line.close()


def test_what_one_client_stores_is_bounded(tmp_path: Path, database_url: str) -> None:
    bounds = {"rows_per_user": 20, "bytes_per_user": 2000}
    with running(
        tmp_path / "server", catalogue="films", database=database_url, **bounds
    ) as serving:
        user, other = serving.register(), serving.register()
        films = [item["ItemId"] for item in user.get("/api/items?n=30").json()["Items"]]

        def put(
            items: list[str], who: Client = user, kind: str = "watch", comment: str = ""
        ) -> int:
            row = {"FeedbackType": kind, "UserId": who.user_id, "Comment": comment}
            return who.put("/api/feedback", json=[row | {"ItemId": i} for i in items]).status_code

        assert put(films[:20]) == 200
        assert put(films[:20]) == 200  # the same again is not more
        assert put(films[20:21]) == 413
        own = f"/api/user/{user.user_id}"
        assert user.put(f"{own}/release", json=released(films[:21])).status_code == 413
        assert len(user.get(f"{own}/feedback").json()) == 20
        assert user.put(f"{own}/release", json=released([])).status_code == 200
        assert put(films[:3], other, comment="x" * 1000) == 413
        assert put(films[:1], other, comment="x" * 1000) == 200
        kinds = [put([films[0]], other, kind=f"type{at}") for at in range(17)]
        assert kinds == [200] * 15 + [413] * 2
        # the operator brings data along for others
        rows = [{"FeedbackType": "w", "UserId": "shop", "ItemId": film} for film in films]
        assert serving.admin.put("/api/feedback", json=rows).status_code == 200


_THREADS = """
import sys
from pathlib import Path
from threadpoolctl import threadpool_info
from server.conftest import running

def threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

before = threads()
with running(Path(sys.argv[1])):
    print(before, threads(), sep=";")
print(threads())
"""


def test_answers_take_one_thread_of_linear_algebra(tmp_path: Path) -> None:
    """In a process of its own: the number is the process's, and other servers have set it here."""
    told = subprocess.run(
        [sys.executable, "-c", _THREADS, str(tmp_path / "server")], env=ENVIRONMENT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    during, after = told.stdout.splitlines()[-2:]
    before, found = map(json.loads, during.split(";"))
    assert found == [1] * len(before)
    assert json.loads(after) == before


def test_a_log_that_nobody_reads_stops_nothing(tmp_path: Path, port: int) -> None:
    """A pipe takes 64 kB; then whoever writes into it waits."""
    settings = {
        "data": tmp_path / "server", "port": port, "http": "true", "admin_key": ADMIN,
        "catalogue": "none",
    }  # fmt: skip
    environment = {f"EPICREC_SERVER_{name.upper()}": str(value) for name, value in settings.items()}
    server = subprocess.Popen(
        [sys.executable, "-c", "from epicrec.server import serve; serve()"],
        env=os.environ | environment, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert server.stderr is not None
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return server.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for(listens)
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for _ in range(1500):
            line.request("GET", "/api/health/live")
            answer = line.getresponse()
            answer.read()
            assert answer.status == 200
        line.close()
        server.terminate()
        assert server.wait(PATIENCE) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.stderr.close()
        server.wait()
