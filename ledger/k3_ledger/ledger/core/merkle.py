"""The Merkle tree of RFC 6962 section 2.1: roots in O(log n) memory, proofs, and checkers that raise.

A tree of ``n`` leaves commits to its leaves in order. Leaves are hashed by
:func:`k3_ledger.ledger.core.chain.leaf_hash`, inner nodes as ``SHA-256(0x01 || left || right)``; the left child of a
tree of ``n > 1`` leaves holds the largest power of two smaller than ``n`` of them; the root of the empty tree is
``SHA-256("")``.

Three kinds of things are here.

- :class:`CompactRange`: the roots of the fewest perfect subtrees that cover leaves ``[begin, end)``. Ranges over
  neighbouring leaves merge, so chunks can be hashed apart and joined in order.
- ``prove_*`` build proofs from the hashes of perfect subtrees, which a :data:`NodeReader` supplies.
- ``check_*`` say nothing when a proof holds and raise :class:`ProofError` when it does not. Every bit of a proof is
  accounted for: one hash too many or too few is refused.

Consistency of a subtree ``[start, end)`` with the tree around it generalises consistency of two trees (``start = 0``).
``[start, end)`` is a subtree when ``start`` is a multiple of the smallest power of two that is at least
``end - start``; then its shape does not depend on what stands to its left.

Nodes are named ``(level, index)``: the perfect subtree over leaves ``[index << level, (index + 1) << level)``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NoReturn

from k3_ledger.schemas.errors import ProofError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    Node = tuple[int, int]
    """Level and index of a perfect subtree; a leaf has level 0."""
    NodeReader = Callable[[int, int], bytes]
    """Gives the hash of the perfect subtree at a level and index."""
    Visitor = Callable[[int, int, bytes], object]
    """Is told level, index and hash of each perfect subtree as it is completed."""

HASH_LEN: Final = 32
"""Bytes of a SHA-256 hash."""
NODE_PREFIX: Final = b"\1"
"""RFC 6962 section 2.1: tells inner nodes from leaves."""
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
"""Root of the tree without leaves."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of the parent of two nodes."""
    return hashlib.sha256(NODE_PREFIX + left + right).digest()


def decompose(begin: int, end: int) -> Iterator[Node]:
    """The fewest perfect subtrees that cover leaves ``[begin, end)``, left to right."""
    while begin < end:
        level = (end - begin).bit_length() - 1
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        yield level, begin >> level
        begin += 1 << level


class CompactRange:
    """The perfect subtrees that cover leaves ``[begin, end)``: at most ``2 * log2(end)`` hashes.

    A range that begins at 0 has a root. Any range can be extended by the range that begins where it ends.
    """

    __slots__ = ("_hashes", "begin", "end")

    def __init__(self, begin: int = 0, end: int | None = None, hashes: Iterable[bytes] = ()) -> None:
        """An empty range at ``begin``, or the range with the given subtree hashes.

        Args:
            begin: index of the first leaf, at least 0.
            end: index behind the last leaf; ``begin`` when omitted.
            hashes: hashes of the subtrees of :func:`decompose`, left to right.

        Raises:
            ValueError: the bounds or the number or size of the hashes are impossible.
        """
        self.begin = begin
        self.end = begin if end is None else end
        self._hashes = list(hashes)
        if not 0 <= self.begin <= self.end:
            raise ValueError(f"no range [{self.begin}, {self.end})")
        if len(self._hashes) != sum(1 for _ in decompose(self.begin, self.end)):
            raise ValueError(f"[{self.begin}, {self.end}) is not covered by {len(self._hashes)} subtrees")
        if any(len(h) != HASH_LEN for h in self._hashes):
            raise ValueError(f"subtree hashes are {HASH_LEN} bytes")

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """Hashes of the subtrees, left to right."""
        return tuple(self._hashes)

    def append(self, leaf: bytes, visit: Visitor | None = None) -> None:
        """Extend the range by one leaf hash. Cost: one hash a call on average, ``log2(end)`` at worst.

        Args:
            leaf: hash of the leaf at index ``end``.
            visit: is told every perfect subtree that this leaf completes, the leaf itself included.
        """
        self._push(0, self.end, leaf, visit)

    def extend(self, other: CompactRange, visit: Visitor | None = None) -> None:
        """Extend the range by the range that begins where it ends. Cost: ``O(log n)`` hashes.

        Args:
            other: the range to the right; it is not changed.
            visit: is told every perfect subtree of ``other`` and every one that joining completes.

        Raises:
            ValueError: ``other`` begins elsewhere.
        """
        if other.begin != self.end:
            raise ValueError(f"[{other.begin}, {other.end}) does not begin where [{self.begin}, {self.end}) ends")
        for (level, index), found in zip(decompose(other.begin, other.end), other.hashes, strict=True):
            self._push(level, index, found, visit)

    def root(self) -> bytes:
        """Root of the tree of ``end`` leaves. Cost: ``log2(end)`` hashes.

        Raises:
            ValueError: the range does not begin at 0.
        """
        if self.begin:
            raise ValueError(f"a range that begins at {self.begin} has no root")
        return _fold(self._hashes) if self._hashes else EMPTY_ROOT

    def _push(self, level: int, index: int, found: bytes, visit: Visitor | None) -> None:
        """Put the perfect subtree that begins at ``end`` to the right, joining every pair of siblings."""
        self.end += 1 << level
        if visit is not None:
            visit(level, index, found)
        while index & 1 and (index - 1) << level >= self.begin:
            found = hashlib.sha256(b"".join((NODE_PREFIX, self._hashes.pop(), found))).digest()
            index >>= 1
            level += 1
            if visit is not None:
                visit(level, index, found)
        self._hashes.append(found)


