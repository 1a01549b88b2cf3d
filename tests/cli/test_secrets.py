"""Passwords of database URLs, kept out of all text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqljobs.supervisor.cli.secrets import redacted, secrets_of, shown_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sqlite:///sqljobs.db", set()),
        ("postgresql://u@h/d", set()),
        ("postgresql://u:hushhush@h/d", {"hushhush"}),
        ("postgresql://u:hush%40hush@h/d", {"hush%40hush", "hush@hush"}),
        ("mysql://u:hu@sh@h/d", {"hu@sh", "sh@"}),
        ("postgresql://h/d?password=hushhush&sslmode=on", {"hushhush"}),
        ("postgresql://sqljobs:sqljobs@h/d", set()),
        ("postgresql://u:host@host:5432/d", set()),
        ("no url", set()),
    ],
)
def test_secrets_of(url: str, expected: set[str]) -> None:
    assert secrets_of(url) == expected


def test_shown_url() -> None:
    assert shown_url("postgresql://u:hushhush@h/d?password=silence&x=1") == "postgresql://u:***@h/d?password=***&x=1"
    assert shown_url("sqlite:////tmp/x.db") == "sqlite:////tmp/x.db"
    assert shown_url("postgresql://u:a@b@h/d") == "postgresql://u:***@h/d"


def test_redacted() -> None:
    secrets = secrets_of("mysql://u:hu@shhh@h/d")
    assert redacted("no host 'shhh@h', tried hu@shhh", secrets) == "no host '***@h', tried ***"
    assert redacted("see mysql://u:other@h/d", ()) == "see mysql://u:***@h/d"


@given(password=st.text("abcdefghij0123456789@:/%", min_size=4, max_size=20), rest=st.sampled_from(["h/d", "h:1/d"]))
def test_no_password_survives(password: str, rest: str) -> None:
    url = f"postgresql://user:{password}@{rest}"
    text = redacted(f"cannot reach {url}", secrets_of(url))
    assert password.strip("/:@%") not in text or len(password.strip("/:@%")) < 4
