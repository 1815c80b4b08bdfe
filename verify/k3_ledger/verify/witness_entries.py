"""Step 8, second half: `witness` entries, which keep a cosignature in the log for the record.

Such an entry says: the witness of that name signed the checkpoint whose text has that digest, and this is its line. It
is the log's word, and vouches for nothing: no quorum counts it, and no time follows from it. But it can be false, and
then it is an error: the line is no cosignature line of that name, or not the witness's signature over that checkpoint.
That the checkpoint was there before the entry needs no check: no tree holds an entry that holds a digest of the tree.

The checkpoint has to be among the log's good heads that are here, or the kept ones that a revocation took back since:
what it took from them makes no entry less true. The witness's key has to be in the reader's policy, or enrolled in the
log in the role `witness`. Where either is missing the entry is not checked, and the report says which.

Only the policy makes a witness of a key. So where just the log knows the key, the entry can be found false, and where
it is not it adds nothing to what the step checked: a policy that requires the step is not met by the log's own word.
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
    from collections.abc import Iterable, Iterator

    from k3_ledger.ledger.core.keyring import Keyring
    from k3_ledger.ledger.core.note import NoteSignature
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
        scan.tallies["witnesses"].not_checked += len(positions)
        return
    tally = scan.tallies["witnesses"]
    known = (*scan.disowned_heads, *scan.good_heads)
    heads = {sha256(parse_note(head.raw).text.encode()).hexdigest(): head for head in known}
    own = 0
    for position, body in _bodies(scan, source, positions):
        place = scan.place(position, "body.cosignature")
        code, message, named = _judge(scan, policy, body, heads)
        own += code is None and not named
        tally.checked += code is Code.WITNESS_ENTRY_FALSE or (code is None and named)
        tally.not_checked += code is Code.WITNESS_ENTRY_OPEN
        if code is not None:
            tally.failed += code is Code.WITNESS_ENTRY_FALSE
            scan.findings.add(Finding(code, message, place, found=body.cosignature[:200]))
    if own:
        said = f"{own} kept cosignatures by keys that only the log calls witnesses count for nothing"
        tally.detail = f"{tally.detail}; {said}"


def _positions(scan: Scan) -> set[int]:
    """Where such entries stand that count and whose signature verified."""
    found = [at for (_, kind), uses in scan.keyring.uses.items() if kind == KIND for at in uses]
    return set(scan.standing("witnesses", found)) if found else set()


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
    found = [(sig.name, len(sig.signature)) for sig in note.sigs]
    if note.text != "?\n" or found != [(body.witness, COSIGNATURE_LEN)]:
        raise LedgerError(Code.WITNESS_ENTRY_FALSE, "the line is no cosignature line of the witness that is named")
    return note


def _judge(
    scan: Scan, policy: TrustPolicy | None, body: Any, heads: dict[str, SignedHead]
) -> tuple[Code | None, str, bool]:
    """What is wrong, in words, and whether it is the reader's policy that names the witness."""
    try:
        sigs = read_line(body).sigs
    except LedgerError as error:
        return Code.WITNESS_ENTRY_FALSE, error.finding.message, False
    head = heads.get(body.checkpoint_sha256)
    if head is None:
        message = "the checkpoint that was cosigned is none of the log's good heads that are here"
        return Code.WITNESS_ENTRY_OPEN, message, False
    named = _signers(() if policy is None else policy.witnesses, sigs[0])
    known = named or _signers(_enrolled(scan.keyring, body.witness), sigs[0])
    if not known:
        return Code.WITNESS_ENTRY_OPEN, f"no key of {body.witness} is known that could have signed the line", False
    found = read_cosignatures(UnverifiedNote(parse_note(head.raw).text, sigs), known)
    if found.good:
        return None, "", bool(named)
    return Code.WITNESS_ENTRY_FALSE, found.bad[0].finding.message, bool(named)


def _signers(witnesses: Iterable[Witness], sig: NoteSignature) -> list[Witness]:
    """Those of the witnesses whose line it says it is. Its key hash is its own word, and may be another name's."""
    return [w for w in witnesses if (w.verifier.name, w.verifier.key_hash) == (sig.name, sig.key_hash)]


def false_line(body: Any, heads: Iterable[bytes], witnesses: Iterable[Witness], keyring: Keyring) -> str | None:
    """What is false about the line of an entry that is to be appended, to whoever has these heads and these keys.

    Args:
        body: the entry's body.
        heads: signed heads of the log (notes).
        witnesses: whose keys are known besides those that the log enrolled.
        keyring: the log's keys.

    Returns:
        None where the line is the witness's over one of the heads; empty where no key or no head tells.

    Raises:
        LedgerError: it is no cosignature line of the witness that the entry names.
    """
    sigs = read_line(body).sigs
    known = _signers([*witnesses, *_enrolled(keyring, body.witness)], sigs[0])
    texts = [parse_note(head).text for head in heads]
    text = next((each for each in texts if sha256(each.encode()).hexdigest() == body.checkpoint_sha256), None)
    if text is None or not known:
        return ""
    found = read_cosignatures(UnverifiedNote(text, sigs), known)
    return None if found.good else found.bad[0].finding.message


def _enrolled(keyring: Keyring, name: str) -> Iterator[Witness]:
    """Witnesses of a name whose key the log enrolled as one."""
    for life in keyring.lives.values():
        if life.role == "witness":
            yield Witness(Verifier(name, life.public_key, KeyType.COSIGNATURE), name)
