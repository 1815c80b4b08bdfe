"""Step 13 of a verification: the evidence that receipts of this format carry.

What a quote or a token must carry is the digest of the receipt's bare bundle
(:mod:`k3_ledger.schemas.attested`), so a receipt that passes is bound to its enclave in full: every figure, every
digest of an artifact, and the time that it states.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.schemas.attested import COLLATERAL, EVIDENCE, QUOTE, TOKEN, report_data
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.attested import MAX_EVIDENCE
from k3_ledger.verify.tee.certificates import Anchors, load_anchors
from k3_ledger.verify.tee.check import check_quote
from k3_ledger.verify.tee.check import faults_within as faults_of_quote
from k3_ledger.verify.tee.outcome import worst
from k3_ledger.verify.tee.tokens import KEY_SET, check_tokens, load_keys
from k3_ledger.verify.tee.tokens import faults_within as faults_of_tokens

if TYPE_CHECKING:
    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.attested import Attested
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import ArtifactSource, LogSource
    from k3_ledger.verify.tee.tokens import Keys


def check_attestations(
    scan: Scan, attested: list[Attested], source: LogSource, policy: AttestationPolicy | None
) -> str:
    """Verify the evidence of receipts; tallies and findings are added to ``scan``.

    Without a policy nobody's certificates count, and no receipt passes. One that nobody's could let pass fails all the
    same: what it lacks, or what its evidence is bound to, is there to see.

    Returns:
        Whose certificates counted, in words.

    Raises:
        PolicyError: the trust directory holds what is no certificate or no key set.
    """
    files = () if policy is None else policy.anchors
    anchors = load_anchors((name, data) for name, data in files if name.lower().endswith(".pem"))
    keys: Keys = {}
    for name, data in files:
        if name.lower() == KEY_SET:
            keys = load_keys(data)
    demands = _Demands(policy, anchors, keys)
    tally = scan.tallies["attestations"]
    for receipt in attested:
        outcome, findings = _check(receipt, source, demands)
        if outcome is Outcome.FAIL and receipt.position < scan.open_below:
            outcome, findings = Outcome.NOT_CHECKED, []
        tally.checked += outcome is not Outcome.NOT_CHECKED
        tally.not_checked += outcome is Outcome.NOT_CHECKED
        tally.failed += outcome is Outcome.FAIL
        for finding in findings:
            scan.findings.add(finding)
    return "no trust directory says whose certificates count" if policy is None else f"held against {anchors.sentence}"


def faults_within(receipt: Attested, source: ArtifactSource) -> list[Finding]:
    """What is wrong with an attested receipt whoever's certificates count; evidence that is not here is passed over."""
    return _check(receipt, source, _Demands())[1]


@dataclass(frozen=True, slots=True)
class _Demands:
    """Whose word counts, and for what; by default nobody's."""

    policy: AttestationPolicy | None = None
    anchors: Anchors = field(default_factory=Anchors)
    keys: Keys = field(default_factory=dict)


def _check(receipt: Attested, source: ArtifactSource, demands: _Demands) -> tuple[Outcome, list[Finding]]:
    place = _Place(receipt, source, quiet=demands.policy is None)
    outcomes: list[Outcome] = []
    findings: list[Finding] = []
    if "tdx" in receipt.kinds:
        outcomes.append(_check_quote(receipt, place, demands, findings))
    if "nvidia" in receipt.kinds:
        outcomes.append(_check_tokens(receipt, place, demands, findings))
    for name in receipt.repeated:
        outcomes.append(Outcome.FAIL)
        findings.append(Finding(Code.ATTESTATION_REPEATED, f"{name} is named more than once", place.at(name)))
    return worst(outcomes), findings


class _Place:
    """Where the evidence of one receipt is, and how to read it. Quiet, it leaves what is missing to step 9."""

    def __init__(self, receipt: Attested, source: ArtifactSource, *, quiet: bool) -> None:
        self._receipt = receipt
        self._source = source
        self._quiet = quiet

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
        if self._quiet:
            return None, []
        return None, [Finding(Code.ATTESTATION_UNREADABLE, f"{name} cannot be read: {why}", self.at(name))]


def _check_quote(receipt: Attested, place: _Place, demands: _Demands, findings: list[Finding]) -> Outcome:
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
    outcome, policy, at = Outcome.NOT_CHECKED, demands.policy, place.at(QUOTE)
    if policy is not None:
        moment = policy.judged_at(receipt.started)
        report = check_quote(quote, collateral, demands.anchors, policy, moment, report_data=expected, position=at)
        findings += report.findings
        outcome = report.outcome()
    within = faults_of_quote(quote, collateral, expected, at) if outcome is Outcome.NOT_CHECKED else []
    findings += within
    return worst([*outcomes, Outcome.FAIL if within else outcome])


def _check_tokens(receipt: Attested, place: _Place, demands: _Demands, findings: list[Finding]) -> Outcome:
    """What becomes of a receipt's tokens; findings are added."""
    data, why = place.read(TOKEN)
    findings += why
    if data is None:
        return Outcome.NOT_CHECKED
    outcome, policy, at = Outcome.NOT_CHECKED, demands.policy, place.at(TOKEN)
    if policy is not None:
        moment, begun = policy.judged_at(receipt.started), policy.at == "receipt"
        outcome, found = check_tokens(data, demands.keys, moment, receipt.digest, at, begun=begun)
        findings += found
    within = [*faults_of_tokens(data, receipt.digest, at)] if outcome is Outcome.NOT_CHECKED else []
    findings += within
    return Outcome.FAIL if within else outcome
