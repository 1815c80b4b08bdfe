"""The registry of finding codes: everything a verifier, an auditor or a writer can report has a row here.

A code's spelling (``K3L-`` plus its member name with dashes) is part of the public interface and never changes
meaning; a code is retired, not reused. ``docs/findings.md`` is generated from this table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from k3_ledger.schemas.outcomes import NOWHERE, ExitCode, Position, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Area(enum.StrEnum):
    """Groups codes by the part of the work that reports them (the sections of docs/findings.md)."""

    INPUT = "input"
    FRAMING = "framing"
    CANONICAL = "canonical JSON"
    SCHEMA = "schema"
    CHAIN = "chain"
    SIGNATURE = "signatures"
    KEYS = "keys"
    CHECKPOINT = "checkpoint"
    PROOF = "proofs"
    ARTIFACT = "artifacts"
    RECEIPT = "receipt semantics"
    STORE = "store"
    POLICY = "trust policy"
    FOREIGN = "foreign logs"


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One row of the registry.

    Attributes:
        area: the section it is listed under.
        severity: error findings decide the verdict; warnings and notes never do.
        title: a few words, lower case, no full stop.
        meaning: what was observed and what it implies, in one or two sentences.
        hint: what the reader can do about it.
        exit_code: exit code when this finding is the most serious one; defaults to 1 for errors, 0 otherwise.
    """

    area: Area
    severity: Severity
    title: str
    meaning: str
    hint: str
    exit_code: ExitCode | None = None

    @property
    def exit(self) -> ExitCode:
        """Exit code this finding asks for."""
        if self.exit_code is not None:
            return self.exit_code
        return ExitCode.FALSE if self.severity is Severity.ERROR else ExitCode.VERIFIED


class Code(enum.Enum):
    """Every finding code. ``Code.TORN_TAIL.id`` is ``"K3L-TORN-TAIL"``."""

    # -- input ---------------------------------------------------------------------------------------------
    NOT_A_LEDGER = CodeInfo(
        Area.INPUT, E, "not a ledger",
        "No line of the input has the shape of a ledger entry.",
        "point the command at a ledger directory or its ledger.jsonl", ExitCode.UNREADABLE,
    )  # fmt: skip
    EMPTY_LEDGER = CodeInfo(
        Area.INPUT, E, "empty ledger",
        "The ledger file holds no bytes. An empty file proves nothing, so it is not called valid.",
        "restore the file; a ledger always begins with its genesis entry", ExitCode.UNREADABLE,
    )  # fmt: skip
    UNREADABLE = CodeInfo(
        Area.INPUT, E, "input cannot be read",
        "A file that is needed is missing or the operating system refused to read it.",
        "check the path and its permissions", ExitCode.UNREADABLE,
    )  # fmt: skip

    @property
    def id(self) -> str:
        """Stable public spelling."""
        return "K3L-" + self.name.replace("_", "-")

    @property
    def info(self) -> CodeInfo:
        """The registry row."""
        return self.value


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a verifier, an auditor or a writer reports.

    Attributes:
        code: the registry row; carries severity and the generic hint.
        message: this occurrence, in one lower-case sentence without a final full stop.
        position: where it stands.
        expected: what would have been right, as text, when there is one right value.
        found: what was there instead, as text (shortened to a readable length).
        hint: what to do, when it differs from the registry's hint.
    """

    code: Code
    message: str
    position: Position = NOWHERE
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    @property
    def severity(self) -> Severity:
        """Severity of the code."""
        return self.code.info.severity

    @property
    def advice(self) -> str:
        """The specific hint, or the registry's."""
        return self.hint if self.hint is not None else self.code.info.hint

    def as_dict(self) -> dict[str, object]:
        """JSON form used by ``--json`` (absent fields are left out)."""
        place = {
            "source": self.position.source,
            "line": self.position.line,
            "byte_offset": self.position.byte_offset,
            "index": self.position.index,
            "field": self.position.field,
        }
        out: dict[str, object] = {
            "code": self.code.id,
            "severity": str(self.severity),
            "message": self.message,
            "position": {k: v for k, v in place.items() if v is not None},
            "hint": self.advice,
        }
        if self.expected is not None:
            out["expected"] = self.expected
        if self.found is not None:
            out["found"] = self.found
        return out
