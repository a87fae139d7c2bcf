"""Running it: settings, check, certificates, backup, purge, metrics, a clean stop."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import update

from epicrec import wire
from epicrec.client.sending.remote import shown_certificate
from epicrec.errors import EpicrecError, InputError
from epicrec.privacy import Guarantee, Ledger
from epicrec.server import Settings, main, serve
from epicrec.server.api.rate_limits import RateLimit
from epicrec.server.authentication import Callers
from epicrec.server.operations.tls import development_certificate
from epicrec.server.store import schema, users
from epicrec.server.store.database import Database
from loopback import ADMIN, PATIENCE, wait_for
from server.conftest import Running, prepare, released, running

# ---- settings -----------------------------------------------------------------------------


def test_the_environment_goes_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('port = 1\nhost = "127.0.0.1"\nfactors = 5\nhttp = true\n')
    environment = {"EPICREC_SERVER_PORT": "2", "EPICREC_SERVER_FACTORS": "6", "OTHER": "x"}
    found = Settings.load(file, environment=environment, port=3, data=None)
    assert (found.port, found.factors, found.http) == (3, 6, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("prot = 1", "no setting 'prot'"),
        ("port = 'x'", "whole number"),
        ("port = '2.5'", "whole number"),
        ("port = 2.5", "whole number"),
        ("connections = 0", "at least 1"),
        ("workers = 2", "PostgreSQL"),
        ("port = 70000", "65535"),
        ("http = 'maybe'", "true or false"),
        ("http = true\nhost = '0.0.0.0'", "loopback"),
        ("certificate = 'a.pem'", "come together"),
        ("admin_key = 'short'", "too short"),
        ("not toml", "cannot read"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "server.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        Settings.load(file, environment={})


def test_check(tmp_path: Path, database_url: str) -> None:
    found = serve(check=True, data=str(tmp_path / "d"), database=database_url, catalogue="films")
    assert found["ok"]
    assert found["catalogue"] == 536
    assert found["tls"]
    assert found["tables"] is None  # and nothing was made
    database = Database(Settings(database=database_url).database_url)
    assert database.version() is None
    database.stop()
    prepare(data=str(tmp_path / "d"), database=database_url, catalogue="films")
    assert serve(check=True, data=str(tmp_path / "d"), database=database_url)["items"] == 536


def test_check_says_what_is_wrong(tmp_path: Path) -> None:
    data = str(tmp_path / "d")
    with pytest.raises(InputError, match="cannot read"):
        serve(check=True, data=data, certificate="/no/cert.pem", private_key="/no/key.pem")
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    with pytest.raises(InputError, match="cannot be used"):
        serve(check=True, data=data, certificate=str(bad), private_key=str(bad))
    with pytest.raises(InputError, match="no data set"):
        serve(check=True, data=data, train_from="no such set")
    with pytest.raises(InputError, match="cannot open the database"):
        serve(check=True, data=data, database="oracle://secret:word@host/x")
    with pytest.raises(EpicrecError, match="cannot use the database") as error:
        serve(check=True, data=data, database="postgresql://u:password@127.0.0.1:1/x")
    assert "password" not in str(error.value)


# ---- database -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sqlite to postgresql", "postgresql to sqlite"])
def test_a_backup_moves_between_databases(
    tmp_path: Path, request: pytest.FixtureRequest, way: str
) -> None:
    new = request.getfixturevalue("postgresql")
    source, target = ("", new()) if way.startswith("sqlite") else (new(), "")
    with running(tmp_path / "one", database=source, catalogue="films") as serving:
        users = [serving.register() for _ in range(3)]
        for user in users:
            body = released(["heat-1995", "alien-1979"])
            user.put(f"/api/user/{user.user_id}/release", json=body)
        serving.admin.train()
        rows = serve(backup=tmp_path / "backup", data=str(tmp_path / "one"), database=source)[
            "rows"
        ]
        filled = {name: count for name, count in rows.items() if count}
        assert filled == {
            "state": 3,
            "users": 3,
            "items": 536,
            "catalogues": 1,
            "feedback": 6,
            "releases": 3,
        }
        lists = users[0].get(f"/api/recommend/{users[0].user_id}").json()
    with pytest.raises(InputError, match="not empty"):
        serve(backup=tmp_path / "backup", data=str(tmp_path / "one"), database=source)
    again = {"data": str(tmp_path / "two"), "database": target}
    assert serve(restore=tmp_path / "backup", **again)["rows"] == rows
    with pytest.raises(InputError, match="has users"):
        serve(restore=tmp_path / "backup", **again)
    with running(tmp_path / "two", database=target) as serving:
        client = serving.client(users[0].headers["X-API-Key"])
        assert len(client.get(f"/api/user/{users[0].user_id}/feedback").json()) == 2
        assert client.get(f"/api/recommend/{users[0].user_id}").json() == lists
        newcomer = serving.register()  # new keys follow the old ones
        assert newcomer.get(f"/api/user/{newcomer.user_id}").status_code == 200


PROMISE = Guarantee(epsilon=1.0, unit="user", relation="add or remove one")


def spend(data: Path, *versions: str) -> None:
    ledger = Ledger(data / "ledger.jsonl", limit_epsilon=10)
    for about in versions:
        ledger.spend(PROMISE, about=about)


def recorded(data: Path) -> list[str]:
    return [entry.about for entry in Ledger(data / "ledger.jsonl", limit_epsilon=10).entries()]


def test_a_restore_forgets_no_spending(tmp_path: Path) -> None:
    """Of two ledgers that begin alike the longer holds, whichever it is."""
    one, two, backup = tmp_path / "one", tmp_path / "two", tmp_path / "backup"
    prepare(data=str(one), http=True)
    spend(one, "first", "second")
    serve(backup=backup, data=str(one))
    spend(one, "third")
    with (one / "ledger.jsonl").open("ab") as file:
        file.write(b"a line cut sh")
    serve(restore=backup, data=str(one))
    assert recorded(one) == ["first", "second", "third"]
    serve(restore=backup, data=str(two))
    assert recorded(two) == ["first", "second"]


def test_a_restore_over_another_ledger_is_refused_whole(tmp_path: Path) -> None:
    one, two, backup = tmp_path / "one", tmp_path / "two", tmp_path / "backup"
    prepare(data=str(one), http=True, catalogue="films")
    spend(one, "first")
    serve(backup=backup, data=str(one))
    spend(two, "another")
    with pytest.raises(InputError, match="never forgotten"):
        serve(restore=backup, data=str(two))
    assert recorded(two) == ["another"]
    assert serve(check=True, data=str(two), http=True)["tables"] is None


def test_those_not_seen_for_long_are_purged(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running(folder, catalogue="films") as serving:
        old, young = serving.register(), serving.register()
        for user in (old, young):
            user.put(f"/api/user/{user.user_id}/release", json=released(["heat-1995"]))
        with serving.service.database.writing() as connection:
            connection.execute(
                update(schema.users)
                .where(schema.users.c.user_id == old.user_id)
                .values(seen_day=users.today() - 31)
            )
    assert serve(purge=30, data=str(folder)) == {"purged": 1}
    assert serve(purge=30, data=str(folder)) == {"purged": 0}
    assert serve(purge=1, data=str(folder)) == {"purged": 0}
    with pytest.raises(InputError, match="at least 1"):
        serve(purge=0, data=str(folder))
    assert old.user_id.encode() not in (folder / "epicrec.sqlite").read_bytes()
    with running(folder) as serving:
        left = serving.admin.get("/api/users").json()["Users"]
    assert [user["UserId"] for user in left] == [young.user_id]


def test_the_last_day_still_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not seen for 30 days is a day more than seen 30 days ago."""
    database = Database(f"sqlite:///{tmp_path / 'store.sqlite'}")
    database.migrate()
    with database.writing() as connection:
        for days_ago in (29, 30, 31):
            monkeypatch.setattr(users, "today", lambda seen=20_000 - days_ago: seen)
            users.put(connection, [wire.User(UserId=str(days_ago))])
        monkeypatch.setattr(users, "today", lambda: 20_000)
        assert len(users.purge(connection, 30)) == 1
        left = [user.UserId for user in users.page(connection, 10, 0)[0]]
        assert left == ["29", "30"]
    database.stop()


