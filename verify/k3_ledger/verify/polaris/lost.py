"""Receipts that a log has no more, that cannot be read or state neither form: what would be checked of them is not.

Without this, whoever removes a receipt, or breaks it, lowers every count of an audit. What is counted for such a
receipt is what most receipts of the same log are checked for; which fields it would have shared with other records
nobody knows.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.polaris.hashes import Check, RunHashes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.verify.polaris.foreign_json import Document
    from k3_ledger.verify.polaris.parse import Run

OF_A_QUOTE: Final = (
    Check.RECEIPT_ID,
    Check.RESULT,
    Check.WORKLOAD,
    Check.EXPECTED,
    Check.FILES,
    Check.REPORT_NONCE,
    Check.REPORT_RESULT,
    Check.NONCE,
    Check.BOUND_DIGEST,
    Check.SCORER,
    Check.QUOTE,
    Check.DCAP,
)
"""Checks of a receipt with a quote, as which a lost one counts where the log has no other receipt."""
NOT_OF_EVERY: Final = frozenset({Check.REBUILT, Check.PLATFORM, Check.MEASUREMENTS})
"""Checks that come up only where another came out, or failed."""
NAMING: Final = ("receipt_id", "polaris_receipt_id", "attestation_type", "polaris")
"""Fields by which a record says that its run has a receipt, the last one by being true."""
NONE: Final = frozenset({"", "none", "null"})
"""What such a field holds where there is none."""


def usual_checks(hashes: Iterable[RunHashes]) -> tuple[Check, ...]:
    """What most receipts of a log are checked for."""
    done = (tuple(r.check for r in found.results if r.check not in NOT_OF_EVERY) for found in hashes)
    counts = Counter(checks for checks in done if checks)
    return next((checks for checks, _ in counts.most_common(1)), OF_A_QUOTE)


def check_lost(found: RunHashes, checks: tuple[Check, ...]) -> None:
    """Count the digests of a run of which none were looked at; none where no record says that it has a receipt.

    Args:
        found: what became of its digests so far.
        checks: what the receipt would have been checked for.
    """
    run = found.run
    if run.receipt is not None:
        reason = "the receipt has neither form"
    elif any(path.endswith("/receipt.json") for path in run.files):
        reason = "the receipt cannot be read"
    elif (naming := _named(run)) is not None:
        reason = "the receipt is named and not there"
        document, name, said = naming
        if run.files:  # of a run that is only listed everything is missing, which is said
            message = f"{run.run_id}: {name} is {said[:80]} in {document.source}, and no receipt.json is there"
            found.report(
                Code.FOREIGN_RECEIPT_GONE, message, document.at(name), expected="receipt.json", found="nothing"
            )
    else:
        return
    for check in checks:
        found.add(check, Outcome.NOT_CHECKED, reason)


def _named(run: Run) -> tuple[Document, str, str] | None:
    """The first record that says that the run has a receipt: the record, the field, what it holds."""
    logged = None if run.log is None else run.log.result
    records = [document for document in (run.result, logged, *run.ledger, *run.index) if document is not None]
    stated = ((document, name, _said(document, name)) for document in records for name in NAMING)
    return next((one for one in stated if one[2].lower() not in NONE), None)


def _said(document: Document, name: str) -> str:
    leaf = document.leaves.get(name)
    if name == "polaris":
        return "true" if leaf is not None and leaf.value is True else ""
    return document.text(name) or ""
