"""Verification of a whole log: the numbered steps of docs/verify.md, streaming, in flat memory.

What a verdict covers, and what the caller must still do: a log that verifies is exactly what its keys signed, in that
order. Whether the root key is the right one is the trust policy's to say; whether the log is complete, only a signed
head that somebody else remembers can show; whether a signed number is true, no signature can.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.ed25519 import check_implementation
from k3_ledger.ledger.core.framing import HEAD, TAIL_LEN, parse_line
from k3_ledger.ledger.core.keylife import FOREVER
from k3_ledger.ledger.core.lines import check_is_ledger, check_tail
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.again import Lines, Stretch, read_again
from k3_ledger.verify.artifacts import check_artifacts
from k3_ledger.verify.chunks import CHUNK_BYTES
from k3_ledger.verify.coverage import note_uncovered
from k3_ledger.verify.heads import check_heads, check_heads_within, read_heads, wanted_sizes
from k3_ledger.verify.references import check_references
from k3_ledger.verify.report import FindingLog, Report, VerificationError
from k3_ledger.verify.scan import ChunkMark, Scan, scan_log
from k3_ledger.verify.settle import (
    check_attested,
    check_demands,
    check_imports,
    check_keys,
    count_unchecked,
    make_report,
)
from k3_ledger.verify.source import RangeSource
from k3_ledger.verify.tail import advise_on_tail, forgery, is_remainder
from k3_ledger.verify.timestamps import check_timestamps
from k3_ledger.verify.witness_entries import check_witness_entries
from k3_ledger.verify.work import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from k3_ledger.schemas.structs import AnyEntryStruct
    from k3_ledger.verify.again import Piece
    from k3_ledger.verify.along import Companion
    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.heads import Heads
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.source import LogSource
    from k3_ledger.verify.timestamps import TokenReader


@dataclass(frozen=True, slots=True)
class Options:
    """How to verify; none of these changes what a given check says, only which checks run and how fast.

    Attributes:
        processes: worker processes, at least 1.
        artifacts: whether to re-hash artifacts; when False they are counted as not checked.
        expected_heads: (name, note bytes) of heads seen earlier that this log must extend.
        enrolments: by the name of an expected head, the lines that were kept with it (:attr:`Report.enrolments`).
        remember: whether the report is to hold what has to be kept with the newest head.
        clock: what the reader's clock says, for a policy that limits the age of the newest head.
        read_token: verifies timestamps; None leaves them unchecked.
        progress: called with (bytes read so far) now and then.
        chunk_bytes: aimed-at chunk size in bytes.
        companion: who reads the entries in the same pass.
        vouched: entries in front of this position are vouched for otherwise, by a head that the caller has compared
            with them and trusts: their signatures are counted as not checked, and what is false of them is reported,
            counted apart, and keeps nobody from reading on.
    """

    processes: int = 1
    artifacts: bool = True
    expected_heads: tuple[tuple[str, bytes], ...] = ()
    enrolments: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    remember: bool = False
    clock: Clock | None = None
    read_token: TokenReader | None = None
    progress: Callable[[int], None] | None = None
    chunk_bytes: int = CHUNK_BYTES
    companion: Companion | None = None
    vouched: int = 0

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ValueError(f"processes must be at least 1, got {self.processes}")


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    """An entry of a verified log.

    Attributes:
        index: its position.
        identity: SHA-256 of its entry bytes, hexadecimal.
        entry: the decoded struct (k3_ledger.schemas.structs).
        disowned: True when a later revocation took it back: it stands in the log and counts for nothing.
    """

    index: int
    identity: str
    entry: AnyEntryStruct
    disowned: bool


class VerifiedLog:
    """A log whose every step passed or was allowed not to run. Only :func:`verify_log` makes one.

    Entries are read again when iterated; each chunk is known again by the tag it was given when it was verified, so
    what is read is what was verified. Of entries in front of :attr:`vouched` only those are read that can be.
    """

    def __init__(
        self,
        source: LogSource,
        report: Report,
        marks: tuple[ChunkMark, ...],
        disowned: frozenset[int],
        token: object,
        *,
        vouched: int = 0,
    ) -> None:
        if token is not _TOKEN:
            raise TypeError("a VerifiedLog comes out of verify_log() only")
        self._source = source
        self._marks = marks
        self._disowned = disowned
        self.report = report
        self.vouched = vouched

    def __iter__(self) -> Iterator[VerifiedEntry]:
        """Entries in log order.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        position = 0
        for chunk in self._chunks():
            for raw in chunk.split(b"\n")[:-1]:
                if (entry := self._read(position, raw)) is not None:
                    yield entry
                position += 1

    @property
    def disowned(self) -> frozenset[int]:
        """Positions of entries that a later revocation took back: they stand in the log and count for nothing."""
        return self._disowned

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """(position of the first entry, whole lines) chunk by chunk: for readers that decode many lines at once.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        for mark, chunk in zip(self._marks, self._chunks(), strict=True):
            yield mark.first_line, chunk

    def pieces(self) -> Iterator[tuple[int, Piece]]:
        """The same for readers that work in several processes: each piece is to be read within :meth:`rereading`.

        Raises:
            VerificationError: as :meth:`chunks`, of a source that no other process can read.
        """
        if isinstance(self._source, RangeSource):
            name, reader = self._source.name, self._source.range_reader()
            yield from ((mark.first_line, Stretch(mark, name, reader)) for mark in self._marks)
        else:
            yield from ((first, Lines(chunk)) for first, chunk in self.chunks())

    @contextmanager
    def rereading(self) -> Iterator[None]:
        """Around whatever reads pieces: what turns out to be no longer what was verified says so.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        try:
            yield
        except StoreError as error:
            if error.code is not Code.CHANGED_WHILE_READ:
                raise
            finding = error.finding
            raise VerificationError(replace(self.report, findings=(finding,), counts={finding.code: 1})) from None

    @property
    def size(self) -> int:
        """Bytes of all entries."""
        return sum(mark.length for mark in self._marks)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(position, whole line without its LF) in log order.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        position = 0
        for chunk in self._chunks():
            for line in chunk.split(b"\n")[:-1]:
                yield position, line
                position += 1

    def select(self, *marks: bytes) -> Iterator[VerifiedEntry]:
        """Entries whose bytes hold one of ``marks``, such as ``b'"kind":"pin"'``, and that were not disowned.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        position = 0
        for chunk in self._chunks():
            if not any(mark in chunk for mark in marks):
                position += chunk.count(b"\n")
                continue
            for line in chunk.split(b"\n")[:-1]:
                wanted = any(mark in line for mark in marks) and position not in self._disowned
                if wanted and (entry := self._read(position, line)) is not None:
                    yield entry
                position += 1

    def entry(self, position: int, data: bytes) -> VerifiedEntry:
        """The decoded entry at ``position`` whose bytes :func:`entries_of` gave."""
        return read_entry(position, data, disowned=position in self._disowned)

    def _read(self, position: int, line: bytes) -> VerifiedEntry | None:
        """The entry of a line; None of one that is vouched for and cannot be read."""
        if position >= self.vouched:
            return self.entry(position, line[len(HEAD) : -TAIL_LEN])
        try:
            return self.entry(position, parse_line(line).entry)
        except LedgerError:
            return None

    def _chunks(self) -> Iterator[bytes]:
        """The verified chunks, each known again by its tag."""
        chunks = read_again(self._source, self._marks)
        while True:
            with self.rereading():
                found = next(chunks, None)
            if found is None:
                return
            yield found[1]


def entries_of(chunk: bytes) -> list[bytes]:
    """Entry bytes of the lines of a verified chunk."""
    return [line[len(HEAD) : -TAIL_LEN] for line in chunk.split(b"\n")[:-1]]


def read_entry(position: int, data: bytes, *, disowned: bool = False) -> VerifiedEntry:
    """The decoded entry at ``position``, from entry bytes that verification has seen."""
    return VerifiedEntry(position, sha256(data).hexdigest(), decode(data), disowned)


_TOKEN = object()


def check_log(source: LogSource, policy: TrustPolicy | None = None, options: Options | None = None) -> Report:
    """Verify a log and say everything that was found. Never raises because of the data.

    Args:
        source: where the bytes come from.
        policy: whom to trust and what to demand; None checks integrity and authenticates nobody.
        options: processes, artifacts, progress.
    """
    return _check(source, policy, options or Options())[0]


def verify_log(source: LogSource, policy: TrustPolicy | None = None, options: Options | None = None) -> VerifiedLog:
    """Verify a log and return it as a verified object.

    Raises:
        VerificationError: any finding that asks for an exit code other than 0 and is not certainly of an entry that
            ``options`` vouches for; the error carries the report.
    """
    options = options or Options()
    report, scan = _check(source, policy, options)
    if report.uncovered:
        raise VerificationError(report)
    log = VerifiedLog(source, report, tuple(scan.marks), scan.keyring.disowned(), _TOKEN, vouched=options.vouched)
    if options.companion is not None:
        options.companion.verified(log)
    return log


def _check(source: LogSource, policy: TrustPolicy | None, options: Options) -> tuple[Report, Scan]:
    """The numbered steps (see :data:`k3_ledger.verify.report.STEPS`)."""
    check_implementation()
    findings = FindingLog(vouched=options.vouched)
    scan = Scan(findings=findings)
    try:
        heads = read_heads(source, options.expected_heads, findings)
        # 1 framing, 2 schema, 3 chain, 4 signatures and the self-contained part of 10: one pass over the bytes.
        scan = scan_log(
            source,
            wanted_sizes(heads),
            processes=options.processes,
            chunk_bytes=options.chunk_bytes,
            progress=options.progress,
            findings=findings,
            companion=options.companion,
            cut=heads.there,
            vouched=options.vouched,
        )
        scan.enrolments = options.enrolments
        if scan.interrupted is not None:
            _check_beginning(scan, source, heads, policy, options)
            raise scan.interrupted
        if not scan.shaped:
            _refuse_what_is_no_ledger(source, scan, heads)
        _check_end(scan)
        # 5 keys: lifetimes by position, roles, and the policy's root.
        check_keys(scan, policy)
        scan.bodies.settle(scan)  # of what was taken back nothing is held against anybody
        # 6 checkpoint, 7 memory, 8 witnesses: what signed heads commit to.
        check_heads(scan, heads, policy, options.clock)
        check_witness_entries(scan, source, policy)
        advise_on_tail(scan, heads)
        # 9 artifacts, re-hashed.
        check_artifacts(scan, source if options.artifacts else None)
        # 10 references between entries.
        check_references(scan, source)
        check_imports(scan, source if options.artifacts else None)
        # 11 verdicts, 12 pins are checked by another room: here they are counted, never passed.
        count_unchecked(scan)
        # 13 attestations, with the auditor's certificates.
        check_attested(scan, source, policy, artifacts=options.artifacts)
        # 14 timestamps: by when the heads existed.
        check_timestamps(scan, source, policy, options.read_token)
        check_demands(scan, policy)
        note_uncovered(scan)
    except LedgerError as error:  # not a ledger at all, or the medium failed
        if error.code in (Code.NOT_A_LEDGER, Code.UTF16):  # then whatever its lines are is no finding
            findings.clear()
            scan.head = None
        findings.add(error.finding)
    return _remembering(scan, make_report(source.name, policy, scan), options), scan


def _check_beginning(scan: Scan, source: LogSource, heads: Heads, policy: TrustPolicy | None, options: Options) -> None:
    """What an interrupted reading left: what is false in it is false, whatever stands behind it.

    What depends on the rest is not checked: larger heads, coverage, the log's end, what entries refer to, and what they
    say, for it may have been taken back. Where no entry was read, nothing is.
    """
    if not scan.shaped:
        scan.findings.clear()
        return
    scan.open_up(FOREVER)
    check_keys(scan, policy)
    scan.bodies.settle(scan)
    check_heads_within(scan, heads)
    check_artifacts(scan, source if options.artifacts else None)
    check_imports(scan, None)
    count_unchecked(scan)
    # Which heads hold is open, so tokens bound nothing: they are looked at for what is wrong with themselves.
    scan.good_heads = tuple(head for head in heads.heads if head.step == "checkpoint")
    check_timestamps(scan, source, policy, options.read_token, ())
    scan.good_heads = scan.stamps = ()
    scan.tallies["timestamps"].detail = ""


def _remembering(scan: Scan, report: Report, options: Options) -> Report:
    """The report, with what has to be kept with its newest head where that is asked for and nothing is wrong."""
    newest = next((head for head in scan.good_heads if head.newest), None)
    if not options.remember or newest is None or report.exit_code:
        return report
    from k3_ledger.verify.vouched import enrolments_of  # noqa: PLC0415 - only where a head is remembered

    return replace(report, enrolments=enrolments_of(scan, newest.raw))


def _refuse_what_is_no_ledger(source: LogSource, scan: Scan, heads: Heads) -> None:
    """Where no line looks like an entry, that is the only thing to say: whatever the lines are is no finding.

    Where heads stand beside what a cut leaves of a log, which may be nothing at all, there was one: then it is checked
    like any other log whose end is gone, wherever the cut fell.

    Raises:
        MalformedError: the cause.
    """
    try:
        check_is_ledger(source.blocks(), position=Position(source=source.name))
    except LedgerError as error:
        if heads.there and is_remainder(scan):
            if error.code is Code.EMPTY_LEDGER:
                scan.tallies["framing"].failed += 1
                scan.findings.add(error.finding)
            return
        scan.findings.clear()
        raise


def _check_end(scan: Scan) -> None:
    """The end of step 1: what stands after the last LF."""
    tally = scan.tallies["framing"]
    assert scan.tail is not None, "a finished scan has a tail"
    try:
        check_tail(scan.tail, source=LOG_NAME)
    except LedgerError as error:
        tally.failed += 1
        for finding in forgery(scan) or [error.finding]:
            scan.findings.add(finding)
