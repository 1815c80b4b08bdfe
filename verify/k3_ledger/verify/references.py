"""Step 10, second half: what entries name exists, stands before them, and is something that they can be about."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.schemas.envelope import may_name
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.again import read_again
from k3_ledger.verify.chunks import Chunker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

_KIND: Final = b',"kind":"'
"""What stands in front of an entry's kind; behind it come only its prev, schema and time."""


def check_references(scan: Scan, source: LogSource) -> None:
    """Resolve what the pass collected. Costs a second, cheap pass, and memory for the references only.

    Raises:
        StoreError: the source could not be read again, or is no longer what was verified.
    """
    waiting = scan.references
    if not waiting:
        return
    tally = scan.tallies["receipts"]
    disowned = scan.keyring.disowned()
    tally.checked += count_references(scan)
    found: dict[str, tuple[int, str]] = {}
    for first_line, data in _chunks(scan, source):
        for position, raw in enumerate(data.split(b"\n")[:-1], start=first_line):
            try:
                entry = parse_line(raw).entry
            except LedgerError:
                continue  # reported by step 1
            identity = sha256(entry).hexdigest()
            if identity in waiting:
                kind, _, _ = entry[entry.rfind(_KIND) + len(_KIND) :].partition(b'"')
                found.setdefault(identity, (position, kind.decode("ascii", "replace")))
    for target, uses in waiting.items():
        at, named = found.get(target, (None, ""))
        for position, by, where in uses:
            if position in disowned:
                continue
            place = Position(index=position, line=position + 1, field=f"body.{where}")
            if at is None and scan.broken is not None and scan.broken < position:
                tally.checked -= 1  # it may be a line that is broken, as was said
                tally.not_checked += 1
            elif at is None or at >= position:
                tally.failed += 1
                scan.findings.add(
                    Finding(
                        Code.REFERENCE_UNKNOWN,
                        "the entry names an entry that does not stand before it",
                        place,
                        "the identity of an earlier entry",
                        target if at is None else f"{target}, entry {at}",
                    )
                )
            elif not may_name(by, where, named):
                tally.failed += 1
                message = f"a {by} names an entry that it cannot be about"
                scan.findings.add(Finding(Code.REFERENCE_KIND, message, place, found=f"entry {at} of kind {named}"))


def count_references(scan: Scan) -> int:
    """How often entries that count name another one; what others name is counted as disowned."""
    return len(scan.standing("receipts", [position for uses in scan.references.values() for position, _, _ in uses]))


def _chunks(scan: Scan, source: LogSource) -> Iterator[tuple[int, bytes]]:
    """(position of the first line, whole lines) of the very bytes that the pass saw."""
    if Code.LINE_TOO_LONG not in scan.findings.counts:
        yield from ((mark.first_line, data) for mark, data in read_again(source, scan.marks))
        return
    for chunk in Chunker(source.blocks()):  # of such a log the pass did not see every byte, and it is false already
        yield chunk.first_line, chunk.data
