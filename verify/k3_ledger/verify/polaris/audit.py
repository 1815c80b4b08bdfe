"""The audit of a foreign run log: every check of this room, run over one directory, in one report.

:func:`audit` promises that everything it says was computed from the bytes it was given, that what it did not check is
listed and counted, and that it raises nothing but a :class:`~k3_ledger.schemas.errors.LedgerError`, and that only for
what is no run log at all. Where a quote comes from it verifies only with certificates that the caller holds, it has no
repository to look commits up in, and it re-derives no tier: rules are the rescore room's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode, Outcome, Severity
from k3_ledger.verify.polaris.advances import check_advances
from k3_ledger.verify.polaris.compare import OPEN, Agreement
from k3_ledger.verify.polaris.crosscheck import CrossChecks, Standing, check_copy, check_printed, check_run
from k3_ledger.verify.polaris.derived import check_derived
from k3_ledger.verify.polaris.folders import view
from k3_ledger.verify.polaris.foreign_json import number_of, show
from k3_ledger.verify.polaris.hashes import Check, Record, RunHashes, check_tdx
from k3_ledger.verify.polaris.identity import check_identity
from k3_ledger.verify.polaris.kinds import Trouble, trouble
from k3_ledger.verify.polaris.listing import check_listing
from k3_ledger.verify.polaris.lost import check_lost, usual_checks
from k3_ledger.verify.polaris.meanings import check_meanings
from k3_ledger.verify.polaris.origin import open_origin
from k3_ledger.verify.polaris.parse import INDEX, LEDGER, parse_log, unread_places
from k3_ledger.verify.polaris.possible import check_possible
from k3_ledger.verify.polaris.provenance import check_clock, check_provenance, missing_for_rescore, timed_metrics
from k3_ledger.verify.polaris.rounds import check_rounds
from k3_ledger.verify.polaris.signed import check_signed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from k3_ledger.schemas.outcomes import Position
    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.polaris.facts import RunFacts
    from k3_ledger.verify.polaris.origin import Origin
    from k3_ledger.verify.polaris.parse import Files, Run, RunLog

VERSION: Final = 1
"""The one version of receipts that is known."""
BEYOND: Final = (
    "that the commits named exist, and that what ran was built from them: no repository, no binaries",
    "that the weights have the digests named: no weights",
    "that the tiers follow from a rule: no rule is applied here",
    "who wrote the ledger, the index and the log texts: nothing signs them",
)
"""What no directory of this kind can show."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Choices of the caller.

    Attributes:
        public_keys: raw Ed25519 keys of signers that the caller trusts; without any, a signature shows integrity only.
        attestation: whose certificates count for quotes, at what time, and what is acceptable; None leaves where a
            quote comes from unchecked.
        closed: what is in the directory and was not opened, and so is not in its contents: path, and what it is.
    """

    public_keys: tuple[bytes, ...] = ()
    attestation: AttestationPolicy | None = None
    closed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HashRow:
    """One row of the table of digests.

    Attributes:
        verified_as: how those that came out did, where there is more than one way, with counts.
        reasons: why those that were not checked were not, with counts.
    """

    check: Check
    passed: int
    failed: int
    not_checked: int
    verified_as: tuple[tuple[str, int], ...]
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class KindRow:
    """One kind of finding: its code, how often it was found, in how many runs, and the first."""

    code: Code
    trouble: Trouble
    count: int
    runs: int
    first: Finding


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field over all runs: how often it rests on what."""

    record: Record
    path: str
    standings: tuple[tuple[Standing, int], ...]

    @property
    def bound(self) -> bool:
        """Whether a verified digest or signature covers it wherever it stands."""
        return all(standing is Standing.BOUND for standing, _ in self.standings)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Everything that an audit found.

    Attributes:
        inventory: what the directory holds, as name and count.
        hashes: the table of digests.
        agreements: pairs of fields compared, by how they relate.
        derived: figures recomputed from figures beside them.
        findings: every finding, errors first, in the order of the checks.
        kinds: findings by kind.
        fields: every field and what it rests on.
        missing: what a re-score would need and how many runs lack it.
        by_run: codes of the findings at each run's records.
        attestation: how quotes were checked, in words; empty where they were not.
        quotes: what became of quotes, with counts.
        measured: registers of genuine quotes and their values, with counts.
        unusable: records other than receipts of which nothing, or not all, could be read.
    """

    inventory: tuple[tuple[str, int], ...]
    hashes: tuple[HashRow, ...]
    agreements: tuple[tuple[Agreement, int], ...]
    derived: int
    findings: tuple[Finding, ...]
    kinds: tuple[KindRow, ...]
    fields: tuple[FieldRow, ...]
    missing: tuple[tuple[str, int], ...]
    by_run: dict[str, tuple[Code, ...]] = field(repr=False)
    attestation: str = ""
    quotes: tuple[tuple[str, int], ...] = ()
    measured: tuple[tuple[str, str, int], ...] = ()
    unusable: int = 0

    @property
    def checked(self) -> int:
        """Digests recomputed, fields compared and figures derived."""
        pairs = sum(count for agreement, count in self.agreements if agreement not in OPEN)
        return sum(row.passed + row.failed for row in self.hashes) + pairs + self.derived

    @property
    def failed(self) -> int:
        """How many of these did not come out."""
        pairs = sum(count for agreement, count in self.agreements if agreement is Agreement.DIFFER)
        figures = sum(finding.code is Code.FOREIGN_DERIVED for finding in self.findings)
        return sum(row.failed for row in self.hashes) + pairs + figures

    @property
    def not_checked(self) -> int:
        """Digests that could not be recomputed, pairs that cannot be compared, and what was held against nothing."""
        pairs = sum(count for agreement, count in self.agreements if agreement in OPEN)
        return sum(row.not_checked for row in self.hashes) + pairs + self.unread + self.unproved + self.unusable

    @property
    def unread(self) -> int:
        """Places of records at which nothing was read."""
        return sum(finding.code is Code.FOREIGN_NOT_READ for finding in self.findings)

    @property
    def unproved(self) -> int:
        """Advances of the frontier that name no run as proof."""
        return sum(finding.code is Code.FOREIGN_ADVANCE_UNPROVED for finding in self.findings)

    @property
    def exit_code(self) -> ExitCode:
        """1 when anything is contradicted, fails or cannot be read; 4 when a record was not checked; else 0."""
        if any(finding.severity is Severity.ERROR for finding in self.findings):
            return ExitCode.FALSE
        open_ = any(finding.code.info.exit is ExitCode.NOT_CHECKED for finding in self.findings)
        return ExitCode.NOT_CHECKED if open_ else ExitCode.VERIFIED

    def as_dict(self) -> dict[str, object]:
        """JSON form of the report (``--json``)."""
        return {
            "schema": "k3-ledger/audit/1",
            "format": "polaris/1",
            "exit_code": int(self.exit_code),
            "counts": {"checked": self.checked, "failed": self.failed, "not_checked": self.not_checked},
            "inventory": dict(self.inventory),
            "hashes": [
                {
                    "field": row.check.title,
                    "covers": row.check.covers,
                    "verified": row.passed,
                    "failed": row.failed,
                    "not_checked": row.not_checked,
                    "verified_as": dict(row.verified_as),
                    "not_checked_because": dict(row.reasons),
                }
                for row in self.hashes
            ],
            "comparisons": {agreement.value: count for agreement, count in self.agreements},
            "derived": self.derived,
            "kinds": [
                {
                    "code": row.code.id,
                    "class": row.trouble.value,
                    "severity": row.code.info.severity.value,
                    "title": row.code.info.title,
                    "hint": row.first.advice,
                    "count": row.count,
                    "runs": row.runs,
                }
                for row in self.kinds
            ],
            "findings": [finding.as_dict() for finding in self.findings],
            "fields": [
                {"record": row.record.value, "path": row.path}
                | {standing.name.lower(): count for standing, count in row.standings}
                for row in self.fields
            ],
            "missing_for_rescore": dict(self.missing),
            "attestation": {
                "policy": self.attestation,
                "quotes": dict(self.quotes),
                "measurements": [
                    {"register": register, "value": value, "quotes": count} for register, value, count in self.measured
                ],
            },
            "beyond_this_audit": list(BEYOND),
        }


def audit(files: Files, options: AuditOptions | None = None) -> AuditReport:
    """Audit a run log.

    Args:
        files: the directory's contents.
        options: choices of the caller.

    Raises:
        MalformedError: with ``K3L-NOT-A-RUN-LOG`` when nothing in ``files`` has the shape of a run log.
        PolicyError: the trust directory of ``options.attestation`` holds what is no certificate.
    """
    log = parse_log(files)
    options = options or AuditOptions()
    origin = None if options.attestation is None else open_origin(options.attestation)
    facts = view(log)
    findings = [*log.problems, *unread_places(options.closed, log.others)]
    cross = CrossChecks()
    hashes = _hashes(log, options.public_keys, origin)
    for run, found in zip(facts, hashes, strict=True):
        findings.extend(found.findings)
        check_run(run, found, cross)
        cross.findings.extend((*check_printed(run), *check_copy(run)))
    findings.extend(cross.findings)
    derived = check_derived(log)
    advances = [*check_advances(log, facts, derived, cross)]
    findings.extend(derived.findings)
    findings.extend(check_possible(log))
    timed = timed_metrics(log)
    for run in facts:
        findings.extend(check_provenance(run))
        findings.extend(check_clock(run, timed))
    findings.extend(_enclaves(hashes))
    findings.extend(check_listing(log))
    findings.extend(advances)
    findings.extend(check_identity(facts))
    findings.extend(check_meanings(log, facts))
    findings.extend(check_rounds(log, facts))
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    runs_of = _RunsOf(log)
    by_run: dict[str, set[Code]] = {run.run_id: set() for run in log.runs}
    for finding in findings:
        by_run.get(runs_of(finding.position), set()).add(finding.code)
    return AuditReport(
        inventory=_inventory(log, hashes, len(options.closed)),
        hashes=_table(hashes),
        agreements=tuple((agreement, cross.agreements[agreement]) for agreement in Agreement),
        derived=derived.checked,
        findings=tuple(findings),
        kinds=_kinds(findings, runs_of),
        fields=tuple(
            FieldRow(record, path, tuple(sorted(counts.items())))
            for (record, path), counts in sorted(cross.standings.items(), key=lambda item: _field_order(item[0]))
        ),
        missing=_missing(facts),
        by_run={name: tuple(sorted(codes, key=lambda code: code.id)) for name, codes in by_run.items()},
        attestation="" if origin is None else origin.sentence,
        quotes=() if origin is None else tuple(sorted(origin.statuses.items())),
        measured=() if origin is None else tuple((*name, count) for name, count in sorted(origin.measured.items())),
        unusable=len(log.unusable),
    )


def _hashes(log: RunLog, public_keys: tuple[bytes, ...], origin: Origin | None) -> list[RunHashes]:
    """What became of every run's digests, those of receipts that are lost included."""
    hashes = [check_receipt(run, public_keys, origin) for run in log.runs]
    checks = usual_checks(hashes)
    for found in hashes:
        if not found.forms:
            check_lost(found, checks)
    return hashes


