"""C2SP checkpoints (c2sp.org/tlog-checkpoint): the text of a signed tree head.

Three lines, each with one spelling: origin, tree size in decimal, base64 of the root. Extension lines may follow; they
are kept as they are and mean nothing here. :func:`parse_checkpoint` parses, formats again and compares, so ``007``,
``+7`` and a root with stray bits are refused rather than understood.

A checkpoint says what somebody signed. Whether the right key signed it is decided by
:func:`k3_ledger.ledger.core.note.open_note`, and whether the ledger has that root by who computes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.merkle import HASH_LEN
from k3_ledger.ledger.core.note import Note, open_note
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.ledger.core.note import Verifier

MAX_SIZE: Final = 2**53 - 1
"""Largest tree size: entry indexes are canonical integers."""
KEPT_NAME: Final = re.compile(r"[0-9]{1,20}\.note")
"""What a signed head is called in ``checkpoints/``: its tree size. Other files there are nobody's business."""


def kept_path(size: int) -> str:
    """Where a ledger keeps its signed head of that size."""
    return f"checkpoints/{size:012}.note"


_DECIMAL: Final = re.compile(r"[0-9]{1,16}")
_FIXED_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A tree head.

    Attributes:
        origin: which log; one line, not empty.
        size: number of entries, ``0 <= size <= MAX_SIZE``.
        root: Merkle root of these entries, 32 bytes.
        extensions: further lines, none of them empty.
    """

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A tree head and the note whose signatures were checked."""

    checkpoint: Checkpoint
    note: Note


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """The text of a checkpoint, its last LF included.

    Raises:
        ValueError: a field is out of its range or a line would be empty or broken.
    """
    lines = (checkpoint.origin, *checkpoint.extensions)
    if not all(lines) or any("\n" in line for line in lines):
        raise ValueError("origin and extensions are single lines that are not empty")
    if not 0 <= checkpoint.size <= MAX_SIZE or len(checkpoint.root) != HASH_LEN:
        raise ValueError(f"no tree has the size {checkpoint.size} and a root of {len(checkpoint.root)} bytes")
    root = strict_base64.encode(checkpoint.root).decode()
    return "\n".join((checkpoint.origin, str(checkpoint.size), root, *checkpoint.extensions, ""))


def parse_checkpoint(text: str, *, position: Position = NOWHERE) -> Checkpoint:
    """Read the text of a note as a checkpoint.

    Raises:
        MalformedError: with ``CHECKPOINT_MALFORMED``.
    """
    lines = text.split("\n")[:-1]
    if len(lines) < _FIXED_LINES:
        raise _malformed("there are fewer than three lines", position)
    origin, size, root, *extensions = lines
    if not _DECIMAL.fullmatch(size):
        raise _malformed(f"{size[:40]!r} is no tree size", position)
    try:
        checkpoint = Checkpoint(origin, int(size), strict_base64.decode(root.encode()), tuple(extensions))
        again = format_checkpoint(checkpoint)
    except ValueError as error:
        raise _malformed(str(error), position) from None
    if again != text:
        raise _malformed("a line is not in its one accepted spelling", position, again, text)
    return checkpoint


def open_checkpoint(
    data: bytes, verifiers: Iterable[Verifier], *, origin: str, position: Position = NOWHERE
) -> SignedCheckpoint:
    """Open a note with the given keys and read it as a checkpoint of the log ``origin``.

    Raises:
        MalformedError: with ``NOTE_MALFORMED``, ``CHECKPOINT_MALFORMED`` or ``CHECKPOINT_ORIGIN``.
        SignatureError: with ``NOTE_SIGNATURE`` or ``NOTE_UNSIGNED``.
    """
    note = open_note(data, verifiers, position=position)
    checkpoint = parse_checkpoint(note.text, position=position)
    if checkpoint.origin != origin:
        raise MalformedError(
            Code.CHECKPOINT_ORIGIN,
            "the checkpoint is of another log",
            position=position,
            expected=origin,
            found=checkpoint.origin,
        )
    return SignedCheckpoint(checkpoint, note)


def _malformed(
    message: str, position: Position, expected: str | None = None, found: str | None = None
) -> MalformedError:
    expected, found = (None if text is None else text[:200] for text in (expected, found))
    return MalformedError(Code.CHECKPOINT_MALFORMED, message, position=position, expected=expected, found=found)
