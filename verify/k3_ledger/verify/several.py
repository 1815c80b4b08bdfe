"""One report about several proof files that were checked apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.report import Report, StepResult, Tally
from k3_ledger.verify.settle import required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from k3_ledger.schemas.findings import Code, Finding
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.witnesses import TimeBound


def join_reports(subject: str, reports: Sequence[Report], policy: TrustPolicy | None) -> Report:
    """Add up the counts of at least one report, and hold the sum to what the policy requires.

    Args:
        subject: what they are about together.
        reports: made under ``policy`` without its requirements: a step may have nothing to check in one of them.
        policy: the whole policy.

    Raises:
        ValueError: there is no report.
    """
    if not reports:
        raise ValueError("there is no report to join")
    counts: dict[Code, int] = {}
    for report in reports:
        for code, count in report.counts.items():
            counts[code] = counts.get(code, 0) + count
    steps = tuple(_join(steps) for steps in zip(*(report.steps for report in reports), strict=True))
    findings = [finding for report in reports for finding in report.findings]
    for finding in _unmet(steps, policy):
        findings.append(finding)
        counts[finding.code] = counts.get(finding.code, 0) + 1
    return replace(
        reports[0],
        subject=subject,
        policy=reports[0].policy if policy is None else policy.sentence,
        policy_digest=reports[0].policy_digest if policy is None else policy.digest,
        authenticated=all(report.authenticated for report in reports),
        steps=steps,
        findings=tuple(findings),
        counts=counts,
        bounds=_earliest(bound for report in reports for bound in report.bounds),
        stamps=_earliest(bound for report in reports for bound in report.stamps),
        artifact_stamps=tuple(bound for report in reports for bound in report.artifact_stamps),
    )


def _unmet(steps: Iterable[StepResult], policy: TrustPolicy | None) -> Iterator[Finding]:
    """What the policy requires and the sum does not show."""
    for step in steps:
        if policy is not None and step.name in policy.require and step.outcome is Outcome.NOT_CHECKED:
            yield required(step.name, step)


def _earliest(bounds: Iterable[TimeBound]) -> tuple[TimeBound, ...]:
    """The earliest of the bounds for each size, largest size first."""
    by_size: dict[int, TimeBound] = {}
    for bound in sorted(bounds, key=lambda bound: bound.timestamp):
        by_size.setdefault(bound.size, bound)
    return tuple(bound for _, bound in sorted(by_size.items(), reverse=True))


def _join(steps: Sequence[StepResult]) -> StepResult:
    details = {step.detail: None for step in steps if step.detail}  # in order, each once
    tally = Tally(
        checked=sum(step.checked for step in steps),
        failed=sum(step.failed for step in steps),
        not_checked=sum(step.not_checked for step in steps),
        disowned=sum(step.disowned for step in steps),
        detail=next(iter(details), "") if len(details) < 2 else f"{next(iter(details))}, and alike",
    )
    return tally.result(steps[0].name)
