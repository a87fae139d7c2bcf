"""How many requests does the service answer, and what can one hostile client do to it?

    epicrec bench service                     100,000 users, 20,000 items on SQLite; minutes
    epicrec bench service requests --quick    a tenth of everything
    epicrec bench service requests --database postgresql://…    there, by one worker and by two
    epicrec bench service metrics             /metrics with up to 2 million rows in the store
    epicrec bench service hostile [--seconds 60]

The server runs in one process, the clients in a second, both on loopback. Processor time is the
server's own, so it leaves out what else the machine does.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from _measuring import Parts, processor_seconds, run_to_end, show

from epicrec.server import Settings, serve
from epicrec.server.store.database import Database
from epicrec.server.store.schema import items as items_table
from epicrec.server.store.schema import users as users_table
from epicrec.server.store.users import digest, today
from epicrec.server.training.job import read_status

PORT, HELLO_PORT = 18_188, 18_187
ADMIN = "admin-key-of-the-benchmark"
SERVE = (sys.executable, "-c", "from epicrec.server import serve; serve()")
TRAIN = (sys.executable, "-m", "epicrec.server.training.job", "train")

# ---- a running server and who asks it -----------------------------------------------------------


@contextmanager
def process(*command: str, port: int, **environment: str) -> Iterator[int]:
    """A server until the block ends, ready when its port answers; its process id."""
    started = subprocess.Popen(
        command, env=os.environ | environment, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield started.pid
    finally:
        started.terminate()
        started.wait(60)


def environment(data: Path, **more: str) -> dict[str, str]:
    """The settings of a server, as it reads them."""
    settings = {
        "DATA": str(data), "HTTP": "true", "PORT": str(PORT), "ADMIN_KEY": ADMIN,
        "TRAIN_EVERY": "0", "REQUESTS_PER_MINUTE": "10000000", **more,
    }  # fmt: skip
    return {f"EPICREC_SERVER_{name}": value for name, value in settings.items()}


def secret(user: int) -> str:
    return hashlib.sha256(f"user {user}".encode()).hexdigest()


def asked(user: int, method: str, path: str, body: Any = None) -> bytes:
    """One user's request."""
    content = b"" if body is None else json.dumps(body).encode()
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {secret(user)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


def measure(
    port: int, seconds: float, connections: int, request: Any, pid: int, pause: float = 0.0
) -> dict[str, float]:
    before = processor_seconds(pid)
    times = sorted(asyncio.run(ask(port, seconds, connections, request, pause)))
    return {
        "per_second": len(times) / seconds,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "cpu_ms": 1e3 * (processor_seconds(pid) - before) / len(times),
    }


async def ask(
    port: int, seconds: float, connections: int, request: Any, pause: float = 0.0
) -> list[float]:
    """Ask again and again over so many kept-alive connections, with a pause after each answer; the
    seconds each answer took."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            start = time.perf_counter()
            writer.write(request())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            assert head.startswith(b"http/1.1 200"), head
            length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            times.append(time.perf_counter() - start)
            if pause:
                await asyncio.sleep(pause)
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return times


# ---- requests -----------------------------------------------------------------------------------

HELLO = """
from fastapi import FastAPI
app = FastAPI()
@app.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "world"}
"""
HELLO_REQUEST = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
METRICS_REQUEST = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {ADMIN}\r\n\r\n".encode()


def requests(given: Namespace) -> None:
    """Requests a second and processor time, beside a bare FastAPI endpoint.

    Hello and recommendations take turns in one run, by as many workers. "First" is somebody whose
    key or list the server has not seen since it started; hello at the same pace tells what part of
    a wait is the machine's.
    """
    part = 10 if given.quick else 1
    found = load(
        100_000 // part, 20_000 // part, given.seconds / part, given.rounds, given.connections,
        given.database,
    )  # fmt: skip
    for name, figures in found.items():
        bare = found["hello, 2 workers" if name.endswith("2 workers") else "hello"]
        share = figures["per_second"] / bare["per_second"]
        cheap = bare["cpu_ms"] / figures["cpu_ms"]
        print(
            f"{name:44}{figures['per_second']:8.0f}/s  p50 {figures['p50_ms']:6.1f} ms  "
            f"p99 {figures['p99_ms']:6.1f} ms  cpu {figures['cpu_ms']:7.3f} ms  "
            f"{share:5.2f} of hello's rate, {cheap:5.2f} by processor time"
        )


def metrics(given: Namespace) -> None:
    """What /metrics takes with so many rows in the store, which is SQLite."""
    part = 10 if given.quick else 1
    for rows in (125_000 // part, 500_000 // part, 2_000_000 // part):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "server"
            fill(data, rows // 20, 20_000, rows)
            with process(*SERVE, port=PORT, **environment(data)) as pid:
                time.sleep(given.seconds)  # meanwhile the rows are counted
                found = measure(PORT, given.seconds, 1, lambda: METRICS_REQUEST, pid)
        show({"rows": rows} | {name: round(value, 2) for name, value in found.items()})


def load(
    users: int, items: int, seconds: float, rounds: int, connections: int, database: str
) -> dict[str, Any]:
    """The figures of hello and of what a server is asked, in turns; by two workers where it may."""
    known, changed = users // 100, users // 5  # the last fifth has changed since the training

    def recommend(user: int, path: str = "") -> bytes:
        return asked(user, "GET", f"/api/recommend/user-{user}{path}?n=10")

    def any_of(first: int, last: int) -> Any:
        return lambda: recommend(random.randrange(first, last))

    def each_of(first: int, last: int) -> Any:
        order = itertools.cycle(random.sample(range(first, last), last - first))
        return lambda: recommend(next(order))

    def batch(rows: int) -> bytes:
        user = random.randrange(known, users - changed)
        row = {"FeedbackType": "watch", "UserId": f"user-{user}"}
        chosen = random.sample(range(items), rows)
        return asked(user, "PUT", "/api/feedback", [row | {"ItemId": f"item-{k}"} for k in chosen])

    kinds: dict[str, Any] = {
        "recommend": any_of(0, known),
        "recommend, first": each_of(known, users - changed),
        "recommend in a category": lambda: recommend(
            random.randrange(known), f"/category%20{random.randrange(20)}"
        ),
        "recommend to who changed, first": each_of(users - changed, users - known),
        "recommend to who changed": any_of(users - known, users),
        "batch of 1,000 rows": lambda: batch(1000),
        "metrics": lambda: METRICS_REQUEST,
    }
    found: dict[str, list[dict[str, float]]] = {}
    pause = 0.0

    def turn(name: str, port: int, request: Any, pid: int, **more: float) -> dict[str, float]:
        figures = measure(port, seconds, connections, request, pid, **more)
        found.setdefault(name, []).append(figures)
        return figures

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "server"
        _prepare(data, users, items, changed, database)
        (Path(folder) / "hello.py").write_text(HELLO)
        for workers in (1, 2) if database else (1,):
            given = environment(data, DATABASE=database, WORKERS=str(workers))
            end = "" if workers == 1 else f", {workers} workers"
            with (
                process(*_hello(folder, workers), port=HELLO_PORT) as bare,
                process(*SERVE, port=PORT, **given) as pid,
            ):
                for name in ("recommend", "recommend to who changed"):  # asked before, by each
                    measure(PORT, seconds, connections, kinds[name], pid)
                for _ in range(rounds):
                    turn("hello" + end, HELLO_PORT, lambda: HELLO_REQUEST, bare)
                    for name, request in kinds.items():
                        figures = turn(name + end, PORT, request, pid)
                        if name == "recommend" and workers == 1:  # half of what one can do
                            pause = 2 * connections / figures["per_second"]
                    paced = f", half load{end}"
                    turn("recommend" + paced, PORT, kinds["recommend"], pid, pause=pause)
                    turn("hello" + paced, HELLO_PORT, lambda: HELLO_REQUEST, bare, pause=pause)
    return {
        name: {key: round(median(one[key] for one in runs), 3) for key in runs[0]}
        for name, runs in found.items()
    }


def _hello(folder: str, workers: int) -> list[str]:
    """The command of the bare endpoint."""
    options = f"--app-dir {folder} --port {HELLO_PORT} --workers {workers} --log-level warning"
    return [sys.executable, "-m", "uvicorn", "hello:app", "--no-access-log", *options.split()]


def _prepare(data: Path, users: int, items: int, changed: int, database: str) -> None:
    """Fill and train a server, and mark the last so many users as changed since; move everything
    to another database if one is named."""

    def timed(name: str, work: Any) -> None:
        started = time.perf_counter()
        work()
        print(f"{name} in {time.perf_counter() - started:.1f} s", file=sys.stderr)

    timed("filled the store", lambda: fill(data, users, items, rows=20 * users))
    timed("trained", lambda: _train(data))
    with closing(sqlite3.connect(data / "epicrec.sqlite")) as store, store:
        store.execute("UPDATE state SET revision = 2 WHERE id = 1")
        store.execute("UPDATE users SET revision = 2 WHERE user_key > ?", (users - changed,))
    if database:
        backup = data.parent / "backup"
        timed("backed up", lambda: serve(backup=backup, data=str(data)))
        timed("restored", lambda: serve(restore=backup, data=str(data), database=database))


def _train(folder: Path) -> None:
    """One training in a process of its own, as the server does it."""
    settings = Settings(data=str(folder))
    run_to_end(*TRAIN, given=json.dumps(settings.to_dict()).encode())
    status = read_status(settings, "train")
    assert status["state"] == "done", status


def fill(folder: Path, users: int, items: int, rows: int) -> None:
    """Users with secrets, items in 20 categories, and feedback with a long tail, in the store."""
    database = Database(Settings(data=str(folder)).database_url)
    folder.mkdir(parents=True, exist_ok=True)
    database.migrate()
    rng = np.random.default_rng(0)
    with database.writing() as connection:
        connection.execute(
            items_table.insert(),
            [
                {
                    "item_key": at + 1,
                    "item_id": f"item-{at}",
                    "is_hidden": False,
                    "categories": json.dumps([f"category {at % 20}", f"category {at // 20 % 20}"]),
                    "labels": "null",
                    "comment": "",
                }
                for at in range(items)
            ],
        )
        connection.execute(
            users_table.insert(),
            [
                {
                    "user_key": at + 1,
                    "user_id": f"user-{at}",
                    "secret_digest": digest(secret(at)),
                    "labels": "null",
                    "comment": "",
                    "seen_day": today(),
                    "revision": 0,
                }
                for at in range(users)
            ],
        )
        connection.exec_driver_sql("UPDATE state SET revision = 1")
        per_user = rows // users
        insert = "INSERT INTO feedback VALUES (?, ?, 'watch', 0, 1, NULL, '')"
        for start in range(0, users, 2000):
            block = []
            for user in range(start, min(start + 2000, users)):
                drawn = np.unique((items * rng.random(int(per_user * 1.4)) ** 2.5).astype(int))
                chosen = np.sort(rng.permutation(drawn)[:per_user])
                block += [(user + 1, int(item) + 1) for item in chosen]
            connection.exec_driver_sql(insert, block)
    database.stop()


# ---- one hostile client -------------------------------------------------------------------------


def hostile(given: Namespace) -> None:
    """What one hostile client at the default limits does to the server and to somebody else.

    It sends the largest batches it may, comments and types without end, releases with long
    guarantees, wrong keys, registrations, and half-sent requests over hundreds of connections.
    Somebody at another address asks for a list twenty times a second.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "server"
        plain = {"DATA": str(data), "HTTP": "true", "PORT": str(PORT), "CATALOGUE": "films"}
        settings = {f"EPICREC_SERVER_{name}": value for name, value in plain.items()}
        with process(*SERVE, port=PORT, **settings) as pid, _client("127.0.0.2") as other:
            me = other.post("/api/register").json()
            other.headers["X-API-Key"] = me["Secret"]
            path = f"/api/recommend/{me['UserId']}"
            films = [one["ItemId"] for one in other.get("/api/items?n=536").json()["Items"]]
            alone = _waiting(other, path, given.seconds / 6) | _sizes(data, pid)
            attack = Attack(films)
            for thread in attack.threads:
                thread.start()
            attacked = _waiting(other, path, given.seconds) | _sizes(data, pid)
            attack.stop.set()
            for thread in attack.threads:
                thread.join()
    found = {"alone": alone, "attacked": attacked, "told": dict(sorted(attack.told.items()))}
    print(json.dumps(found, indent=2))


