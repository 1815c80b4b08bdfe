"""Verifies a quote, step by step, with the auditor's certificates, at a chosen time; then asks a second checker.

The steps are those of :class:`~k3_ledger.verify.tee.outcome.Step`, in order; each ends as pass, fail or not checked,
and a step that stands on one that did not pass is not checked. What the caller must still do: say at what time, hold
the right root, pin the measurements (a quote without pins shows that *some* program ran in *some* trust domain), and
know what the report data stand for.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.serialization import Encoding

from k3_ledger.schemas.errors import AttestationError, LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import NOWHERE, Outcome, Position, Severity
from k3_ledger.verify.attestation import FLAGS, AttestationPolicy
from k3_ledger.verify.tee import certificates, levels, pck
from k3_ledger.verify.tee.collateral import Collateral, parse_collateral, read_json
from k3_ledger.verify.tee.differences import faults_of, named_by
from k3_ledger.verify.tee.outcome import QuoteReport, Result, Step
from k3_ledger.verify.tee.quote import Quote, SignatureData, parse_quote, parse_signature
from k3_ledger.verify.tee.second import Opinion, Question, ask

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cryptography import x509

    from k3_ledger.verify.tee.certificates import Anchors, Lists
    from k3_ledger.verify.tee.differences import Attribute
    from k3_ledger.verify.tee.levels import Level
    from k3_ledger.verify.tee.pck import Platform


_EPOCH: Final = datetime.fromtimestamp(0, UTC)
INTEL: Final = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
"""Vendor id of Intel's quoting enclaves."""


def check_quote(
    data: bytes,
    collateral: bytes | None,
    anchors: Anchors,
    policy: AttestationPolicy,
    at: int,
    *,
    report_data: bytes | None = None,
    position: Position = NOWHERE,
) -> QuoteReport:
    """Verify a quote.

    Args:
        data: the quote.
        collateral: what to check it with, in a spelling of :mod:`k3_ledger.verify.tee.collateral`; None where there is
            none.
        anchors: the auditor's certificates.
        policy: what is acceptable.
        at: seconds since 1970 at which everything must be valid.
        report_data: what the report data must be; None when the caller settles that.
        position: where the quote stands, for findings.
    """
    run = _Run(data, collateral, anchors, policy, datetime.fromtimestamp(at, UTC), position)
    run.origin()
    run.judge(report_data)
    return QuoteReport(at, tuple(run.results), tuple(run.findings), run.level, run.platform, run.quote)


def faults_within(data: bytes, collateral: bytes | None, report_data: bytes, position: Position) -> list[Finding]:
    """What is wrong with a quote whoever's certificates count: it fails under its own, its own root taken for granted.

    Nothing follows from a quote without such faults. One that has them holds for nobody: an auditor who does not hold
    its root refuses it for that, and to one who does the same signatures are bad and the same bytes unreadable.

    Args:
        data: the quote.
        collateral: what came with it; None where nothing did.
        report_data: what the report data must be.
        position: where the quote stands, for findings.
    """
    run = _Run(data, collateral, certificates.Anchors(), AttestationPolicy(), _EPOCH, position, own=True)
    run.origin()
    run.judge(report_data)
    return [finding for finding in run.findings if finding.severity is Severity.ERROR]


def _signer_of(given: Collateral, signers: list[x509.Certificate]) -> x509.Certificate:
    """Which of several certificates signed the collateral: Intel renews its own while old collateral is still about.

    Raises:
        AttestationError: with ``K3L-QUOTE-COLLATERAL``: none of them did.
    """
    for signer in signers[:-1]:
        with contextlib.suppress(AttestationError):
            _check_signed(given, signer)
            return signer
    _check_signed(given, signers[-1])
    return signers[-1]


def _check_signed(given: Collateral, signer: x509.Certificate) -> None:
    key = certificates.public_key(signer)
    for what, signed in (("the TCB info", given.tcb_info), ("the QE identity", given.qe_identity)):
        certificates.check_p256(key, signed.signature, signed.text, what, Code.QUOTE_COLLATERAL)


def _format(moment: datetime) -> str:
    return format_time(int(moment.timestamp()))


class _Open(Exception):  # noqa: N818 - not an error: a step that cannot be made
    """A step cannot be made, for a reason that is no finding against the quote."""