def test_a_secret_forgotten_while_it_is_looked_up_opens_nothing(database_url: str) -> None:
    database = Database(database_url)
    database.migrate()
    with database.writing() as connection:
        given = users.register(connection)
        (key,) = users.keys(connection)
        users.seen(connection, key, users.today() - 1)
    secret = users.digest(given.Secret)

    async def ask() -> tuple[users.StoredUser | None, users.StoredUser | None]:
        callers = Callers(database, lambda noting: noting.close())
        looking = asyncio.create_task(callers.whose(secret))
        await asyncio.sleep(0)
        callers.forget({key})
        before = await looking
        with database.writing() as connection:
            users.forget(connection, given.UserId)
        return before, await callers.whose(secret)

    before, after = asyncio.run(ask())
    database.stop()
    assert before is not None
    assert after is None


def test_coming_back_counts_as_seen(tmp_path: Path) -> None:
    with running(tmp_path / "server", catalogue="films") as serving:
        user = serving.register()
        with serving.service.database.writing() as connection:
            connection.execute(update(schema.users).values(seen_day=users.today() - 31))
        user.get("/api/items")

        def is_noted() -> bool:
            with serving.service.database.reading() as connection:
                return users.counts(connection)["users_seen_in_7_days"] == 1

        wait_for(is_noted)


