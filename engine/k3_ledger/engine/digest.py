"""Digests of files that may be hundreds of gigabytes: streamed, and computed anew from every byte in every run.

A receipt calls a model file by its plain SHA-256. Nothing remembers one from run to run: what is read for a digest in
place of the file can be written by whatever engine ran before, and would put any digest into a receipt
(``docs/adr/0054-hashed-anew.md``). In the same pass the Merkle digest of the same bytes is computed beside it (RFC 6962
over blocks of 16 MiB), so that a part of a file can be held against its record.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BLOCK: Final = 1 << 24
"""Bytes of a leaf."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What a file is called by.

    Attributes:
        sha256: plain SHA-256, lower-case hex.
        merkle: RFC 6962 tree hash over blocks of :data:`BLOCK` bytes, lower-case hex.
        size: bytes that were read.
    """

    sha256: str
    merkle: str
    size: int


def digest_file(path: Path, *, name: str | None = None) -> FileDigest:
    """Read all of a file, once.

    Args:
        path: the file.
        name: what errors call the file, where its path says little.

    Raises:
        OSError: the file cannot be read, or changed its length on the way.
    """
    plain, leaves, size = hashlib.sha256(), list[Future[bytes]](), 0
    with path.open("rb") as file, ThreadPoolExecutor(1) as pool:
        wanted = path.stat().st_size
        while (block := file.read(BLOCK)) or not leaves:
            if leaves:
                leaves[-1].result()  # no more than two blocks are held
            leaves.append(pool.submit(_leaf, block))
            plain.update(block)
            size += len(block)
    if not size == wanted == path.stat().st_size:
        raise OSError(f"{name or path.name} changed its length while it was read")
    return FileDigest(plain.hexdigest(), tree_hash([leaf.result() for leaf in leaves]).hex(), size)


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, of leaf hashes; at least one."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\x01" + tree_hash(leaves[:half]) + tree_hash(leaves[half:])).digest()


def _leaf(block: bytes) -> bytes:
    digest = hashlib.sha256(b"\x00")
    digest.update(block)
    return digest.digest()
