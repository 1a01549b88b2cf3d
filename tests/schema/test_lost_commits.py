"""Operators' transactions whose COMMIT got no answer: done once, and their result told, whichever way it went."""

import pytest

import sqljobs
from sqljobs.schema.cancel import cancel
from sqljobs.schema.engine import create_engine
from sqljobs.schema.enqueue import Enqueued
from sqljobs.schema.lost_commits import SettledAct, SettledEnqueue, is_cancelled, is_open_again
from sqljobs.schema.outcomes import Cause, Outcome
from sqljobs.schema.retry import retry
from sqljobs.schema.transactions import Database
from sqljobs.worker_runtime.enqueue import check_args
from sqljobs.worker_runtime.registry import defaults_of
from tests.schema.actors import Stage
from tests.schema.audit import audit
from tests.schema.locks import waits_for_lock
from tests.schema.playing import count, put, row, run, set_off, states
from tests.schema.proxy import Loss, Proxy
from tests.schema.test_commit_unknown import carried_out, losing, servers
from tests.waiting import wait_until


def chain_of_two() -> list[sqljobs.JobSpec]:
    first = sqljobs.JobSpec("t")
    return [first, sqljobs.JobSpec("t", after=[first], key="k")]


def enqueue(database: Database, specs: list[sqljobs.JobSpec]) -> list[Enqueued]:
    call = SettledEnqueue(specs, defaults_of, check_args)
    return database.transaction("enqueue", call.work, settle=call.settle)


@carried_out
def test_enqueue(database: Database, loss: Loss) -> None:
    with losing(database, {"enqueue.commit": [loss]}) as broken:
        enqueued = enqueue(broken, chain_of_two())
    assert [one.created for one in enqueued] == [True, True]
    assert states(database, [one.id for one in enqueued]) == ["ready", "blocked"]
    assert count(database) == 2
    assert database.read("audit", audit) == []


@carried_out
def test_enqueue_that_found_its_key_taken(database: Database, loss: Loss) -> None:
    held = put(database, key="k")
    with losing(database, {"enqueue.commit": [loss]}) as broken:
        assert enqueue(broken, [sqljobs.JobSpec("t", key="k")]) == [Enqueued(held, created=False)]
    assert count(database) == 1


@servers
def test_enqueue_whose_commit_arrives_late(database: Database, stage: Stage) -> None:
    """Made again too soon, the jobs would be there twice."""
    with Proxy(database.engine.url) as proxy:
        engine = create_engine(proxy.url)
        actor = stage.actor(lambda: enqueue(Database.of(engine), chain_of_two()))
        actor.until("enqueue.commit")
        proxy.lose_next(Loss.TIME)
        actor.go()
        wait_until(lambda: waits_for_lock(database), what="somebody's wait for the transaction that hangs")
        proxy.deliver()
        assert [one.created for one in actor.finish()] == [True, True]
        engine.dispose()
    assert count(database) == 2


@carried_out
@pytest.mark.parametrize("running", [True, False])
def test_cancel(database: Database, loss: Loss, running: bool) -> None:
    ids = [put(database) for _ in range(2)]
    if running:
        set_off(database, *ids)
    act = SettledAct(lambda tx: cancel(tx, ids), is_cancelled)
    with losing(database, {"cancel.commit": [loss]}) as broken:
        assert broken.transaction("cancel", act.work, settle=act.settle) == ids
    assert all(row(database, job_id).cancel_requested_at is not None for job_id in ids)
    assert states(database, ids) == ["running" if running else "cancelled"] * 2


@carried_out
@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_retry(database: Database, loss: Loss, end: str) -> None:
    job_id = put(database, max_attempts=1)
    if end == "failed":
        run(database, job_id, Outcome(Cause.ERROR))
    else:
        database.transaction("cancel", lambda tx: cancel(tx, [job_id]))
    act = SettledAct(lambda tx: retry(tx, [job_id]), is_open_again)
    with losing(database, {"retry.commit": [loss]}) as broken:
        assert broken.transaction("retry", act.work, settle=act.settle) == [job_id]
    job = row(database, job_id)
    assert (job.state, job.max_attempts) == ("ready", 2 if end == "failed" else 1)


@carried_out
def test_act_that_changes_nothing(database: Database, loss: Loss) -> None:
    act = SettledAct(lambda _: [], is_cancelled)
    with losing(database, {"x.commit": [loss]}) as broken:
        assert broken.transaction("x", act.work, settle=act.settle) == []
