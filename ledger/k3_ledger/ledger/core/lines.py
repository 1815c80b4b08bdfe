"""Cutting ``ledger.jsonl`` into lines: a streaming splitter, and what may stand behind the last line feed.

A ledger is lines that each end in LF. :class:`LineSplitter` takes chunks of any size and holds at most one chunk and
one line; of a line that is longer than the format allows it keeps the beginning and counts the rest, so a single line
of 512 MiB costs no memory. What stands behind the last LF is a :class:`Tail`. Only four things can be found there:

- ``NONE``: nothing, as it should be;
- ``TORN``: a proper prefix of what an append writes. A complete line without its LF is one too: nothing in it was
  acknowledged, for an append reports success only after the LF is on disk;
- ``NUL_FILLED``: such a prefix, or nothing, and then NUL bytes: the file had grown when the power failed;
- ``DAMAGED``: anything else. A cut write never looks like that, so somebody or something changed the bytes. One
  changed byte of a good ledger can only end up here, never among the torn: where the last LF became a NUL, the tail is
  a complete line and one NUL, which counts as damage.
"""

from __future__ import annotations

import codecs
import enum
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from k3_ledger.ledger.core.framing import BOM, HEAD, MAX_LINE, TAIL_LEN, UTF16_STARTS, show, tail_prefix
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_KEPT: Final = MAX_LINE + 1
"""Bytes kept of a line or tail: enough to see that it is too long."""
MAX_JUNK: Final = 16 << 20
"""Bytes without a line that looks like an entry, from the start of a file, after which it is no ledger."""
_SHOWN: Final = 40
"""Bytes kept of the beginning of a file: enough to see what it is instead of a ledger."""


class RawLine(NamedTuple):
    """One line as it stands in the file.

    Attributes:
        number: line number, counted from 1.
        offset: offset of the first byte of the line in the file.
        length: bytes in the line, its LF not counted.
        data: the line without its LF; of a line longer than ``MAX_LINE``, its first ``MAX_LINE + 1`` bytes.
    """

    number: int
    offset: int
    length: int
    data: bytes

    def position(self, source: str | None = None) -> Position:
        """Where the line begins. In a ledger, line ``n`` is entry ``n - 1``."""
        return Position(source=source, line=self.number, byte_offset=self.offset, index=self.number - 1)


class TailKind(enum.Enum):
    """What stands behind the last line feed."""

    NONE = "none"
    TORN = "torn"
    NUL_FILLED = "nul-filled"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Tail:
    """The bytes behind the last line feed.

    Attributes:
        kind: what they are.
        line: number of the line they would belong to, counted from 1.
        offset: where they begin: the length of the file without them.
        length: how many they are.
        intact: how many of them an append could have written; less than ``length`` unless the kind is NONE or TORN.
        data: the bytes, or the first ``MAX_LINE + 1`` of them.
    """

    kind: TailKind
    line: int
    offset: int
    length: int
    intact: int
    data: bytes


class LineSplitter:
    """Cuts a stream of chunks into lines, with flat memory.

    Feed it every chunk in order, then call :meth:`finish` once.
    """

    __slots__ = ("_held", "_length", "_number", "_offset", "_rest_is_nul")

    def __init__(self, *, number: int = 1, offset: int = 0) -> None:
        """Start at a line beginning.

        Args:
            number: number of the first line, counted from 1.
            offset: offset of its first byte in the file.
        """
        self._number = number
        self._offset = offset
        self._held = bytearray()
        self._length = 0
        self._rest_is_nul = True

    def feed(self, chunk: bytes) -> list[RawLine]:
        """The lines that ``chunk`` completes, in order."""
        first, *others = chunk.split(b"\n")
        self._hold(first)
        if not others:
            return []
        lines = [RawLine(self._number, self._offset, self._length, bytes(self._held))]
        number, offset = self._number + 1, self._offset + self._length + 1
        last = others.pop()
        for piece in others:
            length = len(piece)
            lines.append(RawLine(number, offset, length, piece if length <= _KEPT else piece[:_KEPT]))
            number += 1
            offset += length + 1
        self._number, self._offset, self._length, self._rest_is_nul = number, offset, 0, True
        self._held.clear()
        self._hold(last)
        return lines

    def finish(self) -> Tail:
        """What stood behind the last line feed."""
        data = bytes(self._held)
        kind, intact = _classify(data, self._length, rest_is_nul=self._rest_is_nul)
        return Tail(kind, self._number, self._offset, self._length, intact, data)

    def is_hopeless(self) -> bool:
        """Whether the line under way went on for more than :data:`MAX_JUNK` bytes that are not what a crash leaves:
        nobody need see its end to refuse it.
        """
        return self._length > MAX_JUNK and self.finish().kind is TailKind.DAMAGED

    def _hold(self, piece: bytes) -> None:
        room = _KEPT - len(self._held)
        self._held += piece[:room]
        self._length += len(piece)
        if len(piece) > room and self._rest_is_nul:
            self._rest_is_nul = piece.count(0, room) == len(piece) - room


