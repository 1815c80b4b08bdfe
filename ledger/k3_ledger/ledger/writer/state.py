"""What a writer must know about a log before it may append: its head, its length and its keys.

The log is scanned once, at memory speed: lines are counted, and only the lines that can hold a ``key`` entry are
parsed. Afterwards only new bytes are looked at. The last line is checked in full (canonical, chained to the line
before it, signed by an enrolled key), so that nothing is ever chained to damage. Whether the rest of the log is true
is for :mod:`k3_ledger.verify` to say.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.chain import entry_identity, genesis_prev, signed_message
from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.framing import MAX_LINE, check_not_glued, parse_line
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.ledger.core.lines import LineSplitter, TailKind, check_tail
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError, MalformedError, SignatureError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from k3_ledger.ledger.core.framing import Line
    from k3_ledger.ledger.core.lines import Tail

    Read = Callable[[int, int], bytes]
    """``read(count, offset)``: exactly the bytes that are there, at most ``count``."""

LOG_NAME = "ledger.jsonl"
BLOCK = 4 << 20
"""Bytes read at a time while scanning."""
_KIND_AND_PREV = re.compile(rb',"kind":"([a-z]+)","prev":"([0-9a-f]{64})"')
TAMPERED_HINT = "run `k3-ledger verify`; restore the file from a copy that verifies (recover is for torn tails only)"
KEY_MARK = b'"kind":"key"'
"""Every canonical ``key`` entry holds these bytes; inside a string the quotation marks would be escaped."""
ACTION_MARKS = (KEY_MARK, b'"kind":"threshold"')
"""The like for every root action."""


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a log.

    Attributes:
        index: its position, counted from 0.
        identity: lower-case hexadecimal SHA-256 of its entry bytes: the next entry's ``prev``.
        offset: where its line begins.
        line_sha256: SHA-256 of its line, to notice that the log was rewritten.
    """

    index: int
    identity: str
    offset: int
    line_sha256: bytes


@dataclass(frozen=True, slots=True)
class LogState:
    """A log up to byte ``size``, which is behind a line feed.

    Attributes:
        origin: the log's name for itself.
        size: bytes known.
        head: the last entry among them.
        keyring: keys enrolled up to there.
    """

    origin: str
    size: int
    head: Head
    keyring: Keyring

    @property
    def entries(self) -> int:
        """Number of entries: index of the next one."""
        return self.head.index + 1


def read_line(line: Line, place: Position) -> Any:
    """Typed entry of a framed line.

    Raises:
        MalformedError, SchemaError: not canonical, not as its kind demands, or the remains of an unfinished write.
    """
    try:
        return decode(line.entry, place)
    except LedgerError:
        check_not_glued(line.raw, place)
        raise


def scan(read: Read, size: int, known: LogState | None = None) -> LogState:
    """State of the log in its first ``size`` bytes, starting from what is ``known``.

    Raises:
        MalformedError: no ledger, damage in a line that matters here, or a torn tail (``TORN_TAIL``, ``NUL_TAIL``).
        SignatureError: the last entry, with its line feed or without, or a ``key`` entry has a bad signature.
        StoreError: the bytes that were known are not there any more.
    """
    if known is not None and size == known.size:
        check_unchanged(read, size, known)
        return known
    state, tail = scan_to_tail(read, size, known)
    if tail.kind is TailKind.TORN:
        check_cut_entry(tail, state)
    check_tail(tail, source=LOG_NAME)
    return state


def check_cut_entry(tail: Tail, state: LogState) -> tuple[Line, Any] | None:
    """The line and entry of a tail that is a whole entry and lacks only its line feed; None where it is less.

    A whole entry that is wrong was not written by an append: without its line feed, too, it was tampered with.

    Raises:
        MalformedError, SchemaError, SignatureError: it is such an entry.
    """
    place = Position(source=LOG_NAME, line=tail.line, byte_offset=tail.offset, index=tail.line - 1)
    try:
        line = parse_line(tail.data, place)
    except MalformedError:
        return None
    return line, check_entry(line, place, state.head.identity, state.keyring)


