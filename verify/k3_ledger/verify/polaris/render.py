"""A report as lines of plain text. Foreign text is shown with every control character escaped."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.printable import printable
from k3_ledger.verify.polaris.audit import BEYOND
from k3_ledger.verify.polaris.compare import Agreement
from k3_ledger.verify.polaris.crosscheck import Standing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.polaris.audit import AuditReport

WIDTH: Final = 118
"""Longest line of running text, in characters."""


def render(report: AuditReport, *, verbose: bool = False) -> Iterator[str]:
    """Lines of a report, without line ends.

    Args:
        report: what an audit found.
        verbose: show every finding and every field, not the first of each kind.
    """
    for line in _render(report, verbose=verbose):
        yield printable(line)


def _render(report: AuditReport, *, verbose: bool) -> Iterator[str]:
    yield "what is there"
    for name, count in report.inventory:
        yield f"  {count:>6}  {name}"
    yield from _hashes(report)
    yield from _quotes(report)
    yield ""
    yield "fields that two records share"
    for agreement, count in report.agreements:
        yield f"  {count:>6}  {agreement.value}"
    yield f"  {report.derived:>6}  figures recomputed from figures beside them"
    yield from _kinds(report, verbose=verbose)
    yield from _fields(report, verbose=verbose)
    if report.missing:
        yield ""
        yield "missing for a re-score (runs that lack it)"
        for name, count in report.missing:
            yield f"  {count:>6}  {name}"
    yield ""
    yield "not checked"
    for row in report.hashes:
        if row.not_checked:
            yield f"  {row.not_checked:>6}  {row.check.title}: {', '.join(text for text, _ in row.reasons)}"
    blank = dict(report.agreements)[Agreement.BLANK]
    if blank:
        yield f"  {blank:>6}  pairs of fields of which one is blank"
    for count, said in (
        (dict(report.agreements)[Agreement.NOT_COMPARED], "pairs of fields in words that cannot be compared"),
        (report.unread, "places of records at which nothing was read"),
        (report.unusable, "records that could not be read, or not whole"),
        (report.unproved, "advances of the frontier that name no run as proof"),
    ):
        if count:
            yield f"  {count:>6}  {said}"
    for text in BEYOND:
        yield f"       -  {text}"
    yield ""
    counts = dict.fromkeys(("error", "warning", "note"), 0)
    for finding in report.findings:
        counts[finding.severity.value] += 1
    counted = f"checked {report.checked}, failed {report.failed}, could not be checked {report.not_checked}"
    yield f"digests, fields and figures: {counted}"
    yield "findings: " + ", ".join(f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items())


def _hashes(report: AuditReport) -> Iterator[str]:
    if not report.hashes:
        return
    yield ""
    yield "digests and signatures"
    width = max(len(row.check.title) for row in report.hashes)
    yield f"  {'':<{width}}  verified  failed  not checked"
    for row in report.hashes:
        yield f"  {row.check.title:<{width}}  {row.passed:>8}  {row.failed:>6}  {row.not_checked:>11}"


def _quotes(report: AuditReport) -> Iterator[str]:
    if not report.attestation:
        return
    yield ""
    yield "where the quotes come from"
    yield from _wrapped(report.attestation, "  ")
    for text, count in report.quotes:
        yield from _wrapped(f"{count:>6}  {text}", "  ")
    if report.measured:
        yield "  registers of the genuine ones (pin what you know)"
        for register, value, count in report.measured:
            yield f"  {count:>6}  {register} {value}"


def _kinds(report: AuditReport, *, verbose: bool) -> Iterator[str]:
    if not report.kinds:
        return
    yield ""
    yield "findings by kind"
    shown = None
    for row in report.kinds:
        if row.trouble is not shown:
            shown = row.trouble
            yield f"  {shown.value}"
        where = f" in {row.runs} run{'s' * (row.runs > 1)}" if row.runs else ""
        yield f"    {row.count:>5}  {row.code.id}  {row.code.info.severity.value}: {row.code.info.title}{where}"
        found = [finding for finding in report.findings if finding.code is row.code] if verbose else [row.first]
        for finding in found:
            yield from _wrapped(_sentence(finding), "           ")
        yield from _wrapped(f"hint: {row.first.advice}", "           ")


def _sentence(finding: Finding) -> str:
    return f"{finding.message} ({finding.position})"


def _fields(report: AuditReport, *, verbose: bool) -> Iterator[str]:
    assert report.fields  # whatever makes a log of a directory has a name at least
    yield ""
    yield "what each field rests on (fields of each record, counted over all runs)"
    totals: dict[str, dict[Standing, int]] = {}
    for row in report.fields:
        for standing, count in row.standings:
            total = totals.setdefault(row.record.value, dict.fromkeys(Standing, 0))
            total[standing] += count
    columns = sorted(Standing, reverse=True)
    yield "  " + " " * 18 + "".join(f"{standing.name.lower():>11}" for standing in columns)
    for record, total in totals.items():
        yield f"  {record:<18}" + "".join(f"{total[standing]:>11}" for standing in columns)
    for standing in columns:
        yield f"    {standing.name.lower():<10}{standing.meaning}"
    yield "fields that nothing binds, by record"
    for record in totals:
        rows = [row for row in report.fields if row.record.value == record and not row.bound]
        if verbose:
            for row in rows:
                counts = ", ".join(f"{standing.name.lower()} {count}" for standing, count in row.standings)
                yield f"  {record} {row.path}: {counts}"
        elif rows:
            yield f"  {record} ({len(rows)})"
            yield from _wrapped(", ".join(row.path for row in rows), "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
