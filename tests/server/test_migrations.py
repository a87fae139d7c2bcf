"""Migrations: they make the tables that the code uses, and a later one keeps what is stored."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from epicrec import wire
from epicrec.server import Settings, serve
from epicrec.server.store import database as stored
from epicrec.server.store import feedback, schema
from epicrec.server.store.database import Database
from server.conftest import released, running

SECOND = '''
"""A migration as a later version may bring: a column, a table filled from another, an index."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("users") as users:
        users.add_column(sa.Column("country", sa.Text, nullable=False, server_default="nowhere"))
    op.create_table(
        "popularity",
        sa.Column("item_key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("total", sa.Double, nullable=False),
    )
    op.execute(
        "INSERT INTO popularity SELECT item_key, sum(value) FROM feedback GROUP BY item_key"
    )
    op.create_index("by_popularity", "popularity", ["total"])
'''


def opened(url: str) -> Database:
    return Database(Settings(database=url).database_url)


def rows_in(database: Database) -> list[wire.Feedback]:
    with database.reading() as connection:
        return feedback.page(connection, 100)[0]


def columns_in(database: Database) -> dict[str, set[str]]:
    found = inspect(database.engine)
    return {name: {c["name"] for c in found.get_columns(name)} for name in found.get_table_names()}


def test_the_migrations_make_the_tables_that_the_code_means(database_url: str) -> None:
    database = opened(database_url)
    database.migrate()
    database.migrate()  # a second time changes nothing
    with database.reading() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), schema.metadata)
    database.stop()
    assert differences == []


def test_a_second_migration_keeps_the_data(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the next version starts on the tables of this one; check and backup leave them
    as they are, and a backup of this version is restored into the next."""
    where = {"data": str(tmp_path / "server"), "database": database_url}
    with running(tmp_path / "server", database=database_url, catalogue="films") as serving:
        user = serving.register()
        row = {"FeedbackType": "watch", "UserId": user.user_id, "ItemId": "up-2009", "Value": 3}
        user.put("/api/feedback", json=[row])
        user.put(f"/api/user/{user.user_id}/release", json=released(["heat-1995", "up-2009"]))
    database = opened(database_url)
    rows, first = rows_in(database), columns_in(database)
    assert len(rows) == 3

    monkeypatch.setattr(
        stored, "MIGRATIONS", shutil.copytree(stored.MIGRATIONS, tmp_path / "migrations")
    )
    (tmp_path / "migrations" / "versions" / "0002_second.py").write_text(SECOND)
    found = serve(check=True, **where)
    assert (found["tables"], found["a start changes them to"]) == ("0001", "0002")
    backup = opened(f"sqlite:///{tmp_path / 'backup' / 'epicrec.sqlite'}")
    counted = serve(backup=tmp_path / "backup", **where)["rows"]
    assert counted["feedback"] == 3
    assert columns_in(database) == columns_in(backup) == first
    assert serve(restore=tmp_path / "backup", data=str(tmp_path / "new"))["rows"] == counted
    assert columns_in(backup) == first
    database.stop()
    backup.stop()

    restored = f"sqlite:///{tmp_path / 'new' / 'epicrec.sqlite'}"
    for folder, url in (("server", database_url), ("new", restored)):
        with running(tmp_path / folder, database=url) as serving:  # the start migrates
            again = serving.client(user.headers["X-API-Key"])
            assert len(again.get(f"/api/user/{user.user_id}/feedback").json()) == 3
        database = opened(url)
        assert database.version() == "0002"
        assert rows_in(database) == rows
        with database.reading() as connection:
            country = connection.exec_driver_sql("SELECT country FROM users").scalars().all()
            total = connection.exec_driver_sql("SELECT sum(total) FROM popularity").scalar_one()
            left = connection.exec_driver_sql("SELECT count(*) FROM releases").scalar_one()
        database.stop()
        assert (country, left) == (["nowhere"], 1)
        assert total == (5 if folder == "server" else None), (
            "only the tables of `schema` are copied"
        )
