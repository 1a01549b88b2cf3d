"""What a handler spends of limits through its job: transactions of its own, none held open while it waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

from sqljobs.schema.amounts import MICRO, decimal_of, micros_of
from sqljobs.schema.durations import parse_duration
from sqljobs.schema.errors import LimitTimeout
from sqljobs.schema.moves import Fence
from sqljobs.schema.spending import Spent, Wait, settle_spent, spend, spent_by, take
from sqljobs.schema.transactions import Database, NotCommitted, Transaction
from sqljobs.schema.values import MAX_AMOUNT, check_amount, check_name

Amount = int | float | Decimal | str
Duration = float | str | timedelta
Work = Callable[[Transaction], Spent | Wait]

SHORTEST_WAIT, LONGEST_WAIT = 0.02, 1.0
FIRST_WAIT = 0.05


class Spending:
    """The account of one attempt. One call at a time, from any thread of its process."""

    def __init__(self, fence: Fence, database: Database) -> None:
        self._fence = fence
        self._database = database
        self._lock = threading.Lock()

    def spend(self, name: str, amount: Amount) -> Decimal:
        """See `RunningJob.spend`."""
        name, micros = checked("spend", name, amount)
        with self._lock:
            spent = self._settled("spend", name, lambda tx: spend(tx, self._fence, name, micros))
        assert isinstance(spent, Spent)
        return decimal_of(spent.left)

    def take(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        """See `RunningJob.take`."""
        waiting = _Waiting(name, timeout)
        while isinstance(got := self._try(name, amount), Wait):
            time.sleep(waiting.pause(got))
        return decimal_of(got.left)

    async def take_async(self, name: str, amount: Amount, timeout: Duration | None) -> Decimal:
        """See `RunningJob.take_async`."""
        waiting = _Waiting(name, timeout)
        while isinstance(got := await asyncio.to_thread(self._try, name, amount), Wait):
            await asyncio.sleep(waiting.pause(got))
        return decimal_of(got.left)

    def _try(self, name: str, amount: Amount) -> Spent | Wait:
        name, micros = checked("take", name, amount)
        with self._lock:
            return self._settled("take", name, lambda tx: take(tx, self._fence, name, micros))

    def _settled(self, what: str, name: str, work: Work) -> Spent | Wait:
        """Run `work`; a COMMIT of unknown outcome is settled by what the attempt's row says that it has spent."""
        known: list[Decimal] = []

        def once(tx: Transaction) -> Spent | Wait:
            known[:] = [spent_by(tx, self._fence).get(name, Decimal(0))]
            return work(tx)

        def settle(tx: Transaction) -> Spent | Wait | type[NotCommitted]:
            return settle_spent(tx, self._fence, name, known[0])

        return self._database.transaction(what, once, settle=settle)


class _Waiting:
    """How long to wait until the next look: until time alone makes room, but a limit may be raised any moment."""

    def __init__(self, name: str, timeout: Duration | None) -> None:
        self._name = name
        self._until = None if timeout is None else time.monotonic() + parse_duration(timeout, what="timeout")
        self._pause = FIRST_WAIT

    def pause(self, wait: Wait) -> float:
        """Seconds. Raises `LimitTimeout` when the time is over."""
        seconds = self._pause if wait.seconds is None else min(max(SHORTEST_WAIT, wait.seconds), LONGEST_WAIT)
        self._pause = min(2 * self._pause, LONGEST_WAIT)
        if self._until is None:
            return seconds
        rest = self._until - time.monotonic()
        if rest <= 0:
            raise LimitTimeout(f"there was no room in the limit {self._name!r} in time: try again later, or raise it")
        return min(seconds, rest)


def checked(verb: str, name: object, amount: object) -> tuple[str, int]:
    """A limit's name, and millionths. A number that was computed may have any decimal places, since what it stands for
    is gone: it is rounded to six, and up where nothing would be left. Raises `InvalidJob`."""
    limit = check_name(f"{verb}: name", name)
    if isinstance(amount, float | Decimal):
        exact = Decimal(repr(float(amount))) if isinstance(amount, float) else amount
        if exact.is_finite() and 0 < exact <= MAX_AMOUNT:
            # Whole numbers: the handler may have changed the context by which decimals round.
            top, bottom = exact.as_integer_ratio()
            return limit, max(1, (2 * top * MICRO + bottom) // (2 * bottom))
    return limit, micros_of(check_amount(f"{verb}: amount", amount))
