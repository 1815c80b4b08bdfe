"""Artifacts by digest: ``blobs/sha256/ab/abcd…``, each written whole, once, and durable before anything names it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.regular import as_regular
from k3_ledger.ledger.writer.disk import Staging, make_directory, storage_errors, sync_directory
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from k3_ledger.ledger.writer.store import Ledger

BLOCK = 1 << 20
"""Bytes of an artifact held in memory at a time."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored artifact.

    Attributes:
        sha256: its digest, lower-case hexadecimal: its name.
        size: its length in bytes.
        added: False when it was there already.
    """

    sha256: str
    size: int
    added: bool


def blob_path(ledger: Ledger, sha256: str) -> Path:
    """Where the artifact with this digest stands."""
    return ledger.blobs_path / "sha256" / sha256[:2] / sha256


def put_blob(ledger: Ledger, source: BinaryIO) -> Blob:
    """Store everything that ``source`` holds under its digest; when this returns, it is on stable storage.

    An artifact that is there already is read again and left alone. Memory stays flat whatever the size.

    Raises:
        StoreError: the file system refused, or what stands under that digest is something else.
    """
    with storage_errors(ledger.staging_path, "store an artifact"), Staging(ledger.disk, ledger.staging_path) as staged:
        sha256, size = hashlib.sha256(), 0
        for block in blocks(source):
            sha256.update(block)
            size += len(block)
            staged.write(block)
        digest = sha256.hexdigest()
        target = blob_path(ledger, digest)
        for directory in (ledger.blobs_path, target.parent.parent, target.parent):
            make_directory(ledger.disk, directory)
        if target.exists():
            check_blob(ledger, digest)
            # Whoever put it there may not have lived to make its name durable.
            sync_directory(ledger.disk, target.parent)
            return Blob(digest, size, added=False)
        staged.publish(target)
    return Blob(digest, size, added=True)


def check_blob(ledger: Ledger, sha256: str) -> int:
    """Read a stored artifact and hold it to its name. Returns its size in bytes.

    Raises:
        StoreError: it is missing, unreadable, or does not hash to its name.
    """
    path = blob_path(ledger, sha256)
    with storage_errors(path, "read the artifact"):
        fd = ledger.disk.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with as_regular(fd, path) as file:
            found, size = digest_of(file)
    if found != sha256:
        raise StoreError(
            Code.BLOB_DAMAGED,
            "the stored artifact does not hash to its name, and is not overwritten",
            position=Position(source=str(path)),
            expected=sha256,
            found=found,
        )
    return size


def digest_of(source: BinaryIO) -> tuple[str, int]:
    """SHA-256 in hexadecimal, and size in bytes, of everything that ``source`` holds."""
    sha256, size = hashlib.sha256(), 0
    for block in blocks(source):
        sha256.update(block)
        size += len(block)
    return sha256.hexdigest(), size


def blocks(source: BinaryIO) -> Iterator[bytes]:
    """Everything that ``source`` holds, in blocks of at most :data:`BLOCK` bytes."""
    while block := source.read(BLOCK):
        yield block
