"""Texts made from what nobody may trust: always storable, never too long, and nothing escapes while they are made."""

import re
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sqljobs.schema.renderings import below, newline_decoder, one_line, safe_tail, safe_text, safe_traceback, shown

STORABLE = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]*")

texts = st.text(st.characters(exclude_categories=())) | st.text(st.sampled_from("a\0\ud800é😀\n\x1b"), max_size=300)


def raiser(failure: BaseException) -> Callable[[object], str]:
    def fail(_self: object) -> str:
        raise failure

    return fail


def hostile(failure: BaseException) -> object:
    return type("Hostile", (), {"__str__": raiser(failure), "__repr__": raiser(failure)})()


def traceback_of(failure: BaseException) -> str:
    try:
        raise failure
    except BaseException as caught:  # noqa: BLE001 - any exception is what this test is about
        return safe_traceback(caught)


@given(texts, st.integers(0, 200))
@example("\0" * 100, 10)
@example("\ud800" * 100, 50)
@example("😀" * 100, 51)
def test_a_safe_text_is_storable_and_within_its_limit(text: str, limit: int) -> None:
    for safe in (safe_text(text, limit_bytes=limit), traceback_of(ValueError(text))):
        assert STORABLE.fullmatch(safe)
    assert len(safe_text(text, limit_bytes=limit).encode()) <= limit
    assert len(safe_traceback(ValueError(text), limit).encode()) <= limit


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_harmless_text_stays_as_it_is(text: str) -> None:
    assert safe_text(text + "\n\t", limit_bytes=10_000) == text + "\n\t"


def test_what_cannot_be_stored_is_written_out() -> None:
    assert safe_text("a\0b\x1b[1m\r\x85\ud800\udfff", limit_bytes=100) == r"a\x00b\x1b[1m\x0d\x85\ud800\udfff"


@given(texts, st.integers(30, 200))
def test_the_marker_counts_what_was_cut(text: str, limit: int) -> None:
    whole = text.encode("utf-8", "surrogatepass")
    safe = safe_text(text, limit_bytes=limit)
    found = re.fullmatch(r"(?s)(.*)\.\.\. \[(\d+) bytes cut\]", safe)
    if found is None:
        assert safe == safe_text(text, limit_bytes=10**6)
    else:
        kept = whole[: len(whole) - int(found[2])].decode("utf-8", "surrogatepass")
        assert safe_text(kept, limit_bytes=10**6) == found[1]


@pytest.mark.parametrize(
    "failure", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError(), MemoryError()]
)
def test_a_hostile_object_cannot_break_out(failure: BaseException) -> None:
    value = hostile(failure)
    assert safe_text(value, limit_bytes=200) == f"<Hostile: its text cannot be had, {type(failure).__name__}>"
    assert shown(value) == "a Hostile"


class Liar(str):
    """Text whose methods must not be trusted."""

    def __str__(self) -> str:
        raise SystemExit

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        raise SystemExit

    __repr__ = __getitem__ = __len__ = __str__  # type: ignore[assignment]


def test_a_str_subclass_is_read_as_the_text_that_it_is() -> None:
    assert safe_text(Liar("abc"), limit_bytes=10) == "abc"
    assert shown(Liar("abc")) == "'abc'"
    wrong = type("Wrong", (), {"__str__": lambda _self: 7})()
    assert "its text cannot be had, TypeError" in safe_text(wrong, limit_bytes=100)


def test_a_traceback_reads_as_usual() -> None:
    try:
        try:
            raise KeyError("key")
        except KeyError as first:
            first.add_note("a note\0")
            raise ValueError("second") from first
    except ValueError as caught:
        text = safe_traceback(caught)
    assert text.startswith("Traceback (most recent call last):\n")
    assert "KeyError: 'key'\na note\\x00\n" in text
    assert "direct cause of the following exception" in text
    assert text.endswith("ValueError: second\n")


@pytest.mark.parametrize("character", ["a", "\n", "😀", "\0", "\ud800", "é\n"])
def test_a_huge_message_keeps_the_stack_and_both_ends(character: str) -> None:
    message = "START" + character * 2_000_000 + "END"
    text = traceback_of(ValueError(message))
    assert 32_000 < len(text.encode()) <= 64 * 1024
    assert "in traceback_of" in text
    assert "ValueError: START" in text
    assert text.endswith("END\n")
    assert re.search(r"\n\.\.\. \[\d{7,} bytes cut\]\n", text)


def test_a_message_of_two_million_lines_costs_little() -> None:
    message = "é\n" * 2_000_000
    tracemalloc.start()
    text = traceback_of(ValueError(message))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000  # the traceback module alone takes four times that, and minutes for more
    assert "bytes cut" in text


def test_20_mb_of_four_byte_characters() -> None:
    text = traceback_of(ValueError("😀" * 20_000_000))
    assert f"[{80_000_000 - 4 * text.count('😀')} bytes cut]" in text


