"""Receipts that a log has no more, or that cannot be read: what would have been checked of them is not checked.

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


def check_lost(run: Run, checks: tuple[Check, ...]) -> RunHashes:
    """What became of a run's receipt that could not be read; nothing where no record says that there was one.

    Args:
        run: a run without a receipt.
        checks: what it would have been checked for.
    """
    out = RunHashes(run)
    if any(path.endswith("/receipt.json") for path in run.files):
        reason = "the receipt cannot be read"
    elif (naming := _named(run)) is not None:
        reason = "the receipt is named and not there"
        document, name, said = naming
        if run.files:  # of a run that is only listed everything is missing, which is said
            message = f"{run.run_id}: {name} is {said[:80]} in {document.source}, and no receipt.json is there"
            out.report(Code.FOREIGN_RECEIPT_GONE, message, document.at(name), expected="receipt.json", found="nothing")
    else:
        return out
    for check in checks:
        out.add(check, Outcome.NOT_CHECKED, reason)
    return out


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
