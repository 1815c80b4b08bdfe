"""How a witness decides. It cosigns a head only if that extends the last one it cosigned of that log, and never else.

The rules, in the order of the protocol (c2sp.org/tlog-witness), each with the attack it stands against:

1. the log is known and one of its keys signed the head: nobody else can make the witness remember anything, and a thief
   whose key was dropped no more;
2. the head is not smaller than what the proof starts from, and the proof starts from the head that was cosigned last:
   no rollback, and no race between two requests;
3. the root of an empty tree is that of an empty tree;
4. the consistency proof holds; at the same size the root is the same: no fork;
5. the clock has not gone back: a later word about a larger tree never carries an earlier time.

Where the head carries this witness's own cosignature, the memory has to know of it: one that was lost or put back signs
nothing.

Reading the last head, deciding, and remembering the new one happen under one lock. The new head is on stable storage
before its cosignature leaves this module, so a crash anywhere in between leaves a witness that remembers more than it
said, never less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.checkpoint import open_checkpoint, parse_checkpoint
from k3_ledger.ledger.core.merkle import EMPTY_ROOT, check_consistency
from k3_ledger.ledger.core.note import (
    MAX_TIMESTAMP,
    cosigned_message,
    format_note,
    format_verifier_key,
    parse_note,
    sign_note,
)
from k3_ledger.ledger.witness.own_word import check_remembered, own_words
from k3_ledger.ledger.witness.state import seconds_now
from k3_ledger.schemas.errors import ProofError, SignatureError, WitnessError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from k3_ledger.ledger.core.checkpoint import SignedCheckpoint
    from k3_ledger.ledger.core.note import NoteSignature, Verifier
    from k3_ledger.ledger.core.tlog_witness import AddCheckpoint
    from k3_ledger.ledger.witness.state import WitnessedLog, WitnessState
    from k3_ledger.ledger.writer.keys import Signer

_PLACE = Position(source="checkpoint")
ORPHANED: Final = "what this witness cosigned last is signed by a dropped key alone, and may be a thief's"
"""Said where a head is refused, so that nobody takes the log for the liar."""
_HINT: Final = "compare the head that this witness cosigned last with the log's own: `k3-ledger witness ls`"
_UNTOLD: Final = (
    "the proof is wrong, or the log forked: its entries up to the refused head tell which, held against the head that "
    "this witness cosigned last (`k3-ledger witness ls`). The refused one is not kept here: whoever sent it has it"
)
"""Anybody can send an honest head with a proof that does not hold: kept as evidence, such heads would leave no room."""


class OldSizeError(WitnessError):
    """The proof starts from another size than the one that was cosigned last."""

    @property
    def size(self) -> int:
        """The size that was cosigned last; 0 where nothing was."""
        assert self.finding.expected is not None, "the error says from where a proof has to start"
        return int(self.finding.expected)


class Cosigner:
    """A witness's key at one moment, as a signer of notes."""

    def __init__(self, verifier: Verifier, signer: Signer, timestamp: int) -> None:
        self.name = verifier.name
        self.key_hash = verifier.key_hash
        self._signer = signer
        self._timestamp = timestamp

    def sign(self, text: bytes, /) -> bytes:
        """Timestamped signature of a note's text: 72 bytes."""
        signature = self._signer.sign(cosigned_message(self._timestamp, text.decode()))
        return self._timestamp.to_bytes(8, "big") + signature


