"""Reads a log a second time, and makes sure that it is the one that was verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.tags import is_tagged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.verify.scan import ChunkMark
    from k3_ledger.verify.source import LogSource, RangeReader


class Piece(Protocol):
    """Whole lines of a verified log, to be had where they are worked on."""

    def read(self) -> bytes:
        """The lines as they were verified.

        Raises:
            StoreError: they cannot be read, or are others by now (``CHANGED_WHILE_READ``).
        """


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are at hand.

    Attributes:
        data: the lines.
    """

    data: bytes

    def read(self) -> bytes:
        """See :class:`Piece`."""
        return self.data


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that whoever works on them reads: another process as well, so that none has to be sent to it.

    Attributes:
        mark: which they are.
        name: what to call their source in positions.
        reader: reads any stretch of it; to be pickled.
    """

    mark: ChunkMark
    name: str
    reader: RangeReader

    def read(self) -> bytes:
        """See :class:`Piece`."""
        return _same(self.reader.read(self.mark.offset, self.mark.length), self.mark, self.name)


def read_again(source: LogSource, marks: Iterable[ChunkMark]) -> Iterator[tuple[ChunkMark, bytes]]:
    """The verified chunks in log order, each known again by the tag that it was given when it was verified.

    Args:
        source: where the bytes come from. What stands behind the last mark is not read: it may have grown.
        marks: of a log without a line that is too long, whose chunks do not hold all of it.

    Raises:
        StoreError: the source's bytes are no longer those that were verified (``CHANGED_WHILE_READ``).
    """
    blocks = source.blocks()
    held = memoryview(b"")
    for mark in marks:
        parts, have = [held], len(held)
        while have < mark.length and (block := next(blocks, None)) is not None:
            parts.append(memoryview(block))
            have += len(block)
        last = parts[-1]
        kept = len(last) - max(0, have - mark.length)
        parts[-1], held = last[:kept], last[kept:]
        yield mark, _same(b"".join(parts), mark, source.name)  # the one copy


def _same(data: bytes, mark: ChunkMark, name: str) -> bytes:
    """The bytes of a chunk, if they are those that were verified."""
    if not is_tagged(data, mark.tag):
        raise StoreError(
            Code.CHANGED_WHILE_READ,
            "the log is no longer the one that was verified",
            position=Position(name, mark.first_line + 1, mark.offset),
        )
    return data
