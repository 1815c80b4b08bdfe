"""Every digest of a foreign receipt, recomputed, and what hangs on it.

:data:`TABLE` is the list: what each field is a digest of. A TDX receipt is a tree of digests whose root is the
quote's report data; an Ed25519 receipt (:mod:`k3_ledger.verify.polaris.signed`) has one signature. What a digest
covers is *bound* (:class:`Bound`) when every link up to the quote or the signature came out; that the quote itself
comes from an Intel CPU is a separate matter that is counted as not checked here.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.polaris.foreign_json import show
from k3_ledger.verify.polaris.spelling import decode_base64, plain, python_json, sha256_hex
from k3_ledger.verify.tee.quote import Quote, parse_quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.polaris.foreign_json import Document, JsonTree, Scalar
    from k3_ledger.verify.polaris.origin import Origin
    from k3_ledger.verify.polaris.parse import Run

WORKLOAD: Final = "python3 /submission/score.py"
"""Text of the command that the enclave ran."""
UNSEALED: Final = (("receipt_id",), ("receipt_id", "kl_depths"))
"""Fields of ``result.json`` that may have been added after sealing; the sealed form is without them. The first set is
necessary: a receipt's id depends on what it seals."""


NONCE_COVERS: Final = (
    "attestation.code.commit",
    "attestation.references.model_sha256",
    "attestation.references.eval_seed",
)
"""Fields whose texts, one after the other, the documented nonce is the digest of."""
_DIGEST: Final = "64 hexadecimal digits", re.compile(r"[0-9A-Fa-f]{64}")
SHAPES: Final = {
    "tdx.nonce": ("32 or 64 hexadecimal digits", re.compile(r"(?:[0-9A-Fa-f]{32}){1,2}")),
    "tdx.e2e_pubkey_b64": ("base64 of 32 bytes", re.compile(r"[0-9A-Za-z+/]{43}=")),
    "tdx.bound_digest": ("sha256: and 64 hexadecimal digits", re.compile(r"sha256:[0-9A-Fa-f]{64}")),
    "tdx.result_sha256": _DIGEST,
    "tdx.files_sha256": _DIGEST,
    "attestation.code.commit": ("40 hexadecimal digits", re.compile(r"[0-9A-Fa-f]{40}")),
    "attestation.references.model_sha256": _DIGEST,
}
"""Shapes of texts of which a digest covers the joined ones alone, without which each could end anywhere. A seed comes
last and may be any text."""
REPORT_NONCE: Final = ("tdx.nonce", "tdx.e2e_pubkey_b64")
REPORT_RESULT: Final = ("tdx.bound_digest", "tdx.result_sha256", "tdx.files_sha256")
"""Fields that the two halves of a quote's report data are the digests of."""
EXPECTED: Final = ("_expected.result_sha256", "_expected.scoring_sha256")
"""Digests of the submitted files: what ``files_sha256`` covers."""
REQUIRED: Final = (
    "receipt_id",
    "tdx.quote_b64",
    "tdx.nonce",
    "tdx.e2e_pubkey_b64",
    "tdx.bound_digest",
    "tdx.result_sha256",
    "tdx.files_sha256",
    "tdx.workload_sha256",
    "tdx.stdout_b64",
    *EXPECTED,
)
"""Texts without which a TDX receipt cannot be checked in full; leaving one out must not pass for a pass."""


class Record(enum.StrEnum):
    """Kinds of record that a run can have, as a report names them."""

    RECEIPT = "receipt"
    SEALED = "sealed output"
    RESULT = "result"
    LOGGED = "result in the log"
    ATTESTATION = "attestation.json"
    PRINTED = "attestation in the log"
    LEDGER = "ledger line"
    INDEX = "index row"
    ADVANCE = "frontier advance"
    LOG = "log text"
    NAME = "folder name"


