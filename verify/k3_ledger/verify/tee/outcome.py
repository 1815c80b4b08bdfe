"""What a verification of a quote is made of: its steps, what came of each, and all of it together."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.tee.levels import Level
    from k3_ledger.verify.tee.pck import Platform
    from k3_ledger.verify.tee.quote import Quote


class Step(enum.Enum):
    """What is checked about a quote, in order."""

    STRUCTURE = "structure", "a version 4 quote of a trust domain with a PCK certificate chain"
    CERTIFICATES = "certificates", "the chain leads to a root that the auditor holds"
    ENCLAVE_REPORT = "enclave report", "the PCK certificate signed the quoting enclave's report"
    KEY = "attestation key", "that report holds the digest of the attestation key"
    SIGNATURE = "quote signature", "the attestation key signed header and body"
    COLLATERAL = "collateral", "the auditor's TCB signing certificate signed TCB info and QE identity"
    REVOCATION = "revocation", "no certificate in use stands in its issuer's list"
    ENCLAVES = "enclaves", "quoting enclave and TDX module are Intel's"
    LEVEL = "TCB level", "the platform reaches a level that Intel knows"
    DATES = "dates", "certificates, lists and collateral are valid at the chosen time"
    SECOND = "second checker", "dcap-qvl comes to the same verdict, status and advisories"
    PLATFORM = "policy", "TCB status, advisories, debug bit and properties of the platform are acceptable"
    MEASUREMENTS = "measurements", "pinned registers have a pinned value"
    BINDING = "report data", "the report data are those of the receipt"

    def __init__(self, title: str, promise: str) -> None:
        self.title = title
        self.promise = promise


ORIGIN: Final = tuple(Step)[: list(Step).index(Step.SECOND) + 1]
"""Steps that say that the quote is genuine; those behind say whether it is the right one."""


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of one step; ``detail`` says why not."""

    step: Step
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class QuoteReport:
    """Everything that was found out about one quote.

    Attributes:
        at: the time that was chosen, in seconds since 1970.
        results: outcomes in the order of :class:`Step`.
        findings: what went wrong, and what must be said.
        level: TCB status and advisories; None when they could not be had.
        platform: what the PCK certificate says of the platform; None likewise.
        quote: the quote; None when it has not even the structure of one.
    """

    at: int
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    level: Level | None
    platform: Platform | None
    quote: Quote | None

    def outcome(self, steps: tuple[Step, ...] = tuple(Step)) -> Outcome:
        """Of some steps together: fail when one failed, pass when all that ran passed and none is open."""
        return worst(result.outcome for result in self.results if result.step in steps)


def worst(outcomes: Any) -> Outcome:
    """Fail before not checked before pass; nothing at all is not checked."""
    seen = set(outcomes)
    for outcome in (Outcome.FAIL, Outcome.NOT_CHECKED, Outcome.PASS):
        if outcome in seen:
            return outcome
    return Outcome.NOT_CHECKED