def _client(address: str, key: str = "") -> httpx.Client:
    headers = {"X-API-Key": key} if key else {}
    transport = httpx.HTTPTransport(local_address=address)
    url = f"http://127.0.0.1:{PORT}"
    return httpx.Client(base_url=url, headers=headers, transport=transport, timeout=60)


class Attack:
    """What one address does at the same time, and what it is told."""

    def __init__(self, films: list[str]) -> None:
        self.films, self.told, self.stop = films, Counter[str](), threading.Event()
        with _client("127.0.0.1") as one:
            self.me = one.post("/api/register").json()
        every = (self.batches, self.releases, self.wrong_keys, self.registrations, self.half_sent)
        self.threads = [threading.Thread(target=self.again, args=(one,)) for one in every]

    def again(self, act: Callable[[httpx.Client], str]) -> None:
        with _client("127.0.0.1", self.me["Secret"]) as one:
            while not self.stop.is_set():
                try:
                    self.told[f"{act.__name__} {act(one)}"] += 1
                except (OSError, httpx.HTTPError) as error:
                    self.told[f"{act.__name__} {type(error).__name__}"] += 1

    def batches(self, one: httpx.Client) -> str:
        kind = f"t{random.randrange(10**6)}"
        row = {"FeedbackType": kind, "UserId": self.me["UserId"], "Comment": "x" * 1000}
        rows = [row | {"ItemId": random.choice(self.films)} for _ in range(1500)]
        return str(one.put("/api/feedback", json=rows).status_code)

    def releases(self, one: httpx.Client) -> str:
        guarantee = {"epsilon": 1, "unit": "item", "relation": "add or remove one",
                     "assumes": ["y" * 7000]}  # fmt: skip
        release = {"format": 1, "method": "m", "items": self.films[:1], "counts": None,
                   "ratings": None, "guarantee": guarantee}  # fmt: skip
        body = {"Release": release, "FeedbackType": f"r{random.randrange(10**6)}"}
        path = f"/api/user/{self.me['UserId']}/release"
        return str(one.put(path, json=body).status_code)

    def wrong_keys(self, one: httpx.Client) -> str:
        return str(one.get("/api/items", headers={"X-API-Key": os.urandom(16).hex()}).status_code)

    def registrations(self, one: httpx.Client) -> str:
        return str(one.post("/api/register").status_code)

    def half_sent(self, _: httpx.Client) -> str:
        lines = [socket.create_connection(("127.0.0.1", PORT), timeout=30) for _ in range(250)]
        for line in lines:
            line.sendall(b"GET /api/items HTTP/1.1\r\nX-")
        time.sleep(5)
        for line in lines:
            line.close()
        return "sent"