def check_tail(tail: Tail, *, source: str | None = None) -> None:
    """Refuse a file that does not end in a line feed.

    Raises:
        MalformedError: ``TORN_TAIL``, ``NUL_TAIL`` or ``TAIL_DAMAGED``; the position is where the tail begins, for
            damage the first byte that no append writes.
    """
    if tail.kind is TailKind.NONE:
        return
    start = Position(source=source, line=tail.line, byte_offset=tail.offset)
    behind = tail.length - tail.intact
    if tail.kind is TailKind.TORN:
        whole = _written_prefix(tail.data)[1]
        what = "a whole entry that lacks its line feed" if whole else "an entry whose end was never written"
        message = f"torn tail at byte {tail.offset}: {tail.length} bytes of {what}"
        raise MalformedError(Code.TORN_TAIL, message, position=start, found=show(tail.data))
    if tail.kind is TailKind.NUL_FILLED:
        message = f"torn tail at byte {tail.offset}: {tail.intact} bytes of an entry, then {behind} NUL bytes"
        raise MalformedError(Code.NUL_TAIL, message, position=start, found=show(tail.data))
    added = tail.data[tail.intact :]
    cause = "bytes that no append writes" if added.strip(b" \t") else "spaces or tabs"
    raise MalformedError(
        Code.TAIL_DAMAGED,
        f"{behind} {cause} follow byte {tail.offset + tail.intact}",
        position=replace(start, byte_offset=tail.offset + tail.intact),
        expected="a line feed at the end of the last entry",
        found=show(added),
    )


def check_is_ledger(chunks: Iterable[bytes], *, position: Position = NOWHERE) -> None:
    """Refuse what cannot be read as a ledger at all. Reads up to the first line that looks like an entry, and no more
    than :data:`MAX_JUNK` bytes and a chunk.

    A line looks like one when it begins with ``HEAD`` or ends with a well-formed tail; a byte order mark in front and
    white space behind do not hide that. One changed byte can therefore never turn a ledger into something else.

    Raises:
        MalformedError: ``EMPTY_LEDGER``, ``UTF16`` or ``NOT_A_LEDGER``.
    """
    splitter = LineSplitter()
    start, seen = b"", 0
    for chunk in chunks:
        start += chunk[: _SHOWN - len(start)]
        seen += len(chunk)
        if any(_looks_like_entry(line.data) for line in splitter.feed(chunk)):
            return
        if seen > MAX_JUNK:
            break
    if not start:
        raise MalformedError(Code.EMPTY_LEDGER, "the ledger is empty", position=position)
    if _looks_like_entry(splitter.finish().data):
        return
    raise _no_ledger(start, position)


def until_junk(chunks: Iterable[bytes], *, cut: bool, position: Position = NOWHERE) -> Iterator[bytes]:
    """The same chunks, ended where it is clear that they are no ledger, however much follows.

    Costs nothing from the first line on that looks like an entry.

    Args:
        chunks: a log, from its first byte.
        cut: whether something shows that there was a log: then NUL bytes may stand in its place, as many as it had.
        position: what to call it.

    Raises:
        MalformedError: as :func:`check_is_ledger` does, once :data:`MAX_JUNK` bytes came.
    """
    rest = iter(chunks)
    splitter = LineSplitter()
    start, seen = b"", 0
    for chunk in rest:
        start += chunk[: _SHOWN - len(start)]
        seen += len(chunk)
        lines = splitter.feed(chunk)
        if any(_looks_like_entry(line.data) for line in lines):
            yield chunk
            break
        if seen > MAX_JUNK:
            tail = splitter.finish()
            if not _looks_like_entry(tail.data) and not (cut and tail.kind is TailKind.NUL_FILLED):
                raise _no_ledger(start, position)
        yield chunk
    yield from rest


