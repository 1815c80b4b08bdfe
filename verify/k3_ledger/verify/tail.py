"""What to do about a torn tail, once everything else about the log is known: what `recover` would do, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.lines import TailKind
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode

if TYPE_CHECKING:
    from k3_ledger.verify.heads import Heads
    from k3_ledger.verify.scan import Scan

TORN = frozenset({Code.TORN_TAIL, Code.NUL_TAIL})
CUT = TORN | {Code.EMPTY_LEDGER}
LOST = "restore ledger.jsonl from a copy that verifies; do not recover: entries that a signed head commits to are lost"
RESTORABLE = "run k3-ledger recover: it puts the missing line feed back, or says why it must not"
NOTHING_WHOLE = (
    "restore ledger.jsonl from a copy; where it never held a whole entry, k3-ledger recover keeps these bytes aside "
    "and clears the place for k3-ledger init"
)
ELSE_WRONG = "see to the other errors first: k3-ledger recover is for a log that has a torn tail and nothing else"


def advise_on_tail(scan: Scan, heads: Heads) -> None:
    """Keep the report from sending anyone to a recovery that would be refused."""
    counts = scan.findings.counts
    if not CUT & counts.keys():
        return
    promised = max((head.checkpoint.size for head in heads.heads), default=0)
    kept = any(head.step == "checkpoint" and head.checkpoint.size == promised for head in heads.heads)
    if promised > scan.lines:
        restorable = kept and promised == scan.lines + 1 and scan.lines > 0 and _is_complete(scan)
        scan.findings.advise(CUT, RESTORABLE if restorable else LOST)
    elif any(code.info.exit in (ExitCode.FALSE, ExitCode.UNREADABLE) for code in counts):
        scan.findings.advise(TORN, ELSE_WRONG)
    elif not scan.lines:
        scan.findings.advise(TORN, NOTHING_WHOLE)


def is_remainder(scan: Scan) -> bool:
    """Whether no line is whole, and what there is instead is what a cut leaves of a first one, down to nothing."""
    assert scan.tail is not None, "a finished scan has a tail"
    return not scan.lines and scan.tail.kind is not TailKind.DAMAGED


def _is_complete(scan: Scan) -> bool:
    """Whether the tail is a line that lacks its line feed and nothing else."""
    assert scan.tail is not None, "a torn tail was found"
    try:
        parse_line(scan.tail.data)
    except LedgerError:
        return False
    return True
