"""Bodies of the witness protocol: one spelling each, and nothing else is read."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import tlog_witness
from k3_ledger.ledger.core.note import NoteSignature
from k3_ledger.ledger.core.tlog_witness import (
    MAX_REQUEST,
    AddCheckpoint,
    format_answer,
    format_request,
    format_size,
    parse_answer,
    parse_request,
    parse_size,
)
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import code_of, refusal

HASHES = tuple(bytes([number]) * 32 for number in range(4))
NOTE = b"any bytes at all\n\nthe checkpoint is not looked at"
SIG = NoteSignature("witness.example/w1", 7, bytes(72))


def test_a_request_is_what_the_specification_writes() -> None:
    request = AddCheckpoint(20852014, HASHES[:2], NOTE)
    lines = [b"old 20852014", *(base64.b64encode(digest) for digest in HASHES[:2]), b""]
    assert format_request(request) == b"".join(line + b"\n" for line in lines) + NOTE
    assert parse_request(format_request(request)) == request
    assert format_request(AddCheckpoint(0, (), NOTE)) == b"old 0\n\n" + NOTE


@given(st.integers(0, 2**53 - 1), st.lists(st.binary(min_size=32, max_size=32), max_size=63), st.binary(max_size=99))
def test_what_is_written_is_read_back(old: int, proof: list[bytes], checkpoint: bytes) -> None:
    request = AddCheckpoint(old, tuple(proof), checkpoint)
    assert parse_request(format_request(request)) == request


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"old 1",
        b"old 1\n",
        b"new 1\n\nnote",
        b"old 01\n\nnote",
        b"old +1\n\nnote",
        b"old  1\n\nnote",
        b"old 1 \n\nnote",
        b"old -1\n\nnote",
        b"old 1\r\n\r\nnote",
        b"old 1\n" + base64.b64encode(b"short") + b"\n\nnote",
        b"old 1\n" + base64.b64encode(HASHES[0])[:-1] + b"\n\nnote",
        b"old 1\n " + base64.b64encode(HASHES[0]) + b"\n\nnote",
        b"old 1\n" + base64.b64encode(bytes(33)) + b"\n\nnote",
        b"old 1\n" + (base64.b64encode(HASHES[0]) + b"\n") * 64 + b"\nnote",
        b"old 1\n\n" + b"x" * (MAX_REQUEST - 6),
    ],
)
def test_anything_else_is_no_request(data: bytes) -> None:
    error = refusal(parse_request, data, position=Position(source="body"))
    assert (error.code.name, error.finding.position) == ("WITNESS_REQUEST", Position(source="body"))


def test_the_longest_requests_are_read() -> None:
    assert len(parse_request(b"old 1\n" + (base64.b64encode(HASHES[0]) + b"\n") * 63 + b"\nnote").proof) == 63
    parse_request(b"old 1\n\n" + b"x" * (MAX_REQUEST - 7))


@pytest.mark.parametrize("request_", [AddCheckpoint(-1, (), NOTE), AddCheckpoint(1, (b"short",), NOTE)])
def test_what_could_not_be_read_back_is_not_written(request_: AddCheckpoint) -> None:
    with pytest.raises(ValueError, match="not a request"):
        format_request(request_)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    for parse in (parse_request, parse_answer, parse_size):
        try:
            parse(data)
        except MalformedError as error:
            assert error.code.name in {"WITNESS_REQUEST", "WITNESS_ANSWER"}  # noqa: PT017 - either is right


def test_an_answer_is_signature_lines() -> None:
    blob = base64.b64encode(SIG.key_hash.to_bytes(4, "big") + SIG.signature)
    assert format_answer([SIG, SIG]) == 2 * ("\u2014 witness.example/w1 ".encode() + blob + b"\n")
    assert parse_answer(format_answer([SIG, SIG])) == (SIG, SIG)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"refused\n",
        format_answer([SIG])[:-1],
        b"\n" + format_answer([SIG]),
        format_answer([SIG]) + b"\n" + format_answer([SIG]),
        b"text\n\n" + format_answer([SIG]),
    ],
)
def test_anything_else_is_no_answer(data: bytes) -> None:
    assert code_of(parse_answer, data) == "WITNESS_ANSWER"


def test_a_size_is_a_decimal_and_a_line_feed() -> None:
    assert (format_size(20852014), parse_size(b"20852014\n"), parse_size(b"0\n")) == (b"20852014\n", 20852014, 0)
    for data in (b"", b"1", b"01\n", b"1\n\n", b" 1\n", b"1\r\n", b"-1\n", b"\xd9\xa1\n", b"1" * 17 + b"\n"):
        assert code_of(parse_size, data) == "WITNESS_ANSWER"
    assert tlog_witness.SIZE_TYPE == "text/x.tlog.size"
