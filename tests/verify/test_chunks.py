"""The chunker cuts at line ends only, holds little, and says what stood behind the last line feed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.framing import MAX_LINE
from k3_ledger.ledger.core.lines import TailKind
from k3_ledger.verify.chunks import Chunker

LINES = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"-")), max_size=30)


@given(lines=LINES, tail=st.binary(max_size=9), block=st.integers(1, 50), chunk_bytes=st.integers(1, 200))
def test_chunks_put_together_are_the_input(lines: list[bytes], tail: bytes, block: int, chunk_bytes: int) -> None:
    tail = tail.replace(b"\n", b"-")
    data = b"".join(line + b"\n" for line in lines) + tail
    chunker = Chunker((data[i : i + block] for i in range(0, len(data), block)), chunk_bytes=chunk_bytes)
    chunks = list(chunker)
    assert b"".join(chunk.data for chunk in chunks) + chunker.tail.data == data
    assert all(chunk.data.endswith(b"\n") for chunk in chunks)
    assert [chunk.offset for chunk in chunks] == [0, *itertools.accumulate(len(c.data) for c in chunks)][:-1]
    assert [chunk.first_line for chunk in chunks] == [0, *itertools.accumulate(c.lines for c in chunks)][:-1]
    assert (chunker.lines, chunker.offset) == (len(lines), len(data) - len(tail))
    assert chunker.tail.offset == chunker.offset
    assert (chunker.tail.kind is TailKind.NONE) == (not tail)


@pytest.mark.parametrize("block", [1000, 1 << 20])
def test_a_line_over_the_limit_is_one_chunk_of_its_own_and_costs_no_memory(block: int) -> None:
    long = MAX_LINE * 3
    data = b"one\ntwo\n" + b"x" * long + b"\nthree\n"
    chunker = Chunker(data[i : i + block] for i in range(0, len(data), block))
    if block == 1000:
        first, oversized, last = chunker
        assert (oversized.lines, oversized.first_line, oversized.offset) == (1, 2, 8)
        assert len(oversized.data) == MAX_LINE + 2
        assert (first.data, last.data, last.offset) == (b"one\ntwo\n", b"three\n", 8 + long + 1)
    else:  # it arrived whole, with its neighbours: the worker refuses it like any other bad line
        (only,) = chunker
        assert only.data == data
    assert (chunker.lines, chunker.tail.kind) == (4, TailKind.NONE)


def test_a_huge_line_without_end_is_a_tail_of_its_full_length() -> None:
    def blocks() -> itertools.chain[bytes]:
        return itertools.chain([b"one\n"], itertools.repeat(b"y" * 4096, 1024))

    chunker = Chunker(blocks())
    assert [chunk.data for chunk in chunker] == [b"one\n"]
    assert (chunker.tail.length, chunker.tail.kind) == (4096 * 1024, TailKind.DAMAGED)
    assert len(chunker.tail.data) == MAX_LINE + 1


def test_a_nul_filled_tail_longer_than_a_line_is_told_from_damage() -> None:
    chunker = Chunker(itertools.chain([b"one\n"], itertools.repeat(bytes(4096), 1024)))
    assert len(list(chunker)) == 1
    assert chunker.tail.kind is TailKind.NUL_FILLED


def test_a_long_line_in_front_of_everything_is_refused_like_any_other() -> None:
    chunker = Chunker(itertools.chain(itertools.repeat(b"z" * 4096, 32), [b"\n"]))
    (only,) = chunker
    assert (only.first_line, only.lines, only.offset, len(only.data)) == (0, 1, 0, MAX_LINE + 2)
    assert (chunker.lines, chunker.offset) == (1, 4096 * 32 + 1)
