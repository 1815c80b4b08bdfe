"""Renders a verification report: plain lines, the same on a terminal (with colour) and in a file."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import typer

from k3_ledger.schemas.outcomes import ExitCode, Outcome, Severity
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.schemas.errors import LedgerError
    from k3_ledger.schemas.findings import Code
    from k3_ledger.verify.report import Report

SHOWN_PER_CODE = 3
"""Findings of one code that are spelled out for a reader; JSON has more of them."""
_MARK = {Outcome.PASS: "pass", Outcome.FAIL: "FAIL", Outcome.NOT_CHECKED: "not checked"}
_COLOUR = {
    Outcome.PASS: typer.colors.GREEN,
    Outcome.FAIL: typer.colors.RED,
    Outcome.NOT_CHECKED: typer.colors.YELLOW,
    Severity.ERROR: typer.colors.RED,
    Severity.WARNING: typer.colors.YELLOW,
    Severity.NOTE: typer.colors.CYAN,
}
_VERDICT = {
    ExitCode.VERIFIED: "verified",
    ExitCode.FALSE: "NOT VERIFIED",
    ExitCode.USAGE: "not verified: what the reader gave cannot be used",
    ExitCode.UNREADABLE: "unreadable",
    ExitCode.NOT_CHECKED: "not fully checked, and the trust policy requires it",
    ExitCode.TORN_TAIL: "torn tail; everything before it was checked",
}


def print_report(report: Report, *, as_json: bool, unkept: LedgerError | None = None) -> None:
    """Write the report to stdout.

    Args:
        report: what was found.
        as_json: as one JSON document.
        unkept: why what was to be remembered of it could not be, which is how the command ends where the log verified.
    """
    exit_code = report.exit_code
    if unkept is not None and exit_code is ExitCode.VERIFIED:
        exit_code = unkept.exit_code
    if as_json:
        said = report.as_dict() | {"exit_code": int(exit_code)}
        said["unkept"] = None if unkept is None else unkept.finding.as_dict()
        typer.echo(json.dumps(said, indent=2))
        return
    colour = _is_terminal()
    for line, key in _lines(report, exit_code):
        text = printable(line)
        typer.echo(typer.style(text, fg=_COLOUR[key]) if colour and key is not None else text)


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _lines(report: Report, ends: ExitCode) -> Iterator[tuple[str, Outcome | Severity | None]]:
    """(text, what decides its colour) of every line."""
    yield f"subject    {report.subject}", None
    yield f"origin     {report.origin or 'unknown'}", None
    if report.head is not None:
        yield f"head       {report.head.size} entries, root {report.head.root}", None
    for bound in (*report.bounds[:1], *report.stamps[:1]):
        yield f"existed    {bound.sentence}", None
    yield f"policy     {report.policy}", None
    if report.policy_digest is not None:
        yield f"policy id  {report.policy_digest}", None
    yield "", None
    for step in report.steps:
        counts = f"{step.checked} checked"
        if step.failed:
            counts += f", {step.failed} failed"
        if step.not_checked:
            counts += f", {step.not_checked} not checked"
        if step.disowned:
            counts += f", {step.disowned} disowned"
        if not (step.checked or step.not_checked or step.failed or step.disowned):
            counts = "nothing to check"
        detail = f"; {step.detail}" if step.detail else ""
        yield f"{step.number:>2} {step.name:<13}{_MARK[step.outcome]:<13}{counts}{detail}", step.outcome
    yield from _findings(report)
    yield "", None
    exit_code = report.exit_code
    verdict = Outcome.PASS if exit_code is ExitCode.VERIFIED else Outcome.FAIL
    unkept = "" if ends is exit_code else ", and could not be remembered"
    yield f"{_VERDICT[exit_code]}{unkept} (exit code {int(ends)})", verdict


def _findings(report: Report) -> Iterator[tuple[str, Severity | None]]:
    """The first findings of each code, and how many more there are."""
    shown: dict[Code, int] = {}
    for finding in report.findings:
        shown[finding.code] = shown.get(finding.code, 0) + 1
        if shown[finding.code] > SHOWN_PER_CODE:
            continue
        yield "", None
        place = str(finding.position)
        yield f"{finding.severity}: {place}: {finding.message} [{finding.code.id}]", finding.severity
        if finding.expected is not None:
            yield f"  expected: {finding.expected}", None
        if finding.found is not None:
            yield f"  found: {finding.found}", None
        yield f"  hint: {finding.advice}", None
        more = report.counts[finding.code] - SHOWN_PER_CODE
        if shown[finding.code] == SHOWN_PER_CODE and more > 0:
            yield f"  and {more} more of the same cause [{finding.code.id}]; --json spells out the first of them", None
    unspelled = sum(report.counts[code] - count for code, count in shown.items() if count < SHOWN_PER_CODE)
    if unspelled:
        yield "", None
        yield f"{unspelled} further findings of these codes are counted, not spelled out", None
