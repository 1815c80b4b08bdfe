"""Opens what a user names: a ledger directory or the log file in it. The verifier is handed bytes only."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from k3_ledger.ledger.core.lines import EntryWatch
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_NAME = "ledger.jsonl"
BLOCK = 1 << 20
"""Bytes read at a time."""
KEPT_NAME = re.compile(r"[0-9]{1,20}\.note")
"""What a kept checkpoint is called: its tree size."""
TOKEN_NAME = re.compile(r"[0-9]{1,20}(?:-[a-z0-9-]{1,40})?\.tsr")
"""What a timestamp token of a signed head is called: the head's tree size, and whose token it is."""
NO_PIPES = "a named pipe or a device is not opened, for it may never end: hand it over as standard input (-) instead"
MAX_STREAM = 64 << 30
"""Most bytes that are taken from one file at an address, or from standard input: what never ends is stopped there."""
MAX_OPEN_LINE = 1 << 20
"""Longest line, in bytes, that is read from an address before it ends. A line may have 65,535; two that were glued by a
changed byte, twice as many: those are findings, and are read on."""
LINES_TRIED = 1000
"""Lines of a log at an address of which one has to look like an entry."""
_STREAM = re.compile(r"-|/dev/stdin|/dev/fd/[0-9]{1,9}|/proc/self/fd/[0-9]{1,9}")
MAX_NOTE = 1 << 20
"""Longest signed tree head that is read, in bytes."""


