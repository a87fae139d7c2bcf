"""One hostile client at the default limits, and what it does to the server and to somebody else.

python benchmarks/hostile.py [--seconds 60]

It sends the largest batches it may, comments and types without end, releases with long guarantees,
wrong keys, registrations, and half-sent requests over hundreds of connections, from one address.
Somebody at another address asks for a list twenty times a second. Prints what each was answered,
the other's waiting times before and meanwhile, and how database and memory grew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from server import process

PORT = 18_189
URL = f"http://127.0.0.1:{PORT}"


def client(address: str, key: str = "") -> httpx.Client:
    headers = {"X-API-Key": key} if key else {}
    transport = httpx.HTTPTransport(local_address=address)
    return httpx.Client(base_url=URL, headers=headers, transport=transport, timeout=60)


class Attack:
    """What one address does at once, and what it is told."""

    def __init__(self, films: list[str]) -> None:
        self.films, self.told, self.stop = films, Counter[str](), threading.Event()
        with client("127.0.0.1") as one:
            self.me = one.post("/api/register").json()
        every = (self.batches, self.releases, self.wrong_keys, self.registrations, self.half_sent)
        self.threads = [threading.Thread(target=self.again, args=(one,)) for one in every]

    def again(self, act: Callable[[httpx.Client], str]) -> None:
        with client("127.0.0.1", self.me["Secret"]) as one:
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


def waiting(other: httpx.Client, path: str, seconds: float) -> dict[str, Any]:
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


def sizes(data: Path, pid: int) -> dict[str, float]:
    files = sum(file.stat().st_size for file in data.glob("epicrec.sqlite*"))
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    rss = pages * os.sysconf("SC_PAGE_SIZE")
    return {"database_mb": round(files / 2**20, 1), "rss_mb": round(rss / 2**20)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "server"
        given = {"DATA": str(data), "HTTP": "true", "PORT": str(PORT), "CATALOGUE": "films"}
        settings = {f"EPICREC_SERVER_{name}": value for name, value in given.items()}
        command = (sys.executable, "-c", "from epicrec.server import serve; serve()")
        with process(*command, port=PORT, **settings) as pid, client("127.0.0.2") as other:
            me = other.post("/api/register").json()
            other.headers["X-API-Key"] = me["Secret"]
            path = f"/api/recommend/{me['UserId']}"
            films = [one["ItemId"] for one in other.get("/api/items?n=536").json()["Items"]]
            found: dict[str, Any] = {"alone": waiting(other, path, seconds / 6) | sizes(data, pid)}
            attack = Attack(films)
            for thread in attack.threads:
                thread.start()
            found["attacked"] = waiting(other, path, seconds) | sizes(data, pid)
            attack.stop.set()
            for thread in attack.threads:
                thread.join()
            found["told"] = dict(sorted(attack.told.items()))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
