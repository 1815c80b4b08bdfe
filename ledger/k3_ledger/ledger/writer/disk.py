"""The seam between the writer and the operating system.

Every system call that decides durability goes through one :class:`Disk`, so that a test can make any of them fail,
stop short or never return. Functions below it build the few idioms the writer needs: write everything, publish a
file whole or not at all, make a directory entry durable.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code, rows
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WORDS: Final = rows.ROWS
"""Loaded with the writer: once a disk fails, the words about it cannot be read from that disk any more."""
_SYNC_DATA = getattr(os, "fdatasync", os.fsync)
"""Not every Unix has fdatasync; fsync promises more."""


class Disk:
    """The operating system's calls, one method each, without policy. Tests subclass it to inject faults."""

    @cached_property
    def settled(self) -> set[Path]:
        """Directories whose names were made durable through this object: see :func:`settle_directory`."""
        return set()

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """Open a file, close-on-exec."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def read(self, fd: int, count: int, offset: int) -> bytes:
        """Read at most ``count`` bytes from ``offset``."""
        return os.pread(fd, count, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        """Write; may write less than it was given."""
        return os.write(fd, data)

    def fdatasync(self, fd: int) -> None:
        """Make the data of a file durable, and its length."""
        _SYNC_DATA(fd)

    def fsync(self, fd: int) -> None:
        """Make a file or a directory durable."""
        os.fsync(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut a file to a length."""
        os.ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name; a target is replaced atomically."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()

    def mkdir(self, path: Path) -> None:
        """Make a directory."""
        path.mkdir()

    def flock(self, fd: int, operation: int) -> None:
        """Lock or unlock. The lock belongs to the open file description, so it excludes threads and processes alike."""
        fcntl.flock(fd, operation)

    def stat(self, path: Path) -> os.stat_result:
        """What stands at a path."""
        return path.stat()

    def fstat(self, fd: int) -> os.stat_result:
        """What a descriptor stands for."""
        return os.fstat(fd)


_CAUSES: dict[int, tuple[Code, str, str]] = {
    errno.ENOSPC: (Code.DISK_FULL, "room on the file system", "free space on that file system, then try again"),
    errno.EDQUOT: (Code.DISK_FULL, "room in the disk quota", "free space or raise the quota, then try again"),
    errno.EFBIG: (Code.DISK_FULL, "a file size the system allows", "raise the file size limit (ulimit -f)"),
    errno.EROFS: (
        Code.READ_ONLY,
        "a file system mounted for writing",
        "write on the original, not on a read-only copy; reading and verifying need no write access",
    ),
    errno.EACCES: (Code.ACCESS_DENIED, "write access", "run as the owner of the ledger directory, or fix its mode"),
    errno.EPERM: (
        Code.ACCESS_DENIED,
        "an operation the system permits",
        "check the owner of the ledger directory and flags such as chattr +i or +a",
    ),
    errno.ENOENT: (Code.STORE_MISSING, "an existing path", "check the path; `k3-ledger init` makes a new ledger"),
    errno.ENOTDIR: (Code.STORE_MISSING, "a directory", "point the command at the ledger's directory"),
    errno.EISDIR: (Code.STORE_MISSING, "a regular file", "check what stands at that path"),
    errno.ELOOP: (Code.STORE_MISSING, "a path that is no symbolic link", "give the real path"),
    errno.EEXIST: (Code.STORE_EXISTS, "a path that is not taken", "choose another path; nothing is ever overwritten"),
    errno.ENOLCK: (
        Code.LOCK_UNSUPPORTED,
        "a file system that grants locks",
        "keep the ledger on a local disk while writing: this file system (NFS?) has no working lock service",
    ),
    errno.ENOTSUP: (
        Code.LOCK_UNSUPPORTED,
        "a file system with locks and sync",
        "keep the ledger on a local disk while writing",
    ),
}
_OTHER_CAUSE = (
    Code.DISK_ERROR,
    "a disk that does as it is told",
    "check the disk (dmesg, smartctl) before writing again; `k3-ledger verify` says what it holds",
)


_OUTPUT_HINTS = {
    errno.EROFS: "choose a place on a file system that is mounted for writing",
    errno.EACCES: "choose a place that you may write to, or fix the mode of the directory or file",
    errno.EPERM: "choose another place, or check the owner there and flags such as chattr +i or +a",
    errno.ENOENT: "make the directory first, or choose one that is there",
    errno.ENOTDIR: "choose a place below a directory",
}
"""What to do where a file or directory of the user's own is made, and not a ledger written."""


