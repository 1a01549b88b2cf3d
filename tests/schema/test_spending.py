"""Budgets and rates while a job runs: spent, taken, and settled with the end, to the last of six places."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import update

from sqljobs.schema.errors import InvalidJob, NoRunningJob
from sqljobs.schema.limit_tables import job_charges, job_counters
from sqljobs.schema.limits_list import list_limits
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.spending import Spent, Wait
from sqljobs.schema.tables import job_attempts
from sqljobs.schema.transactions import Database
from sqljobs.schema.windows import FOR_EVER, window_at
from tests.schema.limiting import charged, charges, counters, limit, room, spent, taken, used
from tests.schema.playing import end, lease, put, set_off, tries

DIED = Outcome(Cause.SIGNAL, died=True)
FAILED = Outcome(Cause.ERROR)


def begin(database: Database, **uses: str) -> Fence:
    """A job that runs."""
    (one,) = set_off(database, put(database, uses=uses or None))
    return one.fence


def test_spending_returns_what_is_left(database: Database) -> None:
    limit(database, "usd", budget=10)
    fence = begin(database)
    assert spent(database, fence, "usd", "2.5") == Decimal("7.5")
    assert spent(database, fence, "usd", "0.000001") == Decimal("7.499999")
    assert spent(database, fence, "usd", "8") == Decimal("-0.500001")
    assert tries(database, fence.job_id)[0].spent == {"usd": Decimal("10.500001")}
    assert used(database, "usd") == Decimal("10.500001")
    assert lease(database, put(database, uses={"usd": "0.000001"})) == []  # overspending blocks later starts


@pytest.mark.parametrize(
    ("steps", "outcome", "expected"),
    [
        pytest.param([], Outcome(Cause.DONE), "5", id="never-spent"),
        pytest.param([], DIED, "5", id="died-without-spending"),
        pytest.param(["1.5"], Outcome(Cause.DONE), "1.5", id="spent-less"),
        pytest.param(["1.5"], FAILED, "1.5", id="spent-less-and-failed"),
        pytest.param(["1.5"], DIED, "5", id="spent-less-and-died"),
        pytest.param(["4", "3.000001"], Outcome(Cause.DONE), "7.000001", id="spent-more"),
        pytest.param(["4", "3.000001"], DIED, "7.000001", id="spent-more-and-died"),
    ],
)
def test_the_end_settles_the_estimate(database: Database, steps: list[str], outcome: Outcome, expected: str) -> None:
    limit(database, "usd", budget=100)
    fence = begin(database, usd="5")
    for amount in steps:
        spent(database, fence, "usd", amount)
    assert used(database, "usd") == max(Decimal(5), sum(map(Decimal, steps), Decimal(0)))  # while it runs: the larger
    assert end(database, fence, outcome) is not None
    assert used(database, "usd") == Decimal(expected) == charged(database, "usd")
    assert charges(database, fence.job_id) == {}


def test_a_handler_that_was_not_reached_is_charged_nothing(database: Database) -> None:
    limit(database, "usd", budget=100)
    for outcome in (Outcome(Cause.INTERRUPTED, died=True), Outcome(Cause.BAD_ARGS), Outcome(Cause.LOST, died=True)):
        (one,) = lease(database, put(database, uses={"usd": 5}))
        assert used(database, "usd") == 5
        assert end(database, one.fence, outcome) is not None
        assert used(database, "usd") == 0 == charged(database, "usd")


def test_many_attempts_add_up_exactly(database: Database) -> None:
    limit(database, "usd", budget=1000)
    amounts = ["0.1", "0.2", "0.3", "0.000001", "33.333333"]
    for number, amount in enumerate(amounts * 4):
        fence = begin(database, usd=amount)
        if number % 2:
            spent(database, fence, "usd", amounts[number % 3])
        assert end(database, fence, (Outcome(Cause.DONE), DIED, FAILED)[number % 3]) is not None
    assert used(database, "usd") == charged(database, "usd")


def test_the_window_of_the_claim_is_charged(database: Database) -> None:
    limit(database, "usd", budget=100, per="1h")
    fence = begin(database, usd="5")
    now = tries(database, fence.job_id)[0].claimed_at
    before = window_at("3600", now - timedelta(hours=1)).key
    move_back(database, fence, before)
    assert used(database, "usd") == 0  # the window of now
    spent(database, fence, "usd", "7")
    assert counters(database, "usd")["", before] == 7
    assert used(database, "usd") == 0
    assert end(database, fence) is not None
    assert counters(database, "usd")["", before] == 7
    other = begin(database, usd="3")
    assert end(database, other) is not None
    assert used(database, "usd") == 3
    assert charged(database, "usd") == sum(counters(database, "usd").values())


def test_spending_without_an_estimate_is_charged_to_the_window_of_the_claim(database: Database) -> None:
    limit(database, "usd", budget=100, per="1h")
    fence = begin(database)
    earlier = tries(database, fence.job_id)[0].claimed_at - timedelta(hours=1)
    with database.engine.begin() as conn:
        conn.execute(update(job_attempts).values(claimed_at=earlier))
    assert spent(database, fence, "usd", "7") == 93
    assert counters(database, "usd") == {("", window_at("3600", earlier).key): Decimal(7)}


def move_back(database: Database, fence: Fence, period: str) -> None:
    """Make it so that the claim was made an hour ago, in that window."""
    an_hour_ago = tries(database, fence.job_id)[0].claimed_at - timedelta(hours=1)
    with database.engine.begin() as conn:
        conn.execute(update(job_counters).where(job_counters.c.period != "").values(period=period))
        conn.execute(update(job_charges).where(job_charges.c.job_id == fence.job_id).values(period=period))
        conn.execute(update(job_attempts).where(job_attempts.c.job_id == fence.job_id).values(claimed_at=an_hour_ago))


def test_taking_waits_for_room_in_the_window_of_now(database: Database) -> None:
    limit(database, "usd", budget=10, per="day")
    fence, other = begin(database), begin(database, usd="8")
    found = taken(database, fence, "usd", "3")
    assert isinstance(found, Wait)
    assert found.seconds is not None
    assert 0 <= found.seconds <= 86_400
    assert tries(database, fence.job_id)[0].spent is None
    assert end(database, other) is not None
    assert isinstance(taken(database, fence, "usd", "3"), Wait)  # what was had is gone until tomorrow
    assert taken(database, fence, "usd", "2") == Spent(0, 2 * 10**6)
    limit(database, "usd", budget=11, per="day")
    assert taken(database, fence, "usd", "1") == Spent(0, 3 * 10**6)


def test_what_was_estimated_is_taken_without_waiting(database: Database) -> None:
    limit(database, "usd", budget=5)
    limit(database, "api", rate=2, per="1h")
    fence = begin(database, usd="5", api="2")
    assert taken(database, fence, "usd", "3") == Spent(0, 3 * 10**6)
    assert taken(database, fence, "api", "1") == Spent(0, 10**6)
    assert taken(database, fence, "api", "1") == Spent(0, 2 * 10**6)
    assert isinstance(taken(database, fence, "api", "1"), Wait)
    assert [used(database, name) for name in ("usd", "api")] == [5, 2]
    assert end(database, fence) is not None
    assert [used(database, name) for name in ("usd", "api")] == [3, 2]


def test_what_was_estimated_is_the_jobs_own_whatever_others_spend(database: Database) -> None:
    limit(database, "usd", budget=10)
    fence, other = begin(database, usd="5"), begin(database)
    assert spent(database, other, "usd", "8") == -3
    assert taken(database, fence, "usd", "4") == Spent(-3 * 10**6, 4 * 10**6)
    limit(database, "usd", budget=0)
    assert isinstance(taken(database, fence, "usd", "1"), Spent)
    assert taken(database, fence, "usd", "0.000001") == Wait(None)


@pytest.mark.parametrize(("outcome", "former"), [(Outcome(Cause.DONE), "0"), (DIED, "3")])
def test_taking_in_a_later_window_draws_on_the_estimate(database: Database, outcome: Outcome, former: str) -> None:
    limit(database, "usd", budget=100, per="1h")
    fence = begin(database, usd="5")
    before = window_at("3600", tries(database, fence.job_id)[0].claimed_at - timedelta(hours=1)).key
    move_back(database, fence, before)
    assert taken(database, fence, "usd", "2") == Spent(98 * 10**6, 2 * 10**6)
    assert counters(database, "usd")["", before] == 3
    assert end(database, fence, outcome) is not None
    assert counters(database, "usd")["", before] == Decimal(former)
    assert used(database, "usd") == 2
    assert charged(database, "usd") == sum(counters(database, "usd").values())


def test_taking_of_a_rate_counts_at_its_own_time(database: Database) -> None:
    limit(database, "api", rate=2, per="1h")
    fence = begin(database)
    assert taken(database, fence, "api", "2") == Spent(0, 2 * 10**6)
    found = taken(database, fence, "api", "1")
    assert isinstance(found, Wait)
    assert found.seconds is not None
    assert 3000 < found.seconds <= 3600
    earlier(database, fence, hours=1)
    assert taken(database, fence, "api", "1") == Spent(10**6, 3 * 10**6)
    assert end(database, fence) is not None
    assert used(database, "api") == 1


def earlier(database: Database, fence: Fence, *, hours: float) -> None:
    """Make it so that all was counted so long before this attempt was claimed."""
    at = tries(database, fence.job_id)[0].claimed_at - timedelta(hours=hours)
    with database.engine.begin() as conn:
        conn.execute(update(job_charges).values(counted_at=at))


def test_an_old_estimate_covers_no_call_of_now(database: Database) -> None:
    limit(database, "api", rate=1, per="1h")
    fence = begin(database, api="1")
    earlier(database, fence, hours=2)
    assert isinstance(taken(database, begin(database), "api", "1"), Spent)
    assert isinstance(taken(database, fence, "api", "1"), Wait)


def test_more_than_the_limit_is_never_had(database: Database) -> None:
    limit(database, "usd", budget=5)
    fence = begin(database)
    with pytest.raises(InvalidJob, match="can never be had: its limit is 5"):
        taken(database, fence, "usd", "5.000001")
    limit(database, "usd", budget=0)
    assert taken(database, fence, "usd", "1") == Wait(None)  # closed, which may pass


def test_a_limit_that_is_not_there_is_named(database: Database) -> None:
    limit(database, "openai", rate=5, per="1m")
    fence = begin(database)
    for act in (spent, taken):
        with pytest.raises(InvalidJob, match=r"no limit 'opnai' \(did you mean 'openai'\?\)"):
            act(database, fence, "opnai", "1")


def test_an_attempt_that_is_over_spends_nothing(database: Database) -> None:
    limit(database, "usd", budget=5)
    fence = begin(database)
    assert end(database, fence) is not None
    for act in (spent, taken):
        with pytest.raises(NoRunningJob, match="this attempt is over"):
            act(database, fence, "usd", "1")
    assert used(database, "usd") == 0


def test_a_resource_that_a_job_spends_is_held_to_its_end(database: Database) -> None:
    limit(database, "gpu", resource=3)
    fence = begin(database, gpu="1")
    assert spent(database, fence, "gpu", "2") == 1
    assert room(database, "gpu").used == 2 * 10**6
    assert end(database, fence) is not None
    assert used(database, "gpu") == 0


def test_each_group_spends_its_own(database: Database) -> None:
    limit(database, "usd", budget=5, each="group")
    fences = [set_off(database, put(database, group=group))[0].fence for group in "ab"]
    assert spent(database, fences[0], "usd", "4") == 1
    assert spent(database, fences[1], "usd", "1") == 4
    assert counters(database, "usd") == {("a", "all"): Decimal(4), ("b", "all"): Decimal(1)}


def test_more_than_a_database_can_count_ends_nothing(database: Database) -> None:
    most = 10**12
    limit(database, "api", rate=5, per="1h")
    limit(database, "usd", budget=5)
    limit(database, "gpu", resource=5)
    fence = begin(database)
    for name in ("api", "usd", "gpu"):
        left = [spent(database, fence, name, str(most)) for _ in range(11)]
        assert left[-1] <= 5 - 9 * most
        assert used(database, name) >= 9 * most
        assert isinstance(taken(database, fence, name, "1"), Wait)
    assert [one["left"] < 0 for one in database.read("list", list_limits)] == [True] * 3
    assert end(database, fence) is not None
    assert used(database, "gpu") == 0


@pytest.mark.parametrize("change", [{"each": "group"}, {"per": "day"}])
def test_what_a_limit_becomes_while_a_job_runs_counts_what_is_spent_from_then_on(
    database: Database, change: dict[str, Any]
) -> None:
    limit(database, "usd", budget=10)
    fence = begin(database, usd="5")
    limit(database, "usd", budget=10, **change)
    assert spent(database, fence, "usd", "4") == 6
    assert used(database, "usd") == 4
    assert taken(database, fence, "usd", "6") == Spent(0, 10 * 10**6)
    assert isinstance(taken(database, fence, "usd", "1"), Wait)
    assert used(database, "usd") == 10
    before = counters(database, "usd")["", FOR_EVER]
    assert before == 0  # what was reserved there is given back as it is spent elsewhere
    assert end(database, fence) is not None
    assert used(database, "usd") == 10
