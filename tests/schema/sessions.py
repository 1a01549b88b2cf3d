"""Sessions that an administrator ends, at a step of our transactions that the test names."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, text

from sqljobs.schema.steps import set_hook

SESSIONS_POSTGRESQL = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
SESSIONS_MYSQL = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
SLEEPING_POSTGRESQL = f"{SESSIONS_POSTGRESQL} AND query LIKE '%pg_sleep%' AND state = 'active'"
SLEEPING_MYSQL = f"{SESSIONS_MYSQL} AND info LIKE '%SLEEP(30)%'"


@contextmanager
def hooked(hook: Callable[[str], None]) -> Iterator[None]:
    """Steps are announced to `hook` meanwhile."""
    former = set_hook(hook)
    try:
        yield
    finally:
        set_hook(former)


class Killer:
    """Kills all sessions in the database when one of our transactions is about to take `step`, the first `times`."""

    def __init__(self, administrator: Engine, step: str, *, times: float = 1) -> None:
        self._administrator = administrator
        self._step = step
        self._left = times

    @property
    def killed(self) -> bool:
        """Whether it has nothing more to do."""
        return self._left == 0

    def on_step(self, step: str) -> None:
        """For the hook of steps."""
        if step != self._step or self._left <= 0:
            return
        self._left -= 1
        postgresql = self._administrator.dialect.name == "postgresql"
        with self._administrator.connect() as conn:
            for session in conn.execute(text(SESSIONS_POSTGRESQL if postgresql else SESSIONS_MYSQL)).scalars().all():
                conn.execute(text(f"SELECT pg_terminate_backend({session})" if postgresql else f"KILL {session}"))
