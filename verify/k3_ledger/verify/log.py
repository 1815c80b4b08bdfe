"""Verification of a whole log: the numbered steps of docs/verify.md, streaming, in flat memory.

What a verdict covers, and what the caller must still do: a log that verifies is exactly what its keys signed, in that
order. Whether the root key is the right one is the trust policy's to say; whether the log is complete, only a signed
head that somebody else remembers can show; whether a signed number is true, no signature can.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.ed25519 import check_implementation
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.lines import check_is_ledger, check_tail
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.artifacts import check_artifacts
from k3_ledger.verify.decode import decode
from k3_ledger.verify.heads import check_heads, read_heads, wanted_sizes
from k3_ledger.verify.policy import NO_POLICY_SENTENCE, TrustPolicy
from k3_ledger.verify.references import check_references
from k3_ledger.verify.report import FindingLog, Head, Report, VerificationError
from k3_ledger.verify.scan import ChunkMark, Scan, scan_log
from k3_ledger.verify.work import LOG_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from k3_ledger.verify.source import LogSource


@dataclass(frozen=True, slots=True)
class Options:
    """How to verify; none of these changes what a given check says, only which checks run and how fast.

    Attributes:
        processes: worker processes, at least 1.
        artifacts: whether to re-hash artifacts; when False they are counted as not checked.
        expected_heads: (name, note bytes) of heads seen earlier that this log must extend.
        progress: called with (bytes read so far) now and then.
        chunk_bytes: aimed-at chunk size in bytes.
    """

    processes: int = 1
    artifacts: bool = True
    expected_heads: tuple[tuple[str, bytes], ...] = ()
    progress: Callable[[int], None] | None = None
    chunk_bytes: int = 4 << 20

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
    entry: Any
    disowned: bool


class VerifiedLog:
    """A log whose every step passed or was allowed not to run. Only :func:`verify_log` makes one.

    Entries are read again when iterated; each chunk is compared with the digest it had when it was verified, so what
    is read is what was verified.
    """

    def __init__(
        self, source: LogSource, report: Report, marks: tuple[ChunkMark, ...], disowned: frozenset[int], token: object
    ) -> None:
        if token is not _TOKEN:
            raise TypeError("a VerifiedLog comes out of verify_log() only")
        self._source = source
        self._marks = marks
        self._disowned = disowned
        self.report = report

    def __iter__(self) -> Iterator[VerifiedEntry]:
        """Entries in log order.

        Raises:
            VerificationError: the source's bytes are no longer those that were verified.
        """
        position = 0
        for chunk in self._chunks():
            for raw in chunk.split(b"\n")[:-1]:
                data = parse_line(raw).entry
                yield VerifiedEntry(position, sha256(data).hexdigest(), decode(data), position in self._disowned)
                position += 1

    def _chunks(self) -> Iterator[bytes]:
        """The verified chunks, each checked against its digest."""
        blocks = self._source.blocks()
        held = b""
        for mark in self._marks:
            parts, have = [held], len(held)
            while have < mark.length and (block := next(blocks, None)) is not None:
                parts.append(block)
                have += len(block)
            held = b"".join(parts)
            data, held = held[: mark.length], held[mark.length :]
            if sha256(data).digest() != mark.digest:
                finding = Finding(
                    Code.CHANGED_WHILE_READ,
                    "the log is no longer the one that was verified",
                    Position(self._source.name, mark.first_line + 1, mark.offset),
                )
                raise VerificationError(
                    replace(self.report, findings=(finding,), counts={finding.code: 1})
                )
            yield data


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
        VerificationError: any finding that asks for an exit code other than 0; the error carries the report.
    """
    report, scan = _check(source, policy, options or Options())
    if report.exit_code:
        raise VerificationError(report)
    return VerifiedLog(source, report, tuple(scan.marks), scan.keyring.disowned(), _TOKEN)


def _check(source: LogSource, policy: TrustPolicy | None, options: Options) -> tuple[Report, Scan]:
    """The numbered steps (see :data:`k3_ledger.verify.report.STEPS`)."""
    check_implementation()
    findings = FindingLog()
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
        )
        if not scan.shaped:
            check_is_ledger(source.blocks(), position=Position(source=LOG_NAME))
        _check_end(scan)
        # 5 keys: lifetimes by position, roles, and the policy's root.
        _check_keys(scan, policy)
        # 6 checkpoint, 7 memory, 8 witnesses: what signed heads commit to.
        check_heads(scan, heads, policy)
        # 9 artifacts, re-hashed.
        check_artifacts(scan, source if options.artifacts else None)
        # 10 references between entries.
        check_references(scan, source)
        # 11 verdicts, 12 pins, 13 attestations are checked by other rooms: here they are counted, never passed.
        _count_unchecked(scan)
        _check_demands(scan, policy)
    except LedgerError as error:  # not a ledger at all, or the medium failed
        findings.add(error.finding)
    return _report(source, policy, scan), scan


