"""Requests that are done once however often they come; whose feedback changed, by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "repeats",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("user_key", _KEY, sa.ForeignKey("users.user_key", ondelete="CASCADE")),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("repeat_of_user", "repeats", ["user_key"])
    op.create_index("repeat_of_day", "repeats", ["day"])
    op.create_index("user_changed", "users", ["revision"])


def downgrade() -> None:
    raise NotImplementedError("a request could be done twice in the tables before")