def storage_error(error: OSError, path: Path, doing: str, *, consequence: str = "", output: bool = False) -> StoreError:
    """Say which call failed on which path, what was expected of the system, and what to do.

    Args:
        error: what the operating system said.
        path: the path it is about.
        doing: what was being done, as in "cannot <doing>".
        consequence: what this means for the ledger, added to the message.
        output: whether the path is a place of the user's choice, and no ledger that is there.
    """
    code, expected, hint = _CAUSES.get(error.errno or 0, _OTHER_CAUSE)
    if output:
        hint = _OUTPUT_HINTS.get(error.errno or 0, hint)
    reason = os.strerror(error.errno) if error.errno else str(error)
    return StoreError(
        code,
        f"cannot {doing}{consequence and '; ' + consequence}",
        position=Position(source=str(path)),
        expected=expected,
        found=reason,
        hint=hint,
    )


@contextlib.contextmanager
def storage_errors(path: Path, doing: str, *, output: bool = False) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into a :class:`StoreError` about ``path``; see :func:`storage_error`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing, output=output) from error


def write_all(disk: Disk, fd: int, data: bytes) -> None:
    """Write every byte or raise ``OSError``. A short write is continued; one that makes no progress is an error."""
    view = memoryview(data)
    while view:
        written = disk.write(fd, view)
        if written <= 0:
            raise OSError(errno.EIO, "write made no progress")
        view = view[written:]


def sync_directory(disk: Disk, path: Path) -> None:
    """Make the entries of a directory durable."""
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk.fsync(fd)
    finally:
        disk.close(fd)


def make_directory(disk: Disk, path: Path) -> None:
    """Create a directory unless it is there, and make its name durable in its parent, whoever made it.

    Raises:
        StoreError: something else stands there, such as a link to nowhere.
        OSError: the system refused.
    """
    try:
        disk.mkdir(path)
    except FileExistsError:
        if not path.is_dir():
            raise StoreError(
                Code.STORE_MISSING,
                "what stands in a directory's place is none",
                position=Position(source=str(path)),
                expected="a directory",
                found=os.strerror(errno.ENOTDIR),
                hint="move it away: the command makes the directory anew",
            ) from None
        settle_directory(disk, path)
    else:
        sync_directory(disk, path.parent)
        disk.settled.add(path)


def settle_directory(disk: Disk, path: Path) -> None:
    """Make the name of a directory that stands durable, once: whoever made it may not have lived to do so."""
    if path not in disk.settled:
        settle_names(disk, path / "..")
        disk.settled.add(path)


def settle_names(disk: Disk, path: Path) -> None:
    """Make the names in a directory durable that others put there, as they may not have lived to.

    One that this user may not open is left alone: whoever made them had more rights than he has.
    """
    with contextlib.suppress(PermissionError):
        sync_directory(disk, path)


class Staging:
    """A file being written that nobody sees until it is whole.

    It lives in ``directory`` under a random name and is locked while it is written: that is how :func:`sweep` tells
    a file that a killed process left behind from one that is still being written. ``publish`` makes it durable under
    its final name; leaving the ``with`` block without publishing removes it. Entering sweeps the directory.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory

    def __enter__(self) -> Self:
        make_directory(self._disk, self._directory)
        sweep(self._disk, self._directory)
        while True:
            self._path: Path | None = self._directory / f"{secrets.token_hex(16)}{PART_SUFFIX}"
            self._fd = self._disk.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            try:
                self._disk.flock(self._fd, fcntl.LOCK_EX)
                # A sweep may have taken the file for an orphan between creation and lock.
                if self._disk.fstat(self._fd).st_nlink:
                    return self
            except BaseException:
                self.__exit__()
                raise
            self._disk.close(self._fd)

    def write(self, data: bytes) -> None:
        """Append bytes to the file."""
        write_all(self._disk, self._fd, data)

    @property
    def path(self) -> Path:
        """Where the file is while it is not yet published."""
        assert self._path is not None, "published already"
        return self._path

    def publish(self, target: Path) -> None:
        """Sync, give the file its final name (an existing target is replaced atomically), make the name durable."""
        self._disk.fsync(self._fd)
        self._disk.rename(self.path, target)
        self._path = None
        sync_directory(self._disk, target.parent)

    def __exit__(self, *_: object) -> None:
        try:
            if self._path is not None:
                with contextlib.suppress(OSError):
                    self._disk.unlink(self._path)
        finally:
            self._disk.close(self._fd)


PART_SUFFIX = ".part"


def sweep(disk: Disk, directory: Path) -> int:
    """Remove partial files that killed processes left in a staging directory. Returns how many."""
    removed = 0
    for path in sorted(directory.glob(f"*{PART_SUFFIX}")):
        with contextlib.suppress(OSError):
            fd = disk.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                disk.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                disk.unlink(path)
                removed += 1
            finally:
                disk.close(fd)
    return removed