def _no_ledger(start: bytes, position: Position) -> MalformedError:
    """What to say of something that begins so and has no line that looks like an entry."""
    if start.startswith(UTF16_STARTS):
        return MalformedError(Code.UTF16, "the file is UTF-16 text", position=position, found=show(start))
    return MalformedError(
        Code.NOT_A_LEDGER,
        "no line has the shape of an entry",
        position=position,
        expected=show(HEAD),
        found=show(start),
    )


class EntryWatch:
    """Waits for the first line that looks like an entry, for so many lines and no more; see :func:`check_is_ledger`."""

    def __init__(self, lines: int) -> None:
        self._left = lines
        self._splitter = LineSplitter()
        self._start = b""

    def feed(self, chunk: bytes, *, position: Position = NOWHERE) -> bool:
        """Whether such a line has come; not to be fed any more when it has.

        Raises:
            MalformedError: ``NOT_A_LEDGER``: that many lines came, and none looks like one; or the first is longer than
                any line and does not begin like one.
        """
        self._start += chunk[: _SHOWN - len(self._start)]
        lines = self._splitter.feed(chunk)
        if any(_looks_like_entry(line.data) for line in lines[: self._left]):
            return True
        self._left -= len(lines)
        open_line = self._splitter.finish()
        if self._left <= 0 or (open_line.length > MAX_LINE and not _looks_like_entry(open_line.data)):
            raise MalformedError(
                Code.NOT_A_LEDGER,
                "what comes does not have the shape of entries",
                position=position,
                expected=show(HEAD),
                found=show(self._start),
            )
        return False


def _looks_like_entry(line: bytes) -> bool:
    return line.removeprefix(BOM).startswith(HEAD) or tail_prefix(line.rstrip(b" \t\r")[-TAIL_LEN:]) == TAIL_LEN


# --------------------------------------------------------------------------------------- what an append writes

_START: Final = HEAD + b"{"
_BETWEEN: Final = re.compile(rb"[\[\],:0-9\-truefalsn]*")
"""What stands between strings and braces."""
_STRING: Final = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\bfnrtu]|\\\Z)*')
"""The inside of a string, which the end of the input may cut, even behind a backslash."""


def _classify(data: bytes, length: int, *, rest_is_nul: bool) -> tuple[TailKind, int]:
    """Kind of a tail of ``length`` bytes that begins with ``data``, and how many of them an append could write."""
    if not length:
        return TailKind.NONE, 0
    body = data.rstrip(b"\0") if rest_is_nul else data
    intact, complete = _written_prefix(body)
    if intact == length:
        return TailKind.TORN, intact
    one_byte_changed = complete and length == intact + 1
    if rest_is_nul and intact == len(body) and not one_byte_changed:
        return TailKind.NUL_FILLED, intact
    return TailKind.DAMAGED, intact


def _written_prefix(data: bytes) -> tuple[int, bool]:
    """How many leading bytes of ``data`` an append could have written, and whether they are a complete line.

    The entry is followed token by token (strings, brackets, UTF-8), not parsed: enough to know where it ends.
    """
    data = data[: min(_utf8_prefix(data), MAX_LINE)]
    at = len(HEAD)
    if data[: at + 1] != _START:
        return next(i for i in range(at, -1, -1) if data.startswith(HEAD[:i])), False
    depth = 0
    while True:
        token = data[at : at + 1]
        if token == b"{":
            depth += 1
        elif token == b"}":
            depth -= 1
        elif token == b'"':
            at = _end(_STRING, data, at + 1)
            if data[at : at + 1] != b'"':
                return at, False
        else:  # the end of the data, or a byte that stands nowhere in an entry
            return at, False
        at += 1
        if depth == 0:
            tail = tail_prefix(data[at:])
            return at + tail, tail == TAIL_LEN
        at = _end(_BETWEEN, data, at)


def _utf8_prefix(data: bytes) -> int:
    """How many leading bytes are UTF-8; a character that is cut short at the end counts."""
    try:
        codecs.utf_8_decode(data, "strict", False)
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    match = pattern.match(data, at)
    assert match is not None, "both patterns match the empty string"
    return match.end()
