"""Input nobody should send: never a 5xx, never stored, always a sentence saying what is wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import cache
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopback import ADMIN, PATIENCE
from server.conftest import Client, Running, released, running

SQL = [
    "'; DROP TABLE users; --",
    '" OR 1=1 --',
    "1); DELETE FROM feedback; --",
    "' UNION SELECT secret_digest FROM users --",
    "%",
    "{{7*7}}",
    "../../etc/passwd",
    "<script>alert(1)</script>",
]
ODD = ["é", "日本語", "🎬" * 10, "a b", "a%b", "a?b", "a#b", "a;b", "\u202e", "x" * 300, ".."]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def target(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("hostile") / "server"
    url = "" if request.param == "sqlite" else request.getfixturevalue("postgresql")()
    with running(folder, database=url, catalogue="films") as started:
        yield started


def refused(answer: object) -> None:
    """A 4xx with a sentence."""
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text)  # type: ignore[attr-defined]
    assert len(answer.json()["detail"]) > 10  # type: ignore[attr-defined]


@cache
def attacks(document: str) -> list[schemathesis.Case]:
    """Requests within and without what the document allows; the same for both databases."""
    found: list[schemathesis.Case] = []
    for operation in schemathesis.openapi.from_dict(json.loads(document)).get_all_operations():
        one = operation.ok()
        if one.path.startswith("/api/dashboard/") and one.method == "post":
            continue  # starts processes

        @given(case=one.as_strategy())
        @settings(
            max_examples=15, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        def keep(case: schemathesis.Case) -> None:
            found.append(case)

        keep()
    return found


def test_schemathesis_finds_no_5xx(target: Running) -> None:
    cases = attacks(target.client().get("/openapi.json").text)
    assert len(cases) > 200
    for case in cases:
        answer = case.call(base_url=target.url, headers={"X-API-Key": ADMIN}, timeout=PATIENCE)
        assert answer.status_code < 500, (case.method, case.path, answer.text)


def test_bodies_of_every_kind(target: Running) -> None:
    user = target.register()
    me = user.user_id
    good = {"FeedbackType": "watch", "UserId": me, "ItemId": "heat-1995"}
    bodies: list[bytes] = [
        b"", b"{", b"null", b"[]]", b"\xff\xfe", b"[" * 100_000, b"1" * 5000, b'"text"', b"{}",
        b'[{"FeedbackType": "watch"}]', json.dumps([good | {"Value": "x"}]).encode(),
        json.dumps([good | {"UserId": ["list"]}]).encode(),
        json.dumps([good] * 10_001).encode(),
        json.dumps([good]).replace('"heat-1995"', '"\\ud800"').encode(),
        json.dumps([good]).replace('"heat-1995"', '"\\u0000"').encode(),
        json.dumps([good | {"Value": float("nan")}]).encode(),
        json.dumps([good | {"Value": 1e400}]).encode(),
        json.dumps([good | {"Timestamp": "-271821-04-20"}]).encode(),
    ]  # fmt: skip
    for body in bodies:
        for method, path in (
            ("PUT", "/api/feedback"), ("POST", "/api/feedback"), ("PUT", f"/api/user/{me}/release"),
            ("POST", "/api/session/recommend"),
        ):  # fmt: skip
            headers = {"Content-Type": "application/json"}
            refused(user.request(method, path, content=body, headers=headers))
    assert user.get(f"/api/user/{me}/feedback").json() == []


@settings(
    max_examples=60, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "FeedbackType",
                        "UserId",
                        "ItemId",
                        "Value",
                        "Release",
                        "items",
                        "counts",
                    ]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_at_all(target: Running, body: object) -> None:
    user = _one_user(target)
    for method, path in (
        ("PUT", "/api/feedback"), ("PUT", f"/api/user/{user.user_id}/release"),
        ("POST", "/api/session/recommend"),
    ):  # fmt: skip
        content = json.dumps(body).encode()
        answer = user.request(
            method, path, content=content, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code < 500, (path, body, answer.text)


def test_what_cannot_be_said_again_is_refused(target: Running) -> None:
    """Lone surrogates, deep nesting, numbers beyond every float: in every field that takes any."""
    user = target.register()
    deep: object = []
    for _ in range(200):
        deep = [deep]
    headers = {"Content-Type": "application/json"}
    own = f"/api/user/{user.user_id}/release"
    release = released(["heat-1995"])["Release"]
    huge = release | {"guarantee": release["guarantee"] | {"epsilon": 10**400, "status": "proved"}}
    for odd in ("\ud800", deep, float("nan"), "x" * 10_000):
        for method, path, body in (
            ("POST", "/api/item", {"ItemId": "odd", "Labels": {"a": odd}}),
            ("PATCH", "/api/item/heat-1995", {"Labels": [odd]}),
            ("POST", "/api/user", {"UserId": "odd", "Labels": {"a": odd}}),
        ):
            content = json.dumps(body)
            refused(target.admin.request(method, path, content=content, headers=headers))
        stated = release["guarantee"] | {"assumes": [odd]}
        content = json.dumps({"Release": release | {"guarantee": stated}})
        refused(user.put(own, content=content, headers=headers))
    for wrong in (huge, release | {"counts": [10**400]}, release | {"ratings": [10**400]}):
        refused(user.put(own, json={"Release": wrong}))
    content = json.dumps({"Release": release | {"settings": {"a": deep}}})
    refused(user.put(own, content=content, headers=headers))
    assert target.admin.get("/api/items").status_code == 200
    assert user.get(f"/api/user/{user.user_id}/feedback").json() == []


def test_ids_with_slashes(target: Running) -> None:
    admin = target.admin
    item = "films/2020/a b%2F?"
    path = quote(item, safe="")
    admin.post("/api/item", json={"ItemId": item, "Categories": ["Sci-Fi/Fantasy"]})
    admin.post("/api/user", json={"UserId": "a/b"})
    admin.put("/api/feedback", json=[{"FeedbackType": "like", "UserId": "a/b", "ItemId": item}])
    assert admin.get(f"/api/item/{path}").json()["ItemId"] == item
    assert admin.get("/api/user/a%2Fb").json()["UserId"] == "a/b"
    assert admin.get("/api/user/a%2fb/feedback").json()[0]["ItemId"] == item
    assert admin.get(f"/api/feedback/like/a%2Fb/{path}").json()["UserId"] == "a/b"
    assert admin.delete(f"/api/feedback/a%2Fb/{path}").json() == {"RowAffected": 1}
    assert admin.delete("/api/user/a%2Fb").json() == {"RowAffected": 1}
    assert admin.delete(f"/api/item/{path}").json() == {"RowAffected": 1}


def test_ten_megabytes(target: Running) -> None:
    user = target.register()
    for path in ("/api/feedback", f"/api/user/{user.user_id}/release"):
        _send_large(target, user, path, chunked=False)
        _send_large(target, user, path, chunked=True)
    assert user.get("/api/items").status_code == 200


def test_odd_ids_and_sql_in_every_field(target: Running) -> None:
    user = target.register()
    me = user.user_id
    before = target.admin.get("/api/dashboard/stats").json()["counts"]
    for text in [*SQL, *ODD]:
        path = quote(text, safe="")
        for url in (
            f"/api/user/{path}", f"/api/recommend/{path}", f"/api/user/{path}/feedback",
            f"/api/feedback/{path}/heat-1995", f"/api/recommend/{me}/{path}?n=1&offset=-1",
            f"/api/item/{path}", f"/api/items?cursor={path}", f"/api/items?n={path}",
        ):  # fmt: skip
            answer = user.get(url)
            assert 400 <= answer.status_code < 500, (url, answer.status_code)
        good = {"FeedbackType": "watch", "UserId": me, "ItemId": "heat-1995"}
        for field in ("FeedbackType", "UserId", "ItemId"):
            refused(user.put("/api/feedback", json=[good | {field: text}]))
        own = f"/api/user/{me}/release"
        refused(user.put(own, json=released([text])))
        refused(user.put(own, json=released([], FeedbackType=text)))
        for field in ("guarantee", "items", "counts", "ratings", "settings", "format", "method"):
            release = released(["heat-1995"])["Release"] | {field: {text: text}}
            if field != "settings":
                refused(user.put(own, json={"Release": release}))
        wrong = target.client().get("/api/items", headers={"X-API-Key": text.encode()})
        assert wrong.status_code == 401
        # where any text is allowed it comes back as it went in
        if len(text) <= 256:
            target.admin.post("/api/item", json={"ItemId": "odd", "Comment": text})
            assert target.admin.get("/api/item/odd").json()["Comment"] == text
    target.admin.delete("/api/item/odd")
    assert target.admin.get("/api/dashboard/stats").json()["counts"] == before


def _one_user(target: Running) -> Client:
    if not hasattr(target, "hypothesis_user"):
        target.hypothesis_user = target.register()  # type: ignore[attr-defined]
    user: Client = target.hypothesis_user  # type: ignore[attr-defined]
    return user


def _send_large(target: Running, user: Client, path: str, *, chunked: bool) -> None:
    """By hand: HTTP libraries give up on a connection that is closed while they send."""
    host, port = target.url.removeprefix("http://").split(":")
    head = f"PUT {path} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {user.headers['X-API-Key']}\r\n"
    head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else "Content-Length: 10000000\r\n\r\n"
    piece = b" " * 100_000
    if chunked:
        piece = b"%x\r\n%s\r\n" % (len(piece), piece)
    answer = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(100):
                connection.sendall(piece)
        except OSError:
            pass
        try:
            answer = connection.recv(4096)
        except ConnectionResetError:
            assert chunked  # closed while we were sending; the answer may be lost on the way
            return
    assert answer.startswith(b"HTTP/1.1 413"), answer
