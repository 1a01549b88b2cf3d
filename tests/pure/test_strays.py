"""Which process belongs to which attempt: forests of processes drawn at random, and the cases that matter by hand."""

from hypothesis import given
from hypothesis import strategies as st

from sqljobs.supervisor.sightings import Process, Sighting
from sqljobs.supervisor.strays import Adopter, Evidence, Head, Owners, doomed, families, tree_of
from sqljobs.worker_runtime.process_mark import Mark, marks_in

OWN = 100
OWN_SESSION = 90
A, B = (Mark(number, 1, "a" * 32) for number in (1, 2))
HEAD_A, HEAD_B = Process(200, 2000), Process(300, 3000)
HEADS = {A: Head(HEAD_A), B: Head(HEAD_B)}


def seen(pid: int, ticks: int, ppid: int, session: int | None = None, state: str = "S") -> Sighting:
    return Sighting(Process(pid, ticks), ppid, pid, pid if session is None else session, state)


US = seen(OWN, 1000, 1, OWN_SESSION)
CHILD_A, CHILD_B = seen(200, 2000, OWN), seen(300, 3000, OWN)
ADOPTER = Adopter(OWN, OWN_SESSION)


def owners(
    *others: Sighting,
    heads: dict[Mark, Head] = HEADS,
    marks: dict[Process, Owners] | None = None,
    known: dict[Process, Owners] | None = None,
    adopter: Adopter | None = ADOPTER,
) -> dict[Process, Owners]:
    found = families([US, CHILD_A, CHILD_B, *others], Evidence(heads, marks or {}, known or {}, adopter))
    return {one.process: found.get(one.process, frozenset()) for one in others}


def owner(one: Sighting, *others: Sighting, **evidence: object) -> Owners:
    return owners(one, *others, **evidence)[one.process]  # type: ignore[arg-type]


def test_descendants_belong_to_their_ancestors_attempt() -> None:
    middle, last = seen(400, 4000, 200), seen(500, 5000, 400)
    assert owners(middle, last) == {middle.process: {A}, last.process: {A}}


def test_an_orphan_is_known_by_its_mark_its_session_or_from_before() -> None:
    orphan = seen(400, 4000, OWN)
    assert owner(orphan, marks={orphan.process: frozenset({B})}) == {B}
    assert owner(orphan, known={orphan.process: frozenset({A})}) == {A}
    assert owner(seen(400, 4000, OWN, session=200)) == {A}
    assert owner(seen(400, 4000, 1, session=200), adopter=None) == {A}


def test_a_session_number_that_was_free_in_between_says_nothing() -> None:
    heads = {A: Head(HEAD_A, reaped_at_ticks=4000), B: Head(HEAD_B)}
    assert owner(seen(400, 4000, 1, session=200), heads=heads) == {A}
    assert owner(seen(400, 4001, 1, session=200), heads=heads) == frozenset()


def test_an_orphan_without_a_sign_is_of_those_that_had_begun_before_it() -> None:
    assert owner(seen(400, 4000, OWN)) == {A, B}
    assert owner(seen(400, 2500, OWN)) == {A}
    assert owner(seen(400, 1500, OWN)) == frozenset()


def test_others_are_none_of_ours() -> None:
    before = seen(400, 4000, OWN)
    assert owner(before, adopter=Adopter(OWN, OWN_SESSION, frozenset({before.process}))) == frozenset()
    assert owner(seen(400, 4000, OWN, session=OWN_SESSION)) == frozenset(), "forked by the supervisor itself"
    assert owner(seen(400, 4000, OWN), adopter=None) == frozenset(), "embedded: a child of the host program"
    assert owner(seen(400, 4000, 1)) == frozenset()
    assert owner(seen(400, 4000, 1), adopter=Adopter(1, 0)) == frozenset(), "any orphan of the container"


def test_if_there_was_a_child_before_an_orphan_may_be_its() -> None:
    """Also when that one has ended: then it is that the orphan comes."""
    before, orphan = seen(350, 900, OWN), seen(400, 4000, OWN)
    adopter = Adopter(OWN, OWN_SESSION, frozenset({before.process}))
    assert owner(orphan, before, adopter=adopter) == frozenset()
    assert owner(orphan, adopter=adopter) == frozenset()
    assert owner(orphan, before, adopter=adopter, marks={orphan.process: frozenset({A})}) == {A}


