"""Strings that identify: compared by bytes on every database, and refused at the door where one could not tell."""

import unicodedata
from typing import Any

import pytest
from sqlalchemy import select

import sqljobs
from sqljobs.schema.tables import jobs
from sqljobs.schema.transactions import Database
from tests.schema.playing import count, put, row

NAMES = [
    "a",
    "A",
    "á",
    unicodedata.normalize("NFD", "á"),
    "ä",
    "ae",
    "æ",
    "a b",
    "a\u00a0b",
    "ß",
    "ss",
    "𝕒",
    "ａ",
    "1",
    "01",
]


@pytest.mark.parametrize("option", ["key", "group", "type"])
def test_names_are_compared_by_bytes(database: Database, option: str) -> None:
    if option == "type":
        ids = [put(database, name, key="k") for name in NAMES]
    else:
        ids = [put(database, **{option: name, "key": name}) for name in NAMES]
    assert len(set(ids)) == len(NAMES)
    column = {"key": jobs.c.key, "group": jobs.c.group_key, "type": jobs.c.type}[option]
    with database.engine.connect() as conn:
        for job_id, name in zip(ids, NAMES, strict=True):
            assert conn.execute(select(jobs.c.id).where(column == name)).scalars().all() == [job_id]
        in_order = conn.execute(select(column).order_by(column)).scalars().all()
    assert list(in_order) == sorted(NAMES, key=str.encode)


def test_name_of_200_characters_of_four_bytes(database: Database) -> None:
    name = "𝕒" * 200
    job = row(database, put(database, name, key=name, group=name))
    assert (job.type, job.key, job.group_key) == (name, name, name)


@pytest.mark.databases("sqlite")  # refused before any statement
@pytest.mark.parametrize(
    "name", ["", "x" * 201, " a", "a ", "a\t", "\u00a0a", "a\0", "a\nb", "\x7f", "\ud800", 7, None, b"a"]
)
@pytest.mark.parametrize("option", ["key", "group", "type"])
def test_bad_names_are_refused(database: Database, option: str, name: Any) -> None:
    if name is None and option != "type":
        assert put(database, **{option: None}) > 0  # None is what leaving it out means
        return
    with pytest.raises(sqljobs.InvalidJob, match=option) as raised:
        put(database, name) if option == "type" else put(database, **{option: name})
    assert "\n" not in str(raised.value)
    assert count(database) == 0
