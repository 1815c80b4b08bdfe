"""One line: what is taken, and under which code everything else is refused."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import framing
from k3_ledger.ledger.core.framing import Line, check_not_glued, format_line, parse_line, tail_prefix
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import code_of, line, refusal

LINE = line(7)
SIG = bytes(range(64))
PLACE = Position(source="ledger.jsonl", line=3, byte_offset=1000)


def offset(raw):
    """Where in the line the error points."""
    return refusal(parse_line, raw, PLACE).finding.position.byte_offset - 1000


@given(st.binary(max_size=300), st.binary(min_size=64, max_size=64))
def test_parse_undoes_format(entry, sig):
    raw = format_line(entry, sig)
    assert parse_line(raw) == Line(entry, sig, raw)


def test_a_line_is_head_entry_and_tail_of_constant_length():
    raw = format_line(b"{}", SIG)
    assert raw == b'{"entry":{},"sig":"' + base64.b64encode(SIG) + b'"}'
    assert len(raw) == 9 + 2 + 98


@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_a_line_or_a_ledger_error(raw):
    assert code_of(parse_line, raw) is not None


@given(st.integers(min_value=0, max_value=len(LINE) - 1), st.integers(min_value=0, max_value=255))
def test_a_changed_byte_changes_the_parts_or_is_refused(at, byte):
    changed = LINE[:at] + bytes([byte]) + LINE[at + 1 :]
    if changed != LINE and code_of(parse_line, changed) is None:
        before, after = parse_line(LINE), parse_line(changed)
        assert (before.entry, before.sig) != (after.entry, after.sig)


def test_of_sixteen_spellings_of_a_signature_one_is_accepted():
    raw = format_line(b"{}", SIG)
    last = raw[-5:-4]
    assert last in b"AQgw"
    same_bytes = [
        raw[:-5] + character.encode() + raw[-4:]
        for character in string.ascii_letters + string.digits + "+/"
        if base64.b64decode(raw[-90:-5] + character.encode() + b"==") == SIG
    ]
    assert len(same_bytes) == 16
    assert [code_of(parse_line, spelling) for spelling in same_bytes].count(None) == 1
    assert {code_of(parse_line, spelling) for spelling in same_bytes} == {None, "SIGNATURE_BASE64"}


@pytest.mark.parametrize("spelling", ["A" * 88, "A" * 87 + "=", "=" * 88, "A" * 84 + "====", "-" * 86 + "=="])
def test_eighty_eight_characters_that_are_not_64_bytes_are_refused(spelling):
    raw = b'{"entry":{},"sig":"' + spelling.encode() + b'"}'
    assert code_of(parse_line, raw) == "SIGNATURE_BASE64"


def test_the_error_points_at_the_character_that_is_wrong():
    assert offset(LINE[:-60] + b"!" + LINE[-59:]) == len(LINE) - 60
    assert offset(LINE[:-5] + b"B" + LINE[-4:]) == len(LINE) - 5
    assert offset(LINE[:-4] + b"A" + LINE[-3:]) == len(LINE) - 4


@pytest.mark.parametrize(
    ("raw", "code", "at"),
    [
        pytest.param(b"", "BLANK_LINE", 0, id="blank line"),
        pytest.param(b"\xef\xbb\xbf" + LINE, "BOM", 0, id="byte order mark"),
        pytest.param(LINE + b"\r", "CRLF", len(LINE), id="git autocrlf"),
        pytest.param(LINE + b"  \t", "TRAILING_SPACE", len(LINE), id="trailing spaces"),
        pytest.param(LINE[:20] + b"\0\0" + LINE[22:-1], "NUL_BYTES", 20, id="NUL bytes"),
        pytest.param(LINE[:40] + LINE + b" ", "GLUED_LINES", 40, id="torn write, then an append"),
        pytest.param(LINE[:1] + LINE + b" ", "GLUED_LINES", 1, id="one byte written, then an append"),
        pytest.param(LINE + b"x" + LINE[:-1], "GLUED_LINES", len(LINE) + 1, id="line feed overwritten"),
        pytest.param(LINE.decode().encode("utf-16"), "UTF16", 0, id="UTF-16 with a byte order mark"),
        pytest.param(LINE.decode().encode("utf-16-le"), "UTF16", 0, id="UTF-16 little endian"),
        pytest.param(LINE.decode().encode("utf-16-be"), "UTF16", 0, id="UTF-16 big endian"),
        pytest.param(b"\xfe\xff" + LINE.decode().encode("utf-16-be"), "UTF16", 0, id="UTF-16 BE with a mark"),
        pytest.param(b" " + LINE, "LINE_HEAD", 0, id="leading space"),
        pytest.param(b'{"Entry":' + LINE[9:], "LINE_HEAD", 2, id="head changed"),
        pytest.param(b'{"en', "LINE_HEAD", 4, id="head cut"),
        pytest.param(LINE[:-1], "LINE_TAIL", len(LINE) - 99, id="one byte short"),
        pytest.param(LINE + b"}", "LINE_TAIL", len(LINE) - 97, id="one byte long"),
        pytest.param(LINE[:-98] + b',"sIg":"' + LINE[-90:], "LINE_TAIL", len(LINE) - 98, id="member renamed"),
        pytest.param(LINE[:-1] + b"]", "LINE_TAIL", len(LINE) - 98, id="bracket changed"),
        pytest.param(b'{"entry":{}', "LINE_TAIL", 9, id="no tail"),
        pytest.param(b'{"entry":', "LINE_TAIL", 9, id="head alone"),
        pytest.param(b'{"entry":,"sig":"' + LINE[-90:-10] + b'"}', "LINE_TAIL", 9, id="signature cut"),
    ],
)
def test_each_cause_has_its_own_code_and_offset(raw, code, at):
    assert code_of(parse_line, raw) == code
    assert offset(raw) == at


@pytest.mark.parametrize(
    ("raw", "code", "at"),
    [
        pytest.param(LINE[:40] + LINE, "GLUED_LINES", 40, id="torn, then appended to"),
        pytest.param(LINE[:40] + bytes(9) + LINE, "GLUED_LINES", 49, id="torn and NUL-filled, then appended to"),
        pytest.param(LINE[:20] + bytes(9) + LINE[29:], "NUL_BYTES", 20, id="a block that was never written"),
        pytest.param(LINE, None, None, id="a good line"),
    ],
)
def test_an_unfinished_write_may_look_well_framed_and_its_cause_is_still_found(raw, code, at):
    assert parse_line(raw).raw == raw
    error = refusal(check_not_glued, raw, PLACE)
    assert (error and error.code.name) == code
    if error:
        assert error.finding.position.byte_offset == 1000 + at


def test_the_number_of_nul_bytes_is_told():
    assert "holds 9 NUL bytes" in str(refusal(check_not_glued, LINE[:20] + bytes(9) + LINE[29:]))


def test_crlf_is_explained_as_rewritten_line_endings_not_as_tampering():
    message = str(refusal(parse_line, LINE + b"\r"))
    assert "line endings were rewritten" in message
    assert "autocrlf" in message
    assert "tamper" not in message


def test_entries_may_hold_a_member_called_entry_when_it_holds_no_object():
    raw = format_line(b'{"body":{"pins":[{"entry":"00"}]}}', SIG)
    assert parse_line(raw).raw == raw


def test_the_longest_line_is_65535_bytes():
    room = framing.MAX_LINE - 9 - 98
    assert framing.MAX_LINE == 65_535
    assert len(format_line(b"a" * room, SIG)) == framing.MAX_LINE
    assert parse_line(format_line(b"a" * room, SIG)).sig == SIG
    assert code_of(format_line, b"a" * (room + 1), SIG) == "LINE_TOO_LONG"
    assert code_of(parse_line, b'{"entry":' + b"a" * (room + 1) + LINE[-98:]) == "LINE_TOO_LONG"
    assert code_of(parse_line, b"a" * framing.MAX_LINE) == "LINE_HEAD"
    assert code_of(parse_line, b"a" * (framing.MAX_LINE + 1)) == "LINE_TOO_LONG"


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_another_length_is_the_callers_mistake(length):
    with pytest.raises(ValueError, match="64 bytes"):
        format_line(b"{}", bytes(length))


def test_without_a_known_place_the_error_has_none():
    assert refusal(parse_line, LINE + b"\r").finding.position == Position()


def test_long_input_is_shortened_in_messages():
    found = refusal(parse_line, b"x" * 5000).finding.found
    assert found == "x" * 9
    assert framing.show(b"x" * 40) == "x" * 40
    assert framing.show(b"x" * 41) == "x" * 40 + "… (41 bytes)"
    assert framing.show(b"\x00\xff" * 30).endswith("… (60 bytes)")
    assert framing.show(b'{"a":1}') == '{"a":1}'


@pytest.mark.parametrize(
    ("data", "length"),
    [(b"", 0), (LINE[-98:], 98), (LINE[-98:] + b"x", 98), (LINE[-98:-50], 48), (b",'", 1), (LINE[-98:-2] + b"x", 96)],
)
def test_tail_prefix_counts_what_a_tail_may_begin_with(data, length):
    assert tail_prefix(data) == length


@pytest.mark.parametrize("last", range(4))
def test_tails_end_in_one_of_four_characters_and_padding(last):
    tail = format_line(b"", bytes([*range(63), last]))[-98:]
    assert tail_prefix(tail) == 98
    assert tail_prefix(tail[:93] + bytes([tail[93] + 1]) + tail[94:]) == 93
