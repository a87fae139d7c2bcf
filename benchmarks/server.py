"""Recommendation requests per second beside a bare FastAPI endpoint, and a training on many rows.

python benchmarks/server.py                     100,000 users, 20,000 items, SQLite, loopback
python benchmarks/server.py --train 20000000    one training on so many rows of feedback
python benchmarks/server.py --metrics           /metrics with up to 2 million rows in the store
python benchmarks/server.py --quick             a tenth of everything
python benchmarks/server.py --database postgresql://…    the same there, by one worker and by two

The server runs in one process, the clients in a second. Hello and recommendations take turns in the
same run, by as many workers, so that what else the machine does falls on both; processor time is
the server's own, so that it falls on neither. "First" is somebody whose key or list the server has
not seen since it started; hello at the same pace tells what of a wait is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import itertools
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

HELLO = """
from fastapi import FastAPI
app = FastAPI()
@app.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "world"}
"""
HELLO_PORT, SERVER_PORT = 18_187, 18_188
HELLO_REQUEST = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
ADMIN = "admin-key-of-the-benchmark"
METRICS_REQUEST = f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {ADMIN}\r\n\r\n".encode()
SERVE = (sys.executable, "-c", "from epicrec.server import serve; serve()")


def secret(user: int) -> str:
    return hashlib.sha256(f"user {user}".encode()).hexdigest()


def fill(folder: Path, users: int, items: int, rows: int) -> None:
    """Users with secrets, items in 20 categories, and feedback with a long tail, in the store."""
    from epicrec.server import Settings
    from epicrec.server.store import schema
    from epicrec.server.store import users as accounts
    from epicrec.server.store.database import Database

    database = Database(Settings(data=str(folder)).database_url)
    folder.mkdir(parents=True, exist_ok=True)
    database.migrate()
    rng = np.random.default_rng(0)
    with database.writing() as connection:
        connection.execute(
            schema.items.insert(),
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
            schema.users.insert(),
            [
                {
                    "user_key": at + 1,
                    "user_id": f"user-{at}",
                    "secret_digest": accounts.digest(secret(at)),
                    "labels": "null",
                    "comment": "",
                    "seen_day": accounts.today(),
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


def cpu_seconds(pid: int) -> float:
    """What a process and its children have used of the processors."""
    used = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:  # it has just ended
            continue
        parts = rest.split()
        if pid in (int(name.split()[0]), int(parts[1])):
            used += (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    return used


@contextmanager
def process(*command: str, port: int, **environment: str) -> Iterator[int]:
    """A server until the block ends, by its process id; ready when its port answers."""
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


async def _ask(
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


def measure(
    port: int, seconds: float, connections: int, request: Any, pid: int, pause: float = 0.0
) -> dict[str, float]:
    before = cpu_seconds(pid)
    times = sorted(asyncio.run(_ask(port, seconds, connections, request, pause)))
    return {
        "per_second": len(times) / seconds,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
        "cpu_ms": 1e3 * (cpu_seconds(pid) - before) / len(times),
    }


def asked(user: int, method: str, path: str, body: Any = None) -> bytes:
    """One user's request."""
    content = b"" if body is None else json.dumps(body).encode()
    return (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {secret(user)}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    ).encode() + content


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
        prepared(data, users, items, changed, database)
        (Path(folder) / "hello.py").write_text(HELLO)
        for workers in (1, 2) if database else (1,):
            given = environment(data, DATABASE=database, WORKERS=str(workers))
            end = "" if workers == 1 else f", {workers} workers"
            with (
                process(*hello(folder, workers), port=HELLO_PORT) as bare,
                process(*SERVE, port=SERVER_PORT, **given) as pid,
            ):
                for name in ("recommend", "recommend to who changed"):  # asked before, by each
                    measure(SERVER_PORT, seconds, connections, kinds[name], pid)
                for _ in range(rounds):
                    turn("hello" + end, HELLO_PORT, lambda: HELLO_REQUEST, bare)
                    for name, request in kinds.items():
                        figures = turn(name + end, SERVER_PORT, request, pid)
                        if name == "recommend" and workers == 1:  # half of what one can do
                            pause = 2 * connections / figures["per_second"]
                    paced = f", half load{end}"
                    turn("recommend" + paced, SERVER_PORT, kinds["recommend"], pid, pause=pause)
                    turn("hello" + paced, HELLO_PORT, lambda: HELLO_REQUEST, bare, pause=pause)
    return {
        name: {key: round(median(one[key] for one in runs), 3) for key in runs[0]}
        for name, runs in found.items()
    }


def hello(folder: str, workers: int) -> list[str]:
    """The command of the bare endpoint."""
    options = f"--app-dir {folder} --port {HELLO_PORT} --workers {workers} --log-level warning"
    return [sys.executable, "-m", "uvicorn", "hello:app", "--no-access-log", *options.split()]