# ---- TLS ----------------------------------------------------------------------------------


def test_the_development_certificate_is_made_once_and_again_for_new_names(tmp_path: Path) -> None:
    file, key = development_certificate(tmp_path, ["localhost", "127.0.0.1"])
    first = file.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600
    development_certificate(tmp_path, ["localhost"])
    assert file.read_bytes() == first
    authority = (tmp_path / "ca.pem").read_bytes()
    development_certificate(tmp_path, ["localhost", "films.example"])
    assert file.read_bytes() != first
    assert (tmp_path / "ca.pem").read_bytes() == authority  # clients need not trust anew


def test_only_tls_is_spoken(tmp_path: Path) -> None:
    with running(tmp_path / "server", http=False) as serving:
        assert serving.client().get("/api/health/live").headers["strict-transport-security"]
        with pytest.raises(httpx.TransportError):
            httpx.get(serving.url.replace("https", "http") + "/api/health/live", timeout=PATIENCE)
        with pytest.raises(httpx.ConnectError, match="certificate"):
            httpx.get(
                serving.url + "/api/health/live", timeout=PATIENCE,
                verify=ssl.create_default_context(),
            )  # fmt: skip


def test_the_fingerprint_is_told_as_clients_show_it(tmp_path: Path) -> None:
    with running(tmp_path / "server", http=False) as serving:
        _, shown = shown_certificate(serving.url)
    assert serve(check=True, data=str(tmp_path / "server"))["fingerprint"] == shown
    assert "fingerprint" not in serve(check=True, data=str(tmp_path / "server"), http=True)


# ---- pages, metrics, limits ---------------------------------------------------------------


def test_metrics_in_prometheus_format(tmp_path: Path) -> None:
    with running(tmp_path / "server", catalogue="films") as serving:
        user = serving.register()
        user.get(f"/api/recommend/{user.user_id}")
        answer = serving.client().get("/metrics", headers={"Authorization": f"Bearer {ADMIN}"})
        assert serving.client().get("/metrics").status_code == 401
        assert user.get("/metrics").status_code == 403
    line = re.compile(r"^(# (TYPE|HELP) \w+ .+|\w+(\{[^{}]*(\{\w+\}[^{}]*)*\})? [0-9.e+-]+)$")
    for text in answer.text.splitlines():
        assert line.match(text), text
    count = 'epicrec_requests_total{method="GET",route="/api/recommend/{user_id}",status="200"} 1'
    assert count in answer.text
    for name in (
        "epicrec_registrations_total 1", "epicrec_items 536", "epicrec_changes_waiting 0",
        "epicrec_training_running 0", "process_resident_memory_bytes",
    ):  # fmt: skip
        assert name in answer.text
    assert user.user_id not in answer.text


def test_metrics_look_into_no_table(either: Running) -> None:
    asked: list[str] = []
    engine = either.service.database.engine
    sqlalchemy_event.listen(
        engine, "before_cursor_execute", lambda _c, _s, text, *_: asked.append(text)
    )
    wait_for(lambda: "epicrec_items 536" in either.admin.get("/metrics").text)  # counted aside
    asked.clear()
    assert either.admin.get("/metrics").status_code == 200
    assert [text for text in asked if re.search("users|items|feedback|releases", text)] == []