class CosigningWitness:
    """A witness that can sign. Threads may share it, and processes may share its directory."""

    def __init__(self, state: WitnessState, signer: Signer, *, clock: Callable[[], int] = seconds_now) -> None:
        """Join a state and the private key that it was made for.

        Args:
            state: what is remembered.
            signer: the private key.
            clock: gives seconds since the Epoch.

        Raises:
            WitnessError: the key is another one.
        """
        if signer.public_key != state.verifier.public_key:
            raise WitnessError(
                Code.WITNESS_KEY,
                "the private key is not that of this witness",
                position=Position(source=str(state.root)),
                expected=state.verifier.public_key.hex(),
                found=signer.public_key.hex(),
            )
        self.state = state
        self._signer = signer
        self._clock = clock

    def add_checkpoint(self, request: AddCheckpoint) -> NoteSignature:
        """Cosign a head, or say why not. When this returns, the witness will never sign anything that contradicts it.

        Raises:
            MalformedError: the checkpoint cannot be read (``NOTE_MALFORMED``, ``CHECKPOINT_MALFORMED``).
            SignatureError: no key of the log signed it (``NOTE_UNSIGNED``), or one did badly (``NOTE_SIGNATURE``).
            ProofError: the proof does not hold (``CONSISTENCY_MISMATCH``, ``PROOF_SHAPE``).
            WitnessError: the log is unknown, the head contradicts or does not extend the last one, or this witness is
                in no state to sign.
            StoreError: the storage refused; nothing was signed.
        """
        origin = parse_checkpoint(parse_note(request.checkpoint, position=_PLACE).text, position=_PLACE).origin
        with self.state.locked():
            log = self.state.log(origin)
            signed = self._opened(request.checkpoint, log)
            self.check_remembered(log, [request.checkpoint])
            self._check(request, signed, log)
            return self._cosign(signed, log)

    def check_remembered(self, log: WitnessedLog, notes: Iterable[bytes]) -> None:
        """What is remembered of a log holds everything that one's own cosignatures on some notes show.

        Raises:
            WitnessError: with ``WITNESS_STATE``.
        """
        words = own_words(self.state.verifier, log.origin, notes)
        check_remembered(log.head, words, Position(source=str(self.state.root)))

    def _opened(self, note: bytes, log: WitnessedLog) -> SignedCheckpoint:
        """The head that a key of the log signed.

        One that only a dropped key signed is refused. Where it contradicts what was cosigned, both notes are kept: they
        are evidence against whoever has that key.
        """
        try:
            return open_checkpoint(note, log.verifiers, origin=log.origin, position=_PLACE)
        except SignatureError as error:
            if error.code is not Code.NOTE_UNSIGNED or not log.dropped:
                raise
        signed = open_checkpoint(note, log.dropped, origin=log.origin, position=_PLACE)
        old, new = log.head, signed.checkpoint
        if log.note and new.size == old.size and new.root != old.root:
            self.state.keep_fork(log.origin, log.note, format_note(signed.note.text, _lines(signed)))
        raise SignatureError(
            Code.NOTE_UNSIGNED,
            "only a key that this witness was told to drop signed the head",
            position=_PLACE,
            expected=", ".join(format_verifier_key(key) for key in log.verifiers) or "no key: all were dropped",
            found=", ".join(f"{sig.signature.name}+{sig.signature.key_hash:08x}" for sig in signed.note.sigs),
        )

    def _check(self, request: AddCheckpoint, signed: SignedCheckpoint, log: WitnessedLog) -> None:
        old, new = log.head, signed.checkpoint
        orphan = f"; {ORPHANED}" if log.is_orphaned else ""
        if request.old_size > new.size:
            raise WitnessError(
                Code.WITNESS_SMALLER,
                f"the head has {new.size} entries and the proof starts from {request.old_size}{orphan}",
                position=_PLACE,
            )
        if request.old_size != old.size:
            raise OldSizeError(
                Code.WITNESS_OLD_SIZE,
                "the proof does not start from the head that was cosigned last",
                position=_PLACE,
                expected=str(old.size),
                found=str(request.old_size),
            )
        if not new.size and new.root != EMPTY_ROOT:
            raise _mismatch("an empty tree has another root", EMPTY_ROOT, new.root)
        if not old.size:
            if request.proof:
                raise ProofError(Code.PROOF_SHAPE, "nothing can be proved about an empty tree", position=_PLACE)
            return
        if new.size == old.size and new.root != old.root:
            self.state.keep_fork(log.origin, log.note, format_note(signed.note.text, _lines(signed)))
            raise WitnessError(
                Code.WITNESS_FORK,
                f"the log signed another head of {new.size} entries before{orphan}",
                position=_PLACE,
                expected=old.root.hex(),
                found=new.root.hex(),
            )
        try:
            check_consistency(old.size, new.size, old.root, new.root, request.proof, position=_PLACE)
        except ProofError as error:
            if error.code is not Code.CONSISTENCY_MISMATCH and not orphan:
                raise
            said = error.finding
            raise ProofError(
                said.code,
                said.message + orphan,
                position=_PLACE,
                expected=said.expected,
                found=said.found,
                hint=_HINT if orphan else _UNTOLD,
            ) from None

    def _cosign(self, signed: SignedCheckpoint, log: WitnessedLog) -> NoteSignature:
        now = self._clock()
        if not max(1, log.timestamp) <= now <= MAX_TIMESTAMP:
            raise WitnessError(
                Code.WITNESS_CLOCK,
                "the clock shows a time that cannot be signed now",
                position=_PLACE,
                expected=f"at least {max(1, log.timestamp)} seconds since 1970",
                found=str(now),
            )
        cosigner = Cosigner(self.state.verifier, self._signer, now)
        note = sign_note(signed.note.text, [cosigner], others=_lines(signed))
        self.state.keep(replace(log, note=note, head=signed.checkpoint, timestamp=now))
        return parse_note(note).sigs[-1]


def _lines(signed: SignedCheckpoint) -> Iterable[NoteSignature]:
    """The log's own signatures that were checked; whatever else stood on the note is not passed on."""
    return [sig.signature for sig in signed.note.sigs]


def _mismatch(message: str, expected: bytes, found: bytes) -> ProofError:
    return ProofError(Code.CONSISTENCY_MISMATCH, message, position=_PLACE, expected=expected.hex(), found=found.hex())
