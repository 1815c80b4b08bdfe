"""The Ed25519 form of a receipt: one signature over the attestation, which can vouch for less than it shows.

The signed bytes are the attestation as JSON with sorted keys, compact separators, UTF-8 and every float rounded to six
places; ``receipt_id`` is their SHA-256. So a value may be shown with digits that nobody signed (0.004046 and
0.00404649 have one signature), and ``chain`` stands outside. The key comes with the receipt: it shows that the
attestation is whole, not whose it is, unless the caller brings the key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.polaris.foreign_json import Number
from k3_ledger.verify.polaris.hashes import Bound, Check, Record, RunHashes
from k3_ledger.verify.polaris.spelling import decode_base64, rounded_json, rounded_text, sha256_hex

if TYPE_CHECKING:
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.parse import Run


def check_signed(run: Run, receipt: Document, public_keys: tuple[bytes, ...]) -> RunHashes:
    """Verify an Ed25519 receipt.

    Args:
        run: the run it belongs to.
        receipt: the receipt.
        public_keys: raw keys that the caller trusts; empty when there are none.
    """
    out = RunHashes(run)
    signed = rounded_json(receipt.object.get("attestation"))
    if signed is None or not isinstance(receipt.object.get("attestation"), dict):
        for check in (Check.SIGNED_ID, Check.SIGNATURE):
            out.add(check, Outcome.NOT_CHECKED, "there is no attestation that could have been signed")
    else:
        identity = receipt.text("receipt_id")
        if identity is None:
            out.add(Check.SIGNED_ID, Outcome.NOT_CHECKED, "the receipt has no id")
        else:
            out.compare(Check.SIGNED_ID, "receipt_id", sha256_hex(signed), identity)
        _signature(out, receipt, signed)
        _rounding(out, receipt)
    _signer(out, receipt, public_keys)
    chain = [path for path in receipt.leaves if path.startswith("chain.")]
    if chain:
        message = f"{' and '.join(chain)} are not among the signed bytes"
        out.report(Code.FOREIGN_CHAIN_UNSIGNED, message, receipt.at(chain[0]))
    return out


def _signature(out: RunHashes, receipt: Document, signed: bytes) -> None:
    at = receipt.at("signature")
    key = decode_base64(receipt.text("public_key") or "") or b""
    signature = decode_base64(receipt.text("signature") or "") or b""
    try:
        check_signature(key, signed, signature, position=at)
    except LedgerError as error:
        out.add(Check.SIGNATURE, Outcome.FAIL, error.finding.message)
        message = f"the signature does not verify over the attestation: {error.finding.message}"
        out.report(Code.FOREIGN_SIGNATURE, message, at)
        return
    out.add(Check.SIGNATURE, Outcome.PASS)
    out.bound.append(Bound(Record.RECEIPT, "attestation", "signature"))


def _rounding(out: RunHashes, receipt: Document) -> None:
    for path, leaf in receipt.leaves.items():
        if path.startswith("attestation.") and isinstance(leaf.value, Number):
            signed = Number(rounded_text(leaf.value))
            if signed.value != leaf.value.value:
                message = f"{path} is shown as {leaf.value.text}, and {signed.text} was signed"
                out.report(
                    Code.FOREIGN_SIGNED_ROUNDED, message, leaf.position, expected=signed.text, found=leaf.value.text
                )


def _signer(out: RunHashes, receipt: Document, public_keys: tuple[bytes, ...]) -> None:
    at = receipt.at("public_key")
    text = receipt.text("public_key") or ""
    if not public_keys:
        out.add(Check.SIGNER, Outcome.NOT_CHECKED, "no key was given")
        out.report(Code.FOREIGN_SIGNER_UNKNOWN, "the receipt brings the key that it is verified with", at, found=text)
    elif decode_base64(text) in public_keys:
        out.add(Check.SIGNER, Outcome.PASS)
    else:
        out.add(Check.SIGNER, Outcome.FAIL)
        out.report(Code.FOREIGN_SIGNER_OTHER, "the receipt's key is none of those given", at, found=text)
