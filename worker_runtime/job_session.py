"""A Session for an author's code within a transaction of ours: the code writes, we alone commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from sqljobs.schema.dialects import Trouble
from sqljobs.schema.errors import InvalidJob
from sqljobs.schema.failures import RETRIES
from sqljobs.schema.transactions import Transaction
from sqljobs.worker_runtime.own_transactions import inside

T = TypeVar("T")

TOLD = "the session belongs to the job, which commits it with its own rows: leave out commit() and close()"


class RaisedInside(Exception):
    """An author's code has raised `error`. Not for a failure that has our transaction repeated."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(type(error)))
        self.error = error


class JobSession(Session):
    """All that it is bound to is the open transaction of the job. It may roll back, to where it began."""

    def commit(self) -> NoReturn:
        raise InvalidJob(TOLD)

    def close(self) -> NoReturn:
        raise InvalidJob(TOLD)

    def prepare(self) -> NoReturn:
        raise InvalidJob(TOLD)

    def invalidate(self) -> NoReturn:
        raise InvalidJob(TOLD)


class AuthorsCode:
    """Code that is called with a session within a transaction of ours, and again where that is repeated.

    `what`: how to name it in an error."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._repeated = 0

    def run(self, tx: Transaction, call: Callable[[Session], T]) -> T:
        """Call it; its writes are flushed when it returns. It does not see what is committed after that.

        Raises `RaisedInside` for what it raises, and for a commit that it has made past us; but a failure for which a
        transaction is repeated as it is, so many times."""
        # Within a savepoint: where the server has rolled back everything meanwhile, or somebody has committed it, the
        # savepoint is gone as well, and its release says so.
        session = JobSession(bind=tx.conn, join_transaction_mode="create_savepoint")
        try:
            with inside(self._what), _guarded(tx), _watched(session):
                result = call(session)
                session.flush()
            Session.commit(session)
        except BaseException as error:
            if self._is_to_be_repeated(tx, error):
                raise
            raise RaisedInside(error) from error
        finally:
            _end(session)
        return result

    def _is_to_be_repeated(self, tx: Transaction, error: BaseException) -> bool:
        if not isinstance(error, SQLAlchemyError) or tx.dialect.missing_table(error):
            return False
        self._repeated += 1
        return tx.dialect.trouble(error) is not Trouble.OTHER and self._repeated < RETRIES


@contextmanager
def _watched(session: Session) -> Iterator[None]:
    """Refuse a commit by `with session.begin()`, also to code that swallows the answer."""
    asked: list[bool] = []

    def refuse(session: Session) -> None:
        if not session.in_nested_transaction():
            asked.append(True)
            raise InvalidJob(TOLD)

    event.listen(session, "before_commit", refuse)
    try:
        yield
    finally:
        event.remove(session, "before_commit", refuse)
    if asked:
        raise InvalidJob(TOLD)


@contextmanager
def _guarded(tx: Transaction) -> Iterator[None]:
    """Refuse the end of the transaction by way of the session's connection, too."""

    def refuse(_conn: Any) -> None:
        raise InvalidJob(TOLD)

    for ending in ("commit", "rollback"):
        event.listen(tx.conn, ending, refuse)
    try:
        yield
    finally:
        for ending in ("commit", "rollback"):
            event.remove(tx.conn, ending, refuse)


def _end(session: Session) -> None:
    try:
        Session.close(session)
    except SQLAlchemyError:  # the savepoint is gone with the transaction, which is rolled back next
        session.expunge_all()
