"""Alembic's entry: runs our migrations on the connection that `migrate.py` hands over, or prints them as SQL."""

from __future__ import annotations

from alembic import context
from sqlalchemy.schema import CreateSchema

from sqljobs.schema.model import VERSION_TABLE, Model

options = {
    "target_metadata": Model.metadata,
    "version_table": VERSION_TABLE,
    "version_table_schema": Model.metadata.schema,
    # SQLite rolls DDL back, whatever Alembic assumes; MySQL and MariaDB commit each statement.
    "transactional_ddl": context.config.attributes["transactional_ddl"],
}
connection = context.config.attributes.get("connection")
if connection is None:
    context.configure(
        dialect_name=context.config.attributes["dialect_name"], literal_binds=True, as_sql=True, **options
    )
    with context.begin_transaction():
        if Model.metadata.schema is not None:
            context.execute(CreateSchema(Model.metadata.schema, if_not_exists=True))
        context.run_migrations()
else:
    # The transaction is the caller's: it holds the lock that makes five `init` at once safe.
    context.configure(connection=connection, **options)
    context.run_migrations()