def _check_end(scan: Scan) -> None:
    """The end of step 1: what stands after the last LF."""
    tally = scan.tallies["framing"]
    assert scan.tail is not None, "a finished scan has a tail"
    try:
        check_tail(scan.tail, source=LOG_NAME)
    except LedgerError as error:
        tally.failed += 1
        scan.findings.add(error.finding)


def _check_keys(scan: Scan, policy: TrustPolicy | None) -> None:
    """Step 5. Every use of a key lies within its life and role; genesis is opened by the key the auditor trusts."""
    tally = scan.tallies["keys"]
    tally.checked += sum(len(positions) for positions in scan.keyring.uses.values())
    for finding, more in scan.keyring.check_use():
        tally.failed += (more + 1) if finding.code.info.exit else 0
        place = replace(finding.position, source=LOG_NAME, line=(finding.position.index or 0) + 1)
        scan.findings.add_counted(replace(finding, position=place), more)
    if policy is None or not scan.lines:
        return
    place = Position(LOG_NAME, 1, 0, 0)
    if policy.root_public_key is not None:
        tally.checked += 1
        found = None if scan.genesis is None else scan.genesis.root_public_key
        if found != policy.root_public_key.hex():
            tally.failed += 1
            scan.findings.add(
                Finding(
                    Code.ROOT_NOT_TRUSTED,
                    "the log was not opened by the root key that the trust policy names",
                    place,
                    policy.root_public_key.hex(),
                    found or "no genesis entry with a good signature",
                )
            )
    if policy.origin is not None and scan.genesis is not None and scan.genesis.origin != policy.origin:
        tally.failed += 1
        scan.findings.add(
            Finding(
                Code.ORIGIN_NOT_TRUSTED,
                "the log gives itself another origin than the trust policy names",
                place,
                policy.origin,
                scan.genesis.origin,
            )
        )


def _count_unchecked(scan: Scan) -> None:
    """Steps 11 to 13 as far as this room goes: how many items wait for another room."""
    by_kind: dict[str, int] = {}
    for (_, kind), positions in scan.keyring.uses.items():
        by_kind[kind] = by_kind.get(kind, 0) + len(positions)
    for step, kind, owner in (
        ("verdicts", "verdict", "re-derived by the rescore command"),
        ("pins", "pin", "traced by the reconcile command"),
    ):
        count = by_kind.get(kind, 0)
        scan.tallies[step].not_checked += count
        scan.tallies[step].detail = f"{count} {kind} entries, {owner}" if count else f"no {kind} entries"
    attested = scan.attested
    scan.tallies["attestations"].not_checked += attested
    scan.tallies["attestations"].detail = (
        f"{attested} receipts carry an enclave quote; quotes are not checked by this version"
        if attested
        else "no enclave quotes"
    )


def _check_demands(scan: Scan, policy: TrustPolicy | None) -> None:
    """What the policy requires must have been checked; exit code 4 says that it was not."""
    if policy is None:
        return
    for name in policy.require:
        if not scan.tallies[name].passed:
            tally = scan.tallies[name]
            scan.findings.add(
                Finding(
                    Code.REQUIRED_NOT_CHECKED,
                    f"the trust policy requires the step {name!r}, which was not fully checked",
                    expected="every item checked",
                    found=f"{tally.checked} checked, {tally.not_checked} not checked",
                )
            )


def _report(source: LogSource, policy: TrustPolicy | None, scan: Scan) -> Report:
    return Report(
        subject=source.name,
        policy=NO_POLICY_SENTENCE if policy is None else policy.sentence,
        authenticated=(
            policy is not None
            and policy.root_public_key is not None
            and scan.genesis is not None
            and scan.genesis.root_public_key == policy.root_public_key.hex()
        ),
        origin=None if scan.genesis is None else scan.genesis.origin,
        head=Head(scan.lines, scan.tree.root().hex(), scan.last_identity) if scan.lines else None,
        steps=tuple(tally.result(name) for name, tally in scan.tallies.items()),
        findings=scan.findings.kept(),
        counts=dict(scan.findings.counts),
    )
