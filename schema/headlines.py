"""What the text of an error says in one line: of a traceback the exception's type and message, else its beginning."""

from __future__ import annotations

HEADLINE_BYTES = 2000
_GROUP = "  + Exception Group Traceback (most recent call last):"
_HEADERS = ("Traceback", _GROUP, "(traceback cut short: ")
_OF_A_GROUP = "  | "
# Between the tracebacks of a chain; one without that before it is part of a message.
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_CUT = "... ["


def headline(text: str | None, limit_bytes: int = HEADLINE_BYTES) -> str | None:
    """`OperationalError: no such table: t` for its traceback, whatever notes, hints and links follow; of a chain that
    of the last, of a group its own. At most `limit_bytes` of UTF-8; None for no text."""
    lines = [line.rstrip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return None
    return _found(lines).strip().encode()[:limit_bytes].decode(errors="ignore")


def _found(lines: list[str]) -> str:
    headers = [
        number
        for number, line in enumerate(lines)
        if line.startswith(_HEADERS) and (not number or lines[number - 1].strip(" |") in _LINKS)
    ]
    rest = lines[headers[-1] + 1 :] if headers else lines
    if any(line.startswith(_CUT) for line in rest):
        return lines[-1]  # what was cut away may have been the line
    if not headers:
        return lines[0]
    if lines[headers[-1]] == _GROUP:
        rest = [line.removeprefix(_OF_A_GROUP) for line in rest if line.startswith(_OF_A_GROUP)]
    said = [line for number, line in enumerate(rest) if not line.startswith("  ") or number == len(rest) - 1]
    if not said:
        return lines[-1]
    # A message that begins with an empty line, but not one that quotes what somebody else's fault looked like.
    goes_on = said[0].endswith(":") and len(said) > 1 and not said[1].startswith(_HEADERS)
    return " ".join(said[:2]) if goes_on else said[0]
