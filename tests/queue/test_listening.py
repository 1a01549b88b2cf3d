"""Listening in one process, on real connections: what ends a wait, and how a connection that is lost comes back."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

import sqljobs
from sqljobs.schema.transactions import Database
from sqljobs.schema.wake import LOOK, echo
from sqljobs.supervisor.listening import LOG_SECONDS, LONGEST_PAUSE_SECONDS, Listening
from sqljobs.supervisor.loop import Loop
from sqljobs.supervisor.wakeups import APART_SECONDS, Wakeups
from stress.servers.process import free_port
from tests.schema.proxy import Proxy
from tests.waiting import wait_until

pytestmark = pytest.mark.databases("postgresql")
LISTENERS = text("SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()")


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, event: str, **_about: object) -> None:
        self.lines.append(event)

    warning = info


class Idle:
    """What an idle supervisor does about wake-ups, without jobs: heartbeats, attending, waiting."""

    def __init__(self, url: str, *, poll_fast: float = 0.05, **options: Any) -> None:
        self.engine = sqljobs.create_engine(url, **options)
        self.database = Database.of(self.engine)
        self.log = Log()
        self.listening = Listening(self.database, "me", self.log, time.monotonic)
        self.wakeups = Wakeups(self.database, self.listening, poll_fast=poll_fast, clock=time.monotonic)
        self.loop = Loop()

    def beat(self) -> None:
        """One heartbeat."""
        token, mode = self.listening.next_token(), self.listening.mode
        self.database.transaction("renew", lambda tx: echo(tx, token) if token is not None else None)
        self.listening.sent(mode, token)

    def turn(self) -> None:
        """One turn of the loop and a short wait."""
        if self.listening.wants_heartbeat:
            self.beat()
        self.listening.attend()
        self.wakeups.wait(self.loop, 0.05, wanted=True)

    def until(self, mode: str) -> None:
        def reached() -> bool:
            self.turn()
            return self.listening.mode == mode and not self.listening.wants_heartbeat

        wait_until(reached, what=f"{mode}; log: {self.log.lines}")

    def wait(self, seconds: float, *, wanted: bool = True) -> float:
        """Wait for a hint; how long that took."""
        start = time.monotonic()
        self.wakeups.wait(self.loop, seconds, wanted=wanted)
        return time.monotonic() - start

    def tell(self, payload: str, times: int = 1) -> None:
        """Notify, each time in a transaction of its own."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            for _ in range(times):
                conn.execute(text("SELECT pg_notify('sqljobs', :payload)"), {"payload": payload})

    def sessions(self) -> list[int]:
        """The sessions that listen."""
        with self.engine.connect() as conn:
            return list(conn.execute(LISTENERS).scalars())

    def close(self) -> None:
        self.listening.close()
        self.loop.close()
        self.engine.dispose()


Start = Callable[..., Idle]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Idle] = []

    def one(url: str, **options: Any) -> Idle:
        started.append(Idle(url, **options))
        return started[-1]

    yield one
    for idle in started:
        idle.close()


@pytest.fixture
def idle(db_url: str, start: Start) -> Idle:
    """One that listens."""
    idle = start(db_url)
    idle.until("listen")
    return idle


LONG = 120.0


def test_a_hint_ends_a_wait_and_no_word_of_others_does(idle: Idle) -> None:
    idle.tell(LOOK)
    assert idle.wait(LONG) < LONG / 2
    idle.tell("somebody else/17", times=3)
    assert idle.wait(0.3) >= 0.3
    idle.beat()
    idle.wait(0.3)
    idle.beat()
    assert idle.listening.mode == "listen"
    assert idle.log.lines == ["listening for notifications"]


