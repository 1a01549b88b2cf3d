"""Small stories for the model of graphs by itself."""

from tests.schema.graph_model import Described, Model
from tests.schema.graph_operators import REFUSED

LEAF, BOX = Described(), Described(container=True)


def put(model: Model, *described: Described, awaits_child: bool = False, within: int = 0) -> list[int]:
    made = model.enqueue(described, awaits_child=awaits_child, within=within)
    assert made != REFUSED
    return made


def leaf(*edges: tuple[int, str], parent: int | None = None, most: int = 5) -> Described:
    return Described(parent=parent, edges=edges, max_attempts=most)


def box(*edges: tuple[int, str], parent: int | None = None) -> Described:
    return Described(container=True, parent=parent, edges=edges)


def run(model: Model, job_id: int, cause: str = "done", children: tuple[Described, ...] = ()) -> list[int]:
    assert model.claim(job_id) is True
    assert model.start(job_id) is True
    made = model.end(job_id, cause, result=job_id, children=children)
    assert made != REFUSED
    return made


def states(model: Model, *ids: int) -> list[str]:
    return [model.jobs[i].state for i in ids]


def why(model: Model, job_id: int) -> tuple[str, str | None, int | None]:
    return model.snapshot()[job_id][:3]
