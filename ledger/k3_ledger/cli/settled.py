"""A log with everything settled that ``verify`` settles, for every command that says "verified" or builds on that."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k3_ledger.verify.log import Options, VerifiedLog
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.report import Report
    from k3_ledger.verify.source import LogSource


def settle(log: VerifiedLog, policy: TrustPolicy | None = None) -> Report:
    """The log's report once the room that judges has gone through it, where anything waits for that room.

    Args:
        log: verified under ``policy`` without what it requires of the steps of that room.
        policy: what is required in full.
    """
    from k3_ledger.schemas.envelope import JUDGED_KINDS

    waiting = any(step.name in JUDGED_KINDS and step.not_checked for step in log.report.steps)
    if not waiting and (policy is None or policy.require.isdisjoint(JUDGED_KINDS)):
        return log.report
    from k3_ledger.rescore.judgements import settle_judgements

    return settle_judgements(log, policy)


def unsettled(policy: TrustPolicy | None) -> TrustPolicy | None:
    """A policy without what it requires of the steps of the room that judges, for the pass in front of it."""
    from k3_ledger.schemas.envelope import JUDGED_KINDS

    return None if policy is None else replace(policy, require=policy.require - JUDGED_KINDS.keys())


def verify_settled(
    source: LogSource, policy: TrustPolicy | None = None, options: Options | None = None
) -> tuple[VerifiedLog, Report]:
    """Verify a log, derive its verdicts again and trace its pins.

    Returns:
        The log, and the report with every step settled; nothing in it asks for an exit code but 0, unless it is of an
        entry that ``options`` vouches for.

    Raises:
        VerificationError: something does; the error carries the report.
    """
    from k3_ledger.verify.log import verify_log
    from k3_ledger.verify.report import VerificationError

    log = verify_log(source, unsettled(policy), options)
    report = settle(log, policy)
    if report.uncovered:
        raise VerificationError(report)
    return log, report
