"""The open ``ledger.jsonl``: one writer at a time, and always the file that stands at the path.

The lock is flock(2) on the log file itself: no lock file can be left behind, and since it belongs to the open file
description it excludes other threads as well as other processes. Threads of one process first queue on an in-process
lock, so that they do not poll against each other. The wait is bounded.

What another process left in the file need not be on the disk: it may have died between its write and its sync, or
between making the file and syncing its name. So nobody says that something stands in the log before
:meth:`LogFile.settle` or :meth:`LogFile.sync`, and nothing is appended before :meth:`LogFile.settle_name`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
import time
import weakref
from typing import TYPE_CHECKING

from k3_ledger.ledger.writer.disk import settle_names, storage_error, storage_errors
from k3_ledger.ledger.writer.locks import busy, take_lock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.ledger.writer.disk import Disk


class _Queue:
    """Where the threads of this process wait for one path. Reentrant: the holder may ask again."""

    def __init__(self) -> None:
        self.lock = threading.RLock()


_queues: weakref.WeakValueDictionary[tuple[int, str], _Queue] = weakref.WeakValueDictionary()
_queues_guard = threading.Lock()


def _queue(path: Path) -> _Queue:
    # The process id keeps a forked child from waiting for a lock that a thread of its parent held.
    key = (os.getpid(), os.path.realpath(path))
    with _queues_guard:
        queue = _queues.get(key)
        if queue is None:
            queue = _queues[key] = _Queue()
        return queue


def _regular(info: os.stat_result) -> tuple[int, int]:
    """Device and inode of a regular file; anything else is refused."""
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EISDIR, "")
    return info.st_dev, info.st_ino


class LogFile:
    """``ledger.jsonl`` opened for reading and appending.

    Args:
        disk: the operating system's calls.
        path: the file; it must exist.
        lock_timeout_s: how long to wait for another writer, in seconds; 0 tries once.
        what: what the lock guards, in words for errors.
    """

    def __init__(self, disk: Disk, path: Path, *, lock_timeout_s: float = 30.0, what: str = "the ledger") -> None:
        self._disk = disk
        self.path = path
        self._what = what
        self._timeout_s = min(lock_timeout_s, threading.TIMEOUT_MAX)
        self._pid = os.getpid()
        self._depth = 0
        self._queue = _queue(path)
        self._fd, self._identity = self._open()
        self._synced = 0
        self._named = False

    @property
    def fd(self) -> int:
        """File descriptor, valid while the lock is held: the file at the path may be another one the next time."""
        return self._fd

    def _open(self) -> tuple[int, tuple[int, int]]:
        with storage_errors(self.path, f"open {self._what} for writing"):
            fd = self._disk.open(self.path, os.O_RDWR | os.O_APPEND)
            try:
                return fd, _regular(self._disk.fstat(fd))
            except BaseException:
                self._disk.close(fd)
                raise

    def size(self) -> int:
        """Length of the file in bytes.

        Raises:
            StoreError: the system does not say.
        """
        try:
            return self._disk.fstat(self._fd).st_size
        except OSError as error:
            raise storage_error(error, self.path, "look at the ledger") from error

    def read(self, count: int, offset: int) -> bytes:
        """At most ``count`` bytes from ``offset``; fewer only at the end of the file.

        Raises:
            StoreError: the disk cannot read them.
        """
        try:
            data = self._disk.read(self._fd, count, offset)
            while len(data) < count and (more := self._disk.read(self._fd, count - len(data), offset + len(data))):
                data += more
        except OSError as error:
            raise storage_error(error, self.path, "read the ledger") from error
        return data

    def settle(self, size: int) -> None:
        """Make the first ``size`` bytes and the file's name durable, whoever wrote them, unless this object did.

        Raises:
            StoreError: the disk refused: what stands in the file may not be on the disk.
        """
        if self._synced < size:
            self.settle_name()
            with storage_errors(self.path, "sync the ledger to the disk"):
                self.sync(size)

    def settle_name(self) -> None:
        """Make the file's name durable, once; `init` made that of its directory durable before it.

        Raises:
            StoreError: the disk refused.
        """
        if not self._named:
            with storage_errors(self.path, "make the name of the ledger durable"):
                settle_names(self._disk, self.path.parent)
            self._named = True

    def sync(self, size: int) -> None:
        """Make the file durable, which is ``size`` bytes long.

        Raises:
            OSError: the disk refused.
        """
        self._disk.fdatasync(self._fd)
        self._synced = size

    def close(self) -> None:
        """Give the file back. Closing twice is harmless."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):  # what was acknowledged was synced before
                self._disk.close(fd)

    def acquire(self) -> None:
        """Take the exclusive right to append; :meth:`release` gives it back. Reentrant within a thread.

        Raises:
            StoreError: another writer held the lock for the whole wait, or the file system grants no locks.
        """
        if self._fd < 0:
            raise ValueError("the writer is closed")
        if self._pid != os.getpid():
            raise ValueError("a writer does not follow a fork: open one in each process")
        deadline = time.monotonic() + self._timeout_s
        if not self._queue.lock.acquire(timeout=self._timeout_s):
            raise busy("another thread of this process", self.path, self._what, self._timeout_s)
        try:
            if self._depth == 0:
                self._lock(deadline)
        except BaseException:
            self._queue.lock.release()
            raise
        self._depth += 1

    def release(self) -> None:
        """Give back what :meth:`acquire` took.

        Raises:
            StoreError: the system does not unlock; closing the file will.
        """
        self._depth -= 1
        try:
            if self._depth == 0:
                with storage_errors(self.path, f"unlock {self._what}"):
                    self._disk.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._queue.lock.release()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the exclusive right to append; see :meth:`acquire`."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _lock(self, deadline: float) -> None:
        """Take the lock on the file that stands at the path now."""
        while True:
            take_lock(self._disk, self._fd, self.path, self._what, timeout_s=self._timeout_s, deadline=deadline)
            try:
                now = self._disk.stat(self.path)
            except OSError as error:
                self._disk.flock(self._fd, fcntl.LOCK_UN)
                raise storage_error(error, self.path, "look at the ledger") from error
            if (now.st_dev, now.st_ino) == self._identity:
                return
            # Somebody put another file in its place (git checkout, rsync): an append to the old one would be lost.
            old = self._fd
            self._fd, self._identity = self._open()
            self._synced, self._named = 0, False
            self._disk.close(old)