def check_receipt(run: Run, public_keys: tuple[bytes, ...], origin: Origin | None = None) -> RunHashes:
    """Recompute everything that a run's receipt states: the form it has decides, not the form it says it has."""
    receipt = run.receipt
    if receipt is None:
        return RunHashes(run)
    keys = receipt.object.keys()
    out = RunHashes(run)
    parts = []
    if "tdx" in keys or receipt.text("attestation_type") == "tdx-quote":
        out.forms.add("tdx")
        parts.append(check_tdx(run, receipt, origin))
    if keys & {"signature", "public_key"}:
        out.forms.add("ed25519")
        parts.append(check_signed(run, receipt, public_keys))
    version = receipt.leaf("polaris_version")
    stated = None if version is None else version.value
    if version is not None and stated is not None and getattr(number_of(stated), "value", None) != VERSION:
        message = f"{run.run_id}: the receipt is of version {show(stated)[:40]}, read as one of version {VERSION}"
        out.report(Code.FOREIGN_VERSION, message, version.position, expected=str(VERSION), found=show(stated)[:40])
    for part in parts:
        out.results += part.results
        out.bound += part.bound
        out.findings += part.findings
        out.quote = part.quote or out.quote
    if not isinstance(receipt.object.get("attestation"), dict) or not receipt.object["attestation"]:
        message = f"{run.run_id}: the receipt has no attestation"
        out.report(Code.FOREIGN_SHAPE, message, receipt.at("attestation"), expected="an object with what is attested")
    if not parts:
        message = f"{run.run_id}: the receipt has neither a quote nor a signature"
        out.report(Code.FOREIGN_SHAPE, message, receipt.position)
    return out


