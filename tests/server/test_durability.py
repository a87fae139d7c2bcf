"""Killed at any moment: the acknowledged is there, nothing is half-written, lists can be read."""

from __future__ import annotations

import http.client
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from epicrec.data.datasets import load_catalogue
from epicrec.server import Settings
from epicrec.server.serving import trained_lists
from epicrec.server.store import users
from epicrec.server.store.database import Database
from epicrec.server.training import folders
from killing import ENVIRONMENT
from loopback import ADMIN, PATIENCE
from server.conftest import prepare

MOMENTS = (
    "training 30", "server COMMIT 9", "server INSERT 30", "server 7", "training replace 6",
    "server COMMIT 30", "server 1000", "training fsync 2", "training 200",
)  # fmt: skip
WRITERS = 4
ROWS = 6


class Gone(Exception):
    """The server died while we spoke to it."""


class Line:
    """A connection to the server: plain and light, since hundreds are made."""

    def __init__(self, port: int, secret: str = "") -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
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
        self.refused: set[tuple[int, str]] = set()
        self.refused_since = threading.Event()
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
        status, said = self.line.ask("PUT", "/api/feedback", rows)
        if status == 200:
            self.acknowledged = number
        else:
            self.refused.add((status, said["detail"]))
            self.refused_since.set()


def ask_once(port: int, method: str, path: str, secret: str = "") -> tuple[int, Any]:
    line = Line(port, secret)
    try:
        return line.ask(method, path)
    finally:
        line.connection.close()


def accounts(settings: dict[str, Any]) -> list[tuple[list[str], str, str]]:
    """For each writer some films, a user's id and the secret."""
    films = load_catalogue("films").item_ids.tolist()
    database, rng = Database(Settings(**settings).database_url), random.Random(0)
    with database.writing() as connection:
        made = [users.register(connection) for _ in range(WRITERS)]
    database.stop()
    return [(rng.sample(films, ROWS), one.UserId, one.Secret) for one in made]


class Nursery:
    """The process of killable.py, and what it says."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "killable.py"), json.dumps(settings)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True, env=ENVIRONMENT,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout

    def start(self, moment: str) -> None:
        """A life that ends at this moment."""
        self._in.write(f"{moment}\n".encode())
        self._in.flush()

    def is_over(self, seconds: float = 0.0) -> bool:
        return bool(select.select([self._out], [], [], seconds)[0])

    def end(self) -> str:
        """Wait for the end of the life; who died, and how."""
        assert self.is_over(PATIENCE), "the step is never reached"
        return self._out.readline().decode().strip()

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # with the life that may go on
        self._process.wait()
        self._in.close()
        self._out.close()


def check(port: int, writer: Writer) -> None:
    """The writer's release on the server is whole, and no older than the last acknowledged one."""
    least = writer.acknowledged
    _, rows = ask_once(port, "GET", f"/api/user/{writer.user_id}/feedback", writer.secret)
    if not rows:
        assert least == 0
        return
    assert len(rows) == ROWS
    [found] = {row["Comment"] for row in rows}
    assert {row["Value"] for row in rows} == {float(found.split()[1])}
    assert least <= int(found.split()[1]) <= writer.sent


def look(port: int, nursery: Nursery, writers: list[Writer]) -> int:
    """Check every writer once in this life, if it lasts long enough; how many were checked."""
    checked = 0
    while checked < len(writers) and not nursery.is_over():
        try:
            check(port, writers[checked])
            checked += 1
        except Gone:
            time.sleep(0.01)
    return checked


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [
        MOMENTS,
        pytest.param(
            [f"{'training' if k % 3 == 0 else 'server'} {6 * k}" for k in range(1, 151)],
            marks=pytest.mark.soak,
        ),
    ],
    ids=["some steps", "hundreds of steps"],
)
def test_killed_under_load(tmp_path: Path, port: int, moments: Sequence[str]) -> None:
    folder = tmp_path / "server"
    settings = {
        "data": str(folder), "http": True, "port": port, "admin_key": ADMIN,
        "train_every": 0, "training_nice": 0, "factors": 4, "iterations": 3,
        "registrations_per_hour": 10_000, "requests_per_minute": 1_000_000,
    }  # fmt: skip
    prepare(catalogue="films", **settings)  # filled once, so that each start is quick
    writers = [Writer(port, *account) for account in accounts(settings)]
    trainings, checked = 0, 0
    nursery = Nursery(settings)
    try:
        for writer in writers:
            writer.start()
        for moment in moments:
            nursery.start(moment)
            checked += look(port, nursery, writers)
            assert nursery.end() == f"{moment.split()[0]} {-signal.SIGKILL}"
            number = folders.current(folder / "models")
            if number is not None:
                trained_lists.TrainedLists.open(folder / "models" / str(number))
                assert trainings <= number
                trainings = number
        nursery.start("neither")
        assert look(port, nursery, writers) == WRITERS, "the last life is there to be looked at"
    finally:
        for writer in writers:
            writer.stop.set()
        nursery.close()
    assert checked > WRITERS
    assert sum(writer.acknowledged for writer in writers) > len(moments)  # there was load
    assert trainings > 1  # and there were models to swap