@dataclass(slots=True)
class _Run:
    """One verification: what is known so far."""

    data: bytes
    collateral_data: bytes | None
    anchors: Anchors
    policy: AttestationPolicy
    at: datetime
    position: Position
    own: bool = False
    results: list[Result] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    quote: Quote | None = None
    level: Level | None = None
    platform: Platform | None = None
    _signature: SignatureData | None = None
    _chain: tuple[x509.Certificate, ...] = ()
    _root: x509.Certificate | None = None
    _signer: x509.Certificate | None = None
    _collateral: Collateral | None = None
    _lists: Lists | None = None
    _info: dict[str, Any] = field(default_factory=dict)
    _identity: dict[str, Any] = field(default_factory=dict)

    def origin(self) -> None:
        """Whether the quote is genuine."""
        self._step(Step.STRUCTURE, self._structure)
        self._step(Step.CERTIFICATES, self._certificates, Step.STRUCTURE)
        self._step(Step.ENCLAVE_REPORT, self._enclave_report, Step.CERTIFICATES)
        self._step(Step.KEY, self._key, Step.ENCLAVE_REPORT)
        self._step(Step.SIGNATURE, self._quote_signature, Step.KEY)
        self._step(Step.COLLATERAL, self._read_collateral, Step.CERTIFICATES)
        self._step(Step.REVOCATION, self._revocation, Step.COLLATERAL)
        self._step(Step.ENCLAVES, self._enclaves, Step.SIGNATURE, Step.COLLATERAL)
        self._step(Step.LEVEL, self._tcb_level, Step.ENCLAVES)
        self._step(Step.DATES, self._dates, Step.COLLATERAL)
        self._step(Step.SECOND, self._second)
        if self.quote is not None and self.quote.trailing:
            count = len(self.quote.trailing)
            zero = "all zero" if not self.quote.trailing.strip(b"\0") else "not all zero"
            self._report(
                Code.QUOTE_MALLEABLE, f"{count} bytes behind the signature data ({zero}) are signed by nothing"
            )

    def judge(self, report_data: bytes | None) -> None:
        """Whether it is one that is wanted."""
        self._step(Step.PLATFORM, self._policy, Step.LEVEL)
        self._step(Step.MEASUREMENTS, self._measurements, Step.SIGNATURE)
        if report_data is not None:
            self._step(Step.BINDING, lambda: self._binding(report_data), Step.SIGNATURE)

    def _step(self, step: Step, check: Callable[[], str | None], *needs: Step) -> None:
        passed = {result.step for result in self.results if result.outcome is Outcome.PASS}
        missing = [need.title for need in needs if need not in passed]
        if missing:
            self.results.append(Result(step, Outcome.NOT_CHECKED, f"needs {missing[0]}"))
            return
        before = sum(finding.severity is Severity.ERROR for finding in self.findings)
        outcome, detail = Outcome.PASS, ""
        try:
            detail = check() or ""
        except _Open as reason:
            outcome, detail = Outcome.NOT_CHECKED, str(reason)
        except LedgerError as error:
            self.findings.append(replace(error.finding, position=self.position))
        wrong = [finding for finding in self.findings if finding.severity is Severity.ERROR][before:]
        if wrong:  # whatever else could not be looked at
            outcome, detail = Outcome.FAIL, "; ".join(finding.message for finding in wrong)
        self.results.append(Result(step, outcome, detail))

    def _report(self, code: Code, message: str, expected: str | None = None, found: str | None = None) -> None:
        self.findings.append(Finding(code, message, self.position, expected, found))

    def _structure(self) -> None:
        self.quote = parse_quote(self.data)
        vendor = self.quote.field("header.qe_vendor_id")
        if vendor != INTEL:
            raise AttestationError(
                Code.QUOTE_MALFORMED,
                "quote by another vendor's quoting enclave",
                expected=INTEL.hex(),
                found=vendor.hex(),
            )
        self._signature = parse_signature(self.quote)

    def _certificates(self) -> None:
        assert self._signature is not None
        if not self.anchors.roots and not self.own:
            self._report(Code.QUOTE_NO_ANCHOR, "the trust directory holds no root certificate")
            raise _Open("no root certificate")
        self._chain = certificates.read_chain(self._signature.chain)
        if self.own:
            self.anchors = certificates.Anchors(self._chain[-1:])
        self._root = certificates.check_chain(self._chain, self.anchors)
        self.platform = pck.parse_platform(certificates.platform_extension(self._chain[0], pck.SGX_EXTENSION))

    def _enclave_report(self) -> None:
        assert self._signature is not None
        key = certificates.public_key(self._chain[0])
        certificates.check_p256(key, self._signature.qe_signature, self._signature.qe_report, "the enclave's report")

    def _key(self) -> None:
        assert self.quote is not None
        assert self._signature is not None
        bound = sha256(self._signature.attestation_key + self._signature.authentication).digest() + bytes(32)
        if self.quote.field("qe.report_data") != bound:
            message = "the quoting enclave vouches for another attestation key"
            self._report(Code.QUOTE_SIGNATURE, message, bound.hex(), self.quote.field("qe.report_data").hex())

    def _quote_signature(self) -> None:
        assert self.quote is not None
        assert self._signature is not None
        key = certificates.point(self._signature.attestation_key)
        certificates.check_p256(key, self._signature.quote_signature, self.quote.signed, "header and body")

    def _read_collateral(self) -> None:
        assert self._root is not None
        if self.collateral_data is None:
            self._report(Code.QUOTE_NO_COLLATERAL, "the quote comes without collateral")
            raise _Open("there is no collateral")
        self._collateral = given = parse_collateral(self.collateral_data)
        self._lists = certificates.read_lists(given.pck_crl, given.root_crl, self._chain)
        signers = certificates.find_signers(self.anchors, self._root)
        if not signers:
            message = "the trust directory holds no TCB signing certificate under this root"
            self._report(Code.QUOTE_NO_ANCHOR, message)
            raise _Open("no TCB signing certificate")
        self._signer = _signer_of(given, signers)
        self._info, self._identity = read_json(given.tcb_info.text), read_json(given.qe_identity.text)
        levels.check_kind(self._info, "TDX", 3)
        levels.check_kind(self._identity, "TD_QE", 2)

    def _revocation(self) -> None:
        assert self._lists is not None
        certificates.check_revocation(self._chain, self._signer, self._lists)

    def _enclaves(self) -> None:
        quote = self.quote
        assert quote is not None
        enclave = levels.shaped("the QE identity", lambda: levels.enclave_level(self._identity, quote))
        module = levels.shaped("the TCB info", lambda: levels.module_level(self._info, quote))
        self.level = enclave.worsened_by(module)

    def _tcb_level(self) -> str:
        quote, platform, own = self.quote, self.platform, self.level
        assert quote is not None
        assert platform is not None
        assert own is not None
        self.level = None
        level = levels.shaped("the TCB info", lambda: levels.platform_level(self._info, platform, quote))
        self.level = level.worsened_by(own)
        if self.level.status == "Revoked":
            self._report(Code.QUOTE_REVOKED, "Intel has revoked the TCB level of this platform")
        return self.level.status

    def _dates(self) -> None:
        assert self._lists is not None
        assert self._signer is not None
        spans = [*certificates.periods((*self._chain, self._signer), self._lists)]
        for name, info in (("TCB info", self._info), ("QE identity", self._identity)):
            spans.append((name, *levels.shaped(name, partial(levels.period, info))))
        for name, first, last in spans:
            if not first <= self.at <= last:
                when = "not valid yet" if self.at < first else "expired"
                shown = f"{_format(first)} to {_format(last)}"
                self._report(Code.QUOTE_EXPIRED, f"{name} is {when}", shown, _format(self.at))

    def _second(self) -> str:
        if self._collateral is None or self._signer is None or self._root is None:
            raise _Open(f"needs {Step.COLLATERAL.title}")  # it could not even be asked

        def pem(*chain: x509.Certificate) -> str:
            return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in chain).decode()

        opinion = ask(
            Question(
                quote=self.data,
                collateral=self._collateral,
                issuers=pem(*self._chain[1:]),
                signer=pem(self._signer, self._root),
                root=self._root.public_bytes(Encoding.DER),
                at=int(self.at.timestamp()),
            )
        )
        if opinion is None:
            self._report(Code.QUOTE_ONE_CHECKER, "the second checker is not installed, so nothing confirms the first")
            raise _Open("dcap-qvl is not installed")
        own = [result for result in self.results if result.outcome is not Outcome.PASS]
        unwanted = None if opinion.accepted else named_by(opinion.reason)
        genuine = opinion.accepted or unwanted in self._attribute_faults()
        if genuine and not opinion.accepted and not own:
            raise _Open(f"dcap-qvl found everything else in order, and stopped at the attributes: {opinion.reason}")
        if bool(own) is genuine:
            message = "one checker takes the quote for genuine and the other does not"
            mine = f"this one: {own[0].step.title}: {own[0].detail}" if own else "this one: genuine"
            other = f"dcap-qvl: {opinion.reason or 'genuine'}"
            self._report(Code.QUOTE_CHECKERS_DISAGREE, message, mine, other)
        elif opinion.accepted:
            self._compare(opinion)
        return opinion.reason

    def _compare(self, opinion: Opinion) -> None:
        """Both take it: do they also agree on what they saw?"""
        assert self.level is not None
        assert self.platform is not None
        assert self.quote is not None
        platform, report = self.platform, dict(opinion.report)
        mine = {
            "status": self.level.status,
            "advisories": tuple(sorted(self.level.advisories)),
            "platform": (platform.dynamic, platform.cached_keys, platform.smt),
            "mr_td": self.quote.mrtd,
            "report_data": self.quote.report_data.hex(),
        }
        theirs = {
            "status": opinion.status,
            "advisories": opinion.advisories,
            "platform": opinion.flags,
            "mr_td": report.get("mr_td"),
            "report_data": report.get("report_data"),
        }
        for name, value in mine.items():
            if value != theirs[name]:
                message = f"the checkers disagree about {name}"
                self._report(Code.QUOTE_CHECKERS_DISAGREE, message, f"this one: {value}", f"dcap-qvl: {theirs[name]}")

    def _policy(self) -> None:
        assert self.level is not None
        assert self.platform is not None
        assert self.quote is not None
        policy, level = self.policy, self.level
        if level.status not in policy.tcb_status:
            self._report(
                Code.QUOTE_TCB,
                "the TCB status is not one that the policy accepts",
                ", ".join(sorted(policy.tcb_status)),
                level.status,
            )
        refused = sorted(policy.refuse_advisories & set(level.advisories))
        if refused:
            self._report(Code.QUOTE_TCB, "the policy refuses an advisory that applies", None, ", ".join(refused))
        if level.advisories:
            self._report(Code.QUOTE_ADVISORIES, f"advisories apply: {', '.join(level.advisories)}")
        for code, message in dict.fromkeys((fault.code, fault.message) for fault in self._attribute_faults()):
            self._report(code, message, found=self.quote.field("body.td_attributes").hex())
        self._properties(self.platform)

    def _attribute_faults(self) -> tuple[Attribute, ...]:
        assert self.quote is not None
        return faults_of(self.quote.field("body.td_attributes"))

    def _properties(self, platform: Platform) -> None:
        """What the policy does not allow must be denied by the certificate: silence is no word for it."""
        unsaid = []
        for name, value in zip(FLAGS, (platform.dynamic, platform.cached_keys, platform.smt), strict=True):
            if value and name not in self.policy.allow:
                self._report(Code.QUOTE_PLATFORM, f"the platform has {name}, which the policy does not allow")
            elif value is None and name not in self.policy.allow:
                unsaid.append(name)
        if unsaid:
            message = f"the PCK certificate does not say whether the platform has {', '.join(unsaid)}"
            self._report(Code.QUOTE_PLATFORM_UNSAID, message)
            raise _Open(message)

    def _measurements(self) -> str:
        assert self.quote is not None
        if not self.policy.measurements:
            self._report(Code.QUOTE_UNPINNED, "no measurement is pinned, so any program in a trust domain could be it")
            raise _Open("no measurement is pinned")
        for register, values in self.policy.measurements:
            found = self.quote.field(f"body.{register}").hex()
            if found not in values:
                message = f"{register} has a value that is not pinned"
                self._report(Code.QUOTE_MEASUREMENT, message, ", ".join(sorted(values)), found)
        return ", ".join(register for register, _ in self.policy.measurements)

    def _binding(self, expected: bytes) -> None:
        assert self.quote is not None
        if self.quote.report_data != expected:
            message = "the report data are not those of this receipt"
            self._report(Code.QUOTE_BINDING, message, expected.hex(), self.quote.report_data.hex())