@pytest.mark.parametrize("failure", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
def test_a_hostile_exception_cannot_break_out(failure: BaseException) -> None:
    broken = {"__str__": raiser(failure), "__repr__": raiser(failure)}
    kind = type("Broken", (Exception,), broken)
    assert "Broken: <" in traceback_of(kind("x"))
    for name in ("__cause__", "__context__", "__traceback__", "__notes__", "__suppress_context__"):
        kind = type("Broken", (Exception,), {**broken, name: property(raiser(failure))})
        text = traceback_of(kind("x"))
        assert "in traceback_of" in text
        assert "Broken: <" in text


def test_chains_without_end_and_groups() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    text = safe_traceback(first)
    assert text.count("ValueError: first") == text.count("ValueError: second") == 1
    chained: BaseException = ValueError("root")
    for number in range(3000):
        link = ValueError(f"link {number}")
        link.__cause__ = chained
        chained = link
    text = safe_traceback(chained)
    assert text.startswith("ValueError: root\n")
    assert text.endswith("ValueError: link 2999\n")
    group = ExceptionGroup("several", [ValueError("one\0"), OSError(2, "two")])
    assert "ValueError: one\\x00" in safe_traceback(group)


def test_a_thousand_notes() -> None:
    noted = ValueError("x")
    for number in range(1000):
        noted.add_note(f"note {number}")
    assert safe_traceback(noted).endswith("note 18\nnote 19\n... [980 notes cut]\n")


def test_endless_recursion_in_the_handler() -> None:
    def again(depth: int) -> int:
        return again(depth + 1) + 1

    with pytest.raises(RecursionError) as caught:
        again(0)
    text = safe_traceback(caught.value)
    assert "in again" in text
    assert "RecursionError: maximum recursion depth exceeded" in text
    assert "more times]" in text


def test_shown_is_short_and_on_one_line() -> None:
    values: list[object] = [
        "x\n" * 10**6,
        10**5000,
        list(range(10**5)),
        {},
        b"x" * 10**6,
        1.5,
        None,
        object,
        type("Æ" * 500, (), {})(),
    ]
    for value in values:
        text = shown(value)
        assert len(text) < 150
        assert text.isprintable()
    assert shown(7) == "7"
    assert shown(True) == "True"
    assert shown([]) == "a list"
    assert shown("it's") == '"it\'s"'


def test_one_line_and_places() -> None:
    assert one_line("a\n\n  b\tc") == "a b c"
    assert below(below("args", "items"), 3) == "args.items[3]"
    assert below("args", "two words") == "args['two words']"
    assert below("args", "\ud800" + "x" * 99).isprintable()


@given(st.binary(max_size=2000) | st.lists(st.sampled_from([b"\xc3", b"\xa9", b"\r", b"\n", b"a" * 300])).map(b"".join))
@example(b"\xff" * 2000)
@example("\r\n".join("é" * 400 for _ in range(4)).encode())
def test_a_tail_is_storable_and_within_its_limit_and_all_there_where_it_fits(raw: bytes) -> None:
    for before, limit in ((0, 10_000), (0, 700), (5, 10_000), (10**15, 700)):
        tail = safe_tail(raw, before=before, limit_bytes=limit)
        assert STORABLE.fullmatch(tail)
        assert len(tail.encode()) <= limit
        whole = safe_tail(raw, before=0, limit_bytes=10_000)
        first, _, rest = tail.partition("\n")
        if re.fullmatch(r"\.\.\. \[\d+ bytes cut\]", first):
            assert whole.endswith(rest) or "\\x" in rest
        else:
            assert (tail, before) == (whole, 0)


def test_a_tail_begins_with_a_whole_line_and_says_what_is_missing() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(1000))
    first, *rest = safe_tail(lines, before=70, limit_bytes=700).splitlines()
    assert rest == [f"line {number}" for number in range(1000 - len(rest), 1000)]
    assert first == f"... [{70 + len(lines) - len(chr(10).join(rest)) - 1} bytes cut]"
    assert len(rest) > 30
    assert safe_tail(b"x" * 10_000, before=0, limit_bytes=700).endswith("\n" + "x" * 512)


def test_line_ends_and_what_is_no_text() -> None:
    raw = b"a\r\nb\rc\x00 \xff \xed\xa0\x80 \x1b[31m \xe4\xbd"
    told = r"c\x00 \xff \xed\xa0\x80 \x1b[31m \xe4\xbd"
    assert safe_tail(raw, before=0, limit_bytes=1000) == f"a\nb\n{told}"
    decoder = newline_decoder()
    pieces = [decoder.decode(bytes([byte])) for byte in "é\r\n中\r".encode()]
    assert "".join(pieces) + decoder.decode(b"", final=True) == "é\n中\n"