def _enclaves(hashes: list[RunHashes]) -> Iterator[Finding]:
    """Quotes, in order of time, whose measurements are not those of the quote before."""
    quoted = [(found, found.quote) for found in hashes if found.quote is not None]
    for (_, before), (found, after) in pairwise(quoted):
        names = [name for name in ("mrtd", "mrseam", "rtmr") if getattr(before, name) != getattr(after, name)]
        if names and found.run.receipt is not None:
            message = f"{found.run.run_id}: {' and '.join(names)} are not those of the quote before"
            yield Finding(Code.FOREIGN_ENCLAVE_CHANGED, message, found.run.receipt.at("tdx.quote_b64"))


class _RunsOf:
    """Finds the run at whose records a finding stands; an empty name for none."""

    def __init__(self, log: RunLog) -> None:
        self._rows = {
            source: [(row.position.byte_offset or 0, len(row.raw), log.run_of(row)) for row in rows]
            for source, rows in ((LEDGER, log.ledger), (INDEX, log.index))
        }

    def __call__(self, position: Position) -> str:
        source = position.source or ""
        if source not in self._rows:
            top, _, rest = source.partition("/")
            return rest.partition("/")[0] if top == "runs" else ""
        at = position.byte_offset or 0
        rows = self._rows[source]
        found = bisect_right(rows, at, key=lambda row: row[0]) - 1
        return rows[found][2] if found >= 0 and at < rows[found][0] + rows[found][1] else ""


