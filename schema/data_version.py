"""Whether another connection has written to the SQLite file since the last look: one PRAGMA, no transaction."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool

from sqljobs.schema.transactions import Database

SEEN = "sqljobs_data_version"


class DataVersion:
    """Looks through the pooled connection of the loop, and keeps none of its own: none may be open across a fork."""

    def __init__(self, database: Database) -> None:
        self._engine = database.engine

    @staticmethod
    def serves(database: Database) -> bool:
        """Whether this database has such a thing, and its connections live long enough to be compared with."""
        return database.dialect.name == "sqlite" and isinstance(database.engine.pool, QueuePool)

    def changed(self) -> bool:
        """Whether there may be something new since the last call; True on a connection that was not asked before.

        A file that cannot be read says False: the next look at the queue will tell."""
        try:
            connection = self._engine.raw_connection()
        except (SQLAlchemyError, self._errors):
            return False
        try:
            cursor = connection.cursor()
            (version,) = cursor.execute("PRAGMA data_version").fetchone()
            cursor.close()
            before, connection.info[SEEN] = connection.info.get(SEEN), version
            return bool(before != version)
        except self._errors:
            return False
        finally:
            connection.close()

    @property
    def _errors(self) -> type[Exception]:
        return self._engine.dialect.loaded_dbapi.Error