class Check(enum.Enum):
    """Rows of the table: the field, and what it is a digest of (or why it cannot be recomputed)."""

    RECEIPT_ID = "receipt_id", "first 32 hex of SHA-256(first 64 characters of quote_b64 ‖ result_sha256)"
    RESULT = "tdx.result_sha256", "SHA-256 of the decoded stdout"
    WORKLOAD = "tdx.workload_sha256", f'"sha256:" and SHA-256 of the text "{WORKLOAD}"'
    EXPECTED = "_expected.result_sha256", "SHA-256 of the sealed result as Python spells it, keys sorted"
    REBUILT = "_expected.result_sha256 (rebuilt)", "the same, of a missing result put together from the sealed output"
    FILES = "tdx.files_sha256", "SHA-256 of the sorted lines path TAB digest LF of the two submitted files"
    REPORT_NONCE = "report_data[0:32]", "SHA-256 of nonce ‖ e2e_pubkey_b64, as text"
    REPORT_RESULT = "report_data[32:64]", "SHA-256 of bound_digest ‖ result_sha256 ‖ files_sha256, as text"
    NONCE = "tdx.nonce", "SHA-256(commit ‖ model_sha256 ‖ eval_seed) where it is 64 hex; else a random value"
    BOUND_DIGEST = "tdx.bound_digest", "digest of the enclave's image: a value to pin"
    SCORER = "_expected.scoring_sha256", "SHA-256 of the scorer's source, which the log does not carry"
    QUOTE = "tdx.quote_b64 (structure)", "version 4 quote of a trust domain"
    DCAP = "tdx.quote_b64 (origin)", "signature, certificates, collateral and revocation of the quote"
    PLATFORM = "tdx.quote_b64 (policy)", "TCB status, advisories, debug bit and platform are what the caller accepts"
    MEASUREMENTS = "tdx.quote_b64 (measurements)", "registers have the values that the caller pins"
    SIGNED_ID = "receipt_id (ed25519)", "SHA-256 of the signed form of the attestation"
    SIGNATURE = "signature", "Ed25519 over the signed form: keys sorted, compact, floats rounded to 6 places"
    SIGNER = "public_key", "one of the keys that were given"

    def __init__(self, title: str, covers: str) -> None:
        self.title = title
        self.covers = covers


@dataclass(frozen=True, slots=True)
class Checked:
    """Outcome of one row for one run. ``detail`` says how, or why not."""

    check: Check
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Bound:
    """Part of a record that a verified digest covers: every path that starts with ``prefix``."""

    record: Record
    prefix: str
    by: str
    excluding: tuple[str, ...] = ()

    def covers(self, record: Record, path: str) -> bool:
        """Whether the value at ``path`` of ``record`` lies in this part."""

        def under(prefix: str) -> bool:
            return not prefix or path == prefix or path.startswith((prefix + ".", prefix + "["))

        return record is self.record and under(self.prefix) and not any(map(under, self.excluding))


@dataclass(slots=True)
class RunHashes:
    """What became of one run's digests.

    Attributes:
        forms: forms that its receipt has; empty where there is none, or one that has neither.
        quote: None when there is none that could be read.
    """

    run: Run
    forms: set[Literal["tdx", "ed25519"]] = field(default_factory=set)
    results: list[Checked] = field(default_factory=list)
    bound: list[Bound] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    quote: Quote | None = None

    def add(self, check: Check, outcome: Outcome, detail: str = "") -> None:
        """Note an outcome."""
        self.results.append(Checked(check, outcome, detail))

    def report(
        self, code: Code, message: str, at: Position, *, expected: str | None = None, found: str | None = None
    ) -> None:
        """Note a finding."""
        self.findings.append(Finding(code, message, at, expected, found))

    def compare(self, check: Check, path: str, expected: str, found: str, detail: str = "") -> bool:
        """Compare a recomputed digest with the one a receipt states; note and report."""
        if expected == plain(found):
            self.add(check, Outcome.PASS, detail)
            return True
        assert self.run.receipt is not None
        self.add(check, Outcome.FAIL, detail)
        message = f"{check.title} is not the digest it should be: {check.covers}"
        self.report(Code.FOREIGN_HASH, message, self.run.receipt.at(path), expected=expected, found=found)
        return False


