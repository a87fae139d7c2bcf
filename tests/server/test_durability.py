"""Killed at any moment: the acknowledged is there, nothing is half-written, lists can be read."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from epicrec.server import serve
from epicrec.server.training import lists
from server.conftest import ADMIN, _free_port

KILLS = 50
WRITERS = 4
ROWS = 6


class Gone(Exception):
    """The server died while we spoke to it."""


class Line:
    """A connection to the server: plain and light, since hundreds are made."""

    def __init__(self, port: int, secret: str = "") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        self.headers = {"X-API-Key": secret, "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        content = None if body is None else json.dumps(body)
        try:
            self.connection.request(method, path, content, self.headers)
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.connection.close()
            raise Gone from error


class Writer(threading.Thread):
    """A client that releases again and again, each release with its number in every row."""

    def __init__(self, port: int, films: list[str], user_id: str, secret: str) -> None:
        super().__init__(daemon=True)
        self.line = Line(port, secret)
        self.films, self.user_id, self.secret = films, user_id, secret
        self.sent = self.acknowledged = 0
        self.stop = threading.Event()

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self.release()
            except Gone:
                time.sleep(0.01)
        self.line.connection.close()

    def release(self) -> None:
        number = self.sent = self.sent + 1
        rows = [
            {
                "FeedbackType": "watch",
                "UserId": self.user_id,
                "ItemId": film,
                "Value": number,
                "Comment": f"release {number}",
            }
            for film in self.films
        ]
        if self.line.ask("PUT", "/api/feedback", rows)[0] == 200:
            self.acknowledged = number


def wait_until_ready(port: int) -> None:
    for _ in range(2000):
        try:
            if ask_once(port, "GET", "/api/health/ready")[0] == 200:
                return
        except Gone:
            time.sleep(0.01)
    raise AssertionError("the server did not come back")


def ask_once(port: int, method: str, path: str, secret: str = "") -> tuple[int, Any]:
    line = Line(port, secret)
    try:
        return line.ask(method, path)
    finally:
        line.connection.close()


@pytest.mark.slow
def test_fifty_kills_under_load(tmp_path: Path) -> None:
    folder, port = tmp_path / "server", _free_port()
    settings = {
        "data": str(folder), "http": True, "port": port, "admin_key": ADMIN,
        "train_every": 0, "training_nice": 0, "factors": 4, "iterations": 3,
        "registrations_per_hour": 10_000, "requests_per_minute": 1_000_000,
    }  # fmt: skip
    serve(check=True, catalogue="films", **settings)  # filled once, so that each start is quick
    rng = random.Random(0)
    nursery = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "killable.py"), json.dumps(settings)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert nursery.stdin is not None
    assert nursery.stdout is not None

    def say(word: str) -> None:
        nursery.stdin.write(word + "\n")
        nursery.stdin.flush()
        assert nursery.stdout.readline().strip()

    writers: list[Writer] = []
    trainings = 0
    try:
        say("start")
        wait_until_ready(port)
        for _ in range(WRITERS):
            _, made = ask_once(port, "POST", "/api/register")
            _, page = ask_once(port, "GET", "/api/items?n=100", made["Secret"])
            chosen = [item["ItemId"] for item in rng.sample(page["Items"], ROWS)]
            writers.append(Writer(port, chosen, made["UserId"], made["Secret"]))
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.02, 0.4))
            say("kill")
            acknowledged = [writer.acknowledged for writer in writers]
            number = lists.current(folder / "models")
            if number is not None:
                lists.Lists.open(folder / "models" / str(number))
                trainings = number
            say("start")
            wait_until_ready(port)
            for writer, least in zip(writers, acknowledged, strict=True):
                path = f"/api/user/{writer.user_id}/feedback"
                _, rows = ask_once(port, "GET", path, writer.secret)
                if not rows:
                    assert least == 0
                    continue
                assert len(rows) == ROWS
                [found] = {row["Comment"] for row in rows}  # one release, whole
                assert {row["Value"] for row in rows} == {float(found.split()[1])}
                assert least <= int(found.split()[1]) <= writer.sent
    finally:
        for writer in writers:
            writer.stop.set()
        nursery.stdin.close()
        nursery.kill()
        nursery.wait()
        nursery.stdout.close()
        _end_children(port)
    assert sum(writer.acknowledged for writer in writers) > KILLS  # there was load
    assert trainings > 3  # and there were models to swap


def _end_children(port: int) -> None:
    """The nursery's last server and training outlive it; end exactly these."""
    import os
    import signal

    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes()
        except OSError:
            continue
        if b"killable.py" in command and str(port).encode() in command:
            os.kill(int(entry.parent.name), signal.SIGKILL)