def _fold(hashes: Sequence[bytes]) -> bytes:
    """Root over perfect subtrees of falling size: the right border of the tree, from the bottom up."""
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root


# ------------------------------------------------------------------------------------------------- making proofs


def prove_inclusion(index: int, size: int, node: NodeReader) -> list[bytes]:
    """Inclusion proof of the leaf at ``index`` in the tree of ``size`` leaves (RFC 6962 section 2.1.1).

    Raises:
        ValueError: not ``0 <= index < size``.
    """
    return prove_subtree_inclusion(index, node, start=0, end=size)


def prove_subtree_inclusion(index: int, node: NodeReader, *, start: int, end: int) -> list[bytes]:
    """Inclusion proof of the leaf at ``index`` in the subtree ``[start, end)``.

    Raises:
        ValueError: ``[start, end)`` is no subtree, or the leaf is outside it.
    """
    if not _is_subtree(start, end) or not start <= index < end:
        raise ValueError(f"leaf {index} is not in a subtree [{start}, {end})")
    return [_subtree_root(step.start, step.end, node) for step in _path(index, index + 1, start, end)]


def prove_consistency(size1: int, size2: int, node: NodeReader) -> list[bytes]:
    """Proof that the tree of ``size2`` leaves extends that of ``size1`` (RFC 6962 section 2.1.2).

    Raises:
        ValueError: not ``0 < size1 <= size2``: nothing can be proved about an empty tree.
    """
    return prove_subtree_consistency(0, size1, size2, node)


def prove_subtree_consistency(start: int, end: int, size: int, node: NodeReader) -> list[bytes]:
    """Proof that the subtree ``[start, end)`` is part of the tree of ``size`` leaves.

    Raises:
        ValueError: ``[start, end)`` is no subtree with leaves, or reaches beyond ``size``.
    """
    if not _is_subtree(start, end) or start == end or end > size:
        raise ValueError(f"[{start}, {end}) is not a subtree of a tree of {size} leaves")
    return [_subtree_root(step.start, step.end, node) for step in _path(start, end, 0, size)]


class _Step(NamedTuple):
    """One hash of a proof: the subtree ``[start, end)``, and where it stands as seen from what is already joined."""

    start: int
    end: int
    side: Literal["seed", "inner", "left", "right"]
    """``inner`` is on the left too, and part of the subtree that the proof is about."""


def _path(start: int, end: int, low: int, high: int) -> list[_Step]:
    """What a proof about the subtree ``[start, end)`` of the subtree ``[low, high)`` is made of, from the bottom up.

    Walks from the root down to ``[start, end)``. Where that is cut in two, the walk follows its right part, which is
    then the seed and has to be in the proof; otherwise the seed is its root, which the checker knows.
    """
    steps: list[_Step] = []
    cut = False
    while (start, end) != (low, high):
        middle = low + (1 << (high - low - 1).bit_length() - 1)
        if end <= middle:
            steps.append(_Step(middle, high, "right"))
            high = middle
            continue
        cut = cut or start < middle
        steps.append(_Step(low, middle, "inner" if start < middle else "left"))
        low, start = middle, max(start, middle)
    if cut:
        steps.append(_Step(low, high, "seed"))
    return steps[::-1]


def _subtree_root(start: int, end: int, node: NodeReader) -> bytes:
    return _fold([node(level, index) for level, index in decompose(start, end)])


def needed_nodes(prove: Callable[[NodeReader], object]) -> frozenset[Node]:
    """Which nodes a proof is made of: ``needed_nodes(lambda node: prove_inclusion(3, 1000, node))``."""
    needed: set[Node] = set()

    def note(level: int, index: int) -> bytes:
        needed.add((level, index))
        return EMPTY_ROOT

    prove(note)
    return frozenset(needed)


def collect_nodes(leaves: Iterable[bytes], wanted: Collection[Node]) -> tuple[CompactRange, dict[Node, bytes]]:
    """Read all leaf hashes of a tree once, in order, and keep only the wanted nodes.

    Returns:
        The compact range over all leaves, and the hashes of those wanted nodes that exist.
    """
    found: dict[Node, bytes] = {}
    covered = CompactRange()

    def visit(level: int, index: int, digest: bytes) -> None:
        if (level, index) in wanted:
            found[level, index] = digest

    for leaf in leaves:
        covered.append(leaf, visit)
    return covered, found


