"""Step 13 of a verification: the evidence that receipts of this format carry.

What a quote or a token must carry is the digest of the receipt's bare bundle
(:mod:`k3_ledger.schemas.attested`), so a receipt that passes is bound to its enclave in full: every figure, every
digest of an artifact, and the time that it states.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.schemas.attested import COLLATERAL, EVIDENCE, QUOTE, TOKEN, report_data
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.tee.certificates import load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.outcome import worst
from k3_ledger.verify.tee.tokens import KEY_SET, check_tokens, load_keys

if TYPE_CHECKING:
    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.attested import Attested
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource
    from k3_ledger.verify.tee.certificates import Anchors
    from k3_ledger.verify.tee.tokens import Keys

MAX_EVIDENCE = 1 << 20
"""Longest evidence that is read, in bytes; a quote has about 8,000."""


def check_attestations(scan: Scan, attested: list[Attested], source: LogSource, policy: AttestationPolicy) -> str:
    """Verify the evidence of receipts; tallies and findings are added to ``scan``.

    Returns:
        Whose certificates counted, in words.

    Raises:
        PolicyError: the trust directory holds what is no certificate or no key set.
    """
    anchors = load_anchors((name, data) for name, data in policy.anchors if name.endswith(".pem"))
    keys: Keys = {}
    for name, data in policy.anchors:
        if name == KEY_SET:
            keys = load_keys(data)
    tally = scan.tallies["attestations"]
    for receipt in attested:
        place = _Place(receipt, source)
        outcomes: list[Outcome] = []
        findings: list[Finding] = []
        if "tdx" in receipt.kinds:
            outcomes.append(_check_quote(receipt, place, anchors, policy, findings))
        if "nvidia" in receipt.kinds:
            outcomes.append(_check_tokens(receipt, place, keys, policy, findings))
        for name in receipt.repeated:
            outcomes.append(Outcome.FAIL)
            findings.append(Finding(Code.ATTESTATION_REPEATED, f"{name} is named more than once", place.at(name)))
        outcome = worst(outcomes)
        tally.checked += outcome is not Outcome.NOT_CHECKED
        tally.not_checked += outcome is Outcome.NOT_CHECKED
        tally.failed += outcome is Outcome.FAIL
        for finding in findings:
            scan.findings.add(finding)
    return anchors.sentence


class _Place:
    """Where the evidence of one receipt is, and how to read it."""

    def __init__(self, receipt: Attested, source: LogSource) -> None:
        self._receipt = receipt
        self._source = source

    def at(self, name: str) -> Position:
        """Position of a finding about an artifact, or a field of the body."""
        position = self._receipt.position
        return Position(
            self._source.name,
            position + 1,
            index=position,
            field=f"body.artifacts {name}" if name in EVIDENCE else f"body.{name}",
        )

    def read(self, name: str) -> tuple[bytes | None, list[Finding]]:
        """Contents of evidence that is the one that was sealed, or why there are none."""
        digest, size = self._receipt.evidence[name]
        data, why = None, "it is not there"
        try:
            stream = self._source.open_artifact(digest)
            if stream is not None:
                with stream:
                    data, why = (
                        stream.read(min(size, MAX_EVIDENCE) + 1),
                        "it is not the one that was sealed, or too long",
                    )
        except (LedgerError, OSError) as error:  # it cannot be opened, or the medium fails while it is read
            why = error.finding.message if isinstance(error, LedgerError) else error.strerror or str(error)
        if data is not None and sha256(data).hexdigest() == digest:
            return data, []
        return None, [Finding(Code.ATTESTATION_UNREADABLE, f"{name} cannot be read: {why}", self.at(name))]


def _check_quote(
    receipt: Attested, place: _Place, anchors: Anchors, policy: AttestationPolicy, findings: list[Finding]
) -> Outcome:
    """What becomes of a receipt's quote; findings are added."""
    if QUOTE not in receipt.evidence:
        message = "the receipt says that it ran in a trust domain and carries no quote"
        findings.append(Finding(Code.ATTESTATION_MISSING, message, place.at(QUOTE)))
        return Outcome.FAIL
    expected = report_data(receipt.digest)
    digest = sha256(expected).hexdigest()
    outcomes = []
    if receipt.tee != "tdx" or receipt.report_data_sha256 != digest:
        outcomes.append(Outcome.FAIL)
        message = "the receipt states other report data than those of its bundle"
        found = f"{receipt.tee}, {receipt.report_data_sha256}"
        findings.append(Finding(Code.QUOTE_BINDING, message, place.at("tee"), f"tdx, {digest}", found))
    quote, why = place.read(QUOTE)
    findings += why
    collateral, why = place.read(COLLATERAL) if COLLATERAL in receipt.evidence else (None, [])
    findings += why
    if quote is None:
        return worst([*outcomes, Outcome.NOT_CHECKED])
    at = policy.judged_at(receipt.started)
    report = check_quote(quote, collateral, anchors, policy, at, report_data=expected, position=place.at(QUOTE))
    findings += report.findings
    return worst([*outcomes, report.outcome()])


def _check_tokens(
    receipt: Attested, place: _Place, keys: Keys, policy: AttestationPolicy, findings: list[Finding]
) -> Outcome:
    """What becomes of a receipt's tokens; findings are added."""
    data, why = place.read(TOKEN)
    findings += why
    if data is None:
        return Outcome.NOT_CHECKED
    at, begun = policy.judged_at(receipt.started), policy.at == "receipt"
    outcome, found = check_tokens(data, keys, at, receipt.digest, place.at(TOKEN), begun=begun)
    findings += found
    return outcome
