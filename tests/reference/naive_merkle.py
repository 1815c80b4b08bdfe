"""The Merkle tree of RFC 6962 section 2.1, as its recursive definitions say. Imports no room of the project."""

from __future__ import annotations

import hashlib


def leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def split(size: int) -> int:
    """The largest power of two smaller than ``size``."""
    k = 1
    while 2 * k < size:
        k *= 2
    return k


def root(leaves: list[bytes]) -> bytes:
    """MTH of section 2.1, over leaf hashes."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    k = split(len(leaves))
    return hashlib.sha256(b"\x01" + root(leaves[:k]) + root(leaves[k:])).digest()


def inclusion(index: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of section 2.1.1."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if index < k:
        return [*inclusion(index, leaves[:k]), root(leaves[k:])]
    return [*inclusion(index - k, leaves[k:]), root(leaves[:k])]


def consistency(size: int, leaves: list[bytes], *, known: bool = True) -> list[bytes]:
    """SUBPROOF of section 2.1.2; ``known`` is its flag b."""
    if size == len(leaves):
        return [] if known else [root(leaves)]
    k = split(len(leaves))
    if size <= k:
        return [*consistency(size, leaves[:k], known=known), root(leaves[k:])]
    return [*consistency(size - k, leaves[k:], known=False), root(leaves[:k])]


def subtree_consistency(start: int, end: int, leaves: list[bytes], *, known: bool = True) -> list[bytes]:
    """The same for leaves ``[start, end)`` instead of a prefix."""
    if (start, end) == (0, len(leaves)):
        return [] if known else [root(leaves)]
    k = split(len(leaves))
    if end <= k:
        return [*subtree_consistency(start, end, leaves[:k], known=known), root(leaves[k:])]
    if start >= k:
        return [*subtree_consistency(start - k, end - k, leaves[k:], known=known), root(leaves[:k])]
    return [*subtree_consistency(0, end - k, leaves[k:], known=False), root(leaves[:k])]
