"""What follows from ends, and from what they end: edges, counts, roll-ups, members.

Breadth first in the transaction of the first end, each neighbour once; past a bound the rest is left to supervisors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqljobs.schema.chunks import chunks
from sqljobs.schema.edges import awaited, mark_checked, not_needed, open_edges, settle_edges
from sqljobs.schema.ends import End, children_of, close, is_blocked, lock_neighbours, unblock
from sqljobs.schema.graph import NOT_NEEDED
from sqljobs.schema.intents import leave
from sqljobs.schema.members import BY_OPERATOR, cancel_rows, count_ends, is_over, open_gates, roll_up, some_members
from sqljobs.schema.on_failed import tell_of_failures
from sqljobs.schema.states import FINAL, State
from sqljobs.schema.tables import job_deps
from sqljobs.schema.transactions import Transaction

NEIGHBOURS = 500


class Settling:
    """The work that one transaction still has to do. `left`: how many neighbours it may touch. `held`: how many rows it
    did not get, and has left to supervisors; `quietly` where one of them is at work itself."""

    def __init__(self, tx: Transaction, *, quietly: bool = False) -> None:
        self._tx = tx
        self._quietly = quietly
        self.left = NEIGHBOURS
        self.held = 0
        self._ends: list[End] = []
        self._begun: list[int] = []

    def run(self, ended: Iterable[End] = (), freed: Iterable[Any] = ()) -> None:
        """`ended`: jobs that have; `freed`: the rows of blocked jobs that wait for nothing more. All rows are ours."""
        self._ends += ended
        self.go_on(freed)
        while self._ends or self._begun:
            ends, self._ends = self._ends, []
            begun, self._begun = self._begun, []
            tell_of_failures(self._tx, [end.job_id for end in ends if end.state is State.FAILED])
            over, uncounted = count_ends(self._tx, ends)
            self._ends += over
            self._leave_held("child", uncounted)
            self.end_members([end for end in ends if end.has_members])
            self._settle_all_edges(ends)
            self.open_members(begun)

    def go_on(self, freed: Iterable[Any]) -> None:
        """These wait for nothing more: leaves may start, containers begin, and some of these are over at once."""
        containers = unblock(self._tx, freed)
        counted = {row.id: children_of(row) for row in containers}
        over = [row for row in containers if counted[row.id].open == 0 and not row.awaits_child]
        self._ends += roll_up(self._tx, over, counted)
        self._begun += [row.id for row in containers if counted[row.id].open]

    def _settle_all_edges(self, ends: Sequence[End]) -> None:
        by_id = {end.job_id: end for end in ends}
        ids = sorted(by_id)
        for chunk in chunks(ids):
            self.settle_edges({job_id: by_id[job_id] for job_id in chunk})

    def settle_edges(self, ends: Mapping[int, End], *, after_id: int = 0, unchecked: bool = False) -> bool:
        """Settle the edges to what has ended, beyond the dependent `after_id`; False when some are left for others."""
        if self.left <= 0:
            leave(self._tx, "edges", awaited(self._tx, ends))
            return False
        edges = open_edges(self._tx, ends, self.left + 1, after_id=after_id, unchecked=unchecked)
        mine, beyond = edges[: self.left], edges[self.left :]
        self.left -= len(mine)
        if mine:
            ended, free, held = settle_edges(self._tx, ends, mine, looked=unchecked)
            self._ends += ended
            self.go_on(free)
            self._leave_held("edges", sorted({upstream for upstream, _ in held}))
            for upstream, job_id in held if unchecked else ():  # no longer to be looked at for their own sake
                mark_checked(self._tx, [upstream], job_deps.c.job_id == job_id)
        if not beyond:
            return True
        if not unchecked:  # those are found again as they are
            split = beyond[0].depends_on_id
            last = mine[-1].job_id if mine and mine[-1].depends_on_id == split else after_id
            leave(self._tx, "edges", [split], after_id=last)
            leave(self._tx, "edges", awaited(self._tx, [job_id for job_id in ends if job_id > split]))
        return False

    def open_members(self, containers: Sequence[int]) -> None:
        """Open the gates of what has begun."""
        self.go_on(open_gates(self._tx, self._lock_members(containers, gated=True)))

    def end_members(self, ends: Sequence[End]) -> None:
        """What is open in these, which have ended, ends with them."""
        by_id = {end.job_id: end for end in ends}
        rows = self._lock_members(sorted(by_id), gated=False)
        for parent_id in sorted({row.parent_id for row in rows}):
            end, members = by_id[parent_id], [row for row in rows if row.parent_id == parent_id]
            if end.reason in ("dependency", NOT_NEEDED):  # a container that has not begun: they are all blocked
                blocked = [row for row in members if row.state == State.BLOCKED.value]
                self._ends += close(self._tx, blocked, end.reason, end.culprit if end.reason == "dependency" else None)
            else:
                self.cancel(members, f"job {parent_id}, which it is part of, has ended")

    def cancel_members(self, container: int) -> None:
        """What is open in this one, whose cancel was asked for."""
        self.cancel(self._lock_members([container], gated=False), BY_OPERATOR)

    def cancel(self, rows: Sequence[Any], text: str) -> None:
        """Cancel these open jobs, whose rows we hold; members of containers among them are left to supervisors."""
        ended, open_containers = cancel_rows(self._tx, [row for row in rows if State(row.state) not in FINAL], text)
        self._ends += ended
        leave(self._tx, "members", open_containers)

    def _lock_members(self, containers: Sequence[int], *, gated: bool) -> list[Any]:
        """The rows of as many members as may be touched; for the others of these containers there will be intents."""
        if not containers:
            return []
        found = some_members(self._tx, containers, self.left + 1, gated=gated)
        mine, beyond = found[: self.left], found[self.left :]
        self.left -= len(mine)
        if beyond:
            leave(self._tx, "members", [one for one in containers if one >= beyond[0].parent_id])
        inner = {member.id for member in mine if member.container}
        rows = lock_neighbours(self._tx, "lock_members", {member.id for member in mine} - inner, inner)
        held = inner - {row.id for row in rows}
        self._leave_held("members", sorted({member.parent_id for member in mine if member.id in held}))
        return rows

    def _leave_held(self, kind: str, ids: Sequence[int]) -> None:
        self.held += len(ids)
        leave(self._tx, kind, ids, quietly=self._quietly)


def settle(tx: Transaction, *ended: End) -> None:
    """All that follows from these ends, whose rows we hold."""
    Settling(tx).run(ended)


def resettle(tx: Transaction, rows: Sequence[Any]) -> None:
    """What follows now for these open jobs, whose rows we hold: of the blocked ones some are not needed, others wait
    for nothing; of containers that had begun some are over."""
    blocked = [row for row in rows if is_blocked(row)]
    pointless = set(not_needed(tx, [row.id for row in blocked]))
    ended = close(tx, [row for row in blocked if row.id in pointless], NOT_NEEDED, None)
    free = [row for row in blocked if row.id not in pointless and row.unmet_deps == 0 and row.closed_gates == 0]
    over = [row for row in rows if row.state == State.WAITING.value and is_over(row, children_of(row))]
    ended += roll_up(tx, over, {row.id: children_of(row) for row in over})
    Settling(tx).run(ended, free)
