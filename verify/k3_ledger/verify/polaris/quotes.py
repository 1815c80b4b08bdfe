"""Step 13 for `import` entries: the quote of a foreign receipt, by the checker that the audit uses.

What is checked is the original, an artifact of the entry: its quote under the reader's certificates and demands, and
that the quote's report data are those that the receipt's own digests make. Everything else that an original may say
wrong is the audit's, and the entry keeps what that found.

Whether an import is attested its original says, and not the entry: `attestation` and `format` are the importer's words.
An entry that calls itself `none` is passed over only where its original is here and carries no quote. What is not one
JSON object says neither: it is passed over as the text that it is, unless something in it looks like a quote, or it is
no text at all (compressed, in another encoding). Then the entry is not checked.

Which of its artifacts the original is, is the importer's word, too. So the others are looked through as well: a quote
in one of them that is not the original's own is named and counted as not checked, and one that is not here may carry
one. It is not judged, because the receipt that it belongs to is not the one that was imported. What is longer than
:data:`MAX_ORIGINAL` is no receipt of the family, such as the log text of a round.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.again import read_again
from k3_ledger.verify.artifacts import read_artifact
from k3_ledger.verify.polaris.audit import check_receipt
from k3_ledger.verify.polaris.hashes import Check
from k3_ledger.verify.polaris.origin import open_origin
from k3_ledger.verify.polaris.parse import parse_log
from k3_ledger.verify.polaris.to_import import FORMAT
from k3_ledger.verify.tee.outcome import worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.attestation import AttestationPolicy
    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.origin import Origin
    from k3_ledger.verify.polaris.parse import Run
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

QUOTED: Final = "tdx-quote"
"""How an import body, and its original, say that the original carries a quote."""
MAX_ORIGINAL: Final = 1 << 22
"""Longest original that is read, in bytes; one of the family has about 60,000."""
NEEDED: Final = (
    *(Check.QUOTE, Check.REPORT_NONCE, Check.REPORT_RESULT, Check.RESULT),
    *(Check.DCAP, Check.PLATFORM, Check.MEASUREMENTS),
)
"""What has to pass before a foreign receipt is called attested."""
_UNBOUND: Final = frozenset({Code.FOREIGN_ATTESTATION_UNBOUND, Code.FOREIGN_NONCE_UNBOUND})
"""What a quote leaves open of its receipt."""
_MAY_CARRY: Final = re.compile(rb"tdx|\\u")
"""In what carries a quote stands its name, or an escaped letter."""
_LIKE_A_QUOTE: Final = re.compile(
    rb"|".join(
        b'"' + b"".join(rb"(?:%c|\\u00(?i:%02x))" % (byte, byte) for byte in name) + b'"'
        for name in (b"tdx", b"quote_b64")
    )
    + rb"|(?<![A-Za-z0-9+/\\])[A-Za-z0-9+/\\]{1024}"  # from where base64 begins: linear in what is searched
)
"""A member that holds one, or base64 as long as the shortest: looked for in what is not one JSON object."""


def check_imported(scan: Scan, source: LogSource, demands: AttestationPolicy) -> str | None:
    """Check the originals of attested imports; tallies and findings are added to ``scan``.

    Returns:
        What became of them, in words; None where no import is attested.

    Raises:
        PolicyError: the trust directory holds what is no certificate.
        StoreError: the log could not be read again, or is no longer what was verified.
    """
    origin = open_origin(demands)
    tally = scan.tallies["attestations"]
    seen = passed = 0
    for position, body in read_imports(scan, source):
        found = _check(body, source, origin)
        if found is None:
            continue
        outcome, findings = found
        seen += 1
        tally.checked += outcome is not Outcome.NOT_CHECKED
        tally.not_checked += outcome is Outcome.NOT_CHECKED
        tally.failed += outcome is Outcome.FAIL
        passed += outcome is Outcome.PASS
        place = scan.place(position, "body.original_sha256")
        for finding in findings:
            scan.findings.add(replace(finding, position=place))
    if not seen:
        return None
    return f"{seen} imported receipts with foreign attestations, {passed} of which hold; {origin.sentence}"


def read_imports(scan: Scan, source: LogSource) -> Iterator[tuple[int, Any]]:
    """(position, body) of the imports that count, in log order.

    Raises:
        StoreError: the log could not be read again, or is no longer what was verified.
    """
    wanted = set(scan.imports) - scan.keyring.disowned()
    for mark, data in read_again(source, scan.marks):
        for position, line in enumerate(data.split(b"\n")[:-1], start=mark.first_line):
            if position in wanted:
                yield position, decode(parse_line(line).entry).body


def _check(body: Any, source: LogSource, origin: Origin) -> tuple[Outcome, list[Finding]] | None:
    """What became of one import; None where neither the entry nor any of its artifacts says that it is attested."""
    data = read_artifact(source, body.original_sha256, MAX_ORIGINAL)
    if data is None:
        return _open("its original is not here")
    run = _parse(data)
    found = _check_original(body, data, run, origin)
    strays = list(_strays(body, run, source, attested=found is not None))
    if not strays:
        return found
    outcome, findings = (Outcome.NOT_CHECKED, []) if found is None else found
    return worst((outcome, Outcome.NOT_CHECKED)), [*findings, *strays]


def _parse(data: bytes) -> Run:
    (run,) = parse_log({"runs/original/receipt.json": data}).runs
    return run


def _strays(body: Any, run: Run, source: LogSource, *, attested: bool) -> Iterator[Finding]:
    """Quotes in other artifacts than the original, and artifacts of an unattested import that are not here."""
    for artifact in body.artifacts:
        if artifact.sha256 == body.original_sha256 or artifact.size > MAX_ORIGINAL:
            continue
        data = read_artifact(source, artifact.sha256, MAX_ORIGINAL)
        if data is None:
            if not attested:
                why = f"the artifact {artifact.name} is not here, so whether it carries a quote cannot be told"
                yield Finding(Code.IMPORT_QUOTE_OPEN, f"an imported receipt's quote was not checked: {why}")
        else:
            named = _MAY_CARRY.search(data) or _LIKE_A_QUOTE.search(data)
            receipt = None if named is None else _parse(data).receipt
            hides = _hides(data, receipt)
            if hides and (not attested or hides == _LIKELY):
                yield Finding(
                    Code.IMPORT_QUOTE_OPEN,
                    f"an imported receipt's quote was not checked: the artifact {artifact.name} {hides}",
                )
            if receipt is not None and "tdx" in receipt.object and _quote(receipt) != _quote(run.receipt):
                yield Finding(
                    Code.IMPORT_QUOTE_ELSEWHERE,
                    f"the artifact {artifact.name} carries a quote, and the entry names another one as its original",
                    expected="a quote in the original or nowhere",
                    found=f"sha256 {artifact.sha256}",
                )


_LIKELY: Final = "is not one JSON object, and what looks like a quote stands in it"
_UNTOLD: Final = "is no text, so whether it carries a quote cannot be told"


def _hides(data: bytes, receipt: Document | None) -> str:
    """Why an artifact may carry a quote that nobody can read; empty where it cannot."""
    if receipt is not None and isinstance(receipt.root, dict):
        return ""
    try:
        is_text = "\0" not in data.decode()
    except UnicodeDecodeError:
        is_text = False
    if _LIKE_A_QUOTE.search(data) is not None:
        return _LIKELY
    return "" if is_text else _UNTOLD


def _quote(receipt: Document | None) -> str | None:
    return None if receipt is None else receipt.text("tdx.quote_b64")


def _check_original(body: Any, data: bytes, run: Run, origin: Origin) -> tuple[Outcome, list[Finding]] | None:
    quoted = _is_quoted(run)
    if not quoted and body.attestation == "none":
        hides = _hides(data, run.receipt)
        return _open(f"its original {hides}") if hides else None
    if body.format != FORMAT:
        return _open(f"it is of the format {body.format}, which is not read here")
    if not quoted and body.attestation != QUOTED:
        return _open(f"its attestation is {body.attestation}, which is not a quote")
    hashes = check_receipt(run, (), origin)
    outcomes = {result.check: result.outcome for result in hashes.results}
    outcome = worst(outcomes.get(check, Outcome.NOT_CHECKED) for check in NEEDED)
    found = [finding for finding in hashes.findings if _is_told(finding, outcome)]
    if outcome is Outcome.NOT_CHECKED:
        first = next(check for check in NEEDED if outcomes.get(check) is not Outcome.PASS)
        found += _open(f"{first.title} could not be checked")[1]
    return outcome, found


def _is_told(finding: Finding, outcome: Outcome) -> bool:
    """Whether a finding about an original is one of this step: the rest is wrong elsewhere in it, and the audit's.

    How little a quote covers matters where it holds, and is no part of why it fails.
    """
    if finding.code in _UNBOUND:
        return outcome is Outcome.PASS
    if finding.code.info.exit:
        return outcome is Outcome.FAIL
    return finding.code.name.startswith("QUOTE_")


def _is_quoted(run: Run) -> bool:
    """Whether an original carries a quote, or says that it does, in a form that it can be read in or not."""
    receipt = run.receipt
    return receipt is not None and ("tdx" in receipt.object or receipt.text("attestation_type") == QUOTED)


def _open(why: str) -> tuple[Outcome, list[Finding]]:
    return Outcome.NOT_CHECKED, [Finding(Code.IMPORT_QUOTE_OPEN, f"an imported receipt's quote was not checked: {why}")]
