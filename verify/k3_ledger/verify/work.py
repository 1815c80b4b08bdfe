"""What is checked about a chunk of lines without knowing the rest of the log: the part that runs in parallel.

A worker frames, decodes, links, hashes and verifies the signatures of its lines, and returns a small
:class:`ChunkResult`. :mod:`k3_ledger.verify.log` joins results in log order; whatever depends on what came before
(the first link of a chunk, key lifetimes, the tree) is settled there.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.chain import SIGN_PREFIX, genesis_prev, leaf_hash
from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.framing import HEAD, check_not_glued, explain_line, split_line
from k3_ledger.ledger.core.merkle import CompactRange
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import REFERENCES, ROOT_ACTIONS
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position, Severity
from k3_ledger.schemas.structs import decode_entry
from k3_ledger.verify.attested import is_attested, read_attested
from k3_ledger.verify.receipts import check_body
from k3_ledger.verify.report import FindingLog
from k3_ledger.verify.tags import tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from k3_ledger.verify.along import ChunkReader
    from k3_ledger.verify.attested import Attested
    from k3_ledger.verify.chunks import Chunk
    from k3_ledger.verify.receipts import Fault

LOG_NAME = "ledger.jsonl"
RECEIPTS = frozenset({"run", "failed"})
"""Kinds that are sealed bundles."""
SPECIAL_KINDS = frozenset({"genesis"}) | ROOT_ACTIONS
"""Kinds that change which keys count; the joiner applies them in log order."""


@dataclass(slots=True)
class Link:
    """Where one entry stands in the chain, as it claims.

    Attributes:
        position: line number counted from 0.
        offset: byte offset of the line.
        index, prev, time, kind: fields of the entry.
        identity: SHA-256 of its entry bytes, hexadecimal.
    """

    position: int
    offset: int
    index: int
    prev: str
    time: str
    kind: str
    identity: str


@dataclass(slots=True)
class ChunkResult:
    """What one worker found out about one chunk.

    Attributes:
        lines: lines looked at.
        shaped: lines that begin like an entry line.
        tag: of the chunk's bytes, so that what is read again later is what was verified.
        counts: (checked, failed, not checked) by step name.
        findings: bounded list and true counts.
        first: the entry on the very first line, when its link is for the joiner to check; None when that line could
            not be read, and for the first line of the log.
        last: the entry on the very last line, or None when it could not be read.
        last_identity: identity of the very last line, or None when that line has no readable frame.
        ranges: compact ranges over the lines, cut at the tree sizes that signed heads commit to.
        uses: positions at which each (key, kind) signed, signature verified.
        special: (position, identity, kind, signer, body) of genesis entries and root actions whose signature verified.
        artifacts: (position, signer, name, digest, size) that entries name.
        faulty: (position, signer, faults) of entries whose body is wrong by itself.
        references: (position, kind, body field, target) of entries that name an earlier entry.
        attested: what later steps need of receipts that say they are attested.
        imports: positions of foreign receipts, and of other parts of a foreign log.
        imported: positions of foreign receipts that say so.
        read: what a companion's reader made of the entries.
        broken: position of the first line that could not be read or whose signature is not good.
        unsettled: position of the first of them that may have been a genesis entry or a root action.
        unsound: position of the first line that is no entry by a known key that verifies, or does not follow the one in
            front of it.
    """

    lines: int = 0
    shaped: int = 0
    tag: bytes = b""
    counts: dict[str, list[int]] = field(default_factory=dict)
    findings: FindingLog = field(default_factory=FindingLog)
    first: Link | None = None
    last: Link | None = None
    last_identity: str | None = None
    ranges: list[CompactRange] = field(default_factory=list)
    uses: dict[tuple[str, str], array[int]] = field(default_factory=dict)
    special: list[tuple[int, str, str, str, Any]] = field(default_factory=list)
    artifacts: list[tuple[int, str, str, str, int]] = field(default_factory=list)
    faulty: list[tuple[int, str, list[Fault]]] = field(default_factory=list)
    references: list[tuple[int, str, str, str]] = field(default_factory=list)
    attested: list[Attested] = field(default_factory=list)
    imports: array[int] = field(default_factory=lambda: array("Q"))
    imported: array[int] = field(default_factory=lambda: array("Q"))
    read: Any = None
    broken: int | None = None
    unsettled: int | None = None
    unsound: int | None = None


class _Worker:
    """State while one chunk is walked."""

    def __init__(
        self,
        chunk: Chunk,
        marks: tuple[int, ...],
        keys: Mapping[str, bytes],
        reader: ChunkReader | None,
        vouched: int,
    ) -> None:
        self.chunk = chunk
        self.keys = keys
        self.vouched = vouched
        self.reader = reader
        self.result = ChunkResult(lines=chunk.lines, tag=tag(chunk.data), findings=FindingLog(vouched=vouched))
        self.marks = [mark for mark in marks if chunk.first_line < mark < chunk.first_line + chunk.lines]
        self.framing = [0, 0, 0]
        self.schema = [0, 0, 0]
        self.chain = [0, 0, 0]
        self.signatures = [0, 0, 0]
        self.receipts = [0, 0, 0]

    def run(self) -> ChunkResult:
        """Walk the lines in order."""
        result, chunk = self.result, self.chunk
        tree = CompactRange(chunk.first_line)
        position, offset = chunk.first_line, chunk.offset
        before: Any = None  # the entry on the line in front, when it could be read
        identity: str | None = None  # that line's
        for raw in chunk.data.split(b"\n")[:-1]:
            if self.marks and position == self.marks[0]:
                self.marks.pop(0)
                result.ranges.append(tree)
                tree = CompactRange(position)
            tree.append(leaf_hash(raw))
            entry, identity_here = self._read(raw, position, offset)
            failed = self.chain[1]
            if entry is None:
                # Its identity may still be known: then the next entry's link can be checked all the same.
                self.chain[2] += position == 0 or position > chunk.first_line  # else the joiner counts it
            elif position == 0:
                self._count_link(list(check_genesis(entry)))
            elif position == chunk.first_line:
                result.first = link_of(entry, position, offset, identity_here)
            elif identity is None:
                self.chain[2] += 1
            elif before is not None and follows(before, identity, entry):
                self.chain[0] += 1
            else:
                front = None if before is None else link_of(before, position - 1, 0, identity)
                self._count_link(list(link_faults(front, identity, link_of(entry, position, offset, identity_here))))
            if self.chain[1] > failed:
                self._note_unsound(position)
            before, identity = entry, identity_here
            position += 1
            offset += len(raw) + 1
        if before is not None:
            result.last = link_of(before, position - 1, offset - len(raw) - 1, identity)
        result.last_identity = identity
        result.ranges.append(tree)
        result.counts = {
            "framing": self.framing,
            "schema": self.schema,
            "chain": self.chain,
            "signatures": self.signatures,
            "receipts": self.receipts,
        }
        if self.reader is not None:
            result.read = self.reader.finish()
        return result

    def _read(self, raw: bytes, position: int, offset: int) -> tuple[Any, str | None]:
        """Frame, decode and verify one line. (None, identity or None) when it is not a readable entry."""
        self.framing[0] += 1
        self.result.shaped += raw.startswith(HEAD)
        parts = split_line(raw)
        if parts is None:
            self.framing[1] += 1
            self._note_broken(position, None)
            self.result.findings.add(explain_line(raw, Position(LOG_NAME, position + 1, offset)).finding)
            return None, None
        data, sig = parts
        identity = sha256(data).hexdigest()
        self.schema[0] += 1
        entry = decode_entry(data) or self._read_slowly(raw, data, Position(LOG_NAME, position + 1, offset))
        if entry is None:
            self._note_broken(position, None)
            return None, identity
        public_key = self.keys.get(entry.key)
        if public_key is None:
            # The join step says "never enrolled"; without the key there is nothing to verify against.
            self.signatures[2] += 1
            self._note_unsound(position)
            self._count_use(entry, position)
            return entry, identity
        if position < self.vouched:
            self.signatures[2] += 1
            self._take_signed(entry, data, position)
            return entry, identity
        self.signatures[0] += 1
        try:
            check_signature(public_key, SIGN_PREFIX + data, sig)
        except LedgerError as error:
            self.signatures[1] += 1
            self._note_broken(position, entry.kind)
            place = Position(LOG_NAME, position + 1, offset, entry.index)
            self.result.findings.add(replace(error.finding, position=place))
        else:
            self._take_signed(entry, data, position)
        return entry, identity

    def _note_broken(self, position: int, kind: str | None) -> None:
        """A line that counts for nothing, of whatever kind where that cannot be told.

        One that is vouched for never was another, so that nothing behind it is open.
        """
        result = self.result
        if position < self.vouched:
            return
        self._note_unsound(position)
        if result.broken is None:
            result.broken = position
        if result.unsettled is None and (kind is None or kind in SPECIAL_KINDS):
            result.unsettled = position

    def _note_unsound(self, position: int) -> None:
        if self.result.unsound is None:
            self.result.unsound = position

    def _read_slowly(self, raw: bytes, data: bytes, where: Position) -> Any:
        """Let the explaining parser decide about what the fast one refused; report what it says."""
        inside = replace(where, byte_offset=(where.byte_offset or 0) + len(HEAD))
        try:
            check_not_glued(raw, where)
            return decode(data, inside)
        except LedgerError as error:
            self.schema[1] += 1
            self.result.findings.add(error.finding)
            return None

    def _count_link(self, found: list[Finding]) -> None:
        """Count one link and report what is wrong with it. An index or prev out of line fails it, a time does not."""
        self.chain[0] += 1
        self.chain[1] += any(finding.severity is Severity.ERROR for finding in found)
        for finding in found:
            self.result.findings.add(finding)

    def _count_use(self, entry: Any, position: int) -> None:
        """Remember who signed what kind where: whether the key was allowed to is for the joiner to say."""
        use = entry.key, entry.kind
        uses = self.result.uses.get(use)
        if uses is None:
            uses = self.result.uses[use] = array("Q")
        uses.append(position)

    def _take_signed(self, entry: Any, data: bytes, position: int) -> None:
        """Take in an entry whose signature is good, or need not be looked at."""
        self._count_use(entry, position)
        wrong = len(self.result.faulty)
        self._take(entry, data, position)
        if self.reader is not None and len(self.result.faulty) == wrong:
            self.reader.take(position - self.chunk.first_line, entry)

    def _take(self, entry: Any, data: bytes, position: int) -> None:
        """What follows from such an entry."""
        kind = entry.kind
        if kind in RECEIPTS:
            self._check_receipt(entry, data, position)
        elif kind in SPECIAL_KINDS:
            identity = sha256(data).hexdigest()
            self.result.special.append((position, identity, kind, entry.key, entry.body))
        else:
            self._collect(entry, data, position)

    def _check_receipt(self, entry: Any, data: bytes, position: int) -> None:
        kind, body = entry.kind, entry.body
        self.receipts[0] += 1
        if kind == "run" and is_attested(body):
            self.result.attested.append(read_attested(position, data))
        self._note(list(check_body(kind, data, body)), entry, position)

    def _note(self, faults: list[Fault], entry: Any, position: int) -> None:
        """Keep what is wrong with a body, and the artifacts that it names, which must hash right."""
        result = self.result
        if faults:
            result.faulty.append((position, entry.key, faults))
        for artifact in getattr(entry.body, "artifacts", ()):
            result.artifacts.append((position, entry.key, artifact.name, artifact.sha256, artifact.size))

    def _collect(self, entry: Any, data: bytes, position: int) -> None:
        """Keep what later steps need: the same, and entries that must exist."""
        kind, body = entry.kind, entry.body
        if kind == "import":
            self.result.imports.append(position)
            if body.attestation != "none":
                self.result.imported.append(position)
            self.receipts[0] += 1
        self._note(list(check_body(kind, data, body)), entry, position)
        for where in REFERENCES.get(kind, ()):
            value = getattr(body, where)
            for target in (value,) if isinstance(value, str) else value or ():
                self.result.references.append((position, kind, where, target))


def check_genesis(first: Any) -> Iterator[Finding]:
    """What is wrong with the first entry of a log, as far as its place in the chain goes."""
    place = Position(LOG_NAME, 1, 0, first.index)
    if first.kind != "genesis":
        yield Finding(
            Code.CHAIN_NO_GENESIS,
            "the log does not begin with its genesis entry: its beginning is missing",
            place,
            "a genesis entry with index 0",
            f"kind {first.kind}, index {first.index}",
        )
        return
    if first.index != 0:
        yield Finding(Code.CHAIN_INDEX, "the genesis entry is not entry 0", place, "index 0", f"index {first.index}")
    expected = genesis_prev(first.body.origin).hex()
    if first.prev != expected:
        yield Finding(
            Code.CHAIN_PREV,
            "the genesis entry's prev is not the hash of the origin line",
            place,
            f"prev {expected}",
            f"prev {first.prev}",
        )


def link_of(entry: Any, position: int, offset: int, identity: str | None) -> Link:
    """Where an entry stands in the chain."""
    return Link(position, offset, entry.index, entry.prev, entry.time, entry.kind, identity or "")


def follows(before: Any, identity: str, entry: Any) -> bool:
    """Whether :func:`link_faults` has nothing to say, asked of the entries themselves: this is asked of every line."""
    good: bool = (
        entry.prev == identity
        and entry.index == before.index + 1
        and entry.time >= before.time
        and entry.kind != "genesis"
    )
    return good


def link_faults(before: Link | None, identity: str, link: Link) -> Iterator[Finding]:
    """What is wrong between one line and the line in front of it (``identity`` is that line's)."""
    place = Position(LOG_NAME, link.position + 1, link.offset, link.index)
    if link.kind == "genesis":
        yield Finding(
            Code.CHAIN_SECOND_GENESIS,
            "another ledger begins here: only the first line is a genesis entry",
            place,
            found=f"genesis with index {link.index}",
        )
        return
    if link.identity == identity:
        yield Finding(Code.CHAIN_REPEATED, "the entry in front is repeated", place, found=f"index {link.index}")
        return
    if before is not None:
        if link.index == before.index and link.prev == before.prev:
            yield Finding(
                Code.CHAIN_FORK,
                "two entries continue the same entry: the log forked here",
                place,
                f"index {before.index + 1}",
                f"index {link.index}, prev {link.prev[:16]}…",
            )
            return
        if link.index != before.index + 1:
            yield Finding(
                Code.CHAIN_INDEX,
                "entries are missing in front of this one" if link.index > before.index + 1 else "entry out of order",
                place,
                f"index {before.index + 1}",
                f"index {link.index}",
            )
        if link.time < before.time:
            yield Finding(
                Code.CLAIMED_TIME,
                "the claimed time lies before that of the entry in front",
                place,
                f"not before {before.time}",
                link.time,
            )
    if link.prev != identity:
        yield Finding(
            Code.CHAIN_PREV,
            "the entry does not name the entry in front of it",
            place,
            f"prev {identity}",
            f"prev {link.prev}",
        )


def check_chunk(
    chunk: Chunk,
    marks: tuple[int, ...],
    keys: Mapping[str, bytes],
    start: Callable[[], ChunkReader] | None = None,
    vouched: int = 0,
) -> ChunkResult:
    """Check what can be checked about a chunk alone.

    Args:
        chunk: whole lines.
        marks: tree sizes at which signed heads need a root, ascending.
        keys: raw public key by key id: every key that any line up to and including this chunk enrols.
        start: makes a companion's reader, when one goes along.
        vouched: entries in front of this position are taken without a look at their signatures.
    """
    return _Worker(chunk, marks, keys, None if start is None else start(), vouched).run()
