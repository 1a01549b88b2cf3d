"""Limits at the claim: never more than there is, by any order of two claimers; nothing held by what waits."""

from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import insert, update

import sqljobs
from sqljobs.schema.claim import Lease, claim
from sqljobs.schema.finalize import start
from sqljobs.schema.limit_tables import job_charges
from sqljobs.schema.moves import Fence
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.specs import Defaults
from sqljobs.schema.transactions import Database
from tests.schema.actors import Stage
from tests.schema.limiting import charges, counters, limit, room, used
from tests.schema.playing import ALICE, BOB, end, lease, put, row, run, set_off, states, tries


def ids_of(leases: list[Lease]) -> list[int]:
    return [one.job_id for one in leases]


def test_a_resource_is_held_while_in_flight(database: Database) -> None:
    limit(database, "gpu", resource=2)
    ids = [put(database, uses={"gpu": 1}) for _ in range(4)]
    first = lease(database, *ids)
    assert ids_of(first) == ids[:2]
    assert used(database, "gpu") == 2
    assert lease(database, *ids[2:], claimer=BOB) == []
    database.transaction("start", lambda tx: start(tx, first[0].fence, pid=1))
    assert end(database, first[0].fence) is not None
    assert used(database, "gpu") == 1
    assert ids_of(lease(database, *ids[2:], claimer=BOB)) == [ids[2]]
    assert tries(database, ids[0])[0].used == {"gpu": 1}
    assert charges(database, ids[0]) == {}


def test_in_the_order_of_the_claim(database: Database) -> None:
    limit(database, "gpu", resource=3)
    big, small, tiny = (put(database, uses={"gpu": amount}) for amount in (2, "1.5", "0.5"))
    assert ids_of(lease(database, big, small, tiny)) == [big, tiny]
    assert used(database, "gpu") == Decimal("2.5")


def test_a_job_that_lacks_one_thing_holds_none(database: Database) -> None:
    limit(database, "a", resource=1)
    limit(database, "b", resource=1)
    (holder,) = set_off(database, put(database, uses={"b": 1}))
    both, single = put(database, uses={"a": 1, "b": 1}), put(database, uses={"a": 1})
    assert ids_of(lease(database, both, single)) == [single]
    assert end(database, holder.fence) is not None
    assert [used(database, name) for name in "ab"] == [1, 0]
    assert row(database, both).state == "ready"


def test_what_uses_no_limit_asks_none(database: Database, stage: Stage) -> None:
    limit(database, "gpu", resource=1)
    other, plain = put(database, uses={"gpu": 1}), put(database)
    slow = stage.actor(lambda: lease(database, other))
    slow.until("claim.commit")
    if database.dialect.name != "sqlite":
        assert ids_of(lease(database, plain, claimer=BOB)) == [plain]
    assert ids_of(slow.finish()) == [other]


def test_two_claimers_at_once_never_exceed_it(database: Database, stage: Stage) -> None:
    if database.dialect.name == "sqlite":
        pytest.skip("a writer at a time: there is no second claimer to meet")
    limit(database, "gpu", resource=1)
    run(database, put(database, uses={"gpu": 1}))  # the gate is made by the first claim
    first, second = (put(database, uses={"gpu": 1}) for _ in range(2))
    slow = stage.actor(lambda: lease(database, first))
    slow.until("claim.commit")
    assert lease(database, second, claimer=BOB) == []  # not waited for either
    slow.finish()
    assert lease(database, second, claimer=BOB) == []
    assert states(database, [first, second]) == ["leased", "ready"]


def test_a_caller_who_changes_a_limit_stops_no_claim(database: Database) -> None:
    if database.dialect.name == "sqlite":
        pytest.skip("a writer at a time")
    limit(database, "gpu", resource=1)
    job_id = put(database, uses={"gpu": 1})
    with database.engine.begin() as conn:
        sqljobs.set_limit(conn, "gpu", resource=0)
        assert ids_of(lease(database, job_id)) == [job_id]
    assert room(database, "gpu").amount == 0


def test_a_lowered_limit_takes_nothing_from_what_runs(database: Database) -> None:
    limit(database, "gpu", resource=3)
    set_off(database, *(put(database, uses={"gpu": 1}) for _ in range(3)))
    limit(database, "gpu", resource=1)
    waiting = put(database, uses={"gpu": 1})
    assert lease(database, waiting) == []
    assert room(database, "gpu").left == -2 * 10**6
    limit(database, "gpu", resource=4)
    assert ids_of(lease(database, waiting)) == [waiting]


def test_without_its_limit_a_job_waits(database: Database) -> None:
    job_id = put(database, uses={"gpu": 1})
    assert lease(database, job_id) == []
    limit(database, "gpu", resource=1)
    assert ids_of(lease(database, job_id)) == [job_id]


def test_the_handlers_uses_apply_where_the_job_was_given_none(database: Database) -> None:
    limit(database, "gpu", resource=10)
    plain, own, none = put(database), put(database, uses={"gpu": "0.25"}), put(database, uses={})
    leases = database.transaction(
        "claim", lambda tx: claim(tx, ALICE, [plain, own, none], lambda _: Defaults(uses={"gpu": Decimal(2)}))
    )
    assert ids_of(leases) == [plain, own, none]
    assert [tries(database, job_id)[0].used for job_id in (plain, own, none)] == [
        {"gpu": 2},
        {"gpu": Decimal("0.25")},
        None,
    ]
    assert used(database, "gpu") == Decimal("2.25")