def test_doomed_are_the_living_whose_attempts_are_all_over() -> None:
    mine, shared, dead = seen(400, 4000, 1), seen(500, 5000, 1), seen(600, 6000, 1, state="Z")
    table = {
        HEAD_A: frozenset({A}),
        mine.process: frozenset({A}),
        shared.process: frozenset({A, B}),
        dead.process: frozenset({A}),
    }
    everyone = [US, CHILD_A, mine, shared, dead]
    assert doomed(everyone, table, going_on=[B], heads=[HEAD_A, HEAD_B]) == [mine]
    assert doomed(everyone, table, going_on=[], heads=[HEAD_A, HEAD_B]) == [mine, shared]
    assert doomed(everyone, table, going_on=[A, B], heads=[]) == []


forests = st.lists(
    st.tuples(
        st.integers(0, 11),  # whose child: an earlier one of this list, or one of those above
        st.booleans(),  # in a session of its own
        st.sampled_from(["", "A", "B"]),  # marked
        st.booleans(),  # its parent is dead: it came to us
    ),
    max_size=9,
)


@given(forests)
def test_a_forest_is_sorted_as_its_edges_say(forest: list[tuple[int, bool, str, bool]]) -> None:
    grown = [US, CHILD_A, CHILD_B]
    marks: dict[Process, Owners] = {}
    wanted: dict[Process, Owners] = {HEAD_A: frozenset({A}), HEAD_B: frozenset({B})}
    for number, (index, own_session, mark, orphaned) in enumerate(forest):
        parent = grown[index % len(grown)]
        pid = 400 + number
        session = pid if own_session else parent.session
        one = seen(pid, 4000 + number, OWN if orphaned else parent.process.pid, session)
        if mark:
            marks[one.process] = frozenset({A if mark == "A" else B})
        in_session = {200: frozenset({A}), 300: frozenset({B})}.get(session, frozenset())
        above = frozenset() if orphaned else wanted.get(parent.process, frozenset())
        adopted = frozenset({A, B}) if one.ppid == OWN and session != OWN_SESSION else frozenset()
        expected: Owners = marks.get(one.process) or in_session or above or adopted
        if expected:
            wanted[one.process] = expected
        grown.append(one)
    assert families(reversed(grown), Evidence(HEADS, marks, {}, ADOPTER)) == wanted
    assert US.process not in wanted
    assert {process.pid for process in wanted} - {one.pid for one in marks} <= tree_of(OWN, grown)


@given(
    st.lists(st.builds(seen, st.integers(1, 6), st.integers(0, 3), st.integers(0, 6), st.integers(0, 6)), max_size=12),
    st.sets(st.sampled_from([A, B])),
)
def test_what_was_seen_may_be_inconsistent(found: list[Sighting], going_on: set[Mark]) -> None:
    heads = {A: Head(Process(1, 1)), B: Head(Process(2, 2))}
    table = families(found, Evidence(heads, {}, {}, Adopter(3, 3)))
    assert 3 in tree_of(3, found)
    condemned = doomed(found, table, going_on, [head.process for head in heads.values()])
    assert all(table[one.process].isdisjoint(going_on) for one in condemned)


names = st.builds(
    Mark,
    st.integers(1, 2**63 - 1),
    st.integers(1, 2**31 - 1),
    st.text("0123456789abcdef", min_size=32, max_size=32),
)


@given(st.lists(names, min_size=1, max_size=3, unique=True), names)
def test_marks_are_read_as_they_are_written(words: list[Mark], mapped: Mark) -> None:
    environ = f"A=1\0SQLJOBS_JOB={' '.join(map(str, words))}\0SQLJOBS_JOBS={mapped}\0".encode()
    maps = f"7f00-7f01 ---p 0 00:01 9     /memfd:sqljobs:{mapped} (deleted)\n7f02-7f03 r-xp 0 8:1 9 /bin/x\n".encode()
    assert marks_in(environ, b"") == set(words)
    assert marks_in(environ, maps) == {*words, mapped}


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_anything_may_stand_in_an_environment(environ: bytes, maps: bytes) -> None:
    assert marks_in(environ, maps) == frozenset()
    assert marks_in(b"SQLJOBS_JOB=" + environ, b" /memfd:sqljobs:" + maps) == frozenset()
