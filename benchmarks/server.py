"""Recommendation requests per second beside a bare FastAPI endpoint, and a training on many rows.

python benchmarks/server.py                     100,000 users, 20,000 items, SQLite, loopback
python benchmarks/server.py --train 20000000    one training on so many rows of feedback
python benchmarks/server.py --quick             a tenth of everything

The server runs in one process, the clients in a second. Hello and recommendations take turns in the
same run, so that what else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

HELLO = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.get("/hello")
async def hello() -> dict[str, str]:
    return {"hello": "world"}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning")
"""
HELLO_PORT, SERVER_PORT = 18_187, 18_188
ADMIN = "admin-key-of-the-benchmark"


def secret(user: int) -> str:
    return hashlib.sha256(f"user {user}".encode()).hexdigest()


def fill(folder: Path, users: int, items: int, rows: int) -> None:
    """Users with secrets, items in 20 categories, and feedback with a long tail, in the store."""
    from epicrec.server import Settings
    from epicrec.server.store import people, schema
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
                    "secret_digest": people.digest(secret(at)),
                    "labels": "null",
                    "comment": "",
                    "seen_day": people.today(),
                    "revision": 0,
                }
                for at in range(users)
            ],
        )
        connection.exec_driver_sql("UPDATE state SET revision = 1")
        per_user = rows // users
        insert = "INSERT INTO feedback VALUES (?, ?, 'watch', 1, NULL, '')"
        for start in range(0, users, 2000):
            block = []
            for user in range(start, min(start + 2000, users)):
                drawn = np.unique((items * rng.random(int(per_user * 1.4)) ** 2.5).astype(int))
                chosen = np.sort(rng.permutation(drawn)[:per_user])
                block += [(user + 1, int(item) + 1) for item in chosen]
            connection.exec_driver_sql(insert, block)
    database.stop()


@contextmanager
def process(*command: str, port: int, **environment: str) -> Iterator[None]:
    """A server until the block ends; ready when its port answers."""
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
        yield
    finally:
        started.terminate()
        started.wait(60)


async def _ask(port: int, seconds: float, connections: int, request: Any) -> list[float]:
    """Ask again and again over so many kept-alive connections; the seconds each answer took."""
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
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return times


def measure(port: int, seconds: float, connections: int, request: Any) -> dict[str, float]:
    times = sorted(asyncio.run(_ask(port, seconds, connections, request)))
    return {
        "per_second": len(times) / seconds,
        "p50_ms": 1e3 * times[len(times) // 2],
        "p99_ms": 1e3 * times[int(len(times) * 0.99)],
    }


def load(users: int, items: int, seconds: float, rounds: int, connections: int) -> dict[str, Any]:
    """The figures of hello and of recommendations, in turns."""

    def hello() -> bytes:
        return b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def recommend(path: str = "") -> bytes:
        user = random.randrange(users)
        return (
            f"GET /api/recommend/user-{user}{path}?n=10 HTTP/1.1\r\nHost: localhost\r\n"
            f"X-API-Key: {secret(user)}\r\n\r\n"
        ).encode()

    def in_category() -> bytes:
        return recommend(f"/category%20{random.randrange(20)}")

    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        data = Path(folder) / "server"
        fill(data, users, items, rows=20 * users)
        print(f"filled the store in {time.perf_counter() - started:.0f} s", file=sys.stderr)
        trained = run_job(data)
        print(f"trained in {trained['seconds']} s", file=sys.stderr)
        serve = (sys.executable, "-c", "from epicrec.server import serve; serve()")
        settings = {
            "EPICREC_SERVER_DATA": str(data),
            "EPICREC_SERVER_HTTP": "true",
            "EPICREC_SERVER_PORT": str(SERVER_PORT),
            "EPICREC_SERVER_ADMIN_KEY": ADMIN,
            "EPICREC_SERVER_TRAIN_EVERY": "0",
            "EPICREC_SERVER_REQUESTS_PER_MINUTE": "100000",
        }
        found: dict[str, list[dict[str, float]]] = {}
        kinds = (
            ("hello", HELLO_PORT, hello),
            ("recommend", SERVER_PORT, recommend),
            ("recommend in a category", SERVER_PORT, in_category),
        )
        hello_server = process(sys.executable, "-c", HELLO, str(HELLO_PORT), port=HELLO_PORT)
        with hello_server, process(*serve, port=SERVER_PORT, **settings):
            for _ in range(rounds):
                for name, port, request in kinds:
                    found.setdefault(name, []).append(measure(port, seconds, connections, request))
    return {
        name: {key: round(median(one[key] for one in runs), 1) for key in runs[0]}
        for name, runs in found.items()
    }


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
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=16)
    chosen = parser.parse_args()
    part = 10 if chosen.quick else 1
    users, items = 100_000 // part, 20_000 // part
    if chosen.train:
        print(json.dumps(train(chosen.train // part, users, items), indent=2))
        return
    found = load(users, items, chosen.seconds / part, chosen.rounds, chosen.connections)
    for name, figures in found.items():
        share = figures["per_second"] / found["hello"]["per_second"]
        print(
            f"{name:26}{figures['per_second']:8.0f}/s  p50 {figures['p50_ms']:6.1f} ms  "
            f"p99 {figures['p99_ms']:6.1f} ms  {share:5.2f} of hello"
        )


if __name__ == "__main__":
    main()
