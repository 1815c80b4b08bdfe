"""What a verification says: numbered steps with their outcomes, findings, and the exit code that follows.

A step that had nothing to look at, or could not look, is ``not-checked``: this module has no way to call it ok. What a
revocation took back was looked at, and the chain decided that it counts for nothing: it is counted apart, and neither
makes a step pass nor keeps it from passing (docs/adr/0072-disowned.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome

if TYPE_CHECKING:
    from k3_ledger.ledger.core.keylife import Disowned
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.timestamps import ArtifactBound
    from k3_ledger.verify.witnesses import TimeBound

FINDINGS_KEPT_PER_CODE = 50
"""Findings of one code that a report spells out; the rest are counted, so that memory stays flat."""

_RECORD = "ledger.jsonl"

FOLLOWERS = {
    Code.ROOT_NOT_CHECKED: 1,
    Code.WITNESS_QUORUM: 2,
    Code.HEAD_TOO_SMALL: 2,
    Code.REQUIRED_NOT_CHECKED: 3,
}
"""Findings that another one may be the cause of; they stand behind all others, in this order."""

STEPS: tuple[tuple[str, str], ...] = (
    ("framing", "lines are framed and encoded as the format says"),
    ("schema", "entries are canonical and fit the schema of their kind"),
    ("chain", "every entry names the one before it"),
    ("signatures", "every signature verifies"),
    ("keys", "every key was enrolled, unrevoked and allowed to sign that kind"),
    ("checkpoint", "signed tree heads commit to these very lines"),
    ("memory", "the log extends the head that was seen before"),
    ("witnesses", "enough witnesses cosigned the newest head"),
    ("artifacts", "artifacts hash to the digests that entries name"),
    ("receipts", "receipts are sound: monotonic clocks, sane counts, references that exist"),
    ("verdicts", "verdicts follow from rule, receipt and pins"),
    ("pins", "pins trace to receipts"),
    ("attestations", "enclave quotes verify"),
    ("timestamps", "timestamps of signed heads are by authorities that the policy names"),
)
"""Name and promise of each step, in the order they are numbered from 1."""

EXIT_PRECEDENCE = (
    ExitCode.USAGE,
    ExitCode.FALSE,
    ExitCode.UNREADABLE,
    ExitCode.TORN_TAIL,
    ExitCode.NOT_CHECKED,
)
"""Of several findings, the exit code that stands first here wins."""

STEP_NUMBER = {name: number for number, (name, _) in enumerate(STEPS, start=1)}


@dataclass(frozen=True, slots=True)
class StepResult:
    """Outcome of one numbered step.

    Attributes:
        number: 1 for framing, see :data:`STEPS`.
        name: short name of the step.
        outcome: pass only when something was checked and nothing failed.
        checked: how many items were looked at.
        failed: how many of them were wrong.
        not_checked: how many items the step is about but could not look at.
        detail: one lower-case sentence for the reader.
        disowned: how many further items a revocation took back: they count for nothing.
    """

    number: int
    name: str
    outcome: Outcome
    checked: int
    failed: int
    not_checked: int
    detail: str
    disowned: int = 0

    def as_dict(self) -> dict[str, object]:
        """JSON form."""
        return {
            "number": self.number,
            "name": self.name,
            "outcome": str(self.outcome),
            "checked": self.checked,
            "failed": self.failed,
            "not_checked": self.not_checked,
            "disowned": self.disowned,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Tally:
    """Mutable counts of one step while verification runs."""

    checked: int = 0
    failed: int = 0
    not_checked: int = 0
    detail: str = ""
    disowned: int = 0

    @property
    def passed(self) -> bool:
        """Something was checked that counts, everything was, and nothing failed."""
        return self.checked > 0 and not self.failed and not self.not_checked

    @property
    def that_count(self) -> str:
        """What a sentence says that there is none of: all there was may have been taken back."""
        return " that count" if self.disowned else ""

    def result(self, name: str) -> StepResult:
        """Freeze into a :class:`StepResult`."""
        outcome = Outcome.FAIL if self.failed else Outcome.PASS if self.passed else Outcome.NOT_CHECKED
        counts = self.checked, self.failed, self.not_checked
        return StepResult(STEP_NUMBER[name], name, outcome, *counts, self.detail, self.disowned)


class FindingLog:
    """Findings of one verification: the first of each code spelled out, all of them counted.

    Those of entries that are vouched for are counted apart, and so many of each code are spelled out of either sort.

    Attributes:
        vouched: entries in front of this position are vouched for.
        counts: how often each code occurred.
        covered: how many of them are of such entries, see :func:`is_covered`.
    """

    def __init__(self, keep: int = FINDINGS_KEPT_PER_CODE, *, vouched: int = 0) -> None:
        self._keep = keep
        self._kept: list[Finding] = []
        self.vouched = vouched
        self.counts: dict[Code, int] = {}
        self.covered: dict[Code, int] = {}

    def add(self, finding: Finding) -> None:
        """Record one finding."""
        self.add_counted(finding, 0)

    def add_counted(self, finding: Finding, more: int) -> None:
        """Record a finding that stands for ``more`` further ones of its code and sort that were not kept."""
        code, covered = finding.code, is_covered(finding, self.vouched)
        seen = self.covered.get(code, 0)
        if covered:
            self.covered[code] = seen + 1 + more
        else:
            seen = self.counts.get(code, 0) - seen
        self.counts[code] = self.counts.get(code, 0) + 1 + more
        if seen < self._keep:
            self._kept.append(finding)

    def clear(self) -> None:
        """Forget everything: the input turned out to be something else."""
        self._kept.clear()
        self.counts.clear()
        self.covered.clear()

    def advise(self, codes: frozenset[Code], hint: str) -> None:
        """Give the findings of these codes another hint, now that more is known."""
        self._kept = [replace(kept, hint=hint) if kept.code in codes else kept for kept in self._kept]

    @property
    def spoil(self) -> bool:
        """Whether something was found that a log cannot verify with."""
        return any(code.info.exit for code in self.counts)

    def merge(self, other: FindingLog) -> None:
        """Take in the findings of a part that vouches for the same entries, in its order."""
        kept = other.kept()
        for finding in kept:
            self.add(finding)
        for code, count in other.counts.items():
            self.counts[code] += count - sum(1 for finding in kept if finding.code is code)
        for code, count in other.covered.items():
            spelled = [finding for finding in kept if finding.code is code and is_covered(finding, self.vouched)]
            self.covered[code] += count - len(spelled)

    def kept(self) -> tuple[Finding, ...]:
        """The findings that are spelled out, causes first: by line or entry, of one place as the registry has them,
        those of heads and other files behind those of the log, and :data:`FOLLOWERS` behind all.
        """
        return tuple(sorted(self._kept, key=_place))


def is_covered(finding: Finding, vouched: int) -> bool:
    """Whether a finding says what is certainly false of an entry in front of position ``vouched``, or nothing false."""
    place, exits = finding.position, finding.code.info.exit
    index = place.line - 1 if place.line is not None else place.index
    of_an_entry = place.source in {None, _RECORD} and exits in {ExitCode.VERIFIED, ExitCode.FALSE}
    return of_an_entry and index is not None and index < vouched


def _place(finding: Finding) -> tuple[int, bool, bool, int, int, bool, int]:
    where, code = finding.position, finding.code
    in_record = where.source in {None, _RECORD}
    number = where.line if in_record else None if where.index is None else where.index + 1
    explained = code is Code.THRESHOLD_NOT_MET  # by what is wrong with the endorsements of the same entry
    rank = FOLLOWERS.get(code, 0)
    return rank, not in_record, number is None, number or 0, where.line or 0, explained, code.value


@dataclass(frozen=True, slots=True)
class Head:
    """The state of the log that was verified.

    Attributes:
        size: number of lines, torn tail not counted.
        root: RFC 6962 root over those lines, hexadecimal.
        last: identity of the last entry, hexadecimal; None when the last line could not be read.
    """

    size: int
    root: str
    last: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one verification found.

    Attributes:
        subject: what was verified.
        policy: one sentence about the trust policy it ran under.
        policy_digest: which policy that was, see TrustPolicy.digest; None without one.
        authenticated: True when a trust policy named the root key and the log was opened by it.
        origin: the log's own name for itself, from its genesis entry.
        head: what state the verdict is about; None when nothing could be read.
        steps: outcomes in order.
        findings: findings spelled out, by line.
        counts: how often each code occurred, including findings not spelled out.
        bounds: by when entries existed according to the policy's witnesses, largest tree first; see there.
        stamps: the same according to the policy's timestamp authorities.
        artifact_stamps: by when artifacts existed according to them, in log order, the first of them.
        disowned: every entry that a later revocation took back, in log order: it stands there and counts for nothing.
        enrolments: lines that show who made the newest head's signer a log key, to be kept with that head; only where
            that was asked for (:mod:`k3_ledger.verify.vouched`).
        covered: how many of the counted findings are certainly of entries that the caller vouched for.
    """

    subject: str
    policy: str
    policy_digest: str | None
    authenticated: bool
    origin: str | None
    head: Head | None
    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    counts: dict[Code, int] = field(default_factory=dict)
    bounds: tuple[TimeBound, ...] = ()
    stamps: tuple[TimeBound, ...] = ()
    artifact_stamps: tuple[ArtifactBound, ...] = ()
    disowned: tuple[Disowned, ...] = ()
    enrolments: tuple[bytes, ...] = ()
    covered: dict[Code, int] = field(default_factory=dict)

    @property
    def uncovered(self) -> dict[Code, int]:
        """What was counted and asks for an exit code, but for what is of entries that the caller vouched for."""
        left = {code: count - self.covered.get(code, 0) for code, count in self.counts.items() if code.info.exit}
        return {code: count for code, count in left.items() if count}

    @property
    def exit_code(self) -> ExitCode:
        """The most serious one that a finding asks for, in the order of :data:`EXIT_PRECEDENCE`."""
        asked = {code.info.exit for code in self.counts}
        return next((code for code in EXIT_PRECEDENCE if code in asked), ExitCode.VERIFIED)

    def as_dict(self) -> dict[str, object]:
        """JSON form, the body of ``--json``."""
        head = self.head
        return {
            "schema": "k3-ledger/report/1",
            "subject": self.subject,
            "policy": self.policy,
            "policy_sha256": self.policy_digest,
            "authenticated": self.authenticated,
            "origin": self.origin,
            "head": None if head is None else {"size": head.size, "root": head.root, "last": head.last},
            "existed": [bound.as_dict() for bound in self.bounds],
            "timestamped": [bound.as_dict() for bound in self.stamps],
            "timestamped_artifacts": [bound.as_dict() for bound in self.artifact_stamps],
            "disowned": [{"first": part.first, "last": part.last, "by": part.by} for part in self.disowned],
            "steps": [step.as_dict() for step in self.steps],
            "findings": [finding.as_dict() for finding in self.findings],
            "counts": {code.id: n for code, n in sorted(self.counts.items(), key=lambda item: item[0].id)},
            "exit_code": int(self.exit_code),
        }


class VerificationError(LedgerError):
    """A log, a proof or an artifact that did not verify. ``report`` says everything that was found."""

    def __init__(self, report: Report) -> None:
        worst = next(
            (f for f in report.findings if f.code.info.exit == report.exit_code),
            report.findings[0] if report.findings else None,
        )
        if worst is None:
            raise ValueError("a VerificationError needs a report with at least one finding")
        super().__init__(
            worst.code,
            worst.message,
            position=worst.position,
            expected=worst.expected,
            found=worst.found,
            hint=worst.advice,
        )
        self.report = report
