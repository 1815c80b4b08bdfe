"""Step 8, second half: `witness` entries, which keep a cosignature in the log for the record.

Such an entry says: the witness of that name signed the checkpoint whose text has that digest, and this is its line. It
is the log's word, and vouches for nothing: no quorum counts it, and no time follows from it. But it can be false, and
then it is an error: the line is no cosignature line of that name, or not the witness's signature over that checkpoint.
That the checkpoint was there before the entry needs no check: no tree holds an entry that holds a digest of the tree.

The checkpoint has to be among the log's good heads that are here, and the witness's key in the reader's policy, or
enrolled in the log in the role `witness`. Where either is missing the entry is not checked, and the report says which.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.cosignature import COSIGNATURE_LEN, Witness, read_cosignatures
from k3_ledger.ledger.core.framing import parse_line
from k3_ledger.ledger.core.note import KeyType, UnverifiedNote, Verifier, parse_note
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.again import read_again

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.policy import TrustPolicy
    from k3_ledger.verify.scan import Scan
    from k3_ledger.verify.source import LogSource

KIND = "witness"


def count_witness_entries(scan: Scan) -> int:
    """Count entries of the kind as not checked, where the log itself is not at hand; how many there are."""
    count = len(_positions(scan))
    scan.tallies["witnesses"].not_checked += count
    return count


def check_witness_entries(scan: Scan, source: LogSource, policy: TrustPolicy | None) -> None:
    """Check what `witness` entries say. Costs a pass over the log where there are any, and nothing where not.

    Raises:
        StoreError: the source could not be read again, or is no longer what was verified.
    """
    positions = _positions(scan)
    if not positions:
        return
    if Code.LINE_TOO_LONG in scan.findings.counts:  # of such a log the pass did not see every byte
        count_witness_entries(scan)
        return
    tally = scan.tallies["witnesses"]
    heads = {sha256(parse_note(head.raw).text.encode()).hexdigest(): head for head in scan.good_heads}
    for position, body in _bodies(scan, source, positions):
        place = scan.place(position, "body.cosignature")
        code, message = _judge(scan, policy, body, heads)
        tally.checked += code is not Code.WITNESS_ENTRY_OPEN
        tally.not_checked += code is Code.WITNESS_ENTRY_OPEN
        if code is not None:
            tally.failed += code is Code.WITNESS_ENTRY_FALSE
            scan.findings.add(Finding(code, message, place, found=body.cosignature[:200]))


def _positions(scan: Scan) -> set[int]:
    """Where such entries stand that count and whose signature verified."""
    found = {at for (_, kind), uses in scan.keyring.uses.items() if kind == KIND for at in uses}
    return found - scan.keyring.disowned() if found else found


def _bodies(scan: Scan, source: LogSource, positions: set[int]) -> Iterator[tuple[int, Any]]:
    for mark, data in read_again(source, scan.marks):
        lines = data.split(b"\n")[:-1]
        for position in sorted(positions & set(range(mark.first_line, mark.first_line + len(lines)))):
            yield position, decode(parse_line(lines[position - mark.first_line]).entry).body


def read_line(body: Any) -> UnverifiedNote:
    """The one signature line of an entry, behind a text that stands for the checkpoint's.

    Raises:
        LedgerError: it is no cosignature line of the witness that the entry names.
    """
    note = parse_note(f"?\n\n{body.cosignature}\n".encode())
    if [(sig.name, len(sig.signature)) for sig in note.sigs] != [(body.witness, COSIGNATURE_LEN)]:
        raise LedgerError(Code.WITNESS_ENTRY_FALSE, "the line is no cosignature line of the witness that is named")
    return note


def _judge(scan: Scan, policy: TrustPolicy | None, body: Any, heads: dict[str, SignedHead]) -> tuple[Code | None, str]:
    try:
        sigs = read_line(body).sigs
    except LedgerError as error:
        return Code.WITNESS_ENTRY_FALSE, error.finding.message
    head = heads.get(body.checkpoint_sha256)
    if head is None:
        return Code.WITNESS_ENTRY_OPEN, "the checkpoint that was cosigned is none of the log's good heads that are here"
    known = [
        witness for witness in _witnesses(scan, policy, body.witness) if witness.verifier.key_hash == sigs[0].key_hash
    ]
    if not known:
        return Code.WITNESS_ENTRY_OPEN, f"no key of {body.witness} is known that could have signed the line"
    found = read_cosignatures(UnverifiedNote(parse_note(head.raw).text, sigs), known)
    if found.good:
        return None, ""
    return Code.WITNESS_ENTRY_FALSE, found.bad[0].finding.message


def _witnesses(scan: Scan, policy: TrustPolicy | None, name: str) -> Iterator[Witness]:
    """Witnesses of a name whose key the reader or the log knows."""
    if policy is not None:
        yield from policy.witnesses  # whose key hash holds the name
    for life in scan.keyring.lives.values():
        if life.role == "witness":
            yield Witness(Verifier(name, life.public_key, KeyType.COSIGNATURE), name)
