"""All tables. Until version 1.0 is released this file is edited in place, with no second one."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _users_and_items()
    _feedback()
    _shared_model()


def _users_and_items() -> None:
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(state, [{"id": counter, "revision": 0} for counter in (1, 2, 3)])
    op.create_table(
        "users",
        sa.Column("user_key", _KEY, primary_key=True),
        sa.Column("user_id", sa.Text, nullable=False, unique=True),
        sa.Column("secret_digest", sa.LargeBinary, unique=True),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("seen_day", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("user_changed", "users", ["revision"])
    op.create_table(
        "items",
        sa.Column("item_key", _KEY, primary_key=True),
        sa.Column("item_id", sa.Text, nullable=False, unique=True),
        sa.Column("is_hidden", sa.Boolean, nullable=False),
        sa.Column("categories", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("timestamp", sa.BigInteger),
        sa.Column("comment", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "catalogues",
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )


def _feedback() -> None:
    op.create_table(
        "releases",
        sa.Column("release_key", _KEY, primary_key=True),
        sa.Column("user_key", _KEY, _owned_by("users.user_key"), nullable=False),
        sa.Column("feedback_type", sa.Text, nullable=False),
        sa.Column("release_id", sa.Text, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("guarantee", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("aggregates", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "release_of_user", "releases", ["user_key", "feedback_type", "release_id"], unique=True
    )
    op.create_table(
        "feedback",
        sa.Column("user_key", _KEY, _owned_by("users.user_key"), primary_key=True),
        sa.Column("item_key", _KEY, _owned_by("items.item_key"), primary_key=True),
        sa.Column("feedback_type", sa.Text, primary_key=True),
        sa.Column("release_key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("timestamp", sa.BigInteger),
        sa.Column("comment", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("feedback_of_item", "feedback", ["item_key"])
    op.create_table(
        "repeats",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("user_key", _KEY, _owned_by("users.user_key")),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("repeat_of_user", "repeats", ["user_key"])
    op.create_index("repeat_of_day", "repeats", ["day"])


def _shared_model() -> None:
    op.create_table(
        "collective_rounds",
        *_round_key(),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_keys",
        *_round_key(),
        sa.Column("key", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_burnt",
        sa.Column("report_id", sa.LargeBinary, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "collective_reports",
        *_round_key(),
        sa.Column("report_id", sa.LargeBinary, primary_key=True),
        sa.Column("leader", sa.LargeBinary, nullable=False),
        sa.Column("helper", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_admitted",
        *_round_key(),
        sa.Column("token", sa.LargeBinary, primary_key=True),
        sa.Column("report_id", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def _owned_by(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


def _round_key() -> tuple[sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    )
