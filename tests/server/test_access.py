"""Whose key opens what, what wrong keys cost, and what the log does not say."""

from __future__ import annotations

import hmac
import logging
from pathlib import Path
from typing import Any

import pytest

from epicrec.server.operations.logs import JsonLines
from epicrec.server.store import users
from epicrec.server.store.sql import rows_of
from server.conftest import Client, Running, released, running

FILM = "heat-1995"


def routes(running_server: Running) -> list[tuple[str, str]]:
    """Every method and path of the OpenAPI document."""
    document = running_server.client().get("/openapi.json").json()
    return [
        (method.upper(), path) for path in document["paths"] for method in document["paths"][path]
    ]


def call(client: Client, method: str, path: str, victim: str) -> int:
    for name, value in (
        ("{user_id}", victim),
        ("{item_id}", FILM),
        ("{feedback_type}", "watch"),
        ("{category}", "Drama"),
    ):
        path = path.replace(name, value)
    body: object = {}
    row = {"FeedbackType": "watch", "UserId": victim, "ItemId": FILM}
    if path == "/api/feedback":
        body = [row]
    elif path.endswith("/release"):
        body = released([FILM])
    elif path in ("/api/items", "/api/users") or path.startswith("/api/session/recommend"):
        body = []
    elif path == "/api/item":
        body = {"ItemId": "x"}
    elif path == "/api/user":
        body = {"UserId": "x"}
    elif "dashboard" in path or path == "/api/register":
        body = None
    content = {"json": body} if method in ("POST", "PUT", "PATCH") and body is not None else {}
    return client.request(method, path, **content).status_code  # type: ignore[arg-type]


OPEN = {
    ("GET", "/api/health/live"), ("GET", "/api/health/ready"), ("GET", "/docs"),
    ("POST", "/api/register"), ("GET", "/api/model"), ("GET", "/api/model/info"),
}  # fmt: skip
FOR_CLIENTS = {
    ("GET", "/api/items"), ("GET", "/api/item/{item_id}"), ("POST", "/api/session/recommend"),
    ("GET", "/api/item/{item_id}/neighbors"), ("GET", "/api/popular"), ("GET", "/api/latest"),
    ("GET", "/api/popular/{category}"), ("GET", "/api/latest/{category}"),
    ("GET", "/api/item/{item_id}/neighbors/{category}"),
    ("POST", "/api/session/recommend/{category}"),
}  # fmt: skip


def test_someone_elses_key_opens_nothing(serving: Running) -> None:
    victim, other = serving.register(), serving.register()
    victim.put(f"/api/user/{victim.user_id}/release", json=released([FILM]))
    every = routes(serving)
    assert len(every) > 30
    for method, path in every:
        status = call(other, method, path, victim.user_id)
        if (method, path) in FOR_CLIENTS | OPEN:
            assert status in (200, 404), (method, path, status)
        else:
            assert status == 403, (method, path, status)
    assert len(victim.get(f"/api/user/{victim.user_id}/feedback").json()) == 1


def test_whether_a_user_exists_is_not_told(serving: Running) -> None:
    victim, other = serving.register(), serving.register()
    for method, path in routes(serving):
        if "{user_id}" in path:
            assert call(other, method, path, victim.user_id) == call(other, method, path, "nobody")


def test_without_a_key_only_the_open_routes_answer(serving: Running) -> None:
    user = serving.register()
    for key in (None, "wrong", user.headers["X-API-Key"][:-1]):
        client = serving.client(key)
        for method, path in routes(serving):
            status = call(client, method, path, user.user_id)
            if (method, path) in OPEN:
                assert status in (200, 404), (method, path, status)
            else:
                assert status == 401, (method, path, status)


def test_the_document_marks_as_open_what_is_open(serving: Running) -> None:
    paths = serving.client().get("/openapi.json").json()["paths"]
    found = {
        (method.upper(), path)
        for path in paths
        for method, about in paths[path].items()
        if about.get("security") == []
    }
    assert found == OPEN


def test_a_deleted_users_key_is_dead(serving: Running) -> None:
    user = serving.register()
    assert user.get(f"/api/user/{user.user_id}").status_code == 200
    assert user.delete(f"/api/user/{user.user_id}").json() == {"RowAffected": 1}
    assert user.get(f"/api/user/{user.user_id}").status_code == 401