def environment(data: Path, **more: str) -> dict[str, str]:
    """The settings of a server, as it reads them."""
    settings = {
        "DATA": str(data), "HTTP": "true", "PORT": str(SERVER_PORT), "ADMIN_KEY": ADMIN,
        "TRAIN_EVERY": "0", "REQUESTS_PER_MINUTE": "10000000", **more,
    }  # fmt: skip
    return {f"EPICREC_SERVER_{name}": value for name, value in settings.items()}


def metrics(rows: int, seconds: float) -> dict[str, float]:
    """What /metrics takes with so many rows in the store, which is SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "server"
        fill(data, rows // 20, 20_000, rows)
        with process(*SERVE, port=SERVER_PORT, **environment(data)) as pid:
            time.sleep(seconds)  # the rows are being counted, aside
            found = measure(SERVER_PORT, seconds, 1, lambda: METRICS_REQUEST, pid)
    return {"rows": rows} | {name: round(value, 2) for name, value in found.items()}


def prepared(data: Path, users: int, items: int, changed: int, database: str) -> None:
    """A server's folder, filled and trained, and the last so many users changed since; where
    another database is named, brought there."""
    from epicrec.server import serve

    def timed(name: str, work: Any) -> None:
        started = time.perf_counter()
        work()
        print(f"{name} in {time.perf_counter() - started:.1f} s", file=sys.stderr)

    timed("filled the store", lambda: fill(data, users, items, rows=20 * users))
    timed("trained", lambda: run_job(data))
    with closing(sqlite3.connect(data / "epicrec.sqlite")) as store, store:
        store.execute("UPDATE state SET revision = 2 WHERE id = 1")
        store.execute("UPDATE users SET revision = 2 WHERE user_key > ?", (users - changed,))
    if database:
        backup = data.parent / "backup"
        timed("backed up", lambda: serve(backup=backup, data=str(data)))
        timed("restored", lambda: serve(restore=backup, data=str(data), database=database))


def run_job(folder: Path, **settings: Any) -> dict[str, Any]:
    """One training in a process of its own, as the server does it."""
    from epicrec.server import Settings
    from epicrec.server.training.job import read_status

    chosen = Settings(data=str(folder), **settings)
    job = subprocess.Popen(
        [sys.executable, "-m", "epicrec.server.training.job", "train"], stdin=subprocess.PIPE
    )
    assert job.stdin is not None
    job.stdin.write(json.dumps(chosen.to_dict()).encode())
    job.stdin.close()
    said = ""
    while job.poll() is None:
        status = read_status(chosen, "train")
        if status.get("what") and status["what"] != said:
            said = status["what"]
            print(f"  {said} …", file=sys.stderr)
        time.sleep(0.2)
    status = read_status(chosen, "train")
    assert status["state"] == "done", status
    result: dict[str, Any] = status["last"]
    return result


def train(rows: int, users: int, items: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "server"
        started = time.perf_counter()
        fill(data, users, items, rows)
        filled = time.perf_counter() - started
        size = (data / "epicrec.sqlite").stat().st_size
        result = run_job(data)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {
        "rows": result["feedback"],
        "database_mb": round(size / 2**20),
        "fill_seconds": round(filled),
        "train_seconds": result["seconds"],
        "peak_rss_mb": round(peak),
        "quality": result["quality"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=int, metavar="ROWS", help="train on so many rows instead")
    parser.add_argument("--metrics", action="store_true", help="/metrics alone, at three sizes")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--database", default="", help="an empty PostgreSQL instead of SQLite")
    parser.add_argument("--connections", type=int, default=16)
    chosen = parser.parse_args()
    part = 10 if chosen.quick else 1
    users, items = 100_000 // part, 20_000 // part
    if chosen.train:
        print(json.dumps(train(chosen.train // part, users, items), indent=2))
        return
    if chosen.metrics:
        for rows in (125_000, 500_000, 2_000_000):
            print(json.dumps(metrics(rows // part, chosen.seconds)))
        return
    found = load(
        users, items, chosen.seconds / part, chosen.rounds, chosen.connections, chosen.database
    )
    for name, figures in found.items():
        bare = found["hello, 2 workers" if name.endswith("2 workers") else "hello"]
        share, cheap = (
            figures["per_second"] / bare["per_second"],
            bare["cpu_ms"] / figures["cpu_ms"],
        )
        print(
            f"{name:44}{figures['per_second']:8.0f}/s  p50 {figures['p50_ms']:6.1f} ms  "
            f"p99 {figures['p99_ms']:6.1f} ms  cpu {figures['cpu_ms']:7.3f} ms  "
            f"{share:5.2f} of hello's rate, {cheap:5.2f} by processor time"
        )


if __name__ == "__main__":
    main()
