"""Where a foreign receipt's quote comes from: the auditor's certificates, the receipt's own collateral, a chosen time.

The time that a receipt states is not covered by its quote. It is used only where the caller asks for receipt time, and
the report says that nothing binds it; a forger could choose any time within the collateral's own period.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.moments import format_time
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.attestation import REGISTERS
from k3_ledger.verify.polaris.hashes import Check
from k3_ledger.verify.polaris.spelling import decode_base64

if TYPE_CHECKING:
    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.hashes import RunHashes
    from k3_ledger.verify.tee.certificates import Anchors

STATED: Final = "attestation.timestamp_utc"


class Origin:
    """Checks quotes of one log under one policy, and counts what they showed.

    Attributes:
        sentence: under which policy and whose root.
        statuses: quotes by what became of them in all their steps: TCB status and advisories, and the first step that
            did not pass. One that is genuine and not wanted is no pass.
        measured: register and value, by how many quotes have it.
    """

    def __init__(self, policy: AttestationPolicy, anchors: Anchors) -> None:
        self._policy = policy
        self._anchors = anchors
        self.sentence = f"{policy.sentence}; {anchors.sentence}"
        self.statuses: Counter[str] = Counter()
        self.measured: Counter[tuple[str, str]] = Counter()

    def check(self, out: RunHashes, receipt: Document) -> None:
        """Verify the quote of one receipt, and note what came of it."""
        from k3_ledger.verify.tee.check import check_quote  # noqa: PLC0415 - brings X.509
        from k3_ledger.verify.tee.outcome import ORIGIN, Step  # noqa: PLC0415 - only where a quote is checked

        stated = receipt.text(STATED)
        try:
            at = self._policy.judged_at(stated or "")
        except ValueError:
            why = "the receipt states no time at which to check it"
            for check in (Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS):
                out.add(check, Outcome.NOT_CHECKED, why)
            self.statuses[f"{Outcome.NOT_CHECKED}: {why}"] += 1
            return
        at_quote = receipt.at("tdx.quote_b64")
        if self._policy.at == "receipt":
            message = f"{out.run.run_id}: judged at {format_time(at)}, which is the receipt's own word"
            out.report(Code.QUOTE_TIME_UNBOUND, message, receipt.at(STATED))
        collateral = receipt.text("tdx.collateral_b64")
        report = check_quote(
            decode_base64(receipt.text("tdx.quote_b64") or "") or b"",
            None if collateral is None else decode_base64(collateral) or b"",
            self._anchors,
            self._policy,
            at,
            position=at_quote,
        )
        out.findings += report.findings
        origin, whole = report.outcome(ORIGIN), report.outcome()
        wrong = (result for result in report.results if result.outcome is whole is not Outcome.PASS)
        first = next((f"{result.step.title}: {result.detail}" for result in wrong), None)
        detail = first or ""
        if origin is Outcome.PASS:
            assert report.level is not None
            detail = ", ".join((report.level.status, *report.level.advisories))
        out.add(Check.DCAP, origin, detail)
        genuine = f"genuine, {detail}; " if origin is Outcome.PASS else ""
        self.statuses[f"{whole}: {detail if first is None else genuine + first}"] += 1
        for check, step in ((Check.PLATFORM, Step.PLATFORM), (Check.MEASUREMENTS, Step.MEASUREMENTS)):
            result = next(result for result in report.results if result.step is step)
            out.add(check, result.outcome, result.detail)
        if origin is Outcome.PASS:
            assert report.quote is not None
            registers = {register: report.quote.field(f"body.{register}").hex() for register in REGISTERS}
            self.measured.update(registers.items())


def open_origin(policy: AttestationPolicy) -> Origin:
    """Read the policy's trust directory.

    Raises:
        PolicyError: a file in it holds no certificate.
    """
    from k3_ledger.verify.tee.certificates import load_anchors  # noqa: PLC0415 - brings X.509

    return Origin(policy, load_anchors((name, data) for name, data in policy.anchors if name.lower().endswith(".pem")))
