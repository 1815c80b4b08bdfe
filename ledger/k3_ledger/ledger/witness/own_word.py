"""A witness's own cosignatures, wherever they turn up: nobody else can make them, so its memory must hold them all.

Logs and mirrors keep the heads that a witness cosigned. Where one of them is larger than the last head that the witness
remembers, its memory has been lost or put back; and the largest one that can be found is the only head from which a
witness without memory can go on and contradict nothing that is known to have its signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.checkpoint import Checkpoint, parse_checkpoint
from k3_ledger.ledger.core.cosignature import Witness, read_cosignatures
from k3_ledger.ledger.core.note import NoteSignature, UnverifiedNote, parse_note
from k3_ledger.schemas.errors import LedgerError, WitnessError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.ledger.core.note import Verifier
    from k3_ledger.schemas.outcomes import Position


@dataclass(frozen=True, slots=True)
class OwnWord:
    """A head with the witness's own, checked cosignature.

    Attributes:
        head: what was cosigned.
        note: the signed note, as it was found.
        signature: the witness's last line on it.
        timestamp: the time in that line, in seconds since the Epoch.
    """

    head: Checkpoint
    note: bytes
    signature: NoteSignature
    timestamp: int


def own_words(verifier: Verifier, origin: str, notes: Iterable[bytes]) -> tuple[OwnWord, ...]:
    """The heads of a log among some notes that a witness cosigned. What is none, or cannot be read, is passed over."""
    found = []
    for raw in notes:
        try:
            note = parse_note(raw)
            head = parse_checkpoint(note.text)
        except LedgerError:
            continue
        good = [_checked(note, sig, verifier) for sig in note.sigs]
        times = [(time, sig) for time, sig in zip(good, note.sigs, strict=True) if time]
        if head.origin == origin and times:
            time, line = max(times, key=lambda given: given[0])
            found.append(OwnWord(head, raw, line, time))
    return tuple(found)


def _checked(note: UnverifiedNote, sig: NoteSignature, verifier: Verifier) -> int:
    """The time in one good line of the witness; 0 for any other line."""
    read = read_cosignatures(UnverifiedNote(note.text, (sig,)), [Witness(verifier, verifier.name)])
    return read.good[0].timestamp if read.good else 0


def last_word(words: Iterable[OwnWord], place: Position) -> OwnWord:
    """The largest of the heads that a witness cosigned: where it goes on when its memory is lost.

    Raises:
        WitnessError: there is none (``WITNESS_STATE``), or two of one size differ (``WITNESS_FORK``).
    """
    last: OwnWord | None = None
    for word in sorted(words, key=lambda word: (word.head.size, word.timestamp)):
        if last is not None and word.head.size == last.head.size and word.head.root != last.head.root:
            raise WitnessError(
                Code.WITNESS_FORK,
                f"this witness cosigned two heads of {word.head.size} entries: it cannot go on under this key",
                position=place,
                expected=last.head.root.hex(),
                found=word.head.root.hex(),
                hint="the two notes together prove it: publish them, retire the key and make a new witness",
            )
        last = word
    if last is None:
        raise WitnessError(
            Code.WITNESS_STATE,
            "no head here carries a cosignature of this witness, so there is nothing to go on from",
            position=place,
            hint="ask those who keep cosigned heads; where none is left, retire the key and make a new witness",
        )
    return last


def check_remembered(head: Checkpoint, words: Iterable[OwnWord], place: Position) -> None:
    """Nothing that the witness signed goes beyond, or against, what it remembers.

    Args:
        head: the last head that it remembers of the log.
        words: heads of the log that it cosigned.
        place: where its memory of the log stands.

    Raises:
        WitnessError: with ``WITNESS_STATE``.
    """
    for word in words:
        if word.head.size > head.size or (word.head.size == head.size and word.head.root != head.root):
            raise WitnessError(
                Code.WITNESS_STATE,
                f"this witness cosigned a head of {word.head.size} entries, as its own signature shows, and remembers "
                f"{'another one' if word.head.size == head.size else f'one of {head.size}'}",
                position=place,
                expected=word.head.root.hex(),
                found=head.root.hex(),
            )
