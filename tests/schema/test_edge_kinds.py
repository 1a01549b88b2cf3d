"""Dependents that follow any end, or a bad one: whichever commits first, and whatever a retry takes back."""

import pytest

import sqljobs
from sqljobs import JobSpec
from sqljobs.schema.cancel import cancel
from sqljobs.schema.doctor import examine
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.retry import retry
from sqljobs.schema.transactions import Database
from tests.schema.audit import audit
from tests.schema.playing import DONE, edges, end, put, row, run, set_off, states
from tests.schema.test_edges import put_all, settle_all

FAILED = Outcome(Cause.FAIL)
END = {"done": DONE, "failed": FAILED, "cancelled": Outcome(Cause.CANCELLED)}


def faults(database: Database) -> list[object]:
    """What does not hold of the rows. The claimers of these tests have not registered."""
    found = [finding for finding in database.read("examine", examine) if finding.code != "unknown_owner"]
    return [*database.read("audit", audit), *found]


@pytest.mark.parametrize("how", END)
@pytest.mark.parametrize("when", ["before", "after"])
def test_one_upstream(database: Database, how: str, when: str) -> None:
    """The same, whether the upstream ends before the enqueue or after it."""
    upstream = put(database)
    if when == "before":
        run(database, upstream, END[how])
    ids = [put(database, after_any=[upstream]), put(database, after_failed=[upstream])]
    if when == "after":
        assert states(database, ids) == ["blocked", "blocked"]
        run(database, upstream, END[how])
    settle_all(database)
    assert states(database, ids) == ["ready", "cancelled" if how == "done" else "ready"]
    unneeded = row(database, ids[1])
    if how == "done":
        assert (unneeded.reason, unneeded.reason_job_id) == ("not_needed", None)
        assert unneeded.reason_text == "none of the jobs that it is there for ended badly"
    assert faults(database) == []


def test_all_have_to_end_and_one_of_them_badly(database: Database) -> None:
    ups = [put(database) for _ in range(3)]
    cleanup, notifier = put(database, after_any=ups), put(database, after_failed=ups)
    for job_id, outcome in zip(ups, (DONE, FAILED, DONE), strict=True):
        assert states(database, [cleanup, notifier]) == ["blocked", "blocked"]
        run(database, job_id, outcome)
    assert states(database, [cleanup, notifier]) == ["ready", "ready"]
    assert faults(database) == []


def test_not_needed_counts_as_a_good_end(database: Database) -> None:
    """For `after`, for `after_failed`, and down through one call; for `after_any` as any end."""
    first = put(database)
    notifier = JobSpec("t", after_failed=[first])
    follow = JobSpec("t", after=[notifier])
    second_notifier = JobSpec("t", after_failed=[notifier])
    cleanup = JobSpec("t", after_any=[notifier, second_notifier])
    ids = put_all(database, notifier, follow, second_notifier, cleanup)
    run(database, first)
    assert states(database, ids) == ["cancelled", "ready", "cancelled", "ready"]
    assert [row(database, job_id).reason for job_id in ids] == ["not_needed", None, "not_needed", None]
    again = put_all(database, notifier, follow, second_notifier, cleanup)  # all has ended by now
    assert states(database, again) == ["cancelled", "ready", "cancelled", "ready"]
    assert faults(database) == []


def test_a_bad_end_is_followed_down_the_graph(database: Database) -> None:
    """What is cancelled for a dependency is a bad end for those below; a mixed job ends with the first that decides."""
    root = put(database)
    middle = JobSpec("t", after=[root])
    notifier, cleanup = JobSpec("t", after_failed=[middle]), JobSpec("t", after_any=[middle])
    mixed = JobSpec("t", after=[notifier], after_failed=[root])
    ids = put_all(database, middle, notifier, cleanup, mixed)
    run(database, root, FAILED)
    assert states(database, ids) == ["cancelled", "ready", "ready", "blocked"]
    assert faults(database) == []


