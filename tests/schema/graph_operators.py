"""What an operator may do to a graph: cancel, retry, skip. Part of the model, graph_model.py is the rest."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, Literal, NamedTuple

from tests.schema.graph_rules import Graph, Job

Refused = Literal["refused"]
REFUSED: Final = "refused"
IN_FLIGHT = frozenset({"leased", "running"})


class Reopening(NamedTuple):
    """What is opened with the `roots`: the jobs that they had closed, and the containers around all these."""

    roots: set[int]
    mended: set[int]
    around: set[int]

    @property
    def all(self) -> set[int]:
        return self.roots | self.mended | self.around


class Operators(Graph):
    """Each operation is for all of its ids, or refused and for none."""

    # Cancel.

    def cancel(self, ids: Sequence[int]) -> list[int] | Refused:
        """Those of `ids`, and of what is in them, that are changed."""
        if any(i not in self.jobs or self.jobs[i].state in ("done", "failed") for i in ids):
            return REFUSED
        before = {job.id: (job.state, job.cancel_requested) for job in self.jobs.values()}
        for i in sorted(set(ids)):
            self.cancel_tree(self.jobs[i])
        changed = [i for i, was in before.items() if was != (self.jobs[i].state, self.jobs[i].cancel_requested)]
        self.settle()
        return changed

    def cancel_tree(self, job: Job) -> None:
        """This one and all in it: what is in flight is asked, and a container ends when nothing in it is open."""
        if job.over:
            return
        holds = job.container or job.state == "waiting"
        if holds or job.state in IN_FLIGHT:
            job.cancel_requested = True
        else:
            job.end("cancelled", "cancelled", None)
        for child in self.open_children(job):
            self.cancel_tree(child)
        if holds and not self.open_children(job):
            self.roll_up(job)

    # Retry and skip.

    def retry(self, ids: Sequence[int]) -> set[int] | Refused:
        """All that is open again, or was for a moment: the jobs themselves, what they had closed, what is around."""
        before = deepcopy(self.jobs)
        told = self._retry(ids)
        self.jobs = before if told == REFUSED else self.jobs
        return told

    def _retry(self, ids: Sequence[int]) -> set[int] | Refused:
        roots: set[int] = set()
        for i in ids:
            chosen = self._to_retry(self.jobs[i]) if i in self.jobs else []
            if not chosen and (i not in self.jobs or self.jobs[i].reason != "dependency"):
                return REFUSED
            if any(self._dying_in(job) for job in chosen):
                return REFUSED
            roots |= {job.id for job in chosen}
        found = self._reopening(roots)
        useless = any(up.id not in found.all for i in roots for up in self.broken(self.jobs[i]))
        if (
            (ids and not roots)
            or not set(ids) & self._dependent(ids) <= found.all
            or useless
            or self._hinders(found, found.all)
        ):
            return REFUSED
        return self._open_again(found.all, found.all)

    def skip(self, ids: Sequence[int], result: Any = None) -> set[int] | Refused:
        """The same for jobs that are taken for done. A container takes no `result`."""
        before = deepcopy(self.jobs)
        told = self._skip(ids, result)
        self.jobs = before if told == REFUSED else self.jobs
        return told

    def _dependent(self, ids: Sequence[int]) -> set[int]:
        """Those that were cancelled for another: they may be named beside it."""
        return {i for i in ids if self.jobs[i].reason == "dependency"}

    def _skip(self, ids: Sequence[int], result: Any) -> set[int] | Refused:
        roots: set[int] = set()
        for i in ids:
            chosen = self._to_skip(self.jobs[i]) if i in self.jobs else []
            if not chosen or (result is not None and self.holds_others(self.jobs[i])):
                return REFUSED
            roots |= {job.id for job in chosen}
        found = self._reopening(roots)
        if self._hinders(found, found.all - roots):
            return REFUSED
        for i in roots:
            self.jobs[i].end("done", "skipped", None, result)
        return self._open_again(found.all, found.all - roots)

    def _open_again(self, found: set[int], opened: set[int]) -> set[int] | Refused:
        """What was `found`, with `opened` open, unless some of these would wait for themselves then."""
        for i in opened:
            self._reopen(self.jobs[i])
        if self.in_circle({i: self.jobs[i] for i in opened}):
            return REFUSED
        self.settle()
        return found

    def _to_retry(self, job: Job) -> list[Job]:
        if self.holds_others(job):
            return [] if job.reason == "dependency" else self._ended_badly_in(job)
        return self._ended_badly_in(job) if job.state == "failed" or job.reason == "cancelled" else []

    def _dying_in(self, job: Job) -> bool:
        """Whether something that its handler had put into it is still to end."""
        return not self.holds_others(job) and bool(self.open_children(job))

    def _ended_badly_in(self, job: Job) -> list[Job]:
        """What has failed, or was cancelled by an operator: leaves, and containers in which there is no such leaf."""
        found = [bad for child in self.children(job) for bad in self._ended_badly_in(child)]
        if not self.holds_others(job):
            return [job, *found] if job.state == "failed" or job.reason == "cancelled" else found
        return found or ([job] if job.reason == "cancelled" else [])

    def _to_skip(self, job: Job) -> list[Job]:
        if self.holds_others(job):
            return [leaf for leaf in self.leaves(job) if leaf.state == "failed"]
        return [job] if job.state == "failed" else []

    def _reopening(self, roots: set[int]) -> Reopening:
        mended: set[int] = set()
        while True:
            around = {up.id for i in roots | mended for up in self.ancestors(self.jobs[i]) if up.over}
            found = Reopening(roots, mended, around)
            more = {job.id for job in self.jobs.values() if self._is_mended(job, found)}
            if more <= mended:
                return found
            mended = mended | more

    def _is_mended(self, job: Job, found: Reopening) -> bool:
        """Whether it was closed by what is open again, or with its container that is mended, and by nothing else."""
        broken = {up.id for up in self.broken(job)}
        closed = job.state == "cancelled" and job.reason == "dependency"
        opened = broken <= found.all and (bool(broken) or job.parent in found.mended)
        return closed and opened and not self._stays_closed_around(job, found)

    def _stays_closed_around(self, job: Job, found: Reopening) -> bool:
        """Whether it is in a container that was closed because of others, and is not mended."""
        closed = [up.id for up in self.ancestors(job) if up.over and up.reason in ("dependency", "not_needed")]
        return not set(closed) <= found.mended

    def _hinders(self, found: Reopening, opened: set[int]) -> bool:
        """Whether something is in the way of opening `opened` again."""
        jobs = [self.jobs[i] for i in opened]
        closed = any(self._stays_closed_around(self.jobs[i], found) for i in found.roots)
        in_done = any(up.state == "done" for job in jobs for up in self.ancestors(job))
        in_cancel = any(not up.over and up.cancel_requested for job in jobs for up in self.ancestors(job))
        # What its own attempt has ended is no container that could be opened.
        leaves = [up for job in jobs for up in self.ancestors(job) if up.over and not self.holds_others(up)]
        in_leaf = any(up.id not in found.roots & opened for up in leaves)
        taken = {job.key for job in self.jobs.values() if not job.over and job.key}
        return closed or in_done or in_cancel or in_leaf or any(job.key in taken for job in jobs)

    def one_key_twice(self, ids: Sequence[int]) -> bool:
        """Whether a retry or skip of `ids` might open two jobs of one key. Which of them it takes is not defined."""
        found = {leaf.id for i in ids for leaf in (self.jobs[i], *self.leaves(self.jobs[i]))}
        keys = [job.key for job in (self.jobs[i] for i in self._reopening(found).all) if job.key]
        return len(keys) != len(set(keys))

    def _reopen(self, job: Job) -> None:
        assert job.over
        job.end("waiting" if self.holds_others(job) and job.started else "blocked", None, None)
        job.cancel_requested = False
        job.attempts_allowed = job.attempt + job.first_attempts
