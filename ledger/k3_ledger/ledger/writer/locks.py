"""Waiting for flock(2): a bounded time, and with the name of who holds the lock where the system tells it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.writer.disk import storage_error
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.disk import Disk

FIRST_WAIT_S: Final = 0.000_2
LONGEST_WAIT_S: Final = 0.005
"""Seconds between two tries for a lock that another process holds: doubled from the first to the longest."""
_LOCK_TABLE = Path("/proc/locks")


def take_lock(disk: Disk, fd: int, path: Path, what: str, *, timeout_s: float, deadline: float) -> None:
    """Take the exclusive lock on an open file; closing it gives the lock back.

    Args:
        disk: the operating system's calls.
        fd: the open file.
        path: where it was opened, for errors.
        what: what the lock guards, in words for errors.
        timeout_s: how long a caller waits in all, in seconds, for errors.
        deadline: until when, on the monotonic clock; one that is past tries once.

    Raises:
        StoreError: somebody else held it for the whole wait (``LOCK_BUSY``), or the file system grants no locks.
    """
    pause = FIRST_WAIT_S
    while True:
        try:
            disk.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise busy(_holder(disk, fd), path, what, timeout_s) from None
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_WAIT_S)
        except InterruptedError:
            continue
        except OSError as error:
            raise storage_error(error, path, f"lock {what}") from error
        else:
            return


def busy(holder: str, path: Path, what: str, timeout_s: float) -> StoreError:
    """The error for a lock that somebody else holds."""
    return StoreError(
        Code.LOCK_BUSY,
        f"{holder} is writing to {what}; waited {timeout_s:g} s",
        position=Position(source=str(path)),
        expected="one writer at a time",
        found=f"lock held by {holder}",
    )


def _holder(disk: Disk, fd: int) -> str:
    """Who holds the lock, as far as the system's lock table says."""
    with contextlib.suppress(OSError):
        info = disk.fstat(fd)
        place = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
        for line in _LOCK_TABLE.read_text().splitlines():
            fields = line.split()
            if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == place and "->" not in fields:
                return "this very process" if fields[4] == str(os.getpid()) else f"process {fields[4]}"
    return "another process"