def scan_to_tail(read: Read, size: int, known: LogState | None = None) -> tuple[LogState, Tail]:
    """Like :func:`scan`, but what stands behind the last line feed is returned and not refused."""
    if known is not None:
        check_unchanged(read, size, known)
        lines, end, keyring = known.entries, known.size, known.keyring
    else:
        lines, end, keyring = 0, 0, Keyring()
    if size > end:
        keyring = copy.deepcopy(keyring)
    for offset, block in whole_lines(read, end, size):
        if lines == 0:
            _take_genesis(block[: block.index(b"\n")], keyring)
        for before, begin, stop in sorted({found for mark in ACTION_MARKS for found in _marked(block, mark)}):
            _take_action(block[begin:stop], place_of(lines + before, offset + begin), keyring)
        lines += block.count(b"\n")
        end = offset + len(block)
    tail = tail_of(read, lines, end, size)
    if end == 0:
        check_tail(tail, source=LOG_NAME)
        raise MalformedError(Code.EMPTY_LEDGER, "the ledger is empty", position=Position(source=LOG_NAME))
    if known is not None and end == known.size:
        return known, tail
    head = read_head(read, end, lines, keyring)
    origin = known.origin if known is not None else read_origin(read)
    return LogState(origin, end, head, keyring), tail


def check_unchanged(read: Read, size: int, known: LogState) -> None:
    """Refuse to go on when what was known is not what is there now."""
    length = known.size - known.head.offset - 1
    if size >= known.size and hashlib.sha256(read(length, known.head.offset)).digest() == known.head.line_sha256:
        return
    raise StoreError(
        Code.LOG_REPLACED,
        "the ledger was cut or rewritten while it was open for writing",
        position=Position(source=LOG_NAME, byte_offset=known.head.offset, index=known.head.index),
        expected=f"entry {known.head.identity}",
        found=f"{size:,} bytes" if size < known.size else "another line",
    )


