"""A file: how it is cut into lines, and what may stand behind the last line feed."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.framing import MAX_LINE, parse_line
from k3_ledger.ledger.core.lines import LineSplitter, RawLine, TailKind, check_is_ledger, check_tail
from k3_ledger.schemas.outcomes import ExitCode, Position
from tests.ledger.core.samples import code_of, ledger, line, refusal

LINE = line(3, size=3)
MIB = 1 << 20


def split(data, *, step=MIB):
    splitter = LineSplitter()
    lines = [found for at in range(0, len(data), step) for found in splitter.feed(data[at : at + step])]
    return lines, splitter.finish()


def tail_of(data, *, step=MIB):
    return split(ledger(2) + data, step=step)[1]


@given(st.binary(max_size=200).map(lambda data: data.replace(b"0", b"\n")), st.integers(min_value=1, max_value=9))
def test_lines_and_tail_are_the_file_whatever_the_chunks(data, step):
    lines, tail = split(data, step=step)
    assert b"".join(found.data + b"\n" for found in lines) + tail.data == data
    assert [found.number for found in lines] == list(range(1, len(lines) + 1))
    assert all(data[found.offset : found.offset + found.length] == found.data for found in lines)
    assert (tail.line, tail.offset, tail.length) == (len(lines) + 1, len(data) - len(tail.data), len(tail.data))


def test_a_splitter_can_start_in_the_middle_of_a_file():
    splitter = LineSplitter(number=5, offset=400)
    assert splitter.feed(b"ab\ncd\n") == [RawLine(5, 400, 2, b"ab"), RawLine(6, 403, 2, b"cd")]
    assert splitter.finish().offset == 406


def test_line_n_is_entry_n_minus_one():
    place = RawLine(5, 400, 2, b"ab").position("ledger.jsonl")
    assert place == Position(source="ledger.jsonl", line=5, byte_offset=400, index=4)


def test_lines_end_at_line_feeds_and_at_nothing_else():
    data = "a\u2028b\u0085c\x0bd\x0ce\rf\n".encode()
    assert [found.data for found in split(data)[0]] == [data[:-1]]


def test_a_line_of_512_mib_is_refused_in_flat_memory():
    chunk = b"a" * MIB
    splitter = LineSplitter()
    tracemalloc.start()
    try:
        splitter.feed(b'{"entry":')
        for _ in range(512):
            assert splitter.feed(chunk) == []
        (found,) = splitter.feed(b"\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MIB
    assert (found.length, len(found.data)) == (512 * MIB + 9, MAX_LINE + 1)
    assert code_of(parse_line, found.data) == "LINE_TOO_LONG"


@pytest.mark.parametrize("step", [MIB, 1000])
@pytest.mark.parametrize("length", [MAX_LINE, MAX_LINE + 1, MAX_LINE + 2])
def test_of_a_long_line_enough_is_kept_to_see_that_it_is_too_long(length, step):
    lines, tail = split(b"x\n" + b"a" * length + b"\nb\n", step=step)
    assert [found.length for found in lines] == [1, length, 1]
    assert len(lines[1].data) == min(length, MAX_LINE + 1)
    assert (lines[2].offset, lines[2].data) == (length + 3, b"b")
    assert tail.kind is TailKind.NONE


# ---------------------------------------------------------------------------------------------------------- tails


def test_a_ledger_ends_in_a_line_feed():
    tail = tail_of(b"")
    assert (tail.kind, tail.length, tail.intact, tail.offset) == (TailKind.NONE, 0, 0, len(ledger(2)))
    check_tail(tail)


@pytest.mark.parametrize("cut", range(1, len(LINE) + 1))
def test_every_cut_of_an_append_is_torn(cut):
    tail = tail_of(LINE[:cut])
    assert (tail.kind, tail.intact) == (TailKind.TORN, cut)
    error = refusal(check_tail, tail, source="ledger.jsonl")
    assert error.code.name == "TORN_TAIL"
    assert error.finding.position == Position("ledger.jsonl", line=3, byte_offset=len(ledger(2)))
    assert f"torn tail at byte {len(ledger(2))}" in str(error)
    assert error.code.info.exit is ExitCode.TORN_TAIL


@pytest.mark.parametrize("cut", range(len(LINE)))
def test_a_cut_append_filled_with_nul_bytes_is_told_apart(cut):
    assert tail_of(LINE[:cut] + b"\0").kind is TailKind.NUL_FILLED
    tail = tail_of(LINE[:cut] + bytes(3))
    assert (tail.kind, tail.intact, tail.length) == (TailKind.NUL_FILLED, cut, cut + 3)
    error = refusal(check_tail, tail)
    assert error.code.name == "NUL_TAIL"
    assert error.code.info.exit is ExitCode.TORN_TAIL
    assert f"{cut} bytes of an entry, then 3 NUL bytes" in str(error)


def test_a_long_run_of_nul_bytes_is_recognised_without_keeping_it():
    splitter = LineSplitter()
    splitter.feed(LINE[:50])
    for _ in range(3):
        splitter.feed(bytes(MIB))
    tail = splitter.finish()
    assert (tail.kind, tail.intact, tail.length) == (TailKind.NUL_FILLED, 50, 3 * MIB + 50)
    splitter.feed(b"x")
    splitter.feed(bytes(MIB))
    assert splitter.finish().kind is TailKind.DAMAGED


@pytest.mark.parametrize("byte", sorted(set(range(256)) - {ord("\n")}))
def test_no_other_byte_in_place_of_the_last_line_feed_passes_for_a_cut_write(byte):
    data = LINE + bytes([byte])
    tail = tail_of(data)
    assert (tail.kind, tail.intact) == (TailKind.DAMAGED, len(LINE))
    error = refusal(check_tail, tail)
    assert error.code.name == "TAIL_DAMAGED"
    assert error.code.info.exit is ExitCode.FALSE
    assert error.finding.position.byte_offset == len(ledger(2)) + len(LINE)


@pytest.mark.parametrize("at", range(len(LINE)))
def test_a_byte_that_no_append_writes_is_damage_at_that_byte(at):
    tail = tail_of(LINE[:at] + b"\x01" + LINE[at + 1 : -3])
    assert tail.kind is TailKind.DAMAGED
    breaks_a_pair = LINE[at - 1 : at] in (b"\\", "é".encode()[:1])  # of an escape or of a character
    assert tail.intact == at or (breaks_a_pair and tail.intact == at - 1)


@pytest.mark.parametrize(
    ("data", "kind", "intact"),
    [
        pytest.param(b"  ", TailKind.DAMAGED, 0, id="trailing spaces"),
        pytest.param(b"{}", TailKind.DAMAGED, 1, id="some other JSON"),
        pytest.param(b'{"entry":}', TailKind.DAMAGED, 9, id="no entry, closed"),
        pytest.param(b'{"entry":[', TailKind.DAMAGED, 9, id="an entry is an object"),
        pytest.param(b'{"entry":{"a":"\\', TailKind.TORN, 16, id="cut behind a backslash"),
        pytest.param(b'{"entry":{"a":"\\x', TailKind.DAMAGED, 15, id="an escape that JSON does not have"),
        pytest.param(b'{"entry":{"a":"\\u00', TailKind.TORN, 19, id="cut inside an escape"),
        pytest.param(b'{"entry":{"a":[{}, ', TailKind.DAMAGED, 18, id="white space"),
        pytest.param(b'{"entry":{"a":tru', TailKind.TORN, 17, id="cut inside true"),
        pytest.param(b'{"entry":{"a":-12', TailKind.TORN, 17, id="cut inside a number"),
        pytest.param(b'{"entry":{"a":"\xc3', TailKind.TORN, 16, id="cut inside a character"),
        pytest.param(b'{"entry":{"a":"\xc3\0\0', TailKind.NUL_FILLED, 16, id="cut inside a character, NUL-filled"),
        pytest.param(b'{"entry":{"a":"\xc3"', TailKind.DAMAGED, 15, id="not UTF-8"),
        pytest.param(b'{"entry":{"a":"b"}', TailKind.TORN, 18, id="entry complete, tail not begun"),
        pytest.param(b'{"entry":{"a":"b"},"sig":"AA', TailKind.TORN, 28, id="cut inside the signature"),
        pytest.param(b'{"entry":{"a":"b"},"sIg', TailKind.DAMAGED, 21, id="another member"),
        pytest.param(b'{"entry":{"a":"b"}}', TailKind.DAMAGED, 18, id="closed without a signature"),
        pytest.param(LINE + b"\0", TailKind.DAMAGED, len(LINE), id="the last line feed became NUL"),
        pytest.param(LINE + b"\0\0", TailKind.NUL_FILLED, len(LINE), id="grown, never written"),
        pytest.param(LINE + LINE, TailKind.DAMAGED, len(LINE), id="two entries in the tail"),
        pytest.param(bytes(4096), TailKind.NUL_FILLED, 0, id="NUL bytes only"),
        pytest.param(b"\0" + LINE, TailKind.DAMAGED, 0, id="NUL, then an entry"),
        pytest.param(b'{"entry":{"a":"' + b"b" * MAX_LINE, TailKind.DAMAGED, MAX_LINE, id="longer than a line"),
    ],
)
@pytest.mark.parametrize("step", [MIB, 7])
def test_tails_are_classified(data, kind, intact, step):
    tail = tail_of(data, step=step)
    assert (tail.kind, tail.intact) == (kind, intact)


def test_white_space_at_the_end_is_called_that():
    assert "2 spaces or tabs follow byte" in str(refusal(check_tail, tail_of(b" \t")))
    assert "bytes that no append writes" in str(refusal(check_tail, tail_of(b" x")))


# --------------------------------------------------------------------------------------------------- is it a ledger


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"", "EMPTY_LEDGER", id="empty"),
        pytest.param(b"\n", "NOT_A_LEDGER", id="one blank line"),
        pytest.param(b'{"n":0}\n{"n":1}\n', "NOT_A_LEDGER", id="other JSON lines"),
        pytest.param(b'{"ent', "NOT_A_LEDGER", id="a torn first line"),
        pytest.param(bytes(500), "NOT_A_LEDGER", id="NUL bytes"),
        pytest.param(ledger(1).decode().encode("utf-16"), "UTF16", id="UTF-16"),
        pytest.param(ledger(1).decode().encode("utf-16-be"), "UTF16", id="UTF-16 without a mark"),
        pytest.param(ledger(1), None, id="a ledger"),
        pytest.param(b"\n\njunk\n" + ledger(1), None, id="junk in front"),
        pytest.param(LINE[:30], None, id="a torn first entry"),
        pytest.param(b"x" + LINE[1:] + b"\n", None, id="head changed"),
        pytest.param(LINE[:-1] + b"x\n", None, id="tail changed"),
        pytest.param(b"\xef\xbb\xbf" + LINE + b"\r\n", None, id="byte order mark and CRLF"),
        pytest.param(b"x" + LINE[1:] + b" \t\r\n", None, id="head changed and white space behind"),
        pytest.param(b"x" + LINE[1:], None, id="head changed, no line feed"),
    ],
)
@pytest.mark.parametrize("step", [MIB, 1])
def test_what_can_be_read_as_a_ledger(data, code, step):
    chunks = [data[at : at + step] for at in range(0, len(data), step)]
    error = refusal(check_is_ledger, chunks, position=Position(source="x"))
    assert (error and error.code.name) == code
    if error:
        assert error.code.info.exit is ExitCode.UNREADABLE
        assert error.finding.position.source == "x"


@given(st.integers(min_value=0, max_value=len(LINE)), st.integers(min_value=0, max_value=255))
def test_one_changed_byte_never_makes_a_ledger_something_else(at, byte):
    data = LINE + b"\n"
    check_is_ledger([data[:at] + bytes([byte]) + data[at + 1 :]])


@pytest.mark.parametrize("step", [MIB, 3])
def test_what_stands_there_instead_of_a_ledger_is_shown(step):
    text = "".join(f"line {number}\n" for number in range(99))
    chunks = [text[at : at + step].encode() for at in range(0, len(text), step)]
    finding = refusal(check_is_ledger, chunks).finding
    assert (finding.expected, finding.found) == ('{"entry":', repr(text[:40])[1:-1])


def test_only_as_much_is_read_as_is_needed():
    def chunks():
        yield ledger(1)
        raise AssertionError("read on")

    check_is_ledger(chunks())


@given(st.lists(st.binary(max_size=60), max_size=5))
def test_arbitrary_chunks_give_a_verdict_or_a_ledger_error(chunks):
    assert code_of(check_is_ledger, chunks) in {None, "EMPTY_LEDGER", "NOT_A_LEDGER", "UTF16"}
    splitter = LineSplitter()
    for chunk in chunks:
        splitter.feed(chunk)
    assert code_of(check_tail, splitter.finish()) in {None, "TORN_TAIL", "NUL_TAIL", "TAIL_DAMAGED"}
