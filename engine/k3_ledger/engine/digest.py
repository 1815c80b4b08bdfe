"""Digests of files that may be hundreds of gigabytes: streamed, on all cores, and never believed from times or sizes.

A file's name in a receipt is its plain SHA-256, which only one core can compute. The Merkle digest of the same bytes
(RFC 6962 over blocks of 16 MiB) is computed on all of them, in every run, from every byte; a cache maps it to the plain
SHA-256 that belongs to it. A file that was changed has another Merkle digest and so no entry, whatever its times say.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK: Final = 1 << 24
"""Bytes of a leaf."""
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What a file is called by.

    Attributes:
        sha256: plain SHA-256, lower-case hex.
        merkle: RFC 6962 tree hash over blocks of :data:`BLOCK` bytes, lower-case hex.
        size: bytes that were read.
        cached: whether ``sha256`` was found by ``merkle`` rather than computed.
    """

    sha256: str
    merkle: str
    size: int
    cached: bool


def default_cache() -> Path:
    """Folder of the cache for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k3-ledger" / "weights"


def digest_file(path: Path, cache: Path | None = None, *, name: str | None = None) -> FileDigest:
    """Read all of a file.

    Args:
        path: the file.
        cache: folder of the cache, made when it is not there; None for none. One that cannot be read or written, or
            holds something else than a digest, is no cache.
        name: what errors call the file, where its path says little.

    Raises:
        OSError: the file cannot be read, or changed its length on the way.
    """
    size = path.stat().st_size
    if size <= BLOCK:
        data = path.read_bytes()
        return FileDigest(hashlib.sha256(data).hexdigest(), tree_hash([_leaf(data)]).hex(), len(data), cached=False)
    with path.open("rb") as file, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        descriptor = file.fileno()
        leaves = list(pool.map(lambda at: _leaf(_read(descriptor, min(BLOCK, size - at), at)), range(0, size, BLOCK)))
    merkle = tree_hash(leaves).hex()
    entry = None if cache is None else cache / merkle
    known = _known(entry)
    if known is not None:
        return FileDigest(known, merkle, size, cached=True)
    # The bytes are hashed as leaves again, so that what goes into the cache belongs together.
    plain, again = hashlib.sha256(), []
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            plain.update(block)
            again.append(_leaf(block))
    if again != leaves:
        raise OSError(f"{name or path.name} changed while it was read")
    if entry is not None:
        _remember(entry, plain.hexdigest())
    return FileDigest(plain.hexdigest(), merkle, size, cached=False)


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


def _read(descriptor: int, count: int, at: int) -> bytes:
    block = os.pread(descriptor, count, at)
    while len(block) < count:
        more = os.pread(descriptor, count - len(block), at + len(block))
        if not more:
            raise OSError("the file became shorter while it was read")
        block += more
    return block


def _known(entry: Path | None) -> str | None:
    try:
        text = "" if entry is None else entry.read_text(encoding="ascii").removesuffix("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if _HEX.fullmatch(text) else None


def _remember(entry: Path, sha256: str) -> None:
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=entry.parent, delete=False, encoding="ascii") as file:
            file.write(f"{sha256}\n")
        Path(file.name).replace(entry)