def check_tdx(run: Run, receipt: Document, origin: Origin | None = None) -> RunHashes:
    """Recompute the tree of digests of a TDX receipt, and verify its quote where the caller holds certificates."""
    out = RunHashes(run)
    for path in REQUIRED:
        if receipt.text(path) is None:
            out.report(Code.FOREIGN_SHAPE, f"the receipt has no text at {path}", receipt.at(path))
    result, files = receipt.text("tdx.result_sha256"), receipt.text("tdx.files_sha256")
    quote_text, nonce = receipt.text("tdx.quote_b64"), receipt.text("tdx.nonce")
    expected, scoring = map(receipt.text, EXPECTED)
    listing = _listing(expected, scoring)

    out.quote = _quote(out, receipt, quote_text)
    report_data = "" if out.quote is None else out.quote.report_data.hex()
    digest = partial(_digest, out)
    joined = partial(_joined, out, receipt)
    nonce_ok = joined(Check.REPORT_NONCE, REPORT_NONCE, report_data[:64] or None)
    result_ok = joined(Check.REPORT_RESULT, REPORT_RESULT, report_data[64:] or None)
    stdout_ok = _stdout(out, receipt, result)
    head = None if quote_text is None else quote_text[:64]
    identity_ok = digest(Check.RECEIPT_ID, "receipt_id", (head, result), receipt.text("receipt_id"), length=32)
    workload = receipt.text("tdx.workload_sha256")
    digest(Check.WORKLOAD, "tdx.workload_sha256", (WORKLOAD,), workload, prefix="sha256:")
    files_ok = digest(Check.FILES, "tdx.files_sha256", (listing,), files)
    form = _expected(out, expected)
    out.add(Check.BOUND_DIGEST, Outcome.NOT_CHECKED, "it cannot be recomputed, only pinned")
    out.add(Check.SCORER, Outcome.NOT_CHECKED, "the scorer's source is not in the log")
    if origin is None:
        out.add(Check.DCAP, Outcome.NOT_CHECKED, "needs Intel's certificates in a trust directory of the caller")
    elif out.quote is not None:
        origin.check(out, receipt)
    else:
        out.add(Check.DCAP, Outcome.NOT_CHECKED, "there is no quote that can be read")
    bound_nonce = _nonce(out, receipt, nonce) and nonce_ok

    bound = out.bound
    if nonce_ok:
        bound += [Bound(Record.RECEIPT, path, "quote") for path in REPORT_NONCE]
    if bound_nonce:
        bound += [Bound(Record.RECEIPT, path, "quote, nonce") for path in NONCE_COVERS]
    if result_ok:
        bound += [Bound(Record.RECEIPT, path, "quote") for path in REPORT_RESULT]
    if result_ok and identity_ok:
        bound.append(Bound(Record.RECEIPT, "receipt_id", "quote, result_sha256"))
    if result_ok and stdout_ok:
        bound.append(Bound(Record.RECEIPT, "tdx.stdout_b64", "quote, result_sha256"))
        bound.append(Bound(Record.SEALED, "", "quote, result_sha256"))
    if result_ok and files_ok:
        bound += [Bound(Record.RECEIPT, path, "quote, files_sha256") for path in EXPECTED]
        if form is not None:
            bound.append(Bound(form.record, form.prefix, "quote, files_sha256, _expected", form.excluding))
    _report_unbound(out, receipt)
    return out


def _quote(out: RunHashes, receipt: Document, text: str | None) -> Quote | None:
    if text is None:
        out.add(Check.QUOTE, Outcome.NOT_CHECKED, "the receipt has no quote")
        return None
    at = receipt.at("tdx.quote_b64")
    data = decode_base64(text)
    try:
        quote = parse_quote(data or b"", at, Code.FOREIGN_QUOTE)
    except LedgerError as error:
        out.findings.append(error.finding)
        out.add(Check.QUOTE, Outcome.FAIL, error.finding.message)
        return None
    if quote.trailing.strip(b"\0"):
        message = f"{len(quote.trailing)} bytes behind the signature data are not all zero"
        out.report(Code.FOREIGN_QUOTE_PADDING, message, at)
    out.add(Check.QUOTE, Outcome.PASS, f"{len(quote.trailing)} unsigned bytes behind it")
    return quote


