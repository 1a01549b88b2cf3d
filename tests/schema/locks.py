"""Whether somebody waits for a lock, as the server itself sees it: races are met by looking, not by sleeping."""

from sqlalchemy import text

from sqljobs.schema.transactions import Database

_POSTGRESQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
# Not innodb_trx: what it shows stays as it was for as long as somebody asks more often than ten times a second.
_MYSQL = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"


def waits_for_lock(database: Database, how_many: int = 1) -> bool:
    """Whether at least `how_many` transactions stand before a lock."""
    query = _POSTGRESQL if database.dialect.name == "postgresql" else _MYSQL
    with database.engine.connect() as conn:
        return int(conn.execute(text(query)).one()[-1]) >= how_many
