"""Cuts a stream of bytes into chunks of whole lines, holding one chunk at a time whatever the input looks like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.framing import MAX_LINE
from k3_ledger.ledger.core.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from k3_ledger.ledger.core.lines import RawLine, Tail

CHUNK_BYTES = 1 << 20
"""Aimed-at size of a chunk. A chunk is at most this plus one block and one line."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive whole lines.

    Attributes:
        data: the lines, each with its LF.
        first_line: number of lines in front of this chunk.
        offset: bytes in front of this chunk.
        lines: number of lines in ``data``. Of a line longer than the format allows, ``data`` holds the beginning only:
            enough for the worker to refuse it.
    """

    data: bytes
    first_line: int
    offset: int
    lines: int


class Chunker:
    """Iterates over :class:`Chunk`; afterwards ``tail`` says what stood after the last LF.

    Attributes:
        tail: what stands after the last LF; set when the iteration has ended. Behind a line that goes on for ever, or
            for :data:`~k3_ledger.ledger.core.lines.MAX_JUNK` bytes, nothing is read.
        lines: whole lines seen.
        offset: bytes of whole lines seen.
    """

    def __init__(self, blocks: Iterable[bytes], *, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._blocks = blocks
        self._chunk_bytes = chunk_bytes
        self.tail: Tail | None = None
        self.lines = 0
        self.offset = 0

    def __iter__(self) -> Iterator[Chunk]:
        held: list[bytes] = []  # blocks that are not in a chunk yet
        whole = 0  # bytes of whole lines in `held`
        open_line = 0  # bytes after the last LF in `held`
        long_line: LineSplitter | None = None
        for block in self._blocks:
            data = block
            if long_line is not None:
                end = data.find(b"\n") + 1
                done = long_line.feed(data[:end] if end else data)
                if not done and long_line.is_hopeless():
                    break
                if not done:
                    continue
                yield self._oversized(done[0])
                data, long_line = data[end:], None
            held.append(data)
            last = data.rfind(b"\n")
            if last < 0:
                open_line += len(data)
            else:
                whole += open_line + last + 1
                open_line = len(data) - last - 1
            if open_line > MAX_LINE or whole >= self._chunk_bytes:
                joined = b"".join(held)
                if whole:
                    yield self._chunk(joined[:whole])
                held, whole = [joined[whole:]], 0
            if open_line > MAX_LINE:
                long_line = LineSplitter(number=self.lines + 1, offset=self.offset)
                long_line.feed(held.pop())
                open_line = 0
        joined = b"".join(held)
        if whole:
            yield self._chunk(joined[:whole])
        if long_line is None:
            long_line = LineSplitter(number=self.lines + 1, offset=self.offset)
            long_line.feed(joined[whole:])
        self.tail = long_line.finish()

    def _chunk(self, data: bytes) -> Chunk:
        chunk = Chunk(data, self.lines, self.offset, data.count(b"\n"))
        self.lines += chunk.lines
        self.offset += len(data)
        return chunk

    def _oversized(self, line: RawLine) -> Chunk:
        chunk = Chunk(line.data + b"\n", self.lines, self.offset, 1)
        self.lines += 1
        self.offset += line.length + 1
        return chunk