# ----------------------------------------------------------------------------------------------- checking proofs


def _is_subtree(start: int, end: int) -> bool:
    """Whether ``[start, end)`` names a subtree: ``start`` is a multiple of the size rounded up to a power of two."""
    return 0 <= start <= end and start % (1 << max(end - start - 1, 0).bit_length()) == 0


def check_inclusion(
    index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes, *, position: Position = NOWHERE
) -> None:
    """Check that ``leaf`` stands at ``index`` in the tree of ``size`` leaves with this root.

    A proof does not bind the size of its tree: root and size must come from the same signed head.

    Args:
        index: index of the leaf.
        size: number of leaves of the tree, which the caller trusts.
        leaf: hash of the leaf.
        proof: sibling hashes from the leaf up.
        root: root of the tree, which the caller trusts.
        position: what the proof belongs to; used in errors only.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``INCLUSION_MISMATCH``.
    """
    check_subtree_inclusion(index, leaf, proof, root, start=0, end=size, position=position)


def check_subtree_inclusion(
    index: int,
    leaf: bytes,
    proof: Sequence[bytes],
    root: bytes,
    *,
    start: int,
    end: int,
    position: Position = NOWHERE,
) -> None:
    """Check that ``leaf`` stands at ``index`` in the subtree ``[start, end)`` with this root.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``INCLUSION_MISMATCH``.
    """
    if not _is_subtree(start, end):
        _shape(f"[{start}, {end}) is not a subtree", position)
    if not start <= index < end:
        _shape(f"leaf {index} is outside [{start}, {end})", position)
    _check_length((leaf,), position)
    _, found = _join(_path(index, index + 1, start, end), leaf, proof, position)
    if found != root:
        raise ProofError(
            Code.INCLUSION_MISMATCH,
            f"the proof for leaf {index} leads to another root",
            position=position,
            expected=root.hex(),
            found=found.hex(),
        )


def check_consistency(
    size1: int, size2: int, root1: bytes, root2: bytes, proof: Sequence[bytes], *, position: Position = NOWHERE
) -> None:
    """Check that the tree of ``size2`` leaves extends the tree of ``size1``.

    Every tree extends the empty one, so there is nothing to prove about it: ``size1`` must not be 0.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``CONSISTENCY_MISMATCH``.
    """
    if not size1:
        _shape("nothing can be proved about an empty tree", position)
    check_subtree_consistency(0, size1, root1, proof, size=size2, root=root2, position=position)


def check_subtree_consistency(
    start: int,
    end: int,
    subtree_root: bytes,
    proof: Sequence[bytes],
    *,
    size: int,
    root: bytes,
    position: Position = NOWHERE,
) -> None:
    """Check that the subtree ``[start, end)`` is part of the tree of ``size`` leaves.

    A subtree without leaves is part of any tree; only its own root can be wrong.

    Raises:
        ProofError: with ``PROOF_SHAPE`` or ``CONSISTENCY_MISMATCH``.
    """
    if not _is_subtree(start, end) or end > size:
        _shape(f"[{start}, {end}) is not a subtree of a tree of {size} leaves", position)
    if start == end:
        seed, _ = _join([], EMPTY_ROOT, proof, position)
        _match(seed, subtree_root, "a subtree without leaves", position)
        return
    inside, outside = _join(_path(start, end, 0, size), subtree_root, proof, position)
    _match(inside, subtree_root, f"the subtree [{start}, {end})", position)
    _match(outside, root, f"the tree of {size} leaves", position)


def _match(found: bytes, expected: bytes, what: str, position: Position) -> None:
    if found != expected:
        raise ProofError(
            Code.CONSISTENCY_MISMATCH,
            f"the proof leads to another root for {what}",
            position=position,
            expected=expected.hex(),
            found=found.hex(),
        )


def _join(steps: Sequence[_Step], seed: bytes, proof: Sequence[bytes], position: Position) -> tuple[bytes, bytes]:
    """Roots of the subtree that a proof is about and of the tree around it, rebuilt from the seed up."""
    if len(proof) != len(steps):
        _shape(f"the proof has {len(proof)} hashes where its place in the tree asks for {len(steps)}", position)
    _check_length(proof, position)
    inside = outside = seed
    for step, sibling in zip(steps, proof, strict=True):
        if step.side == "seed":
            inside = outside = sibling
        elif step.side == "right":
            outside = node_hash(outside, sibling)
        else:
            outside = node_hash(sibling, outside)
            if step.side == "inner":
                inside = node_hash(sibling, inside)
    return inside, outside


def _check_length(hashes: Iterable[bytes], position: Position) -> None:
    if any(len(digest) != HASH_LEN for digest in hashes):
        _shape(f"a hash is not {HASH_LEN} bytes long", position)


def _shape(message: str, position: Position) -> NoReturn:
    raise ProofError(Code.PROOF_SHAPE, message, position=position)
