"""Small files read whole: regular files only, and never more of one than it may hold.

In the place of a file that a ledger should hold may stand anything: a named pipe, which is never at its end; a device;
a directory; a link to nowhere or to itself; a file of any length. Whoever reads such places, to verify or to write,
reads them with this module, so that none of these hangs a command, fills its memory, or passes for an absent file.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from k3_ledger.ledger.core.note import MAX_NOTE
from k3_ledger.schemas.addresses import masked
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

NOT_THE_FILE = "something else stands in the place of a file: move it away, and put the file back from a copy"
NO_PIPES = "a named pipe or a device is not opened, for it may never end: hand it over as standard input (-) instead"


def unreadable(path: Path, error: OSError, hint: str | None = None) -> StoreError:
    """The error for a file that the operating system would not give us."""
    return StoreError(
        Code.UNREADABLE,
        f"{os.strerror(error.errno) if error.errno else error}: {path}",
        position=Position(source=Path(masked(str(path))).name),
        hint=hint,
    )


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading, and nothing that could hang, never end or stand for something else.

    Args:
        path: the file.
        follow: whether a symbolic link to it is followed.

    Raises:
        StoreError: it cannot be opened, or is no regular file.
    """
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
        handle = os.open(path, flags)
    except OSError as error:
        raise unreadable(path, error) from None
    return as_regular(handle, path)


@dataclass(frozen=True, slots=True)
class RegularRange:
    """Reads stretches of a regular file, each time anew: it can be pickled.

    Attributes:
        path: the file.
    """

    path: Path

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on, or as many as there are.

        Raises:
            StoreError: it cannot be opened or read, or is no regular file.
        """
        with open_regular(self.path) as stream:
            try:
                stream.seek(offset)
                return stream.read(length)
            except OSError as error:
                raise unreadable(self.path, error) from None


def as_regular(handle: int, path: Path) -> BinaryIO:
    """A stream of an open file, which it takes over; it was opened with ``O_NONBLOCK``, for it may be anything.

    Raises:
        StoreError: it is no regular file; it is closed then.
    """
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(
            Code.UNREADABLE,
            f"not a regular file: {path}",
            position=Position(source=path.name),
            hint=NOT_THE_FILE,
        )
    return os.fdopen(handle, "rb", buffering=0)


def read_small(path: Path, limit: int = MAX_NOTE) -> bytes:
    """A whole small file.

    Raises:
        StoreError: it cannot be read, or is longer than ``limit`` bytes.
    """
    with open_regular(path) as stream:
        return read_stream(stream, str(path), limit)


def read_stream(stream: BinaryIO, path: str, limit: int) -> bytes:
    """The rest of a stream that must not be long.

    Raises:
        StoreError: it cannot be read, or is longer than ``limit`` bytes.
    """
    try:
        data = read_up_to(stream, limit + 1)
    except OSError as error:
        raise unreadable(Path(path), error) from None
    if len(data) > limit:
        raise StoreError(
            Code.UNREADABLE,
            f"{path} is longer than {limit} bytes",
            position=Position(source=path.rpartition("/")[2]),
            hint="this is not the file that it is named after",
        )
    return data


def read_up_to(stream: BinaryIO, limit: int) -> bytes:
    """The next ``limit`` bytes of a stream, or fewer where it ends before."""
    parts = []
    while limit > 0 and (block := stream.read(limit)):
        parts.append(block)
        limit -= len(block)
    return b"".join(parts)


def stands_there(path: Path) -> bool:
    """Whether there is anything at a path, a link to nowhere or to itself included.

    Raises:
        StoreError: the system will not say.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(path, error) from None
    return True


def read_if_there(path: Path, limit: int = MAX_NOTE) -> bytes | None:
    """A whole small file, or None where nothing stands.

    Raises:
        StoreError: what stands there is no regular file, cannot be read, or is longer than ``limit`` bytes.
    """
    return read_small(path, limit) if stands_there(path) else None


def names_in(folder: Path) -> list[str]:
    """Names of what a directory holds, sorted; none where nothing stands.

    Raises:
        StoreError: what stands there is no directory, or cannot be listed.
    """
    if not stands_there(folder):
        return []
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names alone are wanted
    except OSError as error:
        raise unreadable(folder, error) from None
