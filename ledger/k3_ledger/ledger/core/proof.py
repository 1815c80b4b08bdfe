"""Proof files: everything a verifier needs about one entry, with no ledger at hand.

A proof file holds a checkpoint and a few whole lines, each with its inclusion proof in the tree that the checkpoint
commits to: the entry it is about (the subject), genesis, and the ``key`` entries that enrolled the subject's signer and
the checkpoint's signer. From a trust policy that names origin and root key, the checks chain: root key to genesis to
enrolled keys to subject and checkpoint, checkpoint to every line.

What a proof file cannot show is absence: that no later entry revoked a key or superseded the subject. Whoever checks
one says so.

The file is canonical JSON::

    {"checkpoint":"<signed note>","entries":[{"inclusion":["<hex>",…],"index":0,"line":"<line>"},…],
     "schema":"k3-ledger/proof/1","subject":7}

with ``entries`` in rising order of ``index``, hashes in lower-case hex from the leaf up, lines without LF, and no LF
behind the document. This module reads, writes and builds it and checks the inclusion proofs. Lines, signatures, keys
and the checkpoint's note are for the verifier to check; a :class:`ProofFile` on its own is a claim.

:mod:`k3_ledger.ledger.core.tlog_proof` writes the subject's part in the C2SP form that other tools know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final, TypeVar

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.checkpoint import parse_checkpoint
from k3_ledger.ledger.core.merkle import check_inclusion, collect_nodes, needed_nodes, prove_inclusion
from k3_ledger.ledger.core.note import MAX_NOTE, parse_note
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import MalformedError, ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from k3_ledger.ledger.core.checkpoint import Checkpoint
    from k3_ledger.schemas.canonical import JsonValue

SCHEMA: Final = "k3-ledger/proof/1"
MAX_ENTRIES: Final = 1_024
"""Most entries in a proof file: subject, genesis, and room for every root action of a log under a threshold."""
LIMITS: Final = canonical.Limits(max_bytes=10_000_000, max_depth=4, max_string=MAX_NOTE, max_items=131_072)
"""What a proof file may cost to read: ``MAX_ENTRIES`` lines of some kilobytes, or 64 of the longest, each with its
hashes, and a note."""

_MAX_HASHES: Final = 64
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ProofEntry:
    """One line and the proof that it is in the tree.

    Attributes:
        index: its index in the ledger.
        line: the raw line without its LF.
        inclusion: sibling hashes from the leaf up, 32 bytes each.
    """

    index: int
    line: bytes
    inclusion: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ProofFile:
    """A proof file that was read or built. Nothing in it is verified.

    Attributes:
        subject: index of the entry that the proof is about.
        entries: that entry, genesis and key entries, in rising order of index.
        checkpoint: the signed note.
    """

    subject: int
    entries: tuple[ProofEntry, ...]
    checkpoint: bytes

    @property
    def subject_entry(self) -> ProofEntry:
        """The entry that the proof is about."""
        return next(entry for entry in self.entries if entry.index == self.subject)


# ------------------------------------------------------------------------------------------ building and checking


def build_proof(
    subject: int,
    lines: Mapping[int, bytes],
    leaves: Iterable[bytes],
    checkpoint: bytes,
    *,
    position: Position = NOWHERE,
) -> ProofFile:
    """Make a proof file. Reads the leaf hashes once, in memory proportional to ``log2`` of their number.

    Args:
        subject: index of the entry to prove.
        lines: raw lines by index: the subject's, genesis, and the key entries that a verifier needs.
        leaves: leaf hashes of the ledger's lines from the first on, at least as many as the checkpoint commits to.
        checkpoint: the signed note that the proof leads to.
        position: where the checkpoint stands; used in errors only.

    Raises:
        MalformedError: the checkpoint cannot be read.
        ProofError: ``NOT_CHECKPOINTED`` (it does not reach one of the lines), ``CHECKPOINT_AHEAD`` (it commits to more
            leaves than there are) or ``CHECKPOINT_ROOT`` (it commits to other leaves).
        ValueError: a line is missing, too many are given, or one is not what its leaf is the hash of.
    """
    if not {0, subject} <= lines.keys() or len(lines) > MAX_ENTRIES:
        raise ValueError(f"a proof holds genesis, its subject and at most {MAX_ENTRIES} lines")
    head = parse_checkpoint(parse_note(checkpoint, position=position).text, position=position)
    uncovered = [index for index in lines if index >= head.size]
    if uncovered:
        raise ProofError(
            Code.NOT_CHECKPOINTED,
            f"entry {uncovered[0]} is not covered: the checkpoint commits to {head.size} entries",
            position=position,
        )
    wanted = {(0, index) for index in lines}
    for index in lines:
        wanted |= needed_nodes(partial(prove_inclusion, index, head.size))
    covered, nodes = collect_nodes(islice(leaves, head.size), wanted)
    if covered.end < head.size:
        raise ProofError(
            Code.CHECKPOINT_AHEAD,
            f"the checkpoint commits to {head.size} entries, and {covered.end} are there",
            position=position,
        )
    if covered.root() != head.root:
        raise ProofError(
            Code.CHECKPOINT_ROOT,
            "the checkpoint commits to other entries",
            position=position,
            expected=head.root.hex(),
            found=covered.root().hex(),
        )
    for index, line in lines.items():
        if nodes[0, index] != leaf_hash(line):
            raise ValueError(f"the line given for entry {index} is not the one in the tree")

    def read(level: int, index: int) -> bytes:
        return nodes[level, index]

    entries = (
        ProofEntry(index, line, tuple(prove_inclusion(index, head.size, read))) for index, line in sorted(lines.items())
    )
    return ProofFile(subject, tuple(entries), checkpoint)


def check_inclusions(proof: ProofFile, checkpoint: Checkpoint, *, position: Position = NOWHERE) -> None:
    """Check that every line of the proof file is in the tree of a checkpoint that the caller has verified.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``INCLUSION_MISMATCH``; the position names the entry.
    """
    for entry in proof.entries:
        place = Position(source=position.source, index=entry.index)
        check_inclusion(
            entry.index, checkpoint.size, leaf_hash(entry.line), entry.inclusion, checkpoint.root, position=place
        )


# ------------------------------------------------------------------------------------------------ the proof file


def format_proof(proof: ProofFile) -> bytes:
    """Write a proof file.

    Raises:
        ValueError: the proof breaks a rule of the format, so it would not be read back.
    """
    document = to_document(proof)
    try:
        data = canonical.format(document, limits=LIMITS)
        parse_proof(data)
    except MalformedError as error:
        raise ValueError(f"not a proof file: {error}") from None
    return data


def to_document(proof: ProofFile) -> dict[str, JsonValue]:
    """What a proof file holds, as plain values: within a consistency file too.

    Raises:
        ValueError: a line or the note is not UTF-8.
    """
    entries: list[JsonValue] = [
        {"index": entry.index, "inclusion": [h.hex() for h in entry.inclusion], "line": _text(entry.line)}
        for entry in proof.entries
    ]
    return {"checkpoint": _text(proof.checkpoint), "entries": entries, "schema": SCHEMA, "subject": proof.subject}


def parse_proof(data: bytes, *, position: Position = NOWHERE) -> ProofFile:
    """Read a proof file. Only its form is checked.

    Raises:
        MalformedError: with ``PROOF_FILE`` and a field path, or a code of the canonical profile.
    """
    return read_document(canonical.parse(data, limits=LIMITS, position=position), position=position)


def read_document(value: JsonValue, *, position: Position = NOWHERE) -> ProofFile:
    """Read what a proof file holds. That it is within the limits of one is for the caller to see.

    Raises:
        MalformedError: with ``PROOF_FILE`` and a field path.
    """
    place = Position(source=position.source)
    document = _members(value, place, "checkpoint", "entries", "schema", "subject")
    if document["schema"] != SCHEMA:
        raise _malformed(_below(place, "schema"), f"the schema is not {SCHEMA}")
    subject = _index(document["subject"], _below(place, "subject"))
    listed = _below(place, "entries")
    entries = tuple(_entry(element, at) for at, element in _elements(document["entries"], listed, MAX_ENTRIES))
    if any(a.index >= b.index for a, b in pairwise(entries)):
        raise _malformed(listed, "entries are not in rising order of index")
    if not {0, subject} <= {entry.index for entry in entries}:
        raise _malformed(listed, "genesis or the subject is missing")
    return ProofFile(subject, entries, _typed(document["checkpoint"], str, _below(place, "checkpoint")).encode())


def _entry(value: JsonValue, place: Position) -> ProofEntry:
    entry = _members(value, place, "inclusion", "index", "line")
    hashes = _elements(entry["inclusion"], _below(place, "inclusion"), _MAX_HASHES)
    return ProofEntry(
        _index(entry["index"], _below(place, "index")),
        _typed(entry["line"], str, _below(place, "line")).encode(),
        tuple(_hash(spelling, at) for at, spelling in hashes),
    )


def _members(value: JsonValue, place: Position, *names: str) -> dict[str, JsonValue]:
    found = _typed(value, dict, place)
    if tuple(found) != names:
        raise _malformed(place, f"the members are not {', '.join(names)}")
    return found


def _elements(value: JsonValue, place: Position, most: int) -> Iterator[tuple[Position, JsonValue]]:
    found = _typed(value, list, place)
    if len(found) > most:
        raise _malformed(place, f"more than {most} elements")
    return ((replace(place, field=f"{place.field}[{at}]"), element) for at, element in enumerate(found))


def _index(value: JsonValue, place: Position) -> int:
    number = _typed(value, int, place)
    if number < 0:
        raise _malformed(place, "an index is not negative")
    return number


def _hash(value: JsonValue, place: Position) -> bytes:
    spelling = _typed(value, str, place)
    if not _HEX.fullmatch(spelling):
        raise _malformed(place, "not a SHA-256 hash in lower-case hex")
    return bytes.fromhex(spelling)


def _typed(value: JsonValue, kind: type[_T], place: Position) -> _T:
    if type(value) is not kind:
        raise _malformed(place, f"not of type {kind.__name__}")
    return value


def _below(place: Position, name: str) -> Position:
    return replace(place, field=name if place.field is None else f"{place.field}.{name}")


def _malformed(place: Position, message: str) -> MalformedError:
    return MalformedError(Code.PROOF_FILE, message, position=place)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError("a line or note is not UTF-8") from None