def whole_lines(read: Read, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """(offset, block) of whole lines, up to the last line feed before ``size``."""
    offset = start
    while offset < size:
        block = read(min(BLOCK, size - offset), offset)
        cut = block.rfind(b"\n") + 1
        if not cut:
            return  # a tail: no line is as long as a block, and a longer one is damage wherever it ends
        yield offset, block[:cut]
        offset += cut


def tail_of(read: Read, lines: int, offset: int, size: int) -> Tail:
    """What stands behind the last line feed, which ends line number ``lines`` at ``offset``."""
    splitter = LineSplitter(number=lines + 1, offset=offset)
    while offset < size:
        block = read(min(BLOCK, size - offset), offset)
        for line in splitter.feed(block):
            parse_line(line.data, line.position(LOG_NAME))  # raises: a line as long as a block is no line
        offset += len(block)
        if splitter.is_hopeless():
            break
    return splitter.finish()


def find_lines(read: Read, size: int, mark: bytes | re.Pattern[bytes]) -> Iterator[tuple[Position, bytes]]:
    """(place, line without LF) of every whole line before ``size`` that holds ``mark``, found at memory speed.

    A pattern matches no line feed.
    """
    lines = 0
    for offset, block in whole_lines(read, 0, size):
        for before, begin, end in _marked(block, mark):
            yield place_of(lines + before, offset + begin), block[begin:end]
        lines += block.count(b"\n")


def known_kinds(read: Read, state: LogState, wanted: Collection[str]) -> dict[str, str]:
    """Kinds of those entries up to ``state`` that have a ``wanted`` identity. Reads the log once."""
    found: dict[str, str] = {}
    before = ""
    for _, block in whole_lines(read, 0, state.size):
        # An entry names its predecessor: every identity but the last stands in the line behind it.
        for match in _KIND_AND_PREV.finditer(block):
            identity = match[2].decode()
            if identity in wanted and before:
                found[identity] = before
            before = match[1].decode()
    if state.head.identity in wanted:
        found[state.head.identity] = before
    return found


def _marked(block: bytes, mark: bytes | re.Pattern[bytes]) -> Iterator[tuple[int, int, int]]:
    """(lines in front, begin, end without LF) of every line of a block that holds ``mark``."""
    lines = at = counted = 0
    while (found := _find(block, mark, at)) >= 0:
        begin, at = block.rfind(b"\n", 0, found) + 1, block.index(b"\n", found)
        lines += block.count(b"\n", counted, begin)
        counted = begin
        yield lines, begin, at


def _find(block: bytes, mark: bytes | re.Pattern[bytes], at: int) -> int:
    if isinstance(mark, bytes):
        return block.find(mark, at)
    found = mark.search(block, at)
    return -1 if found is None else found.start()


def place_of(index: int, offset: int) -> Position:
    """Where the line of an entry stands."""
    return Position(source=LOG_NAME, line=index + 1, byte_offset=offset, index=index)


def _take_genesis(raw: bytes, keyring: Keyring) -> None:
    place = place_of(0, 0)
    line = parse_line(raw, place)
    entry = read_line(line, place)
    if entry.kind != "genesis":
        raise _wrong(Code.CHAIN_NO_GENESIS, place, "kind", "genesis", entry.kind)
    for finding in keyring.apply_genesis(0, entry_identity(line.entry).hex(), entry.body):
        raise SignatureError(finding.code, finding.message, position=finding.position)
    _check_chained(entry, place, genesis_prev(entry.body.origin).hex())
    _check_signed(entry.key, line, place, keyring)


def _take_action(raw: bytes, place: Position, keyring: Keyring) -> None:
    assert place.index is not None
    line = parse_line(raw, place)
    entry = read_line(line, place)
    if entry.index != place.index:
        raise _wrong(Code.CHAIN_INDEX, place, "index", str(place.index), str(entry.index))
    if entry.kind not in ROOT_ACTIONS or entry.key not in keyring.lives:
        return  # the mark stood inside a body, or the signer is nobody: verify reports that entry
    _check_signed(entry.key, line, place, keyring)
    # An entry that cannot count is reported by verify, and does not count here either.
    keyring.apply_action(place.index, entry_identity(line.entry).hex(), entry.kind, entry.key, entry.body)


def check_entry(line: Line, place: Position, prev: str, keyring: Keyring) -> Any:
    """Check a line in full: canonical, chained to ``prev``, signed by an enrolled key. Returns its typed entry.

    Raises:
        MalformedError, SchemaError, SignatureError: it is not what a writer would have appended there.
    """
    entry = read_line(line, place)
    _check_chained(entry, place, prev)
    _check_signed(entry.key, line, place, keyring)
    return entry


def _check_signed(key: str, line: Line, place: Position, keyring: Keyring) -> None:
    life = keyring.lives.get(key)
    if life is None:
        raise _wrong(Code.KEY_UNKNOWN, place, "key", "an enrolled key", key)
    try:
        check_signature(life.public_key, signed_message(line.entry), line.sig)
    except SignatureError as error:
        found = error.finding
        raise SignatureError(found.code, found.message, position=place, hint=TAMPERED_HINT) from None


def _check_chained(entry: Any, place: Position, prev: str) -> None:
    if entry.index != place.index:
        raise _wrong(Code.CHAIN_INDEX, place, "index", str(place.index), str(entry.index))
    if entry.prev != prev:
        raise _wrong(Code.CHAIN_PREV, place, "prev", prev, entry.prev)


def _wrong(code: Code, place: Position, field: str, expected: str, found: str) -> MalformedError:
    return MalformedError(
        code,
        f"{code.info.title}: nothing is appended to a damaged ledger",
        position=dataclasses.replace(place, field=field),
        expected=expected,
        found=found,
        hint=TAMPERED_HINT,
    )


def read_head(read: Read, end: int, lines: int, keyring: Keyring) -> Head:
    """The last of ``lines`` lines, which ends at ``end``, checked in full.

    Raises:
        MalformedError, SchemaError: it is not an entry, or is not chained to the line before it.
        SignatureError: its signature is bad.
    """
    window = min(end, 2 * (MAX_LINE + 1))
    tail = read(window, end - window)
    begin = tail.rfind(b"\n", 0, -1) + 1
    raw = tail[begin:-1]
    offset = end - len(raw) - 1
    place = place_of(lines - 1, offset)
    line = parse_line(raw, place)
    if begin:
        before = tail[tail.rfind(b"\n", 0, begin - 1) + 1 : begin - 1]
        prev = entry_identity(parse_line(before, place_of(lines - 2, offset - len(before) - 1)).entry).hex()
        check_entry(line, place, prev, keyring)
    return Head(lines - 1, entry_identity(line.entry).hex(), offset, hashlib.sha256(raw).digest())


def read_origin(read: Read) -> str:
    """The name a log gives itself in its first line."""
    raw = read(MAX_LINE + 1, 0).partition(b"\n")[0]
    entry = read_line(parse_line(raw, place_of(0, 0)), place_of(0, 0))
    if entry.kind != "genesis":
        raise _wrong(Code.CHAIN_NO_GENESIS, place_of(0, 0), "kind", "genesis", entry.kind)
    origin: str = entry.body.origin
    return origin
