"""What is wrong with one tree head apart from the tree: whose it is, and who signed it.

A head that a log shows of itself must be signed by a log key of its own. A remembered one accuses nobody unless a log
key signed it that the log enrolled once, whatever came of the key.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.note import Verifier, check_signature_line, open_note, parse_note
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.signers import Signers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.ledger.core.keylife import KeyLife
    from k3_ledger.verify.heads import SignedHead
    from k3_ledger.verify.scan import Scan


_UNSIGNED = frozenset({Code.CHECKPOINT_SIGNATURE, Code.MEMORY_FOREIGN})
_UNSIGNED_BY_ANY = "no log key of this ledger signed the head"


def head_faults(scan: Scan, head: SignedHead) -> Iterator[Finding]:
    """What is wrong with a head apart from the tree: whose it is and who signed it."""
    if head.step == "memory" and scan.genesis is not None:
        if (foreign := foreign_head(scan, head)) is not None:
            yield foreign
    elif scan.genesis is not None and head.checkpoint.origin != scan.genesis.origin:
        yield Finding(
            Code.CHECKPOINT_ORIGIN,
            "the head belongs to another log",
            Position(source=head.name, line=1),
            scan.genesis.origin,
            head.checkpoint.origin,
        )
        return  # then this log's keys did not sign it, of course
    if head.step == "checkpoint" and (fault := _signature_fault(scan, head)) is not None:
        lost = taken_back(scan, head)
        yield fault if lost is None else replace(fault, message=lost.message, hint=_cure(scan))


def settled_faults(scan: Scan, head: SignedHead) -> list[Finding]:
    """What is wrong with a head of a proof file, as far as can be told: see :func:`is_open`."""
    faults = list(head_faults(scan, head))
    if not is_open(scan, head, faults):
        return [_for_want_of_a_key(scan, head, fault) for fault in faults]
    scan.tallies["checkpoint"].not_checked += 1
    return [fault for fault in faults if fault.code not in _UNSIGNED]


def _for_want_of_a_key(scan: Scan, head: SignedHead, fault: Finding) -> Finding:
    """That no log key signed a head says nothing of the head where a proof file carries no enrolment of one; of other
    log keys than the file carries nothing is said.
    """
    if fault.code is not Code.CHECKPOINT_SIGNATURE:
        return fault
    if any(life.role == "log" for life in scan.keyring.lives.values()):
        said = _UNSIGNED_BY_ANY, "no log key that the proof enrols signed the head"
        return replace(fault, message=fault.message.replace(*said))
    message = "the proof does not carry the entry that enrols the log key that signed the head"
    return Finding(Code.PROOF_INCOMPLETE, message, Position(source=head.name))


def is_open(scan: Scan, head: SignedHead, faults: list[Finding]) -> bool:
    """Whether it cannot be told who signed a head that no known log key signed.

    That is so where a line that may have enrolled the signer does not count (:attr:`Scan.unsettled`), unless the head
    says that it is of another log, or by a log key that is known.
    """
    unsigned = any(fault.code in _UNSIGNED for fault in faults)
    own = scan.genesis is None or head.checkpoint.origin == scan.genesis.origin
    if not (unsigned and own and scan.is_unsettled(head.checkpoint.size)):
        return False
    return not _named(scan, head, taken_back=False)


def _signature_fault(scan: Scan, head: SignedHead) -> Finding | None:
    """A log key that was enrolled below the head and not retired by then signed it; no line by such a key is bad."""
    size = head.checkpoint.size
    good, bad = log_lines(scan, head, standing(scan, head))
    if good and bad is None:
        return None
    known = sum(life.role == "log" and life.vouches_at(size) for life in scan.keyring.lives.values())
    return Finding(
        Code.CHECKPOINT_SIGNATURE,
        _UNSIGNED_BY_ANY if bad is None else bad.finding.message,
        Position(source=head.name),
        "a good signature in every line that is by a log key of this ledger"
        if good
        else f"a signature by a log key that is enrolled below entry {size} and not retired there ({known} are)",
        None if bad is None else bad.finding.found,
    )


def standing(scan: Scan, head: SignedHead) -> list[bytes]:
    """The log keys that a line of a head may be by, and that can sign one of its size."""
    size = head.checkpoint.size
    return [life.public_key for life in _named(scan, head, taken_back=False) if life.vouches_at(size)]


def _named(scan: Scan, head: SignedHead, *, taken_back: bool = True) -> list[KeyLife]:
    """The log keys, as far as they are known, that the lines of a head may be by: those of a key hash in it.

    Of a log with many keys and many heads nothing else is looked at: all keys for each head were a product of the two.
    """
    keyring, origin = scan.keyring, head.checkpoint.origin
    index = scan.signers
    if index is None or not index.is_of(origin, keyring):
        index = scan.signers = Signers(origin, keyring)
    hashes = dict.fromkeys(sig.key_hash for sig in parse_note(head.raw).sigs)
    found = [key for number in hashes for key in index.keys.get(number, ())]
    places = (keyring.lives, keyring.taken_back) if taken_back else (keyring.lives,)
    lives = (lives.get(key) for lives in places for key in found)
    return [life for life in lives if life is not None and life.role == "log"]


def log_lines(scan: Scan, head: SignedHead, keys: list[bytes]) -> tuple[int, LedgerError | None]:
    """How many lines of a head are good signatures by one of these log keys; and what is wrong with a line that says it
    is by one of them, and is not good. Two keys can have one key hash: it may then be by either.
    """
    note = parse_note(head.raw)
    known = [Verifier(scan.genesis.origin, public_key) for public_key in keys]
    good, bad = 0, None
    for sig in note.sigs:
        wrong: LedgerError | None = None
        for verifier in (one for one in known if (one.name, one.key_hash) == (sig.name, sig.key_hash)):
            try:
                check_signature_line(note.text, sig, verifier)
            except LedgerError as error:
                wrong = error
            else:
                good, wrong = good + 1, None
                break
        bad = bad or wrong
    return good, bad


def taken_back(scan: Scan, head: SignedHead) -> Finding | None:
    """Says so when a kept head was good until a revocation took back what its key signed from before there on.

    Then it vouches for nothing, and accuses nobody either: whether the log's owner or the thief signed it cannot be
    told. The newest head is another matter, an error: the owner signs a new one (:func:`_cure`), and a reader would
    remember the thief's. So is one with a bad line by a key that stands.
    """
    size = head.checkpoint.size
    if scan.genesis is None or log_lines(scan, head, standing(scan, head)) != (0, None):
        return None
    for life in (life for life in _named(scan, head) if life.lost_at(size)):
        good, bad = log_lines(scan, head, [life.public_key])
        if good and bad is None:
            return Finding(
                Code.CHECKPOINT_DISOWNED,
                f"entry {life.lost_by(size)} takes back what the head's key signed",
                Position(source=head.name),
            )
    return None


def said_stolen(scan: Scan, head: SignedHead) -> str | None:
    """What the log says of the key that signed a remembered head, where it took back what that key signed from below
    the head on; None where it does not.
    """
    for life in _named(scan, head) if scan.genesis is not None else ():
        if life.disowned_from < head.checkpoint.size and log_lines(scan, head, [life.public_key]) == (1, None):
            return (
                f"entry {life.retired} takes back what the key of that head signed from entry {life.disowned_from} on"
            )
    return None


def foreign_head(scan: Scan, head: SignedHead) -> Finding | None:
    """Says so when a remembered head is of a log of another name, or no log key that this log enrolled once signed it,
    and its root vouches for no other: then the head proves nothing.
    """
    if scan.genesis is not None and head.checkpoint.origin != scan.genesis.origin:
        return Finding(
            Code.MEMORY_FOREIGN,
            "the remembered head is of another log: it proves nothing against this one",
            Position(source=head.name, line=1),
            scan.genesis.origin,
            head.checkpoint.origin,
            hint="give the memory that was kept of this log, or verify the log that this memory is of",
        )
    for life in _named(scan, head):
        try:
            open_note(head.raw, [Verifier(head.checkpoint.origin, life.public_key)])
        except LedgerError:
            continue
        return None
    if scan.enrolments:
        from k3_ledger.verify.vouched import is_own_roots  # noqa: PLC0415 - only where entries were kept with a head

        if is_own_roots(scan, head):  # another history under the same root
            return None
    return Finding(
        Code.MEMORY_FOREIGN,
        "no log key that this log ever enrolled signed the head: it proves nothing against the log",
        Position(source=head.name),
        hint=_OTHER_ROOT if head.name in scan.enrolments else None,
    )


_OTHER_ROOT = (
    "the head was kept with entries that enrol its signer, and the root key of this log is not behind them: two logs "
    "have one name, or the memory is damaged; compare the root key with what the log's owner says"
)


def _cure(scan: Scan) -> str:
    """How the log's owner replaces a newest head that was taken back."""
    if any(life.role == "log" and life.valid_at(scan.lines) for life in scan.keyring.lives.values()):
        return (
            "the head vouches for nothing any more; the log's owner signs a new one with a log key that stands: "
            "`k3-ledger checkpoint --key LOG.pem --ledger DIR`"
        )
    return (
        "the head vouches for nothing any more; the log's owner makes a new log key, enrols it and signs a new head: "
        "`k3-ledger keygen NEW-LOG.pem`, `k3-ledger key enrol log NEW-LOG.pub.pem --key ROOT.pem --ledger DIR`, "
        "`k3-ledger checkpoint --key NEW-LOG.pem --ledger DIR`"
    )