def test_two_kinds_for_one_pair_are_refused(database: Database) -> None:
    upstream = put(database)
    with pytest.raises(sqljobs.InvalidJob, match=r"waits for job .* in two ways: name it in one of after, after_any"):
        put(database, after=[upstream], after_any=[upstream])
    one, other = JobSpec("u", key="k"), JobSpec("u", key="k")
    with pytest.raises(sqljobs.InvalidJob, match="two specs have its key"):
        put_all(database, one, other, JobSpec("t", after=[one], after_failed=[other]))


def test_retry_takes_back_what_the_failure_had_satisfied(database: Database) -> None:
    """For those that nobody has claimed; what has been claimed goes on."""
    upstream, other = put(database), put(database)
    middle = put(database, after=[upstream])
    waiting = put(database, after_failed=[upstream], run_after="1h")
    ready, below = put(database, after_any=[upstream]), put(database, after_any=[middle])
    claimed, half = put(database, after_any=[upstream]), put(database, after_any=[upstream, other])
    run(database, upstream, FAILED)
    (taken,) = set_off(database, claimed)
    assert states(database, [middle, waiting, ready, below, half]) == [
        *("cancelled", "scheduled", "ready", "ready", "blocked")
    ]
    changed = database.transaction("retry", lambda tx: retry(tx, [upstream]))
    assert changed == [upstream, middle]
    assert states(database, [upstream, middle, waiting, ready, below, half, claimed]) == [
        *("ready", "blocked", "blocked", "blocked", "blocked", "blocked", "running")
    ]
    assert row(database, half).unmet_deps == 2
    settle_all(database)
    assert faults(database) == []
    run(database, upstream)
    assert states(database, [middle, waiting, ready, below, half]) == [
        *("ready", "cancelled", "ready", "blocked", "blocked")
    ]
    assert row(database, waiting).reason == "not_needed"
    end(database, taken.fence)
    assert faults(database) == []


def test_edge_that_commits_after_the_retry_of_its_upstream(database: Database) -> None:
    """It was satisfied by an end that is undone by then: a supervisor looks once more."""
    if database.dialect.name == "sqlite":
        upstream = put(database)
        run(database, upstream, FAILED)
        dependent = put(database, after_any=[upstream])
        assert not edges(database, dependent)[0].checked
        settle_all(database)
        assert edges(database, dependent)[0].checked
        return
    upstream = put(database)
    run(database, upstream, FAILED)
    with database.engine.begin() as conn:
        ids = [sqljobs.enqueue(conn, "t", **{option: [upstream]}) for option in ("after_any", "after_failed")]
        database.transaction("retry", lambda tx: retry(tx, [upstream]))
    assert states(database, ids) == ["ready", "ready"]
    settle_all(database)
    assert states(database, ids) == ["blocked", "blocked"]
    assert faults(database) == []
    run(database, upstream)
    assert states(database, ids) == ["ready", "cancelled"]
    assert faults(database) == []


def test_retry_of_a_follower_that_is_not_needed_any_more(database: Database) -> None:
    upstream = put(database)
    notifier = put(database, after_failed=[upstream], max_attempts=1)
    last = put(database, after=[notifier])
    run(database, upstream, FAILED)
    run(database, notifier, FAILED)
    database.transaction("retry", lambda tx: retry(tx, [upstream]))
    run(database, upstream)
    database.transaction("retry", lambda tx: retry(tx, [notifier]))
    settle_all(database)
    assert states(database, [notifier, last]) == ["cancelled", "ready"]
    assert row(database, notifier).reason == "not_needed"
    assert faults(database) == []


def test_retry_of_a_follower_whose_failure_stands(database: Database) -> None:
    upstream = put(database)
    notifier = put(database, after_failed=[upstream])
    run(database, upstream, FAILED)
    database.transaction("cancel", lambda tx: cancel(tx, [notifier]))
    database.transaction("retry", lambda tx: retry(tx, [notifier]))
    assert states(database, [notifier]) == ["ready"]
    assert faults(database) == []