def test_the_operator_page(tmp_path: Path) -> None:
    with running(tmp_path / "server", catalogue="films") as serving:
        user = serving.register()
        user.put(f"/api/user/{user.user_id}/release", json=released(["heat-1995"]))
        serving.admin.train()
        client = serving.client()
        asked = client.get("/operator")
        assert asked.status_code == 401
        assert asked.headers["WWW-Authenticate"].startswith("Basic")
        assert client.get("/operator", auth=("x", "wrong")).status_code == 401
        page = client.get("/operator", auth=("", ADMIN))
        # a password a browser remembers opens pages, and changes nothing
        assert client.post("/api/dashboard/train", auth=("", ADMIN)).status_code == 401
    assert page.status_code == 200
    for text in ("none: sent in clear", "Last trained", "536"):
        assert text in page.text
    assert user.user_id not in page.text
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_the_operator_page_after_a_training_judged_by_releases(tmp_path: Path) -> None:
    """Such a training is judged by a likelihood and has no recall."""
    quality = {"held_out": 40, "gain_over_popularity": 0.1, "gain_at_least": 0.05}
    last = {
        "training": 1, "trained_at": 1_700_000_000, "seconds": 2.5, "users": 50, "items": 536,
        "feedback": 900, "adopted": "d2p-svd", "quality": quality,
    }  # fmt: skip
    (tmp_path / "server").mkdir(mode=0o700)
    status = {"state": "done", "ended": 1_700_000_000, "last": last}
    (tmp_path / "server" / "train.json").write_text(json.dumps(status))
    with running(tmp_path / "server", catalogue="films") as serving:
        page = serving.client().get("/operator", auth=("", ADMIN))
    assert page.status_code == 200
    assert "900 released items of 50 users" in page.text


def test_a_limit_refills_evenly() -> None:
    now = 0.0
    limit = RateLimit(10, 60, clock=lambda: now)
    assert [limit.take("a") for _ in range(11)] == [True] * 10 + [False]
    assert limit.take("b")
    assert 1 <= limit.wait("a") <= 7
    now = 6.1
    assert limit.take("a")
    assert not limit.take("a")


# ---- start and stop -----------------------------------------------------------------------


def test_sigterm_ends_it_cleanly_and_logs_are_json(tmp_path: Path, port: int) -> None:
    settings = {
        "data": str(tmp_path / "server"), "port": port, "catalogue": "films", "train_every": 0,
    }  # fmt: skip
    environment = {f"EPICREC_SERVER_{name.upper()}": str(value) for name, value in settings.items()}
    program = "from epicrec.server import serve; serve()"
    server = subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:

        def listens() -> bool:
            with socket.socket() as probe:
                return server.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0

        wait_for(listens)
        url = f"https://127.0.0.1:{port}"
        trusted = ssl.create_default_context(cafile=tmp_path / "server" / "tls" / "ca.pem")
        user = httpx.post(f"{url}/api/register", timeout=PATIENCE, verify=trusted).json()
        key = (tmp_path / "server" / "admin.key").read_text().strip()
        listed = httpx.get(
            f"{url}/api/users", headers={"X-API-Key": key}, timeout=PATIENCE, verify=trusted
        )
        _, shown = shown_certificate(url)
        assert listed.json()["Users"][0]["UserId"] == user["UserId"]
        assert (tmp_path / "server" / "admin.key").stat().st_mode & 0o777 == 0o600
    finally:
        server.send_signal(signal.SIGTERM)
        _, written = server.communicate(timeout=PATIENCE)
    said = [line for line in written.splitlines() if not line.startswith("{")]
    assert len(said) == 4  # where it listens, where the key is, what clients are to see and trust
    assert f"fingerprint (SHA-256) is {shown}" in said[2]
    events = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert (events[0]["event"], events[-1]["event"]) == ("started", "stopped")
    assert user["UserId"] not in written
    assert key not in written


def test_a_server_without_items_begins_with_those_of_clients(tmp_path: Path) -> None:
    settings = Settings(data=str(tmp_path / "server"))
    (tmp_path / "server").mkdir()
    assert main._with_items(settings).listed == "titles"
    nothing = Settings(data=settings.data, catalogue="none")
    assert main._with_items(nothing).listed == ""
    prepare(data=settings.data, catalogue="films")
    assert main._with_items(settings) == settings, "it has items already"