def _digest(
    out: RunHashes,
    check: Check,
    path: str,
    parts: tuple[str | None, ...],
    found: str | None,
    *,
    length: int = 64,
    prefix: str = "",
) -> bool:
    """Compare the digest of joined texts with a stated one; what is missing makes it unchecked."""
    if found is None or None in parts:
        out.add(check, Outcome.NOT_CHECKED, "a field that it needs is not there")
        return False
    text = "".join(part for part in parts if part is not None)
    return out.compare(check, path, prefix + sha256_hex(text)[:length], found)


def _joined(out: RunHashes, receipt: Document, check: Check, parts: tuple[str, ...], found: str | None) -> bool:
    """Compare the digest of joined fields with a stated one. It covers each of them where all end where they should."""
    texts = tuple(map(receipt.text, parts))
    if found is None or None in texts or sha256_hex("".join(map(str, texts))) != plain(found):
        return _digest(out, check, "tdx.quote_b64", texts, found)
    odd = [path for path in parts if path in SHAPES and not SHAPES[path][1].fullmatch(receipt.text(path) or "")]
    for path in odd:
        shape = SHAPES[path][0]
        message = f"{check.title} comes out, and {path} is not {shape}: it may end elsewhere than what was hashed"
        out.report(Code.FOREIGN_SHAPE, message, receipt.at(path), expected=shape, found=(receipt.text(path) or "")[:80])
    out.add(check, Outcome.FAIL if odd else Outcome.PASS, "of fields that may end elsewhere" if odd else "")
    return not odd


def _stdout(out: RunHashes, receipt: Document, stated: str | None) -> bool:
    text = receipt.text("tdx.stdout_b64")
    output = None if text is None else decode_base64(text)
    if text is not None and output is None:
        at = receipt.at("tdx.stdout_b64")
        out.report(
            Code.FOREIGN_SHAPE, "the sealed output is no base64", at, expected="standard base64", found=text[:40]
        )
    if output is None or stated is None:
        out.add(Check.RESULT, Outcome.NOT_CHECKED, "there is no sealed output, or no digest of it")
        return False
    if out.run.sealed is None:
        message = "the sealed output holds no JSON object" if output else "the sealed output is empty"
        shown = output.decode(errors="replace").strip()[:120]
        out.report(Code.FOREIGN_ENCLAVE_FAILED, message, receipt.at("tdx.stdout_b64"), found=shown)
    return out.compare(Check.RESULT, "tdx.result_sha256", sha256_hex(output), stated)


def _listing(result: str | None, scoring: str | None) -> str | None:
    if result is None or scoring is None:
        return None
    files = {"/submission/result.json": result, "/submission/score.py": scoring}
    return "".join(f"{path}\t{digest}\n" for path, digest in sorted(files.items()))


@dataclass(frozen=True, slots=True)
class Form:
    """A record, or part of one, that may be the result that was sealed."""

    record: Record
    prefix: str
    value: JsonTree
    title: str
    excluding: tuple[str, ...] = ()


def _forms(run: Run) -> Iterator[Form]:
    if run.result is not None:
        for added in UNSEALED:
            kept = {key: value for key, value in run.result.object.items() if key not in added}
            yield Form(Record.RESULT, "", kept, f"result.json without {' and '.join(added)}", added)
    attestation = {} if run.receipt is None else run.receipt.object.get("attestation")
    if isinstance(attestation, dict) and "measurements" in attestation:
        value = attestation["measurements"]
        yield Form(Record.RECEIPT, "attestation.measurements", value, "attestation.measurements")
    if run.log is not None and run.log.result is not None:
        yield Form(Record.LOGGED, "", run.log.result.root, "the result printed in the log")


