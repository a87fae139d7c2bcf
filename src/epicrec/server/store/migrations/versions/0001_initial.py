"""All tables, as `schema` has them. When version 1.0 is released this file gets its own copy of
them, and every later change to the tables is a migration of its own."""

from alembic import op

from epicrec.server.store.database import CATALOGUE, CHANGES, DELETIONS
from epicrec.server.store.schema import metadata, state

revision = "0001"
down_revision = None


def upgrade() -> None:
    metadata.create_all(op.get_bind())
    counters = (CHANGES, DELETIONS, CATALOGUE)
    op.bulk_insert(state, [{"id": counter, "revision": 0} for counter in counters])
