"""The statements of the scan, each in the form that its database answers from the ready index alone. Pure: sends none.

All are made once and kept: of a thousand lanes SQLAlchemy would build, and compile, a thousand selects each time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CTE,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    Subquery,
    and_,
    bindparam,
    column,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)

from sqljobs.schema.dialects.contract import FirstRows, PrefixReading
from sqljobs.schema.moves import by_primary_key
from sqljobs.schema.ready import Wanted, in_state
from sqljobs.schema.states import State
from sqljobs.schema.tables import jobs

if TYPE_CHECKING:
    from sqljobs.schema.dialects.contract import Rows

HELD_JOBS, HELD_CONTAINERS = "held_jobs", "held_containers"  # parameters: lists of ids

_LANE = (jobs.c.group_key, jobs.c.type, jobs.c.uses_key, jobs.c.priority)
_WITHIN = (jobs.c.created_at, jobs.c.id)
HEAD = (jobs.c.id, jobs.c.weight, jobs.c.created_at, jobs.c.parent_id, jobs.c.uses, *_LANE)
_COUNT = bindparam("count", type_=Integer)


def _by_ready_index(statement: Any) -> Any:
    for name in ("mysql", "mariadb"):
        statement = statement.with_hint(jobs, "FORCE INDEX (jobs_ready)", name)
    return statement


@lru_cache(maxsize=64)
def lanes_of(how: PrefixReading, wanted: Wanted) -> Select[Any]:
    """The lanes of wanted jobs, each once, at the cost of a look at the index for each lane of anybody."""
    return _distinct_lanes(wanted) if how.distinct else _walked_lanes(how, wanted)


def _distinct_lanes(wanted: Wanted) -> Select[Any]:
    # With the column of the condition, or these servers would not see that they are all of the index's first ones.
    lanes: Select[Any] = _by_ready_index(
        select(*_LANE, jobs.c.state).where(in_state(State.READY), wanted.condition()).distinct()
    )
    return lanes


def _walked_lanes(how: PrefixReading, wanted: Wanted) -> Select[Any]:
    """From the first job of a lane to the first job behind the lane, and so on."""
    first = select(jobs.c.id).where(in_state(State.READY)).order_by(jobs.c.state, *_LANE).limit(1)
    lanes = select(*_LANE).where(jobs.c.id == first.scalar_subquery()).cte("lanes", recursive=True)
    behind = first.where(_at_or_behind(how, _next_key(lanes))).correlate(lanes)
    there = jobs.alias("there")
    step = select(*(there.c[column.name] for column in _LANE)).where(there.c.id == behind.scalar_subquery())
    lanes = lanes.union_all(step.select_from(lanes.join(there, true())))
    return select(lanes).where(wanted.condition(lanes.c.type, lanes.c.group_key))


def _next_key(lanes: CTE) -> tuple[ColumnElement[Any], ...]:
    # The first that is not in the lane: SQLite seeks a row by >= alone. And as expressions, since SQLite, comparing
    # a column with a column, uses no more than the first of the row.
    names = (lanes.c.group_key, lanes.c.type, lanes.c.uses_key)
    return (*(name.concat(literal("", literal_execute=True)) for name in names), lanes.c.priority + 1)


def _at_or_behind(how: PrefixReading, key: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    if how.bounds:
        return tuple_(jobs.c.state, *_LANE) >= tuple_(_ready(), *key)
    return tuple_(*_LANE) >= tuple_(*key)


def _ready() -> ColumnElement[str]:
    return literal(State.READY.value, literal_execute=True)


@lru_cache
def joined_heads(how: PrefixReading, held_jobs: bool, held_containers: bool) -> Select[Any]:
    """The first `:count` jobs of each lane of the parameter `lanes`."""
    given, key = _given(how)
    if how.first_rows is FirstRows.LIST:
        ids = _first(select(jobs.c.id), _is_lane(key), held_jobs, held_containers).correlate(given)
        there = jobs.alias("there")
        chosen = there.c.id.in_(ids.order_by(*_WITHIN).limit(_COUNT))
        return select(*(there.c[column.name] for column in HEAD)).select_from(given.join(there, chosen))
    within = _is_lane(key)
    if how.bounds:
        row = tuple_(jobs.c.state, *_LANE)
        within = and_(row >= tuple_(_ready(), *key), row <= tuple_(_ready(), *key))
    first = _first(select(*HEAD), within, held_jobs, held_containers).correlate(given)
    # All columns of the index, or these servers would not see that it has the order.
    found = first.order_by(jobs.c.state, *_LANE, *_WITHIN).limit(_COUNT).lateral("found")
    return select(found).select_from(given.join(found, true()))


@lru_cache
def placed_ids(how: PrefixReading, count: int, held_jobs: bool, held_containers: bool) -> Rows:
    """The ids of the first `count` jobs of each lane of the parameter `lanes`, NULL where there is none."""
    given, key = _given(how)
    # By these two alone: of an order by the whole index MariaDB does not see that the index has it.
    first = _first(select(jobs.c.id), _is_lane(key), held_jobs, held_containers).correlate(given).order_by(*_WITHIN)
    places = (
        first.limit(literal(1, literal_execute=True)).offset(literal(n, literal_execute=True)) for n in range(count)
    )
    return select(*(place.scalar_subquery().label(f"place{n}") for n, place in enumerate(places))).select_from(given)


def heads_of(ids: Sequence[int]) -> Rows:
    """Those of these jobs that are still ready."""
    return by_primary_key(select(*HEAD).where(jobs.c.id.in_(ids), in_state(State.READY)))


@lru_cache
def united_heads(size: int, held_jobs: bool, held_containers: bool) -> CompoundSelect[Any]:
    """A limited select for each of `size` lanes, whose values are parameters with the number of the lane."""
    terms = []
    for number in range(size):
        key = [bindparam(f"{name}{number}", type_=like.type) for name, like in zip("gtup", _LANE, strict=True)]
        first = _first(select(*HEAD), _is_lane(key), held_jobs, held_containers)
        terms.append(first.order_by(*_WITHIN).limit(_COUNT))
    return union_all(*terms)


def _given(how: PrefixReading) -> tuple[Subquery, tuple[ColumnElement[Any], ...]]:
    columns = (column(name, like.type) for name, like in zip("gtup", _LANE, strict=True))
    given = how.given.columns(*columns).subquery("given")
    return given, (given.c.g, given.c.t, given.c.u, given.c.p)


def _is_lane(key: Sequence[ColumnElement[Any]]) -> ColumnElement[bool]:
    return and_(*(column == value for column, value in zip(_LANE, key, strict=True)))


def _first(statement: Any, within: ColumnElement[bool], held_jobs: bool, held_containers: bool) -> Any:
    statement = _by_ready_index(statement).where(in_state(State.READY), within)
    if held_jobs:
        statement = statement.where(jobs.c.id.not_in(_ids(HELD_JOBS)))
    if held_containers:
        statement = statement.where(or_(jobs.c.parent_id.is_(None), jobs.c.parent_id.not_in(_ids(HELD_CONTAINERS))))
    return statement


def _ids(name: str) -> BindParameter[Any]:
    # In the text of the statement: databases count parameters, and here they would come with each lane.
    return bindparam(name, expanding=True, literal_execute=True, type_=jobs.c.id.type)
