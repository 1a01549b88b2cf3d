"""Kills what attempts leave behind, those of dead supervisors included, and says when nothing is left of them.

Looks in passes, and never waits. What belongs to whom is decided in strays.py."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace

from sqljobs.supervisor.boot_clock import boottime
from sqljobs.supervisor.children import ended_child, kill_stray, reap_stray
from sqljobs.supervisor.seen_marks import SeenMarks, is_within
from sqljobs.supervisor.sightings import Process, Sighting, numbers, sightings
from sqljobs.supervisor.strays import Adopter, Evidence, Head, Owners, doomed, families, tree_of
from sqljobs.supervisor.swept import PASSES, Family, Swept, swept_of
from sqljobs.worker_runtime.process_mark import Mark

LOOK_SECONDS = 10.0
SHORTEST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
# Where there are thousands of processes a pass takes long, and the loop has other work.
PAUSE_PER_PASS = 4.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Sweeper:
    """One for each supervisor. Its families: its own attempts, by mark, and dead supervisors, by id."""

    def __init__(self) -> None:
        self._heads: dict[Mark, Head] = {}
        self._attempts: dict[Mark, Family] = {}
        self._hunted: dict[str, Family] = {}
        self._hunted_since: dict[str, int] = {}
        self._ids: set[str] = set()
        self._owners: dict[Process, Owners] = {}
        self._marks = SeenMarks()
        self._refused: set[Process] = set()
        self._strangers: dict[int, int] = {}
        self._adopter: Adopter | None = None
        self._not_adopted: set[Mark] = set()
        self._unreaped_stranger = 0
        self._not_before = self._again_at = self._look_at = 0.0
        self._pause = SHORTEST_PAUSE

    def adopt(self, adopter: Adopter | None) -> None:
        """From now on (None: no more) the orphans of this process's tree come to it."""
        heads = {head.process for head in self._heads.values()}
        self._adopter = adopter and replace(adopter, spared=adopter.spared - heads)
        self._strangers = {}

    def watch(self, mark: Mark, pid: int, start_ticks: int) -> None:
        """A child was forked for an attempt."""
        self._heads[mark] = Head(Process(pid, start_ticks))
        self._attempts[mark] = Family()
        self._ids.add(mark.supervisor_id)
        if self._adopter is None:
            self._not_adopted.add(mark)

    def condemn(self, marks: Collection[Mark], now: float) -> None:
        """The children of these attempts are about to be killed: note what they have, while ancestry still shows it."""
        for mark in marks:
            self._begin(self._attempts[mark], now)
        if marks:
            self._look()

    def bury(self, mark: Mark, now: float) -> None:
        """The child of this attempt is dead and reaped: kill what it left."""
        ticks = int(boottime() * _TICKS_PER_SECOND)
        self._heads[mark] = replace(self._heads[mark], reaped_at_ticks=ticks)
        self._begin(self._attempts[mark], now)

    def take(self, mark: Mark, now: float) -> Swept | None:
        """What became of a buried attempt's family, once; None while it is looked for."""
        swept = swept_of(self._attempts[mark], now)
        if swept is not None:
            del self._attempts[mark], self._heads[mark]
            self._not_adopted.discard(mark)
        return swept

    def suspects(self, mark: Mark) -> list[Process]:
        """What is, or may be, of this attempt, taken or not, as the last pass saw it: it may be of others, too."""
        return [process for process, owners in self._owners.items() if mark in owners]

    def family(self, mark: Mark) -> frozenset[Process]:
        """What was of this attempt alone, as the last pass saw it."""
        return frozenset(process for process, owners in self._owners.items() if owners == {mark})

    def marked_supervisors(self) -> set[str]:
        """The ids in the marks of all processes of this box that may be looked at."""
        self._marks.read(sightings(), lambda _: True)
        return self._marks.supervisors()

    def hunt(self, supervisor_id: str, start_ticks: int, now: float) -> bool:
        """Kill what carries a mark of this supervisor, which is dead and had started at `start_ticks`.

        False: nothing is done, since a job of it started this very process, so that our own children carry it, too."""
        if is_within(supervisor_id):
            return False
        self._strangers = {}
        self._hunted[supervisor_id] = family = Family()
        self._hunted_since[supervisor_id] = start_ticks
        self._begin(family, now)
        return True

    def take_hunted(self, supervisor_id: str, now: float) -> Swept | None:
        """As `take`; None, too, when it is not hunted."""
        swept = swept_of(self._hunted[supervisor_id], now) if supervisor_id in self._hunted else None
        if swept is not None:
            del self._hunted[supervisor_id], self._hunted_since[supervisor_id]
        return swept

    def next_due(self) -> float | None:
        """When `run` has something to do by time alone, on the boot-time clock."""
        return max(self._not_before, self._again_at) if self._is_seeking() else None

    def run(self, now: float) -> None:
        """One pass, if one is due, and another at once if it found nothing."""
        dead = ended_child()
        if dead is None and self._adopter is not None:
            self._nothing_is_left()
        if not self._is_due(dead, now):
            return
        began = time.monotonic()
        if now >= self._look_at:  # not for ever, should the kernel's inodes promise less than they do here
            self._strangers, self._look_at = {}, now + LOOK_SECONDS
        found = self._pass()
        if not found and self._is_seeking():
            found = self._pass()
        self._unreaped_stranger = ended_child() or 0
        self._pause = SHORTEST_PAUSE if found else min(2 * self._pause, LONGEST_PAUSE)
        self._again_at = now + self._pause
        self._not_before = now + (1 + PAUSE_PER_PASS) * (time.monotonic() - began)

    def _begin(self, family: Family, now: float) -> None:
        family.over_at = now
        family.passes = 0
        self._pause, self._again_at = SHORTEST_PAUSE, 0.0

    def _is_seeking(self) -> bool:
        return any(family.is_sought for family in (*self._attempts.values(), *self._hunted.values()))

    def _is_due(self, dead: int | None, now: float) -> bool:
        if self._is_seeking():
            return now >= max(self._not_before, self._again_at)
        if now >= self._look_at and (self._attempts or self._owners):
            return True
        # Nobody else waits for an orphan that came to us.
        stranger = self._adopter is not None and dead not in (None, 0, self._unreaped_stranger)
        return stranger and now >= self._not_before and dead not in {head.process.pid for head in self._heads.values()}

    def _nothing_is_left(self) -> None:
        """This process has no child: orphans would be, so that no pass is needed to say that there are none."""
        for mark, family in self._attempts.items():
            if mark not in self._not_adopted and family.over_at is not None:
                family.passes = PASSES

    def _pass(self) -> bool:
        """Look at all processes, kill what is to be killed; returns whether there was, or may have been, any."""
        seen = self._look()
        if seen is None:
            return True
        heads = {head.process for head in self._heads.values() if head.reaped_at_ticks is None}
        moving = self._reap_orphans(seen, heads)
        going_on = {mark for mark, family in self._attempts.items() if family.over_at is None}
        victims = doomed(seen, self._owners, going_on, heads)
        fresh = [one for one in victims if one.process not in self._refused]
        self._refused = {one.process for one in victims if one.process in self._refused or not kill_stray(one)}
        self._count(victims, moving)
        return bool(fresh)

    def _reap_orphans(self, seen: Sequence[Sighting], heads: Collection[Process]) -> set[Mark | str]:
        """Whose orphans had died: one that forks and ends, again and again, is seen dead where it is not seen alive."""
        dead = [one.process for one in seen if not one.is_alive and one.process not in heads and self._is_adopted(one)]
        for process in dead:
            reap_stray(process.pid)
        marks = {mark for process in dead for mark in self._owners.get(process, ())}
        return {*marks, *(mark.supervisor_id for mark in marks)}

    def _is_adopted(self, one: Sighting) -> bool:
        return self._adopter is not None and self._adopter.adopted(one)

    def _count(self, victims: Sequence[Sighting], moving: Collection[Mark | str]) -> None:
        living: dict[Mark | str, set[Process]] = {}
        for one in victims:
            for mark in self._owners[one.process]:
                living.setdefault(mark, set()).add(one.process)
                living.setdefault(mark.supervisor_id, set()).add(one.process)
        sought: list[tuple[Mark | str, Family]] = [*self._attempts.items(), *self._hunted.items()]
        for key, family in sought:
            if family.over_at is not None:
                mine = living.get(key) or set()
                family.left = tuple(sorted(mine))
                family.killed |= mine - self._refused
                # What we may not kill is not waited for.
                family.passes = 0 if mine - self._refused or key in moving else family.passes + 1

    def _look(self) -> list[Sighting] | None:
        """All processes, but those that are known to be strangers; None when /proc cannot be read now, as without a
        free descriptor: then nothing is known."""
        try:
            listed = numbers()
            strangers = {pid: inode for pid, inode in self._strangers.items() if listed.get(pid) == inode}
            seen = sightings(pid for pid in listed if pid not in strangers)
        except OSError:
            return None
        self._note(seen)
        # In one tree with us is all that can be ours, unless it came to init, which only marks can tell.
        if self._adopter is not None and not self._not_adopted and not self._hunted:
            ours = tree_of(self._adopter.pid, seen)
            strangers |= {one.process.pid: listed[one.process.pid] for one in seen if one.process.pid not in ours}
        self._strangers = strangers
        return seen

    def _note(self, seen: Sequence[Sighting]) -> None:
        since = list(self._hunted_since.values())
        since += [head.process.start_ticks for mark, head in self._heads.items() if mark in self._not_adopted]
        oldest = min(since, default=float("inf"))

        def may_be_marked(one: Sighting) -> bool:
            return one.process.start_ticks >= oldest or self._is_adopted(one)

        self._marks.read(seen, may_be_marked)
        marks = self._marks.of(self._ids | self._hunted.keys())
        self._owners = families(seen, Evidence(self._heads, marks, self._owners, self._adopter))
