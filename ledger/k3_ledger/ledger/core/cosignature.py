"""Cosignatures (c2sp.org/tlog-cosignature, the Ed25519 type): who vouched for a tree head, and at which time.

A cosignature says: at that time, the largest consistent tree that this witness had seen of the log named in the first
line had this size and this root. Its 72 bytes are the time in seconds since the Epoch, big-endian, and an Ed25519
signature over ``cosignature/v1``, the time, and the note's text
(:func:`k3_ledger.ledger.core.note.cosigned_message`).

Whom to believe is the reader's to say, as :class:`Witness` values; who runs a witness is part of it, because two keys
of one operator are one opinion. :func:`read_cosignatures` counts nothing twice:

1. lines by keys that are not among the witnesses are unknown and prove nothing;
2. several lines by one key are one cosignature: the earliest says when the head existed, the latest that it still was
   the log's;
3. a time of 0 is no time, and such a line vouches for nothing;
4. a line under a witness's name and key hash that no key of that name and hash verifies makes the note a bad one.

Nothing here reads a clock: whether a time is in the future is for who has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.note import check_by_one_of
from k3_ledger.schemas.errors import SignatureError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.ledger.core.note import UnverifiedNote, Verifier

COSIGNATURE_LEN: Final = 72
"""Bytes of a cosignature: eight of time, 64 of signature."""


MAX_AHEAD_S: Final = 300
"""How far a witness's clock may run ahead of a reader's, in seconds, before its word is of no use to him."""


@dataclass(frozen=True, slots=True)
class Witness:
    """A witness that a reader believes.

    Attributes:
        verifier: its key, of the type ``COSIGNATURE``.
        operator: who runs it. Witnesses of one operator count once.
    """

    verifier: Verifier
    operator: str

    @property
    def name(self) -> str:
        """Key name of the witness."""
        return self.verifier.name


@dataclass(frozen=True, slots=True)
class Cosigned:
    """One witness's checked word for a tree head.

    Attributes:
        witness: who gave it.
        timestamp: when first, in seconds since the Epoch, by that witness's clock. Never 0.
        again: when last, where it gave its word more than once; else 0.
    """

    witness: Witness
    timestamp: int
    again: int = 0

    @property
    def latest(self) -> int:
        """When the witness last gave its word."""
        return max(self.timestamp, self.again)


@dataclass(frozen=True, slots=True)
class Cosignatures:
    """What the signature lines of one note come to.

    Attributes:
        good: one for each witness whose cosignatures verified.
        bad: why lines under a witness's name and key hash were refused.
        repeated: further good lines by a witness that has one already.
        unknown: lines by other keys, the log's own among them.
    """

    good: tuple[Cosigned, ...]
    bad: tuple[SignatureError, ...]
    repeated: int
    unknown: int


def read_cosignatures(
    note: UnverifiedNote, witnesses: Iterable[Witness], *, position: Position = NOWHERE
) -> Cosignatures:
    """Check every signature line of a note that is by one of the witnesses. Never raises because of the note.

    Args:
        note: the note of a tree head. Its text is what the witnesses signed.
        witnesses: whom to believe; no two have one public key.
        position: where the note stands; used in errors only.
    """
    known: dict[tuple[str, int], dict[Verifier, Witness]] = {}
    for witness in witnesses:
        known.setdefault((witness.verifier.name, witness.verifier.key_hash), {})[witness.verifier] = witness
    times: dict[Witness, list[int]] = {}
    bad: list[SignatureError] = []
    repeated = unknown = 0
    for sig in note.sigs:
        named = known.get((sig.name, sig.key_hash))
        if named is None:
            unknown += 1
            continue
        try:
            checked = check_by_one_of(note.text, sig, tuple(named), position)
        except SignatureError as error:
            bad.append(error)
            continue
        witness, timestamp = named[checked.verifier], checked.timestamp
        if not timestamp:
            bad.append(
                SignatureError(
                    Code.COSIGNATURE_TIMELESS,
                    f"the cosignature by {witness.name} gives no time, so it vouches for nothing",
                    position=position,
                )
            )
            continue
        repeated += witness in times
        times.setdefault(witness, []).append(timestamp)
    good = tuple(Cosigned(witness, min(given), max(given) if len(given) > 1 else 0) for witness, given in times.items())
    return Cosignatures(good, tuple(bad), repeated, unknown)


def quorum_of(cosigned: Iterable[Cosigned], quorum: int) -> tuple[Cosigned, ...]:
    """The first ``quorum`` cosignatures by different operators, in order of time; fewer where there are fewer.

    Where there are enough, the last one's time bounds when the tree head existed: it takes ``quorum`` operators who lie
    together to make it too early.
    """
    first: dict[str, Cosigned] = {}
    for given in sorted(cosigned, key=lambda given: (given.timestamp, given.witness.name)):
        first.setdefault(given.witness.operator, given)
    return tuple(first.values())[:quorum]
