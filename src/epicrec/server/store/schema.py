"""The tables, which the first migration makes from here."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

metadata = MetaData()

# SQLite autoincrements INTEGER only; PostgreSQL needs BIGINT for the same. Keys are never reused:
# a list computed for someone who left must not go to a newcomer.
_KEY = BigInteger().with_variant(Integer(), "sqlite")

state = Table(
    "state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),  # a counter; `database` says of what
)

users = Table(
    "users",
    metadata,
    Column("user_key", _KEY, primary_key=True),
    Column("user_id", Text, nullable=False, unique=True),
    Column("secret_digest", LargeBinary, unique=True),  # null: only the admin speaks for them
    Column("labels", Text, nullable=False),
    Column("comment", Text, nullable=False),
    Column("seen_day", Integer, nullable=False),  # days since 1970, no finer
    Column("revision", BigInteger, nullable=False),  # of the last change to their feedback
    Index("user_changed", "revision"),
    sqlite_autoincrement=True,
)

items = Table(
    "items",
    metadata,
    Column("item_key", _KEY, primary_key=True),
    Column("item_id", Text, nullable=False, unique=True),
    Column("is_hidden", Boolean, nullable=False),
    Column("categories", Text, nullable=False),  # JSON, as are the labels
    Column("labels", Text, nullable=False),
    Column("timestamp", BigInteger),
    Column("comment", Text, nullable=False),
    sqlite_autoincrement=True,
)

feedback = Table(
    "feedback",
    metadata,
    Column("user_key", ForeignKey("users.user_key", ondelete="CASCADE"), primary_key=True),
    Column("item_key", ForeignKey("items.item_key", ondelete="CASCADE"), primary_key=True),
    Column("feedback_type", Text, primary_key=True),
    # the release it came with, 0 for none: releases about the same item are kept apart
    Column("release_key", BigInteger, primary_key=True, autoincrement=False),
    Column("value", Double, nullable=False),
    Column("timestamp", BigInteger),
    Column("comment", Text, nullable=False),
    Index("feedback_of_item", "item_key"),
    sqlite_with_rowid=False,
)

releases = Table(
    "releases",
    metadata,
    Column("release_key", _KEY, primary_key=True),
    Column("user_key", ForeignKey("users.user_key", ondelete="CASCADE"), nullable=False),
    Column("feedback_type", Text, nullable=False),
    Column("release_id", Text, nullable=False),  # the client's name for it
    Column("rows", Integer, nullable=False),
    Column("guarantee", Text, nullable=False),  # JSON, as stated by the client
    Column("method", Text, nullable=False),
    Column("settings", Text, nullable=False),  # JSON, as are the aggregates
    Column("aggregates", Text, nullable=False),
    Column("answers", LargeBinary),  # packed bits, where the release has them
    Index("release_of_user", "user_key", "feedback_type", "release_id", unique=True),
    sqlite_autoincrement=True,
)

repeats = Table(
    "repeats",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # of who asked and the request's name
    Column("user_key", ForeignKey("users.user_key", ondelete="CASCADE")),  # null for the admin
    Column("body", LargeBinary, nullable=False),  # its digest
    Column("day", Integer, nullable=False),
    Index("repeat_of_user", "user_key"),
    Index("repeat_of_day", "day"),
    sqlite_with_rowid=False,
)

catalogues = Table(
    "catalogues",
    metadata,
    Column("version", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),  # Parquet
)
"""Every list of items, current or earlier, that a release may have been drawn from."""


# ---- the shared model: what a leader or a helper records of its rounds ------------------------


def _round_key() -> tuple[Column[str], Column[int]]:
    return (
        Column("task", Text, primary_key=True),
        Column("number", Integer, primary_key=True, autoincrement=False),
    )


collective_rounds = Table(
    "collective_rounds",
    metadata,
    *_round_key(),
    Column("record", LargeBinary, nullable=False),
)

collective_published = Table(
    "collective_published",
    metadata,
    *_round_key(),
    Column("content", LargeBinary, nullable=False),
)

collective_places = Table(
    "collective_places",
    metadata,
    *_round_key(),
    Column("taken", Integer, nullable=False),
    Column("most", BigInteger, nullable=False),
)
"""How many reports a round has and may have: an upload counts none of them."""

collective_burnt = Table(
    "collective_burnt",
    metadata,
    Column("report_id", LargeBinary, primary_key=True),
    sqlite_with_rowid=False,
)

collective_reports = Table(
    "collective_reports",
    metadata,
    *_round_key(),
    Column("report_id", LargeBinary, primary_key=True),
    Column("public", LargeBinary, nullable=False),
    Column("leader", LargeBinary, nullable=False),
    Column("helper", LargeBinary, nullable=False),
)

collective_jobs = Table(
    "collective_jobs",
    metadata,
    *_round_key(),
    Column("job", Integer, primary_key=True, autoincrement=False),
    Column("asked", LargeBinary, nullable=False),
    Column("outcome", LargeBinary, nullable=False),
)

collective_admitted = Table(
    "collective_admitted",
    metadata,
    *_round_key(),
    Column("token", LargeBinary, primary_key=True),
    Column("report_id", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

NOT_IN_BACKUPS = (collective_reports,)
"""Nobody needs them again: the keys that open them are in memory alone."""
