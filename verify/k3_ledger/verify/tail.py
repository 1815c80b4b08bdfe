"""What to do about a torn tail, once everything else about the log is known: what `recover` would do, and no more."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.chain import SIGN_PREFIX
from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.lines import TailKind
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import ExitCode, Position, Severity
from k3_ledger.verify.work import LOG_NAME, link_faults, link_of

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


def forgery(scan: Scan) -> list[Finding]:
    """What is wrong with a tail that is a whole entry without its line feed: then no cut write left it.

    The writer asks the same before it appends or recovers.
    """
    assert scan.tail is not None, "a finished scan has a tail"
    tail, last, lives = scan.tail, scan.last_identity, scan.keyring.lives
    if tail.kind is not TailKind.TORN or last is None or not lives or not _is_complete(scan):
        return []
    place = Position(LOG_NAME, tail.line, tail.offset, tail.line - 1)
    line = parse_line(tail.data)
    try:
        entry = decode(line.entry, place)
        link = link_of(entry, scan.lines, tail.offset, sha256(line.entry).hexdigest())
        found = [fault for fault in link_faults(scan.last, last, link) if fault.severity is Severity.ERROR]
        if found:
            return found
        life = lives.get(entry.key)
        if life is None:
            return [
                Finding(Code.KEY_UNKNOWN, "the signing key was never enrolled", place, "an enrolled key", entry.key)
            ]
        check_signature(life.public_key, SIGN_PREFIX + line.entry, line.sig)
    except LedgerError as error:
        return [replace(error.finding, position=place)]
    return []


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
