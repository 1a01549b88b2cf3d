"""What of a database URL must never be printed, and text with that taken out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, unquote

MASK = "***"
SHORTEST = 4  # a shorter word stands in too many others; drivers do not repeat passwords
_SECRET_QUERY = re.compile("pass|pwd|secret|token", re.IGNORECASE)
_USER_INFO = re.compile(r"(://[^\s:/@'\"]*):[^\s'\"]*@")


def secrets_of(url: str) -> frozenset[str]:
    """The password of `url` as written and as decoded, also where an '@' in it makes others read only a part."""
    rest = url.partition("://")[2]
    address, _, query = rest.partition("?")
    user_info, _, host = address.rpartition("@")
    user, _, password = user_info.partition(":")
    found = {password, unquote(password)} | {value for name, value in parse_qsl(query) if _SECRET_QUERY.search(name)}
    # A word that is also the name of the user, the host or the database is no secret, and stands in every hint.
    public = {user, *re.split("[:/]", host), "sqljobs"}
    # After an unescaped '@' the rest of the password is taken for the host, and shows up in errors about it.
    pieces = {f"{piece}@" for piece in password.split("@")[1:] if piece}
    return frozenset({secret for secret in found - public if len(secret) >= SHORTEST} | pieces)


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` with each of `secrets`, and the password of anything that looks like a URL, replaced by `***`."""
    text = _USER_INFO.sub(rf"\1:{MASK}@", text)
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, f"{MASK}@" if secret.endswith("@") else MASK)
    return text


def shown_url(url: str) -> str:
    """`url` for people: without what is secret in it."""
    rest, mark, query = url.partition("?")
    for name, value in parse_qsl(query):
        if _SECRET_QUERY.search(name) and value:
            query = query.replace(value, MASK)
    return _USER_INFO.sub(rf"\1:{MASK}@", rest) + mark + query
