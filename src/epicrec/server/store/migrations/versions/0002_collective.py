"""Rounds of the collective: what a leader or a helper remembers of them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "collective_rounds",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("record", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_keys",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_burnt",
        sa.Column("report_id", sa.LargeBinary, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "collective_reports",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("report_id", sa.LargeBinary, primary_key=True),
        sa.Column("leader", sa.LargeBinary, nullable=False),
        sa.Column("helper", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "collective_admitted",
        sa.Column("task", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("token", sa.LargeBinary, primary_key=True),
        sa.Column("report_id", sa.LargeBinary, nullable=False),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for name in ("admitted", "reports", "burnt", "keys", "rounds"):
        op.drop_table(f"collective_{name}")
