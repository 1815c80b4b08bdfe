"""Artifacts by digest: ``blobs/sha256/ab/abcd…``, each written whole, once, and durable before anything names it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.regular import as_regular
from k3_ledger.ledger.writer.disk import Staging, make_directory, storage_errors, sync_directory
from k3_ledger.ledger.writer.secrets_in import KeyWatch
from k3_ledger.schemas.errors import KeyFileError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    from k3_ledger.ledger.writer.store import Ledger

BLOCK = 1 << 20
"""Bytes of an artifact held in memory at a time."""
MAX_ARTIFACT: Final = 1 << 30
"""Longest artifact that is stored, in bytes. One that is longer and stands in a store is still read and verified."""


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
        StoreError: the file system refused, what stands under that digest is something else, or it is longer than
            :data:`MAX_ARTIFACT` (``ARTIFACT_TOO_LONG``).
    """
    with storage_errors(ledger.staging_path, "store an artifact"), Staging(ledger.disk, ledger.staging_path) as staged:
        sha256, size = hashlib.sha256(), 0
        for block in blocks(source):
            sha256.update(block)
            size += len(block)
            check_length(size, "the artifact")
            staged.write(block)
        digest = sha256.hexdigest()
        target = blob_path(ledger, digest)
        for directory in (ledger.blobs_path, target.parent.parent, target.parent):
            with storage_errors(directory, "store an artifact"):
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


def check_publishable(source: BinaryIO, name: str) -> tuple[str, int]:
    """What :func:`digest_of` gives, of what holds no private key: artifacts are published, and never taken back.

    Raises:
        KeyFileError: it holds a private key (``KEY_FILE_EXPOSED``).
        StoreError: it is longer than :data:`MAX_ARTIFACT` (``ARTIFACT_TOO_LONG``).
    """
    sha256, size, watch = hashlib.sha256(), 0, KeyWatch()
    for block in blocks(source):
        sha256.update(block)
        size += len(block)
        check_length(size, name)
        watch.see(block)
    if watch.found:
        raise KeyFileError(
            Code.KEY_FILE_EXPOSED,
            "this holds a private key, and an artifact is published with the ledger",
            position=Position(source=name),
            hint="leave it out; nothing was stored",
        )
    return sha256.hexdigest(), size


def check_length(size: int, name: str) -> None:
    """Refuse what is longer than an artifact that is stored may be.

    Raises:
        StoreError: it is (``ARTIFACT_TOO_LONG``).
    """
    if size > MAX_ARTIFACT:
        raise StoreError(
            Code.ARTIFACT_TOO_LONG,
            f"{name} is longer than an artifact may be",
            position=Position(source=name),
            expected=f"at most {MAX_ARTIFACT:,} bytes",
            found=f"{size:,} bytes or more",
        )


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
