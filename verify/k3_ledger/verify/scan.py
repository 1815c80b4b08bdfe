"""The one pass over a log's bytes: chunks go to workers, their results are joined in log order.

What a worker cannot know is settled here: the link across a chunk border, which keys exist by then, the tree.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from sys import intern
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.ledger.core.lines import until_junk
from k3_ledger.ledger.core.merkle import EMPTY_ROOT, CompactRange
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position, Severity
from k3_ledger.schemas.structs import decode_entry
from k3_ledger.verify.bodies import Bodies, Named, Naming
from k3_ledger.verify.chunks import Chunk, Chunker
from k3_ledger.verify.parallel import PARALLEL_BYTES, in_order
from k3_ledger.verify.report import STEPS, FindingLog, Head, Tally
from k3_ledger.verify.work import LOG_NAME, ChunkResult, Link, check_chunk, link_faults

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from k3_ledger.ledger.core.cosignature import Cosigned
    from k3_ledger.ledger.core.lines import Tail
    from k3_ledger.verify.along import ChunkReader, Companion
    from k3_ledger.verify.attested import Attested
    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.signers import Signers
    from k3_ledger.verify.source import LogSource
    from k3_ledger.verify.timestamps import ArtifactBound
    from k3_ledger.verify.witnesses import TimeBound

RESTS_ON_KEYS = frozenset(
    {
        Code.ENDORSER_UNKNOWN,
        Code.ENDORSEMENT_SIGNATURE,
        Code.ENDORSEMENT_STALE,
        Code.THRESHOLD_NOT_MET,
        Code.THRESHOLD_IMPOSSIBLE,
        Code.ROOTS_TOO_FEW,
        Code.KEY_UNKNOWN_TARGET,
        Code.REVOCATION_CIRCULAR,
    }
)
"""What is found about a sound root action as well, where another one in front of it could not be read."""
_KEY_MARKS = (b'"kind":"genesis"', b'"kind":"key"')


@dataclass(frozen=True, slots=True)
class ChunkMark:
    """Where a chunk stands and by what it is known again.

    Attributes:
        length: its length in bytes.
        offset: bytes in front of it.
        first_line: lines in front of it.
        tag: see :mod:`k3_ledger.verify.tags`.
    """

    length: int
    offset: int
    first_line: int
    tag: bytes


@dataclass(slots=True)
class Scan:
    """What one pass over the bytes found out.

    Attributes:
        findings, tallies: as in the report.
        keyring: keys and their uses.
        marks: every chunk with its tag.
        lines: whole lines seen.
        shaped: how many of them look like entry lines at all.
        tree: compact range over all lines.
        roots: tree root at each size a signed head commits to, as far as the log reaches.
        genesis: decoded genesis entry body, when line 0 is one and its signature verified.
        last: last line's entry and identity, where known.
        named: the artifacts that entries name.
        bodies: entries whose bodies are wrong by themselves.
        references: by target identity, (position, kind, body field) of the entries that name it.
        head: what state the verdict is about, set when the log or proof was read.
        attested: what step 13 needs of receipts that say they are attested.
        imports: positions of foreign receipts, and of other parts of a foreign log.
        imported: positions of foreign receipts that say so.
        tail: what stands after the last LF.
        bounds: by when entries existed according to witnesses, largest tree first.
        newest_size: size of the newest head, where it is a good one.
        obstructed: whether the newest head is there and cannot be read: what is asked of it is not checked.
        newest_cosigned: cosignatures by trusted witnesses on that head.
        good_heads: the log's own heads that held: signed by a log key, and with the root of these entries.
        disowned_heads: kept ones that a revocation took back.
        stamps: by when entries existed according to timestamp authorities, largest tree first.
        artifact_stamps: by when artifacts existed according to them, in log order, the first of them.
        missing: entries that could not be had, on a mirror that lacks some.
        damaged: lines of a proof file that were found to be wrong by themselves; what they touch is not reported again.
        source: what positions call the record: the log, or a proof file.
        interrupted: why the log could not be read to its end, if it could not: what is above is of its beginning.
        actions: lines of genesis and of root actions whose signature verified, by position, without their LF.
        enrolments: by the name of a remembered head, the lines that were kept with it, see :mod:`verify.vouched`.
        signers: the keyring's keys by key hash, once a head was looked at.
        unsettled: position of the first line that might have been a root action and does not count, as a finding says,
            because it is damaged; of a proof file, for whatever reason. What keys a later entry could rest on cannot be
            told then: it accuses nobody (:data:`RESTS_ON_KEYS`).
        broken: position of the first line of a log that cannot be read or whose signature is not good: what a later
            entry names may be that line.
        open_below: entries in front of this position may have been taken back by a root action that is not here: on a
            mirror that lacks some, and where the reading was interrupted. What they say accuses nobody then.
        unsound: position of the first line of a log that is no entry by a known key that verifies, or does not follow
            the one in front of it: from there on, what stands here shows that the log is damaged, and is no history
            that another one could contradict.
    """

    findings: FindingLog = field(default_factory=FindingLog)
    tallies: dict[str, Tally] = field(default_factory=lambda: {name: Tally() for name, _ in STEPS})
    keyring: Keyring = field(default_factory=Keyring)
    marks: list[ChunkMark] = field(default_factory=list)
    lines: int = 0
    shaped: int = 0
    tree: CompactRange = field(default_factory=CompactRange)
    roots: dict[int, bytes] = field(default_factory=lambda: {0: EMPTY_ROOT})
    genesis: Any = None
    last: Link | None = None
    last_identity: str | None = None
    named: Named = field(default_factory=Named)
    bodies: Bodies = field(default_factory=Bodies)
    references: dict[str, list[tuple[int, str, str]]] = field(default_factory=dict)
    head: Head | None = None
    attested: list[Attested] = field(default_factory=list)
    imports: array[int] = field(default_factory=lambda: array("Q"))
    imported: array[int] = field(default_factory=lambda: array("Q"))
    tail: Tail | None = None
    bounds: tuple[TimeBound, ...] = ()
    newest_size: int | None = None
    obstructed: bool = False
    newest_cosigned: tuple[Cosigned, ...] = ()
    good_heads: tuple[SignedHead, ...] = ()
    disowned_heads: list[SignedHead] = field(default_factory=list)
    stamps: tuple[TimeBound, ...] = ()
    artifact_stamps: tuple[ArtifactBound, ...] = ()
    missing: int = 0
    damaged: set[int] = field(default_factory=set)
    source: str = LOG_NAME
    interrupted: StoreError | None = None
    unsettled: int | None = None
    broken: int | None = None
    open_below: int = 0
    unsound: int | None = None
    actions: dict[int, bytes] = field(default_factory=dict)
    enrolments: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    signers: Signers | None = None

    def open_up(self, position: int) -> None:
        """Note that root actions may be missing up to ``position``: no entry behind it was read yet."""
        self.open_below = position
        self.bodies.leave_open()

    def unsettle(self, position: int) -> None:
        """Note that the line at ``position`` may have been a root action."""
        self.unsettled = position if self.unsettled is None else min(self.unsettled, position)

    def is_unsettled(self, position: int) -> bool:
        """Whether it cannot be told which keys count at ``position``."""
        return self.unsettled is not None and self.unsettled < position

    def settled(self, found: Iterable[Finding], position: int) -> list[Finding]:
        """What can be said of the root action at ``position``; the rest is counted as not checked, once."""
        all_found = list(found)
        kept = [one for one in all_found if one.code not in RESTS_ON_KEYS or not self.is_unsettled(position)]
        self.tallies["keys"].not_checked += len(kept) < len(all_found)
        return kept

    def standing(self, step: str, positions: Iterable[int]) -> list[int]:
        """Those of the positions whose entries count; the others are counted as disowned in that step."""
        disowned, listed = self.keyring.disowned(), list(positions)
        kept = [position for position in listed if position not in disowned]
        self.tallies[step].disowned += len(listed) - len(kept)
        return kept

    def place(self, index: int, field: str | None = None) -> Position:
        """Where an entry stands: in a log, that is also a line."""
        return Position(self.source, index + 1 if self.source == LOG_NAME else None, index=index, field=field)


def scan_log(
    source: LogSource,
    sizes: frozenset[int],
    *,
    processes: int,
    chunk_bytes: int,
    progress: Callable[[int], None] | None,
    findings: FindingLog,
    companion: Companion | None = None,
    cut: bool = False,
    vouched: int = 0,
) -> Scan:
    """Read the whole log once.

    Args:
        source: where the bytes come from.
        sizes: tree sizes at which a root is wanted.
        processes: worker processes; 1 does the work in this one.
        chunk_bytes: aimed-at size of a chunk in bytes.
        progress: called with the number of bytes read so far.
        findings: findings of steps that ran before.
        companion: who reads along, as long as nothing is wrong.
        cut: whether heads beside it show that there was a log, whatever stands there now.
        vouched: entries in front of this position are taken without a look at their signatures.

    Raises:
        MalformedError: it is no ledger (``NOT_A_LEDGER``, ``UTF16``), which shows before its end.
    """
    scan = Scan(findings=findings, bodies=Bodies(vouched=vouched))
    blocks = until_junk(_readable(source, scan), cut=cut, position=Position(source=source.name))
    is_large = source.size is not None and source.size >= PARALLEL_BYTES
    if source.size is None and processes > 1:
        blocks, is_large = _peek(blocks)
    chunker = Chunker(blocks, chunk_bytes=chunk_bytes)
    joiner = Joiner(scan, sizes, vouched)
    parallel = processes > 1 and is_large
    start = None if companion is None else companion.start
    results = _parallel(chunker, joiner, start, processes) if parallel else _serial(chunker, joiner, start)
    for chunk, result in results:
        joiner.join(chunk, result)
        if companion is not None and not scan.findings.spoil:
            companion.take(chunk.first_line, chunk.data, result.read)
        if progress is not None:
            progress(chunk.offset + len(chunk.data))
    scan.tail, scan.lines = chunker.tail, chunker.lines
    if scan.lines and scan.interrupted is None:
        scan.head = Head(scan.lines, scan.tree.root().hex(), scan.last_identity)
    return scan


def _readable(source: LogSource, scan: Scan) -> Iterator[bytes]:
    """The blocks of a log as far as they can be read: an obstruction hides nothing that stands in front of it."""
    try:
        yield from source.blocks()
    except StoreError as error:
        scan.interrupted = error


def _peek(blocks: Iterator[bytes]) -> tuple[Iterator[bytes], bool]:
    """The same blocks, and whether there are :data:`PARALLEL_BYTES` of them: that many are held at most."""
    held: list[bytes] = []
    size = 0
    while size < PARALLEL_BYTES and (block := next(blocks, None)) is not None:
        held.append(block)
        size += len(block)
    return chain(held, blocks), size >= PARALLEL_BYTES


def _serial(
    chunker: Chunker, joiner: Joiner, start: Callable[[], ChunkReader] | None
) -> Iterator[tuple[Chunk, ChunkResult]]:
    for chunk in chunker:
        joiner.enrol(chunk)
        yield chunk, check_chunk(chunk, joiner.sizes, joiner.keys, start, joiner.vouched)


def _parallel(
    chunker: Chunker, joiner: Joiner, start: Callable[[], ChunkReader] | None, processes: int
) -> Iterator[tuple[Chunk, ChunkResult]]:
    """Results in log order, from this process and ``processes - 1`` others."""

    def pieces() -> Iterator[tuple[Chunk, tuple[Any, ...]]]:
        for chunk in chunker:
            joiner.enrol(chunk)
            yield chunk, (chunk, joiner.sizes, dict(joiner.keys), start, joiner.vouched)

    return in_order(pieces(), check_chunk, processes)


class Joiner:
    """Joins chunk results in log order into a :class:`Scan`."""

    def __init__(self, scan: Scan, sizes: frozenset[int], vouched: int = 0) -> None:
        self.scan = scan
        self.vouched = vouched
        self.sizes = tuple(sorted(sizes))
        self.keys: dict[str, bytes] = {}

    def enrol(self, chunk: Chunk) -> None:
        """Collect public keys that lines of this chunk enrol, so that workers can verify what follows.

        Nothing is trusted by being collected: whether a key counts is decided by :class:`Keyring` afterwards.
        """
        for mark in _KEY_MARKS:
            at = chunk.data.find(mark)
            while at >= 0:
                start, end = chunk.data.rfind(b"\n", 0, at) + 1, chunk.data.find(b"\n", at)
                self._collect(chunk.data[start:end])
                at = chunk.data.find(mark, end)

    def _collect(self, raw: bytes) -> None:
        try:
            entry = decode_entry(parse_line(raw).entry)
        except LedgerError:
            return
        body = None if entry is None else entry.body
        text = getattr(body, "root_public_key", None) or getattr(body, "public_key", None)
        if text is not None:
            public_key = bytes.fromhex(text)
            self.keys[sha256(public_key).hexdigest()] = public_key

    def join(self, chunk: Chunk, result: ChunkResult) -> None:
        """Take the next chunk's result in."""
        scan = self.scan
        scan.marks.append(ChunkMark(len(chunk.data), chunk.offset, chunk.first_line, result.tag))
        scan.shaped += result.shaped
        scan.attested += result.attested
        scan.imports += result.imports
        scan.imported += result.imported
        for name, (checked, failed, not_checked) in result.counts.items():
            tally = scan.tallies[name]
            tally.checked += checked
            tally.failed += failed
            tally.not_checked += not_checked
        linked = self._join_chain(chunk, result)
        if scan.unsound is None:
            scan.unsound = result.unsound if linked else chunk.first_line
        scan.findings.merge(result.findings)
        self._join_tree(result)
        lines = chunk.data.split(b"\n") if result.special else []
        if result.unsettled is not None:
            scan.unsettle(result.unsettled)
        if scan.broken is None:
            scan.broken = result.broken
        for position, identity, kind, signer, body in result.special:
            scan.actions[position] = lines[position - chunk.first_line]
            self._apply_special(position, identity, kind, signer, body)
        for (key, kind), positions in result.uses.items():
            scan.keyring.used(key, kind, positions)
        for position, key, name, digest, size in result.artifacts:
            scan.named.note(digest, Naming(position, name, size, intern(key)))
        for position, key, faults in result.faulty:
            scan.bodies.note(key, position, faults)
        for position, kind, where, target in result.references:
            scan.references.setdefault(target, []).append((position, kind, where))

    def _join_chain(self, chunk: Chunk, result: ChunkResult) -> bool:
        """Step 3 across the border between two chunks; whether nothing is wrong there."""
        scan, tally = self.scan, self.scan.tallies["chain"]
        wrong = False
        if chunk.first_line == 0:
            pass  # the worker checked the first line of all
        elif result.first is None or scan.last_identity is None:
            tally.not_checked += 1
        else:
            tally.checked += 1
            found = list(link_faults(scan.last, scan.last_identity, result.first))
            wrong = any(finding.severity is Severity.ERROR for finding in found)
            tally.failed += wrong
            for finding in found:
                scan.findings.add(finding)
        scan.last, scan.last_identity = result.last, result.last_identity
        return not wrong

    def _join_tree(self, result: ChunkResult) -> None:
        scan = self.scan
        for part in result.ranges:
            scan.tree.extend(part)
            if scan.tree.end in self.sizes:
                scan.roots[scan.tree.end] = scan.tree.root()

    def _apply_special(self, position: int, identity: str, kind: str, signer: str, body: Any) -> None:
        scan = self.scan
        if kind == "genesis":
            if position:
                return  # reported by the chain step; a second genesis changes no key
            scan.genesis = body
            found = scan.keyring.apply_genesis(position, identity, body)
        else:
            found = scan.keyring.apply_action(position, identity, kind, signer, body)
        for finding in scan.settled(found, position):
            self.note_key_fault(
                replace(finding, position=replace(finding.position, source=LOG_NAME, line=position + 1))
            )

    def note_key_fault(self, finding: Finding) -> None:
        """A key entry that does not count."""
        self.scan.tallies["keys"].failed += finding.severity is Severity.ERROR
        self.scan.findings.add(finding)