def _field_order(key: tuple[Record, str]) -> tuple[int, str]:
    return list(Record).index(key[0]), key[1]


def _inventory(log: RunLog, hashes: list[RunHashes], closed: int) -> tuple[tuple[str, int], ...]:
    runs = [run for run in log.runs if run.files]
    forms = [found.forms for found in hashes if found.run.receipt is not None]
    quotes = [found.quote for found in hashes if found.quote is not None]
    named = [run for run in runs if run.receipt is not None and run.receipt.text("receipt_id") == run.run_id]
    return (
        ("runs with a folder", len(runs)),
        ("runs that are only listed", len(log.runs) - len(runs)),
        ("receipts with a TDX quote", sum("tdx" in held for held in forms)),
        ("receipts with an Ed25519 signature", sum("ed25519" in held for held in forms)),
        ("receipts with neither", sum(not held for held in forms)),
        ("runs without a receipt", sum(run.receipt is None for run in runs)),
        ("folders named by their receipt id", len(named)),
        ("results", sum(run.result is not None for run in runs)),
        ("attestations beside the receipt", sum(run.attestation is not None for run in runs)),
        ("log texts", sum(run.log is not None for run in runs)),
        ("distinct log texts", len(log.logs)),
        ("rounds that published nothing", len(log.rounds)),
        ("ledger lines of runs", len(log.ledger)),
        ("ledger lines of frontier advances", len(log.advances)),
        ("index rows", len(log.index)),
        ("distinct values of bound_digest", len(_values(runs, "tdx.bound_digest"))),
        ("distinct enclave images (mrtd)", len({quote.mrtd for quote in quotes})),
        ("distinct run-time measurements (rtmr)", len({quote.rtmr for quote in quotes})),
        ("files that were not read", len(log.others) + closed),
    )


def _values(runs: list[Run], path: str) -> set[str]:
    texts = (run.receipt.text(path) for run in runs if run.receipt is not None)
    return {text for text in texts if text is not None}


def _table(hashes: list[RunHashes]) -> tuple[HashRow, ...]:
    counts: dict[Check, Counter[Outcome]] = {}
    details: dict[tuple[Check, Outcome], Counter[str]] = {}
    for found in hashes:
        for result in found.results:
            counts.setdefault(result.check, Counter())[result.outcome] += 1
            if result.detail:
                details.setdefault((result.check, result.outcome), Counter())[result.detail] += 1
    return tuple(
        HashRow(
            check,
            counts[check][Outcome.PASS],
            counts[check][Outcome.FAIL],
            counts[check][Outcome.NOT_CHECKED],
            verified_as=tuple(details.get((check, Outcome.PASS), Counter()).most_common()),
            reasons=tuple(details.get((check, Outcome.NOT_CHECKED), Counter()).most_common()),
        )
        for check in Check
        if check in counts
    )


def _kinds(findings: list[Finding], runs_of: _RunsOf) -> tuple[KindRow, ...]:
    by_code: dict[Code, list[Finding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    rows = []
    for code, found in by_code.items():
        names = {runs_of(finding.position) for finding in found} - {""}
        rows.append(KindRow(code, trouble(code), len(found), len(names), found[0]))
    order = list(Trouble)
    severities = list(Severity)
    rows.sort(key=lambda row: (order.index(row.trouble), severities.index(row.code.info.severity), -row.count))
    return tuple(rows)


def _missing(facts: list[RunFacts]) -> tuple[tuple[str, int], ...]:
    counts: Counter[str] = Counter()
    for run in facts:
        if run.run.files:
            counts.update(missing_for_rescore(run))
    return tuple(counts.most_common())
