"""Consistency files: that one signed head extends another, with no ledger at hand.

The file holds the older head, the hashes of the consistency proof, and a whole proof file
(:mod:`k3_ledger.ledger.core.proof`) of the genesis entry, which leads to the newer head and carries the ``key`` entries
that authenticate the signers of both. It is canonical JSON::

    {"consistency":["<hex>",…],"old":"<signed note>","proof":{<a proof file>},"schema":"k3-ledger/consistency/1"}

with hashes in lower-case hex in the order of RFC 6962, and no LF behind the document. This module reads, writes and
builds it and checks the proof between two heads; signatures are for the verifier to check, and a
:class:`ConsistencyFile` on its own is a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.merkle import CompactRange, check_consistency, needed_nodes, prove_consistency
from k3_ledger.ledger.core.note import MAX_NOTE
from k3_ledger.ledger.core.proof import LIMITS as PROOF_LIMITS
from k3_ledger.ledger.core.proof import ProofFile, read_document, to_document
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import MalformedError, ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from k3_ledger.ledger.core.checkpoint import Checkpoint
    from k3_ledger.ledger.core.merkle import Node
    from k3_ledger.schemas.canonical import JsonValue

SCHEMA: Final = "k3-ledger/consistency/1"
LIMITS: Final = canonical.Limits(
    max_bytes=PROOF_LIMITS.max_bytes + 2 * MAX_NOTE,
    max_depth=PROOF_LIMITS.max_depth + 1,
    max_string=MAX_NOTE,
    max_items=PROOF_LIMITS.max_items + 128,
)
"""What a consistency file may cost to read: a proof file, a note, and the hashes."""

_MAX_HASHES: Final = 64
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_MEMBERS: Final = ("consistency", "old", "proof", "schema")


@dataclass(frozen=True, slots=True)
class ConsistencyFile:
    """A consistency file that was read or built. Nothing in it is verified.

    Attributes:
        old: the signed note of the older head.
        hashes: the consistency proof, 32 bytes each.
        proof: proves genesis and key entries in the tree of the newer head, and holds its signed note.
    """

    old: bytes
    hashes: tuple[bytes, ...]
    proof: ProofFile


# ------------------------------------------------------------------------------------------ building and checking


def consistency_hashes(
    size1: int, size2: int, leaves: Iterable[bytes], *, root1: bytes | None = None, root2: bytes | None = None
) -> tuple[bytes, ...]:
    """The consistency proof between two sizes of one log. Reads the leaf hashes once, in ``log2`` of their number.

    Args:
        size1: size of the older tree.
        size2: size of the newer tree.
        leaves: leaf hashes from the first on, at least ``size2`` of them.
        root1: root that the older tree must have, where it is known.
        root2: likewise of the newer one.

    Raises:
        ProofError: there are too few leaves (``CHECKPOINT_AHEAD``), or they have other roots (``CHECKPOINT_ROOT``).
        ValueError: not ``1 <= size1 <= size2``.
    """
    covered, roots, found = consistency_nodes((size1,), size2, leaves)
    for size, root in ((size1, root1), (size2, root2)):
        if size not in roots:
            raise ProofError(
                Code.CHECKPOINT_AHEAD,
                f"the head commits to {size} entries, and {covered.end} are there",
                position=Position(source="checkpoint"),
            )
        if root not in (None, roots[size]):
            raise ProofError(
                Code.CHECKPOINT_ROOT,
                f"the head of {size} entries commits to other entries",
                position=Position(source="checkpoint"),
                expected=root.hex() if root else None,
                found=roots[size].hex(),
            )
    return tuple(prove_consistency(size1, size2, lambda level, index: found[level, index]))


def consistency_nodes(
    sizes: Collection[int], size2: int, leaves: Iterable[bytes]
) -> tuple[CompactRange, dict[int, bytes], dict[Node, bytes]]:
    """What the proofs from several older sizes of a log to one newer are made of. Reads the leaf hashes once.

    Returns:
        The compact range over the leaves that were there, the roots of those sizes and of ``size2`` as far as these
        reach, and the nodes.

    Raises:
        ValueError: not ``1 <= size <= size2`` for each of them.
    """
    wanted = {node for size in sizes for node in needed_nodes(partial(prove_consistency, size, size2))}
    ends = {*sizes, size2}
    covered = CompactRange()
    roots: dict[int, bytes] = {}
    found: dict[Node, bytes] = {}

    def visit(level: int, index: int, digest: bytes) -> None:
        if (level, index) in wanted:
            found[level, index] = digest

    for leaf in islice(leaves, size2):
        covered.append(leaf, visit)
        if covered.end in ends:
            roots[covered.end] = covered.root()
    return covered, roots, found


def check_heads(file: ConsistencyFile, old: Checkpoint, new: Checkpoint, *, position: Position = NOWHERE) -> None:
    """Check that the newer head extends the older one; the caller has verified that both are the log's.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``CONSISTENCY_MISMATCH``.
    """
    if not 0 < old.size < new.size:
        raise ProofError(
            Code.PROOF_SHAPE,
            "the older of two heads is the smaller one",
            position=position,
            expected=f"1 to {new.size - 1} entries",
            found=f"{old.size} entries",
        )
    check_consistency(old.size, new.size, old.root, new.root, file.hashes, position=position)


# ------------------------------------------------------------------------------------------- the consistency file


def format_consistency(file: ConsistencyFile) -> bytes:
    """Write a consistency file.

    Raises:
        ValueError: it would not be read back.
    """
    document: dict[str, JsonValue] = {
        "consistency": [digest.hex() for digest in file.hashes],
        "old": file.old.decode(),
        "proof": to_document(file.proof),
        "schema": SCHEMA,
    }
    try:
        data = canonical.format(document, limits=LIMITS)
        parse_consistency(data)
    except MalformedError as error:
        raise ValueError(f"not a consistency file: {error}") from None
    return data


def parse_consistency(data: bytes, *, position: Position = NOWHERE) -> ConsistencyFile:
    """Read a consistency file. Only its form is checked.

    Raises:
        MalformedError: with ``PROOF_FILE``, or a code of the canonical profile.
    """
    document = canonical.parse(data, limits=LIMITS, position=position)
    place = Position(source=position.source)
    if not isinstance(document, dict) or tuple(document) != _MEMBERS or document["schema"] != SCHEMA:
        raise _malformed(f"not a document of the schema {SCHEMA}", place)
    hashes, old = document["consistency"], document["old"]
    if not isinstance(hashes, list) or len(hashes) > _MAX_HASHES or not isinstance(old, str):
        raise _malformed(f"not at most {_MAX_HASHES} hashes and a note", place)
    if not all(isinstance(digest, str) and _HEX.fullmatch(digest) for digest in hashes):
        raise _malformed("not SHA-256 hashes in lower-case hex", replace(place, field="consistency"))
    canonical.format(document["proof"], limits=PROOF_LIMITS)
    proof = read_document(document["proof"], position=position)
    if proof.subject != 0:
        raise _malformed("its proof is not one of the genesis entry", replace(place, field="proof.subject"))
    return ConsistencyFile(old.encode(), tuple(bytes.fromhex(str(digest)) for digest in hashes), proof)


def _malformed(message: str, place: Position) -> MalformedError:
    return MalformedError(Code.PROOF_FILE, message, position=place)
