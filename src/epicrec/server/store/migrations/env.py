"""Run by alembic: migrate over the connection the server hands in."""

from alembic import context

from epicrec.server.store.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
