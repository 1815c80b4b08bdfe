"""C2SP tlog-proof (c2sp.org/tlog-proof): the inclusion of one entry, as text that other tools read.

Lines that end in LF: the header, an optional ``extra`` line, ``index`` and a decimal, one strict base64 hash a line
from the leaf up, a blank line, and the checkpoint as it is. It proves that a leaf is in a tree and nothing about who
signed the leaf's entry; for that there is :mod:`k3_ledger.ledger.core.proof`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.merkle import HASH_LEN
from k3_ledger.ledger.core.note import MAX_NOTE, parse_note
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from k3_ledger.ledger.core.proof import ProofFile

HEADER: Final = "c2sp.org/tlog-proof@v1"
MAX_BYTES: Final = 2 * MAX_NOTE
"""Most bytes in a proof, its checkpoint included."""

_MAX_HASHES: Final = 64
_INDEX: Final = re.compile(r"index (0|[1-9][0-9]{0,15})")
_EXTRA: Final = "extra "


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A tlog-proof that was read or built. Nothing in it is verified.

    Attributes:
        index: index of the entry.
        hashes: sibling hashes from the leaf up, 32 bytes each.
        checkpoint: the signed note.
        extra: unauthenticated data; here, the raw line. None when the line is absent.
    """

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes | None = None


def to_tlog_proof(proof: ProofFile) -> TlogProof:
    """The subject of a proof file, with its line as extra data."""
    entry = proof.subject_entry
    return TlogProof(entry.index, entry.inclusion, proof.checkpoint, entry.line)


def format_tlog_proof(proof: TlogProof) -> bytes:
    """Write a tlog-proof.

    Raises:
        ValueError: it would not be read back.
    """
    lines = [HEADER]
    if proof.extra is not None:
        lines.append(_EXTRA + strict_base64.encode(proof.extra).decode())
    lines.append(f"index {proof.index}")
    lines += [strict_base64.encode(digest).decode() for digest in proof.hashes]
    data = "\n".join((*lines, "", "")).encode() + proof.checkpoint
    try:
        parse_tlog_proof(data)
    except MalformedError as error:
        raise ValueError(f"not a tlog-proof: {error}") from None
    return data


def parse_tlog_proof(data: bytes, *, position: Position = NOWHERE) -> TlogProof:
    """Read a tlog-proof. Only its form is checked, that of its checkpoint included.

    Raises:
        MalformedError: with ``TLOG_PROOF``, ``NOTE_MALFORMED`` or ``CHECKPOINT_MALFORMED``.
    """
    if len(data) > MAX_BYTES:
        raise _malformed(f"{len(data)} bytes are more than {MAX_BYTES}", position)
    head, mark, checkpoint = data.partition(b"\n\n")
    header, *lines = head.decode("ascii", errors="replace").split("\n")
    if not mark or header != HEADER:
        raise _malformed("no header or no blank line", position)
    extra = None
    if lines and lines[0].startswith(_EXTRA):
        extra = _decode(lines.pop(0).removeprefix(_EXTRA), position)
    index = _INDEX.fullmatch(lines.pop(0)) if lines else None
    if index is None:
        raise _malformed("no index", position)
    hashes = tuple(_decode(line, position) for line in lines)
    if len(hashes) > _MAX_HASHES or any(len(digest) != HASH_LEN for digest in hashes):
        raise _malformed(f"not at most {_MAX_HASHES} hashes of {HASH_LEN} bytes", position)
    parse_checkpoint(parse_note(checkpoint, position=position).text, position=position)
    return TlogProof(int(index[1]), hashes, checkpoint, extra)


def _decode(spelling: str, position: Position) -> bytes:
    try:
        return strict_base64.decode(spelling.encode())
    except ValueError:
        raise _malformed("a line is not strict base64", position) from None


def _malformed(message: str, position: Position) -> MalformedError:
    return MalformedError(Code.TLOG_PROOF, message, position=position)