def test_hints_while_nothing_can_be_started_wait(idle: Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    idle.tell(LOOK)
    assert idle.wait(0.3, wanted=False) >= 0.3
    # That turn has looked; what comes later is new.
    assert idle.wait(0.3) >= 0.3
    idle.tell(LOOK)
    assert idle.wait(LONG) < LONG / 2
    heard: list[bool] = []
    take = idle.listening.take

    def counted() -> bool:
        heard.append(take())
        return heard[-1]

    monkeypatch.setattr(idle.listening, "take", counted)
    teller = threading.Thread(target=idle.tell, args=(LOOK, 200))
    teller.start()
    while teller.is_alive():
        idle.wait(0.5, wanted=False)
        assert len(heard) <= 1, "after a hint nothing is read until the next turn"
        heard.clear()
    teller.join()


def test_a_storm_is_few_turns(db_url: str, start: Start) -> None:
    idle = start(db_url, poll_fast=30.0)
    idle.until("listen")
    begin = time.monotonic()
    turns = 0
    for _ in range(40):
        idle.tell(LOOK, times=50)
        while idle.wait(0.02) < 0.02:
            turns += 1
    seconds = time.monotonic() - begin
    assert 1 <= turns <= seconds / APART_SECONDS + 1


def test_a_killed_session_is_replaced_and_one_is_all_there_is(idle: Idle) -> None:
    (before,) = idle.sessions()
    with idle.engine.connect() as conn:
        conn.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": before})
    assert idle.wait(LONG) < LONG / 2, "its end is noticed at once"
    assert (idle.listening.mode, idle.listening.wants_heartbeat) == ("poll", True)
    idle.until("listen")
    (after,) = idle.sessions()
    assert after != before
    assert idle.log.lines[1:] == [
        "no notifications from the database; polling until they are back",
        "listening for notifications again",
    ]


def test_what_was_committed_before_the_listen_is_looked_for(idle: Idle) -> None:
    idle.listening.close()
    idle.listening.attend()
    assert idle.wait(LONG) < LONG / 2, "the server's answer to LISTEN is a hint"


def test_a_pool_of_one_is_left_to_the_loop(db_url: str, start: Start) -> None:
    idle = start(db_url, pool_size=1, max_overflow=0)
    with idle.engine.connect() as conn:
        conn.execute(text("SELECT 1"))
        idle.listening.attend()
        conn.rollback()
    idle.until("listen")


def test_a_session_that_swallows_is_found_out(db_url: str, start: Start) -> None:
    with Proxy(make_url(db_url)) as proxy:
        idle = start(proxy.url.render_as_string(hide_password=False))
        idle.until("listen")
        proxy.muffled = True
        idle.tell(LOOK)
        assert idle.wait(0.3) >= 0.3
        idle.beat()

        def found() -> bool:
            idle.beat()
            return idle.listening.mode == "poll"

        wait_until(found, what="the echo to be missed", interval=0.2)
        # The next one is no better, and says nothing of itself.
        idle.turn()
        assert idle.listening.mode == "poll"
        proxy.muffled = False

        def heard() -> bool:
            idle.beat()
            idle.turn()
            return idle.listening.mode == "listen"

        wait_until(heard, what="an echo to come back", interval=0.2, timeout=60)


def test_a_pooler_is_polled_and_said_once(pooled_url: str, start: Start) -> None:
    idle = start(pooled_url)

    def found() -> list[str]:
        idle.turn()
        return idle.log.lines

    wait_until(found, what="the pooler to be found")
    for _ in range(3):
        idle.turn()
    assert idle.log.lines == ["this supervisor polls the database: it cannot be notified"]
    assert (idle.listening.mode, idle.listening.next_due(), idle.sessions()) == ("poll", None, [])
    busy = start(pooled_url)
    busy.listening.attend()

    def found_by_a_heartbeat() -> list[str]:
        busy.beat()
        return busy.log.lines

    wait_until(found_by_a_heartbeat, what="the pooler to be found without waiting")
    busy.turn()
    assert busy.log.lines == idle.log.lines


def test_reconnecting_is_bounded_in_rate_and_log() -> None:
    now = 1000.0
    log = Log()
    nowhere = create_engine(f"postgresql+psycopg://nobody@127.0.0.1:{free_port()}/none")
    listening = Listening(Database.of(nowhere), "me", log, lambda: now)
    pauses = []
    for _ in range(12):
        listening.attend()
        due = listening.next_due()
        assert due is not None
        pauses.append(due - now)
        now = max(due - 0.01, now)
        listening.attend()
        assert listening.next_due() in (due, now + 1.0), "not before its time"
        now = due
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert pauses == sorted(pauses)
    assert len(log.lines) <= 2 + (now - 1000.0) / LOG_SECONDS