def test_a_thousand_wrong_keys_meet_the_limit(tmp_path: Path) -> None:
    with running(tmp_path / "server", failures_per_minute=10) as serving:
        serving.service.failures.clock = lambda: 0.0  # all in one moment: nothing is refilled
        good, stranger = serving.register(), serving.client("wrong")
        statuses = [stranger.get("/api/items").status_code for _ in range(1000)]
        assert statuses == [401] * 10 + [429] * 990
        blocked = stranger.get("/api/items")
        assert 1 <= int(blocked.headers["Retry-After"]) <= 60
        # whoever else is at that address is not locked out
        assert good.get(f"/api/user/{good.user_id}").status_code == 200
        assert serving.admin.get("/api/users").status_code == 200
        assert serving.client().get("/api/health/live").status_code == 200


def test_requests_and_registrations_are_limited(tmp_path: Path) -> None:
    limits = {"requests_per_minute": 20, "registrations_per_hour": 3}
    with running(tmp_path / "server", catalogue="films", **limits) as serving:
        serving.service.requests.clock = serving.service.registrations.clock = lambda: 0.0
        user, other = serving.register(), serving.register()
        statuses = [user.get("/api/items").status_code for _ in range(40)]
        assert statuses == [200] * 20 + [429] * 20
        assert other.get("/api/items").status_code == 200  # each has their own
        serving.register()
        assert serving.client().post("/api/register").status_code == 429


def test_a_wrong_key_costs_the_same_work_whatever_it_is(
    serving: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that share more or less with a true one, against keys that share nothing: the same
    statements are asked of the database, and what is compared are digests, in constant time."""
    user = serving.register()
    true = user.headers["X-API-Key"]
    wrong = {
        "nothing in common": "#" * len(true),
        "all but the last": true[:-1] + ("A" if true[-1] != "A" else "B"),
        "short": "x",
        "admin but the last": "admin-key-of-the-test!",
    }
    clients = {name: serving.client(key) for name, key in wrong.items()}
    done: list[object] = []
    compare = hmac.compare_digest

    def noting(one: bytes, other: bytes) -> bool:
        done.append(("compared", len(one), len(other)))
        return compare(one, other)

    def asking(connection: Any, statement: str, given: tuple[bytes, ...]) -> list[Any]:
        done.append((statement, [len(value) for value in given]))
        return rows_of(connection, statement, given)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    monkeypatch.setattr(users, "rows_of", asking)
    work: dict[str, list[object]] = {}
    for name, client in clients.items():
        done.clear()
        assert client.get("/api/items").status_code == 401
        work[name] = list(done)
    first = work["nothing in common"]
    assert ("compared", 32, 32) in first, "with the operator's"
    assert len(first) > 1, "and with everybody's, in the database"
    assert all(same == first for same in work.values()), work


def test_registration_can_be_closed(tmp_path: Path) -> None:
    with running(tmp_path / "server", registration=False) as serving:
        assert serving.client().post("/api/register").status_code == 403


def test_secrets_are_kept_as_digests_only(serving: Running) -> None:
    user = serving.register()
    secret = user.headers["X-API-Key"].encode()
    for file in serving.settings.folder.rglob("*"):
        if file.is_file():
            assert secret not in file.read_bytes(), file
    assert len(user.headers["X-API-Key"]) >= 43  # 256 bits


def test_the_log_names_nobody(
    serving: Running, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    user = serving.register()
    user.put(f"/api/user/{user.user_id}/release", json=released([FILM]))
    user.get(f"/api/recommend/{user.user_id}/Drama", params={"n": 5})
    user.get(f"/api/user/{user.user_id}/feedback")
    user.get(f"/api/feedback/{user.user_id}/{FILM}")
    user.put("/api/feedback", json=[{"UserId": user.user_id, "ItemId": "?", "FeedbackType": "w"}])
    user.put("/api/feedback", content=b"{ not json " + user.user_id.encode())
    user.get(f"/no/such/route/{user.user_id}")
    serving.client(user.headers["X-API-Key"] + "x").get(f"/api/user/{user.user_id}")

    async def fail(*_: object) -> None:
        raise RuntimeError(f"something about {user.user_id} and {FILM}")

    monkeypatch.setattr(serving.service.ranking, "recommend", fail)
    assert user.get(f"/api/recommend/{user.user_id}").status_code == 500
    monkeypatch.undo()
    user.delete(f"/api/user/{user.user_id}")

    ours = [record for record in caplog.records if not record.name.startswith("http")]
    written = "\n".join(JsonLines().format(record) for record in ours)
    assert '"route": "/api/user/{user_id}/release"' in written  # there is a log to look into
    assert '"error": "RuntimeError"' in written
    for personal in (user.user_id, user.headers["X-API-Key"], FILM, "Drama", "127.0.0.1"):
        assert personal not in written
