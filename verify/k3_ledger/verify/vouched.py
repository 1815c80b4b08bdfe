"""Whether a remembered head is the word of this log's own root, though this history never enrolled who signed it.

A head says who signed it and not who made that key a log key. So a reader keeps, with a head that verified, the entries
that say so: the genesis entry and the root actions that enrol the signer, each signed by a root key. Where the log that
is shown later has the same root and knows nothing of that signer, there are two histories under one root: whoever holds
the root key made both, or it was stolen. Nobody else can make such entries, so a stranger's head still accuses nobody.

A head that was kept alone, as a bare note, is held against the entries that were kept with another one. They say who
made that key a log key whichever head stands beside them, so it is the same proof; and without any such entries a note
that an older note's key signed proves nothing, for anybody can sign two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.note import parse_note
from k3_ledger.ledger.core.proof import ProofEntry, ProofFile
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.verify.scan import Scan

if TYPE_CHECKING:
    from k3_ledger.verify.heads import SignedHead

MAX_ENROLMENTS: Final = 1 << 20
"""Most bytes of entries that are kept beside a head; where it rests on more, it is kept alone."""


def enrolments_of(scan: Scan, note: bytes) -> tuple[bytes, ...]:
    """The lines of a log that verified which enrol the signer of its newest head, genesis first, without their LF."""
    from k3_ledger.verify.prove import rests_on  # noqa: PLC0415 - only where a head is to be remembered

    first = scan.actions[0]
    try:
        needed = rests_on(0, {0: first}, {at: line for at, line in scan.actions.items() if at}, note, scan.source)
    except LedgerError:  # there are too many
        return ()
    lines = tuple(line for _, line in sorted({0: first, **needed}.items()))
    return lines if sum(map(len, lines)) <= MAX_ENROLMENTS else ()


def is_own_roots(scan: Scan, head: SignedHead) -> bool:
    """Whether entries kept with this head, or with another, show that a root key of this log's genesis stands behind
    its signer.
    """
    return bool(_behind(scan, head))


def _behind(scan: Scan, head: SignedHead) -> tuple[bytes, ...]:
    """The entries that show it; those that were kept with the head itself decide alone. None where none show it."""
    own = scan.enrolments.get(head.name)
    for lines in scan.enrolments.values() if own is None else (own,):
        if _shows(scan, head, lines):
            return lines
    return ()


def _shows(scan: Scan, head: SignedHead, lines: tuple[bytes, ...]) -> bool:
    from k3_ledger.verify.head_faults import head_faults  # noqa: PLC0415 - they ask each other
    from k3_ledger.verify.proof import check_lines  # noqa: PLC0415 - only where a head is foreign otherwise

    if not lines or scan.genesis is None:
        return False
    try:
        entries = tuple(ProofEntry(decode(parse_line(line).entry).index, line, ()) for line in lines)
        parse_note(head.raw)
    except LedgerError:
        return False
    positions = [entry.index for entry in entries]
    if positions[0] != 0 or positions != sorted(set(positions)):
        return False
    other = Scan(source=head.name)
    check_lines(other, head.name, ProofFile(0, entries, head.raw), None)
    known, mine = other.genesis, scan.genesis
    if known is None or any(code.info.exit for code in other.findings.counts):
        return False
    if (known.origin, known.root_public_key) != (mine.origin, mine.root_public_key):
        return False
    return not list(head_faults(other, head.as_the_logs_own()))


def parts(scan: Scan, head: SignedHead) -> bool:
    """Whether one of those entries stands elsewhere in this history, or another in its place; not where a damaged line
    does, or behind one.
    """
    kept = scan.enrolments.get(head.name) or _behind(scan, head)
    positions = {decode(parse_line(line).entry).index: line for line in kept}
    sound = scan.lines if scan.unsound is None else scan.unsound
    return any(scan.actions.get(at) != line for at, line in positions.items() if at < sound)
