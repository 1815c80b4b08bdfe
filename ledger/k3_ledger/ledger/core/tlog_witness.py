"""Bodies of the witness protocol (c2sp.org/tlog-witness), as bytes.

A request to ``add-checkpoint`` is lines that end in LF: ``old`` and the tree size that the witness is believed to have
cosigned last, the hashes of a consistency proof from there, one strict base64 each, a blank line, and the checkpoint.
The answer is signature lines of a note. Who speaks to whom, and what a witness checks, is elsewhere; nothing read here
is verified.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.merkle import HASH_LEN
from k3_ledger.ledger.core.note import MAX_NOTE, format_note, parse_note
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable

    from k3_ledger.ledger.core.note import NoteSignature

MAX_PROOF: Final = 63
"""Most hashes of a consistency proof in a request."""
MAX_REQUEST: Final = MAX_NOTE + 4_096
"""Most bytes in a request: a note, and the lines in front of it."""
SIZE_TYPE: Final = "text/x.tlog.size"
"""Content type of an answer that holds a tree size."""

_OLD: Final = re.compile(rb"old (0|[1-9][0-9]{0,15})")
_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,15})\n")


@dataclass(frozen=True, slots=True)
class AddCheckpoint:
    """A request to cosign a checkpoint.

    Attributes:
        old_size: size of the tree that the proof starts from; 0 for none.
        proof: hashes of the consistency proof, 32 bytes each.
        checkpoint: the signed note.
    """

    old_size: int
    proof: tuple[bytes, ...]
    checkpoint: bytes


def format_request(request: AddCheckpoint) -> bytes:
    """Write a request.

    Raises:
        ValueError: it would not be read back.
    """
    lines = [f"old {request.old_size}".encode(), *map(strict_base64.encode, request.proof)]
    data = b"\n".join((*lines, b"", b"")) + request.checkpoint
    try:
        parse_request(data)
    except MalformedError as error:
        raise ValueError(f"not a request: {error.finding.message}") from None
    return data


def parse_request(data: bytes, *, position: Position = NOWHERE) -> AddCheckpoint:
    """Read a request. The checkpoint in it is not looked at.

    Raises:
        MalformedError: with ``WITNESS_REQUEST``.
    """
    if len(data) > MAX_REQUEST:
        raise _malformed(f"{len(data)} bytes are more than {MAX_REQUEST}", position)
    head, mark, checkpoint = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    old = _OLD.fullmatch(first)
    if old is None or not mark:
        raise _malformed("there is no line with the old size, or no blank line", position)
    if len(lines) > MAX_PROOF:
        raise _malformed(f"{len(lines)} hashes are more than {MAX_PROOF}", position)
    return AddCheckpoint(int(old[1]), tuple(_hash(line, position) for line in lines), checkpoint)


def format_answer(sigs: Iterable[NoteSignature]) -> bytes:
    """Signature lines, each with its LF."""
    return format_note("\n", sigs)[2:]


def parse_answer(data: bytes, *, position: Position = NOWHERE) -> tuple[NoteSignature, ...]:
    """The signature lines of an answer, unverified.

    Raises:
        MalformedError: with ``WITNESS_ANSWER``: it is not one signature line or more.
    """
    try:
        note = parse_note(b"\n\n" + data, position=position)
    except MalformedError as error:
        raise MalformedError(Code.WITNESS_ANSWER, error.finding.message, position=position) from None
    if note.text != "\n":
        raise MalformedError(Code.WITNESS_ANSWER, "there is a blank line in the answer", position=position)
    return note.sigs


def format_size(size: int) -> bytes:
    """Body of an answer that says which size was cosigned last."""
    return f"{size}\n".encode()


def parse_size(data: bytes, *, position: Position = NOWHERE) -> int:
    """The inverse of :func:`format_size`.

    Raises:
        MalformedError: with ``WITNESS_ANSWER``.
    """
    size = _SIZE.fullmatch(data)
    if size is None:
        found = data[:40].decode("ascii", errors="replace")
        raise MalformedError(Code.WITNESS_ANSWER, "the answer is no tree size", position=position, found=found)
    return int(size[1])


def _hash(line: bytes, position: Position) -> bytes:
    try:
        digest = strict_base64.decode(line)
    except ValueError:
        digest = b""
    if len(digest) != HASH_LEN:
        raise _malformed("a line of the proof is not the strict base64 of a hash", position)
    return digest


def _malformed(message: str, position: Position) -> MalformedError:
    return MalformedError(Code.WITNESS_REQUEST, message, position=position)