def unreadable(path: Path, error: OSError, hint: str | None = None) -> StoreError:
    """The error for a file that the operating system would not give us."""
    return StoreError(
        Code.UNREADABLE,
        f"{os.strerror(error.errno) if error.errno else error}: {path}",
        position=Position(source=path.name),
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
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise StoreError(
            Code.UNREADABLE,
            f"not a regular file: {path}",
            position=Position(source=path.name),
            hint=NO_PIPES,
        )
    return os.fdopen(handle, "rb", buffering=0)


def is_stream(text: str) -> bool:
    """Whether an argument names standard input or a file descriptor that the shell opened (``<(...)``)."""
    return _STREAM.fullmatch(text) is not None and not Path(text).is_file()


def open_stream(text: str) -> BinaryIO:
    """What :func:`is_stream` found, from where it stands.

    Raises:
        StoreError: it is closed, or cannot be read.
    """
    if text == "-":
        if sys.stdin is None:  # closed before the program began
            raise unreadable(Path("stdin"), OSError(errno.EBADF, "closed"))
        return sys.stdin.buffer
    try:
        return Path(text).open("rb", buffering=0)
    except OSError as error:
        raise unreadable(Path(text), error) from None


def limited(stream: BinaryIO, name: str, limit: int | None = None) -> Iterator[bytes]:
    """The blocks of a stream that somebody else ends.

    Raises:
        StoreError: it cannot be read, or goes on for more than ``limit`` bytes (:data:`MAX_STREAM`).
    """
    left = MAX_STREAM if limit is None else limit
    try:
        while block := stream.read(BLOCK):
            left -= len(block)
            if left < 0:
                raise StoreError(
                    Code.UNREADABLE,
                    f"it goes on for more than {MAX_STREAM if limit is None else limit} bytes",
                    position=Position(source=name),
                    hint="copy it to this machine and verify the copy",
                )
            yield block
    except OSError as error:
        raise unreadable(Path(name), error) from None


def sane(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The blocks of a log that a stranger sends, as long as they can be one.

    Raises:
        MalformedError: none of the first :data:`LINES_TRIED` lines looks like an entry (``NOT_A_LEDGER``).
        StoreError: a line goes on for more than :data:`MAX_OPEN_LINE` bytes, or all for more than
            :data:`MAX_STREAM` (``REMOTE_UNREADABLE``).
    """
    beginning: EntryWatch | None = EntryWatch(LINES_TRIED)
    total = open_line = 0
    for block in blocks:
        total += len(block)
        last = block.rfind(b"\n")
        open_line = len(block) - last - 1 if last >= 0 else open_line + len(block)
        if beginning is not None and beginning.feed(block, position=Position(source=LOG_NAME)):
            beginning = None
        if open_line > MAX_OPEN_LINE or total > MAX_STREAM:
            what = f"a line of it goes on for more than {MAX_OPEN_LINE} bytes"
            raise StoreError(
                Code.REMOTE_UNREADABLE,
                what if open_line > MAX_OPEN_LINE else f"it goes on for more than {MAX_STREAM} bytes",
                position=Position(source=f"{name}/{LOG_NAME}"),
                hint="whoever answers there sends no ledger; ask another mirror, or copy it here and verify the copy",
            )
        yield block


def is_directory(path: Path) -> bool:
    """Whether a path names a directory.

    Raises:
        StoreError: the system will not say: no permission, or a name that no file can have.
    """
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from None


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
    name = path.rpartition("/")[2]
    try:
        data = _read_up_to(stream, limit + 1)
    except OSError as error:
        raise unreadable(Path(path), error) from None
    if len(data) > limit:
        raise StoreError(
            Code.UNREADABLE,
            f"{path} is longer than {limit} bytes",
            position=Position(source=name),
            hint="this is not the file that it is named after",
        )
    return data


def read_start(stream: BinaryIO, path: Path, count: int) -> bytes:
    """The first ``count`` bytes of a file, or fewer where it is shorter.

    Raises:
        StoreError: they cannot be read.
    """
    try:
        return _read_up_to(stream, count)
    except OSError as error:
        raise unreadable(path, error) from None


def _read_up_to(stream: BinaryIO, limit: int) -> bytes:
    parts = []
    while limit > 0 and (block := stream.read(limit)):
        parts.append(block)
        limit -= len(block)
    return b"".join(parts)


class DirectorySource:
    """A ledger in a directory, or a bare log file; a :class:`k3_ledger.verify.source.LogSource`."""

    def __init__(self, path: Path) -> None:
        """Open nothing yet, but refuse what is neither a directory with a log nor a file.

        Raises:
            StoreError: nothing is there, or the directory holds no log.
        """
        is_folder = is_directory(path)
        self.root = path if is_folder else path.parent
        self.log = path / LOG_NAME if is_folder else path
        self.name = self.log.name
        self._bare = not is_folder and path.name != LOG_NAME
        self._checkpoint: bytes | None = None
        self._checkpoint_read = False
        try:
            info = self.log.stat()
        except OSError as error:
            hint = None
            if error.errno == errno.ENOENT and is_folder:
                hint = f"restore {LOG_NAME} where it was lost; `k3-ledger init` begins a ledger where none was"
            raise unreadable(self.log, error, hint) from None
        if not stat.S_ISREG(info.st_mode):
            raise StoreError(
                Code.UNREADABLE,
                f"not a regular file: {self.log}",
                position=Position(source=self.name),
                hint=NO_PIPES,
            )
        self.size: int | None = info.st_size

    def blocks(self) -> Iterator[bytes]:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        with open_regular(self.log) as stream:
            try:
                while block := stream.read(BLOCK):
                    yield block
            except OSError as error:
                raise unreadable(self.log, error) from None

    def checkpoint(self) -> bytes | None:
        """The newest signed tree head; a bare file that is not called ledger.jsonl has none beside it.

        Read once: what is remembered after a verification is what was verified.
        """
        if not self._checkpoint_read:
            path = self.root / "checkpoint"
            there = not self._bare and (path.exists() or path.is_symlink())
            self._checkpoint = read_small(path) if there else None
            self._checkpoint_read = True
        return self._checkpoint

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        """Signed tree heads kept in ``checkpoints/``, by name; other files there are nobody's business."""
        folder = self.root / "checkpoints"
        if self._bare or not folder.is_dir():
            return
        for path in sorted(folder.iterdir()):
            if KEPT_NAME.fullmatch(path.name):
                yield f"checkpoints/{path.name}", read_small(path)

    def timestamps(self) -> Iterator[tuple[str, bytes]]:
        """Timestamp tokens of signed heads in ``timestamps/``, by name."""
        folder = self.root / "timestamps"
        if self._bare or not folder.is_dir():
            return
        for path in sorted(folder.iterdir()):
            if TOKEN_NAME.fullmatch(path.name):
                yield f"timestamps/{path.name}", read_small(path)

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """An artifact from ``blobs/sha256``. Symbolic links are not followed out of the ledger."""
        path = self.root / "blobs" / "sha256" / sha256[:2] / sha256
        if not path.exists() and not path.is_symlink():
            return None
        return open_regular(path, follow=False)
