"""Whether somebody waits for a lock, as the server itself sees it: races are met by looking, not by sleeping."""

from sqlalchemy import text

from sqljobs.schema.transactions import Database

_POSTGRESQL = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
_MYSQL = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"


def waits_for_lock(database: Database, how_many: int = 1) -> bool:
    """Whether at least `how_many` transactions stand before a lock."""
    query = _POSTGRESQL if database.dialect.name == "postgresql" else _MYSQL
    with database.engine.connect() as conn:
        return int(conn.execute(text(query)).scalar_one()) >= how_many
