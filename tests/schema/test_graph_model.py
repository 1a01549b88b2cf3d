"""Random stories of graphs: the rows become what the model says, whenever nothing is left to be looked at."""

from collections.abc import Sequence
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sqljobs.schema import settling
from sqljobs.schema.doctor import examine
from sqljobs.schema.transactions import Database, Transaction
from tests.queue.conftest import full_size
from tests.schema.audit import audit
from tests.schema.graph_model import Model
from tests.schema.graph_playing import Retell, World
from tests.schema.graph_rules import FINAL
from tests.schema.graph_stories import Move, stories


def play_with_model(database: Database, story: Sequence[Move], *, always_look: bool) -> None:
    """The whole story in one transaction that is rolled back. Without `always_look` supervisors look only where
    something is left to them, which the model has done already, and at the end."""

    def work(tx: Transaction) -> None:
        world, model = World(tx), Model()
        for number, move in enumerate(story):
            world.is_undefined = model.one_key_twice
            try:
                model = follow(world, model, world.play(move), always_look)
            except AssertionError as error:
                error.add_note(f"after move {number}, {move}, of {story}")
                raise
        world.look()
        world.read()
        assert difference(world, model) == {}
        assert examine(tx) == []

    database.transaction("story", work, keep=False)


def follow(world: World, before: Model, retell: Retell, always_look: bool) -> Model:
    """The model after the move, where the rows say the same."""
    if always_look:
        world.look()
    world.read()
    model = retold(world, before, retell)
    if not always_look and difference(world, model):
        world.look()
        world.read()
        model = retold(world, before, retell)
    differing = difference(world, model)
    assert differing == {}, f"job: row, model: {differing}"
    parents = {i: row.parent_id for i, row in world.rows.items()}
    assert parents == {job.id: job.parent for job in model.jobs.values()}
    assert model.unfounded() == []
    assert audit(world.tx, settled=always_look) == []
    return model


def retold(world: World, before: Model, retell: Retell) -> Model:
    model = deepcopy(before)
    model.seen = world.closings()
    model.closed = []
    retell(model)
    return model


def difference(world: World, model: Model) -> dict[int, tuple[object, object]]:
    """Job -> what the rows say, what the model says. The result of a job that has not ended is nobody's business."""
    real, told = world.snapshot(), model.snapshot()
    shown = {i: row if row[0] in FINAL else (*row[:3], None) for i, row in real.items()}
    wanted = {i: row if row[0] in FINAL else (*row[:3], None) for i, row in told.items()}
    return {i: (shown.get(i), wanted.get(i)) for i in shown.keys() | wanted.keys() if shown.get(i) != wanted.get(i)}


def play_alone(database: Database, story: Sequence[Move]) -> None:
    """Supervisors look only at the end: what is left to them by then need not be what the model would say."""

    def work(tx: Transaction) -> None:
        world = World(tx)
        for move in story:
            world.play(move)
            world.read()
        world.look()
        assert audit(tx) == []
        assert examine(tx) == []

    database.transaction("story", work, keep=False)


FIXTURES = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large)
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)  # what explains a failure takes minutes
many = settings(
    max_examples=full_size(25, 400),
    derandomize=full_size(True, False),
    deadline=None,
    phases=PHASES,
    suppress_health_check=FIXTURES,
)
some = settings(many, max_examples=full_size(10, 100))


@pytest.mark.databases("sqlite")
@pytest.mark.parametrize("always_look", [True, False])
@many
@given(story=stories)
def test_many_stories(database: Database, always_look: bool, story: list[Move]) -> None:
    play_with_model(database, story, always_look=always_look)


@pytest.fixture(params=[1, 3])
def in_small_portions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs as small as these leave much to supervisors, as large ones do."""
    monkeypatch.setattr(settling, "NEIGHBOURS", request.param)


@pytest.mark.databases("sqlite")
@pytest.mark.usefixtures("in_small_portions")
@many
@given(story=stories)
def test_many_stories_in_small_portions(database: Database, story: list[Move]) -> None:
    play_with_model(database, story, always_look=True)


@pytest.mark.databases("sqlite")
@pytest.mark.usefixtures("in_small_portions")
@many
@given(story=stories)
def test_many_stories_in_small_portions_looked_at_late(database: Database, story: list[Move]) -> None:
    play_alone(database, story)


@pytest.mark.databases("sqlite")
@many
@given(story=stories)
def test_many_stories_looked_at_late(database: Database, story: list[Move]) -> None:
    play_alone(database, story)


@pytest.mark.databases("postgresql", "mariadb", "mysql")
@pytest.mark.parametrize("always_look", [True, False])
@some
@given(story=stories)
def test_some_stories(database: Database, always_look: bool, story: list[Move]) -> None:
    play_with_model(database, story, always_look=always_look)
