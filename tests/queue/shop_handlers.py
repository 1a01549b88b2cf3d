"""Job types that use an engine of their module's own, which was used before the fork."""

import os

from sqlalchemy import text

import sqljobs

SESSION = {
    "postgresql": "SELECT pid, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    "mysql": "SELECT connection_id(), variable_value FROM performance_schema.session_status"
    " WHERE variable_name = 'Ssl_version'",
}
ENGINE = sqljobs.create_engine(os.environ["SHOP_URL"])


@sqljobs.handler(max_attempts=1)
def session() -> list[str]:
    """The number of its session on the server, and the version of TLS there."""
    with ENGINE.connect() as conn:
        number, version = conn.execute(text(SESSION[ENGINE.dialect.name])).one()
    return [str(number), str(version)]


@sqljobs.on_child_end
def say_goodbye() -> None:
    """Else the server would note a lost client for each job."""
    ENGINE.dispose()


BEFORE = session()
