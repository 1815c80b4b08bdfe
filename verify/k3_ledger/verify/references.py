"""Step 10, second half: entries that name earlier entries name entries that exist, and that stand before them."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.chunks import Chunker

if TYPE_CHECKING:
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource


def check_references(scan: Scan, source: LogSource) -> None:
    """Resolve what the pass collected. Costs a second, cheap pass, and memory for the references only.

    Raises:
        StoreError: the source could not be read again.
    """
    waiting = scan.references
    if not waiting:
        return
    tally = scan.tallies["receipts"]
    tally.checked += sum(map(len, waiting.values()))
    found: dict[str, int] = {}
    for chunk in Chunker(source.blocks()):
        for position, raw in enumerate(chunk.data.split(b"\n")[:-1], start=chunk.first_line):
            try:
                identity = sha256(parse_line(raw).entry).hexdigest()
            except LedgerError:
                continue  # reported by step 1
            if identity in waiting:
                found.setdefault(identity, position)
    for target, uses in waiting.items():
        at = found.get(target)
        for position, where in uses:
            if at is None or at >= position:
                tally.failed += 1
                scan.findings.add(
                    Finding(
                        Code.REFERENCE_UNKNOWN,
                        "the entry names an entry that does not stand before it",
                        Position(index=position, line=position + 1, field=where),
                        "the identity of an earlier entry",
                        target if at is None else f"{target}, entry {at}",
                    )
                )
