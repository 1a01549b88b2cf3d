"""Text that is safe to store and to print, made from values and exceptions that nobody may trust. Never raises."""

from __future__ import annotations

import re
import traceback
from bisect import bisect_right
from codecs import getincrementaldecoder
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import IncrementalNewlineDecoder
from types import TracebackType
from typing import cast
from uuid import UUID

SHOWN_LENGTH = 60
STEP_LENGTH = 40
LINE_LENGTH = 300
TRACEBACK_BYTES = 64 * 1024

_PIECE = 1 << 20
_MAX_NOTES = 20
_MAX_FRAMES = 1000  # the last ones, of each exception in the chain
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_STEP = 256
_SHOWN_AS_TEXT = (float, Decimal, datetime, date, timedelta, UUID)


def safe_text(value: object, *, limit_bytes: int) -> str:
    """`value` as text that every database and terminal takes, in at most `limit_bytes` bytes of UTF-8.

    NUL, other control characters except newline and tab, and lone surrogates are written out (`\\x00`, `\\ud800`).
    What is too long ends with `... [N bytes cut]`, N counted in the original. Never raises, whatever `__str__` does."""
    return _fit(_text_of(value), limit_bytes, keep_tail=False)


def safe_traceback(exc: BaseException, limit_bytes: int = TRACEBACK_BYTES) -> str:
    """The traceback of `exc` with its causes, escaped as in `safe_text`, in at most `limit_bytes` bytes of UTF-8.

    Head and tail are kept where it is too long, and of every single message. Never raises, whatever `exc` does."""
    try:
        # From the slot: a class may hide __traceback__ behind a property of its own.
        trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(exc)
        report = traceback.TracebackException(type(exc), exc, trace, limit=-_MAX_FRAMES)
        # Half, so that a long message is cut within itself and the stack stays whole.
        _shorten_messages(report, limit_bytes // 2)
        parts = [_fit(part, limit_bytes * 3 // 4, keep_tail=True) for part in report.format()]
    except BaseException as problem:  # noqa: BLE001 - the exception's own code runs here, and nothing may escape
        parts = _bare_report(exc, problem, limit_bytes // 2)
    return _fit("".join(parts), limit_bytes, keep_tail=True)


def safe_tail(raw: bytes, *, before: int, limit_bytes: int) -> str:
    """The end of what a program has printed, of which `before` bytes come before `raw`, escaped as in `safe_text`.

    What is no UTF-8 is written out, too (`\\xff`); every kind of line end is a newline. What is too long begins with
    `... [N bytes cut]` and then a whole line, if there is one, in at most `limit_bytes` bytes of UTF-8 in all."""
    if not before and len(raw) <= limit_bytes and _size(whole := _escape(printed(raw))) <= limit_bytes:
        return whole
    room = limit_bytes - len(_marker(before + len(raw), in_the_middle=False)) - 1
    begin = len(raw)
    # A character cut in two counts as more than it is: what comes out is never too long.
    while begin > 0 and (room := room - _size(_escape(printed(raw[max(0, begin - _STEP) : begin])))) >= 0:
        begin = max(0, begin - _STEP)
    if (before or begin) and (found := _LINE_END.search(raw, begin, len(raw) - 1)) and found.end() < len(raw):
        begin = found.end()
    while begin < len(raw) and raw[begin] & 0xC0 == 0x80:  # the rest of a character that was cut
        begin += 1
    return f"{_marker(before + begin, in_the_middle=False)}\n{_escape(printed(raw[begin:]))}"


def printed(raw: bytes) -> str:
    """Bytes of a program as text, line ends made newlines; `escaped` makes it safe."""
    return newline_decoder().decode(raw, final=True)


def newline_decoder() -> IncrementalNewlineDecoder:
    """For a stream of such bytes: what comes in pieces is decoded, and its line ends made newlines, as one text."""
    return IncrementalNewlineDecoder(getincrementaldecoder("utf-8")("backslashreplace"), translate=True)


def escaped(text: str) -> str:
    """`text` with what `safe_text` writes out written out, whatever its length."""
    return _escape(text)


def one_line(value: object, *, limit_bytes: int = LINE_LENGTH) -> str:
    """`value` as `safe_text`, with every run of white space made one space."""
    return " ".join(safe_text(value, limit_bytes=limit_bytes).split())


def shown(value: object) -> str:
    """A short rendering of a refused value for an error of one line. Runs no code of the value's own class."""
    kind = type(value)
    if issubclass(kind, str):
        text = str.__str__(cast(str, value))
        return repr(text[:SHOWN_LENGTH]) + ("..." if len(text) > SHOWN_LENGTH else "")
    if value is None or kind is bool:
        return repr(value)
    if kind is int:
        bits = int.bit_length(value)  # type: ignore[arg-type]
        return repr(value) if bits <= 3 * SHOWN_LENGTH else f"an int of {bits} bits"
    if any(kind is plain for plain in _SHOWN_AS_TEXT):
        text = _text_of(value)
        return text[:SHOWN_LENGTH] + ("..." if len(text) > SHOWN_LENGTH else "")
    return with_article(type_name(kind))


def type_name(kind: type) -> str:
    """The class's name, in at most 60 characters."""
    return one_line(kind.__name__, limit_bytes=SHOWN_LENGTH)


def with_article(noun: str) -> str:
    """`noun` after "a" or "an"."""
    return f"{'an' if noun[:1].lower() in set('aeiou') else 'a'} {noun}"


def below(where: str, step: str | int) -> str:
    """The place of a member, in words of the place of its container: `args.items[3].name`."""
    if isinstance(step, int):
        return f"{where}[{step}]"
    short = step[:STEP_LENGTH]
    return f"{where}.{step}" if step.isidentifier() and short == step else f"{where}[{short!r}]"


def _text_of(value: object) -> str:
    try:
        if issubclass(type(value), str):
            return str.__str__(cast(str, value))  # the plain text, whatever a subclass overrides
        return str.__str__(str(value))
    except BaseException as problem:  # noqa: BLE001 - a hostile __str__ may raise anything, and nothing may escape
        return f"<{type(value).__name__}: its text cannot be had, {type(problem).__name__}>"


def _shorten_messages(report: traceback.TracebackException, limit_bytes: int) -> None:
    """Cut the messages before the report is formatted: it would indent 20 MB of them line by line, in gigabytes."""
    waiting = [report]
    while waiting:
        node = waiting.pop()
        parts = vars(node)
        # `_str` is private; should a Python rename it, this costs time and nothing else.
        if isinstance(text := parts.get("_str"), str):
            parts["_str"] = _fit(text, limit_bytes, keep_tail=True)
        if isinstance(notes := parts.get("__notes__"), list):
            kept = [safe_text(note, limit_bytes=limit_bytes) for note in notes[:_MAX_NOTES]]
            left = len(notes) - len(kept)
            parts["__notes__"] = [*kept, f"... [{left} notes cut]"] if left else kept
        waiting += [one for one in (node.__cause__, node.__context__, *(node.exceptions or ())) if one]


def _bare_report(exc: BaseException, problem: BaseException, limit_bytes: int) -> list[str]:
    """What is left to say when the traceback module itself fails on `exc`: its frames, its class, its text."""
    parts = [f"(traceback cut short: formatting it raised {type(problem).__name__})\n"]
    trace: TracebackType | None = BaseException.__dict__["__traceback__"].__get__(exc)
    while trace is not None and len(parts) <= _MAX_FRAMES:
        code = trace.tb_frame.f_code
        parts.append(f'  File "{code.co_filename}", line {trace.tb_lineno}, in {code.co_name}\n')
        trace = trace.tb_next
    return [*parts, f"{type(exc).__name__}: {_fit(_text_of(exc), limit_bytes, keep_tail=True)}\n"]


def _fit(text: str, limit: int, *, keep_tail: bool) -> str:
    """`text` escaped and, where that is more than `limit` bytes, cut between two characters of `text`."""
    if len(text) <= limit and _size(whole := _escape(text)) <= limit:
        return whole
    total = _size(text)
    room = limit - len(_marker(total, keep_tail))
    if room < 0:
        return _escape(_longest(lambda count: text[:count], limit))
    tail = _longest(lambda count: text[max(0, len(text) - count) :], room // 2) if keep_tail else ""
    escaped_tail = _escape(tail)
    head = _longest(lambda count: text[:count], room - _size(escaped_tail))
    return _escape(head) + _marker(total - _size(head) - _size(tail), keep_tail) + escaped_tail


def _marker(count: int, in_the_middle: bool) -> str:
    marker = f"... [{count} bytes cut]"
    return f"\n{marker}\n" if in_the_middle else marker


def _longest(part: Callable[[int], str], room: int) -> str:
    """The longest `part(number of characters)` whose escaped form has at most `room` bytes."""
    count = bisect_right(range(room + 1), room, key=lambda count: _size(_escape(part(count)))) - 1
    return part(count)


def _escape(text: str) -> str:
    return _UNSAFE.sub(lambda found: _escaped(ord(found[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _size(text: str) -> int:
    """Bytes of UTF-8, counted a piece at a time so that a huge text isn't copied whole."""
    if text.isascii():
        return len(text)
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    return sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces)


def last_line(text: str | None, limit_bytes: int = 2000) -> str | None:
    """What a traceback says in one line: its last that is not empty, cut to `limit_bytes` of UTF-8."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1].encode()[:limit_bytes].decode(errors="ignore") if lines else None
