"""Verification of a consistency file: one signed head extends another, with no ledger at hand.

Steps are those of a proof file (:mod:`k3_ledger.verify.proof`) for the lines it carries and the newer head. Step 6 also
holds the older head to be the log's own, and the newer one to extend it. Cosignatures on either are checked in step 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core import consistency
from k3_ledger.ledger.core.ed25519 import check_implementation
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.coverage import check_size
from k3_ledger.verify.freshness import check_freshness
from k3_ledger.verify.head_faults import settled_faults
from k3_ledger.verify.heads import signed_head
from k3_ledger.verify.proof import check_head, check_lines, check_memory
from k3_ledger.verify.report import FindingLog, Report, VerificationError
from k3_ledger.verify.scan import Scan
from k3_ledger.verify.settle import check_demands, make_report
from k3_ledger.verify.witnesses import check_witnesses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.ledger.core.checkpoint import Checkpoint
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.freshness import Clock
    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.policy import TrustPolicy


@dataclass(frozen=True, slots=True)
class ConsistentHeads:
    """Two heads of one log, both signed by it, of which the newer one extends the older."""

    old: Checkpoint
    new: Checkpoint


def check_consistency_file(
    data: bytes,
    name: str,
    policy: TrustPolicy | None = None,
    expected_heads: tuple[tuple[str, bytes], ...] = (),
    *,
    clock: Clock | None = None,
    enrolments: Mapping[str, tuple[bytes, ...]] | None = None,
) -> Report:
    """Verify a consistency file and say everything that was found. Never raises because of the data.

    Args:
        data: the file's bytes.
        name: what to call it in positions.
        policy: whom to trust; None checks integrity and authenticates nobody.
        expected_heads: (name, note bytes) of heads seen earlier; one of neither size cannot be compared.
        clock: what the reader's clock says, for a policy that limits the age of the newer head.
        enrolments: by the name of an expected head, the lines that were kept with it.
    """
    check_implementation()
    scan = Scan(findings=FindingLog(), source=name)
    try:
        file = consistency.parse_consistency(data, position=Position(source=name))
    except LedgerError as error:
        scan.tallies["framing"].checked += 1
        scan.tallies["framing"].failed += 1
        scan.findings.add(error.finding)
        return make_report(name, policy, scan)
    check_lines(scan, name, file.proof, policy)
    heads, good = check_head(scan, name, file.proof)
    signed = good
    if heads:
        older = _check_older(scan, name, file, heads[0])
        signed = [*good, *older] if good else []
        check_witnesses(scan, [*heads, *older], signed, policy)
        check_size(scan, heads[0].checkpoint.size, policy)
        heads += older
        _say_what_is_missing(scan, heads[0].checkpoint.size - len(file.proof.entries))
    scan.newest_size = good[0].checkpoint.size if good else None
    check_freshness(scan, policy, clock)
    scan.enrolments = enrolments or {}
    check_memory(scan, expected_heads, heads, signed)
    check_demands(scan, policy, whole=False)
    return make_report(name, policy, scan)


def verify_consistency_file(data: bytes, name: str, policy: TrustPolicy | None = None) -> ConsistentHeads:
    """Verify a consistency file and return the two heads that it is about.

    Raises:
        VerificationError: any finding that asks for an exit code other than 0; the error carries the report.
    """
    report = check_consistency_file(data, name, policy)
    if report.exit_code:
        raise VerificationError(report)
    file = consistency.parse_consistency(data)
    return ConsistentHeads(signed_head(name, file.old).checkpoint, signed_head(name, file.proof.checkpoint).checkpoint)


def _say_what_is_missing(scan: Scan, entries: int) -> None:
    tally = scan.tallies["chain"]
    tally.not_checked = entries
    tally.detail = f"{entries} entries are in the tree of the newer head and not in the file"


def _check_older(scan: Scan, name: str, file: consistency.ConsistencyFile, newer: SignedHead) -> list[SignedHead]:
    """Step 6: the older head is signed by a log key of its time, and the newer one extends it."""
    tally = scan.tallies["checkpoint"]
    tally.checked += 1
    found: list[Finding] = []
    heads: list[SignedHead] = []
    try:
        older = signed_head(f"{name} old", file.old, newest=False)
        found += settled_faults(scan, older)
        consistency.check_heads(file, older.checkpoint, newer.checkpoint, position=Position(source=name))
    except LedgerError as error:
        found.append(error.finding)
    else:
        heads = [] if found else [older]
        tally.detail = f"the head of {newer.checkpoint.size} entries extends that of {older.checkpoint.size}"
    tally.failed += bool(found)
    for finding in found:
        scan.findings.add(finding)
    return heads
