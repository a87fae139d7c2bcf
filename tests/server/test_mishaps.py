"""What goes wrong beside the program: a full disk, a database that is gone, damaged files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event

from epicrec import wire
from epicrec.files import locked
from epicrec.server.store import catalogue, feedback, users
from epicrec.server.store.database import Database
from loopback import wait_for
from server.conftest import Client, Running, released, running

FILMS = ["heat-1995", "alien-1979", "fargo-1996"]


def put(user: Client, items: list[str], comment: str = "") -> tuple[int, str]:
    row = {"FeedbackType": "watch", "UserId": user.user_id, "Comment": comment}
    answer = user.put("/api/feedback", json=[row | {"ItemId": item} for item in items])
    return answer.status_code, answer.json().get("detail", "")


def kept(user: Client) -> int:
    return len(user.get(f"/api/user/{user.user_id}/feedback").json())


def test_a_full_disk_is_said(serving: Running) -> None:
    user = serving.register()
    assert put(user, FILMS[:1])[0] == 200
    engine = serving.service.database.engine

    def room(pages: int) -> Callable[..., None]:
        return lambda db, *_: db.execute(f"PRAGMA max_page_count = {pages}").close()

    full, free = room(1), room(2**30)
    event.listen(engine, "checkout", full)
    found = [put(user, [film], comment="x" * 1000) for film in FILMS[1:] for _ in range(3)]
    assert {status for status, _ in found} == {503}
    assert [text for _, text in found if "disk is full" not in text] == []
    assert kept(user) == 1
    event.remove(engine, "checkout", full)
    event.listen(engine, "checkout", free)
    assert put(user, FILMS[1:])[0] == 200
    assert kept(user) == 3


def test_a_full_disk_of_postgresql_is_said(tmp_path: Path, postgresql: Callable[[], str]) -> None:
    """As PostgreSQL says it: the state 53100, at an insert."""
    url = postgresql()
    full = """
        CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON feedback EXECUTE FUNCTION full_disk()"""
    with running(tmp_path / "server", database=url, catalogue="films") as serving:
        user = serving.register()
        assert put(user, FILMS[:1])[0] == 200
        with psycopg.connect(url, autocommit=True) as beside:
            beside.execute(full)
            found = [put(user, [film]) for film in FILMS[1:]]
            beside.execute("DROP TRIGGER full_disk ON feedback")
        assert {status for status, _ in found} == {503}
        assert [text for _, text in found if "disk is full" not in text] == []
        assert kept(user) == 1
        assert put(user, FILMS[1:])[0] == 200
        assert kept(user) == 3


def test_a_database_that_is_gone_and_comes_back(
    tmp_path: Path, postgresql: Callable[[], str]
) -> None:
    url = postgresql()
    with running(tmp_path / "server", database=url, catalogue="films") as serving:
        user = serving.register()
        assert put(user, FILMS[:1])[0] == 200
        name = url.rsplit("/", 1)[1]
        with psycopg.connect(url.replace(name, "postgres"), autocommit=True) as beside:
            beside.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false".encode())
            beside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            answers = [put(user, FILMS[1:]) for _ in range(3)]
            ready = serving.client().get("/api/health/ready")
            beside.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true".encode())
        assert {status for status, _ in answers} == {503}
        assert [text for _, text in answers if "database" not in text] == []
        assert ready.status_code == 503
        assert ready.json()["DataStoreError"].startswith("the database")
        wait_for(lambda: put(user, FILMS[1:])[0] == 200)
        assert kept(user) == 3
        assert serving.client().get("/api/health/ready").json()["Ready"] is True


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Client, list[str]]:
    """A server's folder with two trainings, one of its users, and that user's list."""
    folder = tmp_path_factory.mktemp("trained") / "server"
    with running(folder, catalogue="films") as serving:
        user, leaver = serving.register(), serving.register()
        for one in (user, leaver):
            one.put(f"/api/user/{one.user_id}/release", json=released(FILMS))
        serving.admin.train()
        found = user.get(f"/api/recommend/{user.user_id}").json()
        serving.admin.train()
        leaver.delete(f"/api/user/{leaver.user_id}")  # overwrites rows, which is no damage
    return folder, user, found


@pytest.mark.parametrize("name", ["top_items.npy", "meta.json"])
def test_a_damaged_training_gives_way_to_the_one_before(
    tmp_path: Path, trained: tuple[Path, Client, list[str]], name: str
) -> None:
    before, user, found = trained
    folder = shutil.copytree(before, tmp_path / "server")
    damage(folder / "models" / "2" / name)
    with locked(folder / "train.lock", wait=False), running(folder) as serving:
        health = serving.client().get("/api/health/ready").json()
        assert health["Ready"] is True
        assert "damaged" in health["CacheStoreError"]
        assert user_of(serving, user).get(f"/api/recommend/{user.user_id}").json() == found
    with running(folder) as serving:  # damage starts a training
        wait_for(lambda: not serving.client().get("/api/health/ready").json()["CacheStoreError"])
        assert serving.admin.get("/api/dashboard/training").json()["serving"] == 3


def test_without_a_training_before_it_is_not_ready(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    with running(folder, catalogue="films", train_from="films") as serving:
        user = serving.register()
        user.put(f"/api/user/{user.user_id}/release", json=released(FILMS))
        serving.admin.train()
        wait_for(lambda: serving.client().get("/api/model").status_code == 200)
        size = int(serving.client().head("/api/model").headers["content-length"])
        assert size == len(serving.client().get("/api/model").content)
    damage(folder / "models" / "1" / "popularity.npy")
    damage(folder / "published" / "item-model-1.npz")
    with locked(folder / "train.lock", wait=False), running(folder) as serving:
        answer = serving.client().get("/api/health/ready")
        assert answer.status_code == 503
        assert "damaged" in answer.json()["CacheStoreError"]
        assert serving.client().get("/api/model").status_code == 503


def damage(path: Path) -> None:
    """One bit in the first half of what the file holds: not in the row of whoever left."""
    content = bytearray(path.read_bytes())
    content[128 + (len(content) - 128) // 4] ^= 1
    path.write_bytes(content)


def user_of(serving: Running, user: Client) -> Client:
    return serving.client(user.headers["X-API-Key"])


def test_large_batches_are_few_statements(database_url: str) -> None:
    """10,000 rows of 10,000 new people: nobody waits long for the one who writes."""
    database = Database(database_url.replace("postgresql://", "postgresql+psycopg://"))
    database.migrate()
    asked: list[str] = []
    event.listen(
        database.engine, "before_cursor_execute", lambda _c, _s, text, *_: asked.append(text)
    )
    rows = [
        wire.Feedback(FeedbackType="watch", UserId=f"u{at}", ItemId=f"i{at}")
        for at in range(wire.MOST_ROWS)
    ]
    with database.writing() as connection:
        catalogue.put(connection, [wire.Item(ItemId=row.ItemId) for row in rows])
        assert len(feedback.put(connection, rows, make=True)) == wire.MOST_ROWS
        assert users.counts(connection)["users_with_feedback"] == wire.MOST_ROWS
    database.stop()
    assert len(asked) < 120
