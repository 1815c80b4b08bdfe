"""What one row of the registry of finding codes says."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from k3_ledger.schemas.outcomes import ExitCode, Severity


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
    WITNESS = "witnesses"
    PROOF = "proofs"
    MIRROR = "tiles, mirrors and archives"
    TIMESTAMP = "timestamps"
    ARTIFACT = "artifacts"
    RECEIPT = "receipt semantics"
    STORE = "store"
    POLICY = "trust policy"
    FOREIGN = "foreign logs"
    MODEL = "model files"
    PARITY = "parity"
    RUN = "runs"
    RULES = "rules and numbers"
    PINS = "pins"
    VERDICTS = "verdicts"
    CLAIMS = "claims"
    ATTESTATION = "attestations"


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
