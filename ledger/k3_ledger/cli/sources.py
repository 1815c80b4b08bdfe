"""Opens what a user names: a ledger directory or the log file in it. The verifier is handed bytes only."""

from __future__ import annotations

import errno
import re
import stat
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from k3_ledger.ledger.core.checkpoint import KEPT_NAME, kept_path
from k3_ledger.ledger.core.lines import EntryWatch
from k3_ledger.ledger.regular import (
    NO_PIPES,
    NOT_THE_FILE,
    RegularRange,
    names_in,
    open_regular,
    read_if_there,
    read_small,
    read_up_to,
    unreadable,
)
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.source import InTurn

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG_NAME = "ledger.jsonl"
BLOCK = 1 << 20
"""Bytes read at a time."""
TOKEN_NAME = re.compile(r"[0-9]{1,20}(?:-[a-z0-9-]{1,40})?\.tsr")
"""What a timestamp token of a signed head is called: the head's tree size, and whose token it is."""
MAX_STREAM = 64 << 30
"""Most bytes that are taken from one file at an address, or from standard input: what never ends is stopped there."""
MAX_OPEN_LINE = 1 << 20
"""Longest line, in bytes, that is read from an address before it ends. A line may have 65,535; two that were glued by a
changed byte, twice as many: those are findings, and are read on."""
LINES_TRIED = 1000
"""Lines of a log at an address of which one has to look like an entry."""
_DESCRIPTOR = re.compile(r"/dev/stdin|/dev/fd/[0-9]{1,9}|/proc/self/fd/[0-9]{1,9}")


def is_stream(text: str) -> bool:
    """Whether an argument names standard input or a file descriptor that the shell opened (``<(...)``).

    ``-`` always does, whatever stands in the folder: a file of that name is ``./-``. A descriptor does unless it is a
    regular file, which is opened like any other.
    """
    return text == "-" or (_DESCRIPTOR.fullmatch(text) is not None and not Path(text).is_file())


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


def read_start(stream: BinaryIO, path: Path, count: int) -> bytes:
    """The first ``count`` bytes of a file, or fewer where it is shorter.

    Raises:
        StoreError: they cannot be read.
    """
    try:
        return read_up_to(stream, count)
    except OSError as error:
        raise unreadable(path, error) from None


@contextmanager
def _as_head() -> Iterator[None]:
    """Say of what cannot be read that it stands in the place of a signed head."""
    try:
        yield
    except StoreError as error:
        found = error.finding
        raise StoreError(Code.CHECKPOINT_UNREADABLE, found.message, position=found.position) from None


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
                from k3_ledger.ledger.writer.beside import LOST, remains_of

                hint = (
                    LOST
                    if remains_of(path)
                    else f"restore {LOG_NAME} where it was lost; `k3-ledger init` begins a ledger where none was"
                )
            raise unreadable(self.log, error, hint) from None
        if not stat.S_ISREG(info.st_mode):
            raise StoreError(
                Code.UNREADABLE,
                f"not a regular file: {self.log}",
                position=Position(source=self.name),
                hint=NOT_THE_FILE if is_folder else NO_PIPES,
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

    def range_reader(self) -> RegularRange:
        """See :class:`~k3_ledger.verify.source.RangeSource`."""
        return RegularRange(self.log)

    def checkpoint(self) -> bytes | None:
        """The newest signed tree head; a bare file that is not called ledger.jsonl has none beside it.

        Read once: what is remembered after a verification is what was verified.
        """
        if not self._checkpoint_read:
            with _as_head():
                self._checkpoint = None if self._bare else read_if_there(self.root / "checkpoint")
            self._checkpoint_read = True
        return self._checkpoint

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        """Signed tree heads kept in ``checkpoints/``, by name; other files there are nobody's business."""

        def names() -> list[str]:
            with _as_head():
                return self._named("checkpoints", KEPT_NAME)

        def read(name: str) -> bytes:
            with _as_head():
                return read_small(self.root / name)

        return InTurn(names, read)

    def timestamps(self) -> Iterator[tuple[str, bytes]]:
        """Timestamp tokens of signed heads in ``timestamps/``, by name."""
        return InTurn(lambda: self._named("timestamps", TOKEN_NAME), lambda name: read_small(self.root / name))

    def lists(self, folder: str) -> bool:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        del folder
        return True

    def kept_checkpoint(self, size: int) -> bytes | None:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        with _as_head():
            return None if self._bare else read_if_there(self.root / kept_path(size))

    def _named(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        names = [] if self._bare else names_in(self.root / folder)
        return [f"{folder}/{name}" for name in names if pattern.fullmatch(name)]

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """An artifact from ``blobs/sha256``. Symbolic links are not followed out of the ledger."""
        path = self.root / "blobs" / "sha256" / sha256[:2] / sha256
        if not path.exists() and not path.is_symlink():
            return None
        return open_regular(path, follow=False)
