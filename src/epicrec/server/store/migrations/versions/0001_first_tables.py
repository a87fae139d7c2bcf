"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    state = op.create_table(
        "state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(state, [{"id": 1, "revision": 0}])
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
        "feedback",
        sa.Column("user_key", _KEY, _belongs("users.user_key"), primary_key=True),
        sa.Column("item_key", _KEY, _belongs("items.item_key"), primary_key=True),
        sa.Column("feedback_type", sa.Text, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("timestamp", sa.BigInteger),
        sa.Column("comment", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("feedback_of_item", "feedback", ["item_key"])
    op.create_table(
        "releases",
        sa.Column("user_key", _KEY, _belongs("users.user_key"), primary_key=True),
        sa.Column("feedback_type", sa.Text, primary_key=True),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("guarantee", sa.Text, nullable=False),
    )


def _belongs(column: str) -> sa.ForeignKey:
    return sa.ForeignKey(column, ondelete="CASCADE")


def downgrade() -> None:
    for table in ("releases", "feedback", "items", "users", "state"):
        op.drop_table(table)