def _waiting(other: httpx.Client, path: str, seconds: float) -> dict[str, Any]:
    """How long somebody else waits for a list."""
    times, told = [], Counter[int]()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        start = time.perf_counter()
        told[other.get(path).status_code] += 1
        times.append(time.perf_counter() - start)
        time.sleep(0.05)
    times.sort()
    share = {"p50_ms": 0.5, "p99_ms": 0.99}
    found = {name: round(1e3 * times[int(at * len(times))], 1) for name, at in share.items()}
    return found | {"answers": dict(told)}


def _sizes(data: Path, pid: int) -> dict[str, float]:
    files = sum(file.stat().st_size for file in data.glob("epicrec.sqlite*"))
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    rss = pages * os.sysconf("SC_PAGE_SIZE")
    return {"database_mb": round(files / 2**20, 1), "rss_mb": round(rss / 2**20)}


def parts() -> Parts:
    found = Parts(__doc__)
    part = found.add("requests", requests)
    part.add_argument("--quick", action="store_true", help="a tenth of everything")
    part.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    part.add_argument("--rounds", type=int, default=3)
    part.add_argument("--connections", type=int, default=16)
    part.add_argument("--database", default="", help="an empty PostgreSQL instead of SQLite")
    part = found.add("metrics", metrics)
    part.add_argument("--quick", action="store_true", help="a tenth of everything")
    part.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    part = found.add("hostile", hostile)
    part.add_argument("--seconds", type=float, default=60.0, help="of attack")
    return found


if __name__ == "__main__":
    sys.exit(parts().run())