def test_each_group_has_its_own(database: Database) -> None:
    limit(database, "calls", resource=1, each="group")
    limit(database, "calls", resource=2, each="group", group="rich")
    ids = [put(database, uses={"calls": 1}, group=group) for group in ("a", "a", "b", "rich", "rich", "rich")]
    assert ids_of(lease(database, *ids)) == [ids[0], ids[2], ids[3], ids[4]]
    assert [used(database, "calls", group) for group in ("a", "b", "rich", "new")] == [1, 1, 2, 0]


def test_one_groups_claim_does_not_stop_anothers(database: Database, stage: Stage) -> None:
    if database.dialect.name == "sqlite":
        pytest.skip("a writer at a time")
    limit(database, "calls", resource=1, each="group")
    lease_a, lease_b = (put(database, uses={"calls": 1}, group=group) for group in "ab")
    run(database, put(database, uses={"calls": 1}, group="b"))  # the gates are there
    slow = stage.actor(lambda: lease(database, lease_a))
    slow.until("claim.commit")
    assert ids_of(lease(database, lease_b, claimer=BOB)) == [lease_b]
    slow.finish()


def test_what_a_reclaimed_attempt_held_is_free(database: Database) -> None:
    limit(database, "gpu", resource=1)
    (one,) = set_off(database, put(database, uses={"gpu": 1}))
    assert end(database, one.fence, Outcome(Cause.LEASE_LOST, died=True)) is not None
    assert used(database, "gpu") == 0
    (again,) = lease(database, one.job_id)
    assert again.attempt == 2
    assert used(database, "gpu") == 1


def test_a_row_that_was_left_behind_holds_nothing(database: Database) -> None:
    limit(database, "gpu", resource=1)
    (one,) = set_off(database, put(database, uses={"gpu": 1}))
    assert end(database, one.fence) is not None
    claimed_at = tries(database, one.job_id)[0].claimed_at
    with database.engine.begin() as conn:
        conn.execute(
            insert(job_charges).values(
                name="gpu", group_key="", job_id=one.job_id, attempt=1, kind="resource", period="",
                counted_at=claimed_at, amount=10**6, estimate=True,
            )
        )  # fmt: skip
    assert used(database, "gpu") == 0


def shift(database: Database, job_id: int, seconds: float) -> None:
    """Make it so that a job's charges were counted so much earlier."""
    at = tries(database, job_id)[-1].claimed_at - timedelta(seconds=seconds)
    with database.engine.begin() as conn:
        conn.execute(update(job_charges).where(job_charges.c.job_id == job_id).values(counted_at=at))


def test_a_rate_counts_starts_in_any_window(database: Database) -> None:
    limit(database, "api", rate=2, per="1h")
    ids = [put(database, uses={"api": 1}) for _ in range(5)]
    assert ids_of(lease(database, *ids)) == ids[:2]
    for job_id in ids[:2]:
        assert end(database, set_off_again(database, job_id)) is not None
    assert lease(database, *ids[2:]) == []  # the end of a job gives nothing back
    shift(database, ids[0], 3000)
    assert lease(database, *ids[2:]) == []
    frees_at = room(database, "api").frees_at
    assert frees_at is not None
    shift(database, ids[0], 3601)
    assert ids_of(lease(database, *ids[2:])) == [ids[2]]
    assert used(database, "api") == 2


def set_off_again(database: Database, job_id: int) -> Fence:
    """The fence of a job that is leased; its handler is reached now."""
    leased = row(database, job_id)
    fence = Fence(job_id, leased.attempt, leased.lease_owner)
    assert database.transaction("start", lambda tx: start(tx, fence, pid=1))
    return fence


def test_a_start_whose_handler_was_not_reached_counts_no_more(database: Database) -> None:
    limit(database, "api", rate=1, per="1h")
    first, second = (put(database, uses={"api": 1}) for _ in range(2))
    (one,) = lease(database, first)
    assert end(database, one.fence, Outcome(Cause.INTERRUPTED, died=True)) is not None
    assert used(database, "api") == 0
    assert ids_of(lease(database, second)) == [second]


def test_a_budget_is_for_its_window(database: Database) -> None:
    limit(database, "usd", budget=3, per="day")
    ids = [put(database, uses={"usd": "1.25"}) for _ in range(4)]
    assert ids_of(lease(database, *ids)) == ids[:2]
    assert used(database, "usd") == Decimal("2.5")
    ((group, period),) = counters(database, "usd")
    assert group == ""
    assert period == room(database, "usd").period
    frees_at, claimed_at = room(database, "usd").frees_at, tries(database, ids[0])[0].claimed_at
    assert frees_at is not None
    assert frees_at > claimed_at
    limit(database, "usd", budget="3.75", per="day")
    assert ids_of(lease(database, *ids[2:])) == [ids[2]]
