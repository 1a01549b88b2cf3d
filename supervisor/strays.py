"""Which processes belong to which attempts, and which of them have to go. Pure: told what was seen, touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqljobs.supervisor.sightings import Process, Sighting
from sqljobs.worker_runtime.process_mark import Mark

Owners = frozenset[Mark]
NOBODY: Owners = frozenset()


@dataclass(frozen=True)
class Head:
    """The child that was forked for an attempt. `reaped_at_ticks`: since then its number may be given to a stranger."""

    process: Process
    reaped_at_ticks: int | None = None


@dataclass(frozen=True)
class Adopter:
    """This process, while orphans of its tree become its children. `spared`: those that it had before."""

    pid: int
    session: int
    spared: frozenset[Process] = frozenset()

    def adopted(self, seen: Sighting) -> bool:
        """Whether it is an orphan that came to us. What we forked ourselves is in our session; a job never is."""
        return seen.ppid == self.pid and seen.session != self.session and seen.process not in self.spared

    @property
    def knows_strangers(self) -> bool:
        """Whether an orphan without a mark can only be a job's. It may be a stranger's if this process had a child
        before, whose own come to us when it ends; and always for the first process of a container."""
        return self.pid != 1 and not self.spared


@dataclass(frozen=True)
class Evidence:
    """What is known besides the sightings. `marks`: as read, those of other supervisors left out. `known`: the result
    of the pass before, since an orphan shows no more whose it was."""

    heads: Mapping[Mark, Head]
    marks: Mapping[Process, Owners]
    known: Mapping[Process, Owners]
    adopter: Adopter | None


def families(seen: Iterable[Sighting], evidence: Evidence) -> dict[Process, Owners]:
    """The attempts that each process may belong to; those that belong to none are left out.

    In this order: the mark; the child itself, and its session; what was known; the parent's family; and last, for an
    orphan without a mark, all attempts that had begun before it, when it is seen for the first time."""
    by_pid = {one.process.pid: one for one in seen}
    adopter = evidence.adopter if evidence.adopter and evidence.adopter.knows_strangers else None
    of_heads = {head.process: frozenset({mark}) for mark, head in evidence.heads.items()}
    sessions = {head.process.pid: (mark, head) for mark, head in evidence.heads.items()}

    def by_itself(one: Sighting) -> Owners:
        process = one.process
        if owners := evidence.marks.get(process) or of_heads.get(process):
            return owners
        mark, head = sessions.get(one.session, (None, None))
        if mark is not None and head is not None and _in_session(one, head):
            return frozenset({mark})
        return evidence.known.get(process, NOBODY)

    def orphan(one: Sighting) -> Owners:
        if adopter is None or not adopter.adopted(one):
            return NOBODY
        began = one.process.start_ticks
        return frozenset(mark for mark, head in evidence.heads.items() if head.process.start_ticks <= began)

    found: dict[Process, Owners] = {}
    for one in by_pid.values():
        _settle(one, by_pid, found, by_itself, orphan)
    return {process: owners for process, owners in found.items() if owners}


def _settle(
    one: Sighting,
    by_pid: Mapping[int, Sighting],
    found: dict[Process, Owners],
    by_itself: Callable[[Sighting], Owners],
    orphan: Callable[[Sighting], Owners],
) -> None:
    """Climb from `one` to the first ancestor whose owners are plain; they are those of all on the way."""
    way: list[Process] = []
    owners = NOBODY
    at: Sighting | None = one
    # A pass is no snapshot: numbers that were given anew meanwhile may even form a ring.
    while at is not None and at.process not in way:
        if at.process in found:
            owners = found[at.process]
            break
        way.append(at.process)
        owners = by_itself(at) or orphan(at)
        if owners:
            break
        parent = by_pid.get(at.ppid)
        at = parent if parent is not None and parent.process.start_ticks <= at.process.start_ticks else None
    found.update(dict.fromkeys(way, owners))


def _in_session(one: Sighting, head: Head) -> bool:
    # The kernel gives the number away neither while the head is unreaped nor while its session has members; what
    # began later may be a stranger's session.
    return head.reaped_at_ticks is None or one.process.start_ticks <= head.reaped_at_ticks


def tree_of(pid: int, seen: Iterable[Sighting]) -> set[int]:
    """The numbers of this process and of all its descendants."""
    children: dict[int, list[int]] = {}
    for one in seen:
        children.setdefault(one.ppid, []).append(one.process.pid)
    found, unseen = {pid}, [pid]
    while unseen:
        fresh = set(children.get(unseen.pop(), ())) - found
        found |= fresh
        unseen += fresh
    return found


def doomed(
    seen: Sequence[Sighting], owners: Mapping[Process, Owners], going_on: Collection[Mark], heads: Collection[Process]
) -> list[Sighting]:
    """The living processes all of whose attempts are over; the attempts' own children, `heads`, are not listed."""
    return [
        one
        for one in seen
        if one.is_alive and one.process not in heads and one.process in owners
        if owners[one.process].isdisjoint(going_on)
    ]