def _expected(out: RunHashes, stated: str | None) -> Form | None:
    """Find the record whose digest is the sealed one; report when it is not the published result."""
    run = out.run
    if stated is None:
        out.add(Check.EXPECTED, Outcome.NOT_CHECKED, "the receipt does not state it")
        return None
    assert run.receipt is not None
    digests = {}
    for form in _forms(run):
        spelled = python_json(form.value)
        digests[form.record] = sha256_hex(spelled or b"")
        if digests[form.record] == stated:
            out.add(Check.EXPECTED, Outcome.PASS, form.title)
            if form.record is not Record.RESULT and run.result is not None:
                message = f"the sealed result is {form.title}, not result.json"
                out.report(Code.FOREIGN_RESULT_REWRITTEN, message, run.result.position)
            _report_added(out, form)
            return form
    if run.result is not None:
        out.compare(Check.EXPECTED, "_expected.result_sha256", digests[Record.RESULT], stated)
        return None
    out.add(Check.EXPECTED, Outcome.NOT_CHECKED, "there is no result.json")
    rebuilt = _rebuild(run)
    if rebuilt is not None:
        matches = sha256_hex(python_json(rebuilt) or b"") == stated
        detail = "sealed output, with label and pass of the attestation and without what the enclave added"
        out.add(Check.REBUILT, Outcome.PASS if matches else Outcome.NOT_CHECKED, detail)
    return None


def _report_added(out: RunHashes, form: Form) -> None:
    result = out.run.result
    if form.record is Record.RESULT and result is not None:
        for name in set(form.excluding) & result.object.keys() - set(UNSEALED[0]):
            message = f"{name} is in result.json and not in the result that was sealed"
            at = next(leaf for path, leaf in result.leaves.items() if path.startswith(name))
            out.report(Code.FOREIGN_ADDED_AFTER_SEALING, message, at.position)


def _rebuild(run: Run) -> JsonTree:
    """A result that is not there: the enclave prints its input and adds its own verdict, which is taken out again."""
    if run.sealed is None or run.receipt is None:
        return None
    added = ("guard", "guard_regression_labels", "reason")
    value = {key: item for key, item in run.sealed.object.items() if key not in added}
    for key in ("label", "pass"):
        leaf = run.receipt.leaves.get(f"attestation.verdict.{key}")
        if leaf is not None and isinstance(leaf.value, bool | str):
            value[key] = leaf.value
    return value


def _nonce(out: RunHashes, receipt: Document, nonce: str | None) -> bool:
    """Whether the nonce is the documented digest."""
    parts = [receipt.text(path) for path in NONCE_COVERS]
    text = "".join(part for part in parts if part is not None)
    if nonce is not None and None not in parts and sha256_hex(text) == nonce:
        return _joined(out, receipt, Check.NONCE, NONCE_COVERS, nonce)
    if nonce is None:
        out.add(Check.NONCE, Outcome.NOT_CHECKED, "not there")
        return False
    out.add(Check.NONCE, Outcome.NOT_CHECKED, "a random value: membership in the report data only")
    message = f"nonce of {len(nonce)} characters is no digest of commit, model_sha256 and eval_seed"
    out.report(Code.FOREIGN_NONCE_UNBOUND, message, receipt.at("tdx.nonce"))
    return False


def _report_unbound(out: RunHashes, receipt: Document) -> None:
    body = [path for path in receipt.leaves if path.startswith("attestation.")]
    if body and not any(bound.covers(Record.RECEIPT, path) for path in body for bound in out.bound):
        message = f"no digest of the attestation's {len(body)} values is among what the quote covers"
        out.report(Code.FOREIGN_ATTESTATION_UNBOUND, message, receipt.at(body[0]))
    claims = {path: leaf.value for path, leaf in receipt.leaves.items() if path.startswith("tdx.verification.")}
    denied = [path for path, value in claims.items() if value is False]
    stated = [path for path, value in claims.items() if value not in (None, "") and value is not False]
    if stated:
        said = ", ".join(_claim(path, claims[path]) for path in stated)
        out.report(Code.FOREIGN_VERIFICATION_ASSERTED, f"the receipt says of itself: {said}", receipt.at(stated[0]))
    if denied:
        said = ", ".join(f"{path.rpartition('.')[2]} is false" for path in denied)
        message = f"the receipt says of itself that it was not verified: {said}"
        out.report(Code.FOREIGN_VERIFICATION_DENIED, message, receipt.at(denied[0]), expected="true", found="false")


def _claim(path: str, value: Scalar) -> str:
    name = path.rpartition(".")[2]
    return name if value is True else f"{name} is {show(value)[:80]}"
