"""Random stories that only the model plays: what must hold of any graph, and that nothing waits for ever."""

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings

from tests.schema.graph_model import Described, Model
from tests.schema.graph_rules import FINAL
from tests.schema.graph_stories import WILD, Drawn, Move, described, moved, stories, turned


def pick(chosen: Sequence[int], pool: Sequence[int]) -> list[int]:
    return list(dict.fromkeys(pool[-1 - n % len(pool)] for n in chosen)) if pool else []


def in_state(model: Model, *states: str) -> list[int]:
    return [job.id for job in model.jobs.values() if job.state in states]


def ended_by_itself(model: Model) -> list[int]:
    ended = in_state(model, "failed", "cancelled")
    return [i for i in ended if model.jobs[i].reason not in ("dependency", "not_needed")]


def draw(model: Model, drawn: Sequence[Drawn]) -> list[Described]:
    boxes = [i for i in in_state(model, "waiting", "blocked") if model.jobs[i].container or model.jobs[i].started]
    return described(drawn, list(model.jobs), boxes)


def play(model: Model, move: Move) -> None:
    match move:
        case "enqueue", drawn, turn:
            made = draw(model, drawn)
            model.enqueue(turned(made) if turn else made)
        case "enqueue one", one:
            model.enqueue(draw(model, [one]), awaits_child=True)
        case "enqueue within", n, drawn:
            for job_id in pick([n], in_state(model, "leased", "running")):
                model.enqueue(described(drawn, list(model.jobs), [job_id]), within=job_id)
        case "claim", chosen:
            for job_id in pick(chosen, list(model.jobs)):
                model.claim(job_id)
        case "run", n, (cause, _, children, followers):
            for job_id in pick([n], in_state(model, "ready")):
                model.claim(job_id)
                end(model, job_id, cause.value, children, followers)
        case "end", n, (cause, _, children, followers):
            for job_id in pick([n], in_state(model, "leased", "running")):
                end(model, job_id, cause.value, children, followers)
        case "cancel", chosen, any_job:
            model.cancel(pick(chosen, list(model.jobs) if any_job else in_state(model, "waiting", "blocked", "ready")))
        case "retry", chosen, any_job:
            model.retry(pick(chosen, list(model.jobs) if any_job else ended_by_itself(model)))
        case "skip", chosen, any_job, _:
            model.skip(pick(chosen, list(model.jobs) if any_job else in_state(model, "failed")))
        case _:
            assert move == ("time passes",)
            model.time_passes()


def end(model: Model, job_id: int, cause: str, children: Sequence[Drawn], followers: Sequence[Drawn]) -> None:
    inside = [one._replace(parent=None) if (one.parent or 0) >= WILD else one for one in children]
    own = described(inside, list(model.jobs), [])
    model.end(job_id, cause, children=own, followers=moved(draw(model, followers), len(own)))


def faults(model: Model) -> list[str]:
    found = model.unfounded()
    for job in model.jobs.values():
        if job.over:
            by_itself = not model.holds_others(job)
            found += [f"{child.id} is open in {job.id}" for child in model.open_children(job) if not by_itself]
        elif job.state == "waiting" and not model.open_children(job):
            found += [] if job.awaits_child and not model.children(job) else [f"{job.id} waits for no child"]
        elif not job.started and (job.state == "blocked") != model.waits(job):
            found.append(f"{job.id} is {job.state}")
        if job.state == "blocked" and model.own_closings(job):
            found.append(f"{job.id} waits in vain")
    return found


def run_all(model: Model) -> None:
    """Everything that can, ends well. What awaits a child gets one."""
    for job_id in in_state(model, "waiting"):
        if not model.children(model.jobs[job_id]):
            model.enqueue([Described(parent=job_id)])
    while any(job.state not in {*FINAL, "blocked", "waiting"} for job in model.jobs.values()):
        model.time_passes()
        for job_id in in_state(model, "ready"):
            model.claim(job_id)
        for job_id in in_state(model, "leased", "running"):
            model.end(job_id, "done")


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(story=stories)
def test_stories(story: list[Move]) -> None:
    model = Model()
    for move in story:
        play(model, move)
        assert faults(model) == [], move
    for _ in range(len(model.jobs)):  # a container may be opened, and await a child, only when others have ended
        if set(in_state(model, *FINAL)) < model.jobs.keys():
            run_all(model)
    assert set(in_state(model, *FINAL)) == set(model.jobs), "some wait for each other"
    assert faults(model) == []
