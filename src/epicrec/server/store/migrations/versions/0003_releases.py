"""Releases as such: several of one user side by side, with method and public settings."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.rename_table("releases", "releases_before")
    op.rename_table("feedback", "feedback_before")
    op.drop_index("feedback_of_item", "feedback_before")
    op.create_table(
        "releases",
        sa.Column("release_key", _KEY, primary_key=True),
        sa.Column("user_key", _KEY, _belongs("users.user_key"), nullable=False),
        sa.Column("feedback_type", sa.Text, nullable=False),
        sa.Column("release_id", sa.Text, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("guarantee", sa.Text, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("aggregates", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "feedback",
        sa.Column("user_key", _KEY, _belongs("users.user_key"), primary_key=True),
        sa.Column("item_key", _KEY, _belongs("items.item_key"), primary_key=True),
        sa.Column("feedback_type", sa.Text, primary_key=True),
        sa.Column("release_key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("timestamp", sa.BigInteger),
        sa.Column("comment", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "catalogues",
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.execute(
        "INSERT INTO releases (user_key, feedback_type, release_id, rows, guarantee, method, "
        "settings, aggregates) SELECT user_key, feedback_type, '', rows, guarantee, '', '{}', '{}' "
        "FROM releases_before ORDER BY user_key, feedback_type"
    )
    op.execute(
        "INSERT INTO feedback (user_key, item_key, feedback_type, release_key, value, timestamp, "
        "comment) SELECT f.user_key, f.item_key, f.feedback_type, coalesce(r.release_key, 0), "
        "f.value, f.timestamp, f.comment FROM feedback_before f LEFT JOIN releases r "
        "ON r.user_key = f.user_key AND r.feedback_type = f.feedback_type"
    )
    for table in ("feedback_before", "releases_before"):
        op.drop_table(table)
    op.create_index("feedback_of_item", "feedback", ["item_key"])
    op.create_index(
        "release_of_user", "releases", ["user_key", "feedback_type", "release_id"], unique=True
    )


def _belongs(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


def downgrade() -> None:
    raise NotImplementedError("several releases of one user do not fit into the tables before")
