"""The drawn state machine is the one in the code."""

import re
from pathlib import Path

from sqljobs.schema.states import FINAL, TRANSITIONS, State, diagram

ROOT = Path(__file__).parents[2]


def test_architecture_shows_the_table() -> None:
    drawn = re.search(r"```mermaid\n(stateDiagram-v2\n.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)
    assert drawn is not None
    assert drawn[1] == diagram(), "run `make diagram` and commit ARCHITECTURE.md"


def test_every_state_is_reached_and_left() -> None:
    reached = {state for row in TRANSITIONS for state in row.targets}
    left = {state for row in TRANSITIONS for state in row.sources}
    assert reached == set(State)
    assert left >= set(State) - FINAL
