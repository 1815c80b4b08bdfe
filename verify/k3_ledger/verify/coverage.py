"""How much of a log its signed heads cover, and whether the policy and what is remembered are content with that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Tally
    from k3_ledger.verify.scan import Scan


def report_behind(scan: Scan, signed: int, remembered: int) -> None:
    """Say so when the largest head that the log signed is older than the remembered one, which the log does extend.

    Whether its root is that of these lines is another question.
    """
    if signed >= remembered or scan.obstructed:
        return
    scan.findings.add(
        Finding(
            Code.CHECKPOINT_BEHIND,
            "the log shows an older signed head than the one that was remembered",
            Position(source="checkpoint"),
            f"a head of at least {remembered} entries",
            f"a head of {signed} entries" if signed else "no good head",
        )
    )


def report_coverage(scan: Scan, tally: Tally, covered: int, policy: TrustPolicy | None) -> None:
    """Say how much of the log the largest good head covers, and whether the policy is content with that."""
    beyond = scan.lines - covered
    if not covered:
        tally.not_checked += 1
        tally.detail = "no good checkpoint: that the log is complete cannot be shown"
    elif beyond:
        tally.not_checked += beyond
        tally.detail = f"signed head at {covered}, {beyond} uncheckpointed"
        scan.findings.add(
            Finding(
                Code.UNCHECKPOINTED,
                f"{beyond} uncheckpointed: no signed head commits to the entries from {covered} on",
                Position(index=covered),
            )
        )
    else:
        tally.detail = f"signed head at {covered} covers every entry"
    check_size(scan, covered, policy)


def note_uncovered(scan: Scan) -> None:
    """Say of a log that looks whole, and to which no signed head commits, that nothing shows that it is.

    To be called last: what was found false does not look whole.
    """
    if scan.good_heads or scan.findings.spoil:
        return
    scan.findings.add(
        Finding(
            Code.UNCHECKPOINTED,
            "all uncheckpointed: no signed head commits to any entry, and a log that was cut between two lines looks "
            "whole",
            Position(index=0),
        )
    )


def check_size(scan: Scan, covered: int, policy: TrustPolicy | None) -> None:
    """The policy's smallest acceptable signed head."""
    if policy is not None and covered < policy.minimum_size:
        if scan.obstructed and scan.lines >= policy.minimum_size:  # what it says nobody knows, as was said
            scan.tallies["checkpoint"].not_checked += 1
            return
        explained = not covered and (scan.tallies["checkpoint"].failed > 0 or scan.genesis is None)
        scan.tallies["checkpoint"].failed += 1
        if explained:  # there is a head, and what is wrong with it, or with the genesis entry, was said
            return
        scan.findings.add(
            Finding(
                Code.HEAD_TOO_SMALL,
                "the signed head is smaller than the trust policy accepts",
                Position(source="checkpoint"),
                f"at least {policy.minimum_size}",
                str(covered) if covered else "no good head",
            )
        )
