"""Where a log's bytes come from. The caller opens things; this room only reads what it is handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from k3_ledger.ledger.core.checkpoint import kept_path
from k3_ledger.schemas.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


NOT_LOOKED_FOR = "were not looked for, and not checked: this place does not say which files it has"
"""What is said of the kept heads and timestamps of a place that lists nothing."""


class ArtifactSource(Protocol):
    """Where artifacts come from."""

    @property
    def name(self) -> str:
        """What to call it in findings."""
        ...

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """The artifact with this digest, opened for reading; None where it is not here."""
        ...


class LogSource(Protocol):
    """Bytes of one ledger: a directory, a tar, a download; whatever the caller opened.

    Every method may raise :class:`~k3_ledger.schemas.errors.StoreError` when the medium fails, and reading an artifact
    that was opened ``OSError``. Of several files each is read by itself: see :func:`each`.
    """

    @property
    def name(self) -> str:
        """What to call the log file in positions, such as ``ledger.jsonl``."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes in the log file, where that is known: only a progress bar needs it."""
        ...

    def blocks(self) -> Iterator[bytes]:
        """The log file from its start, in blocks of any length. May be called more than once."""
        ...

    def checkpoint(self) -> bytes | None:
        """The newest signed tree head, or None where the ledger has none."""
        ...

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        """(name, bytes) of every signed tree head kept beside the newest one."""
        ...

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        """(name, bytes) of timestamp tokens of signed heads."""
        ...

    def lists(self, folder: str) -> bool:
        """Whether the place says what ``checkpoints`` or ``timestamps`` holds; where it does not, none is given."""
        ...

    def kept_checkpoint(self, size: int) -> bytes | None:
        """A kept head asked for by its name, for places that do not list it; None where none has it."""
        ...

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """A readable artifact by its hexadecimal digest, or None when it is not there."""
        ...


class RangeReader(Protocol):
    """Reads any stretch of a log file, in whatever process it was pickled to."""

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset`` on, or as many as there are.

        Raises:
            StoreError: the medium fails.
        """


@runtime_checkable
class RangeSource(Protocol):
    """A source whose log file other processes can open too. What they read may have changed: it has to be compared."""

    def range_reader(self) -> RangeReader:
        """Reads the log file."""


class InTurn:
    """(name, bytes) of small files, each read when its turn comes. The error of one that cannot be read is raised in
    its turn, and whoever asks on is given the next.
    """

    def __init__(self, names: Callable[[], Sequence[str]], read: Callable[[str], bytes]) -> None:
        """Read nothing yet.

        Args:
            names: gives the names; where it raises, that is the one error there is.
            read: reads the file of one name.
        """
        self._list, self._read = names, read
        self._names: Iterator[str] | None = None

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self

    def __next__(self) -> tuple[str, bytes]:
        if self._names is None:
            self._names = iter(())
            self._names = iter(self._list())
        name = next(self._names)
        return name, self._read(name)


def each(files: Callable[[], Iterable[tuple[str, bytes]]]) -> Iterator[tuple[str, bytes] | StoreError]:
    """What files hold, and in the place of one that cannot be read the error: it keeps nobody from the others."""
    try:
        turns = iter(files())
    except StoreError as error:
        yield error
        return
    while True:
        try:
            yield next(turns)
        except StopIteration:
            return
        except StoreError as error:
            yield error


class MemorySource:
    """A log held in memory: for tests, for proofs, for callers that downloaded it already."""

    def __init__(
        self,
        log: bytes,
        *,
        checkpoint: bytes | None = None,
        kept: Iterable[tuple[str, bytes]] = (),
        artifacts: dict[str, bytes] | None = None,
        tokens: Iterable[tuple[str, bytes]] = (),
        block: int = 1 << 20,
    ) -> None:
        if block < 1:
            raise ValueError(f"block must be at least 1 byte, got {block}")
        self.name = "ledger.jsonl"
        self.size: int | None = len(log)
        self._log = log
        self._checkpoint = checkpoint
        self._kept = tuple(kept)
        self._tokens = tuple(tokens)
        self._artifacts = artifacts or {}
        self._block = block

    def blocks(self) -> Iterator[bytes]:
        """See :meth:`LogSource.blocks`."""
        for start in range(0, len(self._log), self._block):
            yield self._log[start : start + self._block]

    def checkpoint(self) -> bytes | None:
        """See :meth:`LogSource.checkpoint`."""
        return self._checkpoint

    def kept_checkpoints(self) -> Iterable[tuple[str, bytes]]:
        """See :meth:`LogSource.kept_checkpoints`."""
        return self._kept

    def timestamps(self) -> Iterable[tuple[str, bytes]]:
        """See :meth:`LogSource.timestamps`."""
        return self._tokens

    def lists(self, folder: str) -> bool:
        """See :meth:`LogSource.lists`."""
        del folder
        return True

    def kept_checkpoint(self, size: int) -> bytes | None:
        """See :meth:`LogSource.kept_checkpoint`."""
        return dict(self._kept).get(kept_path(size))

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """See :meth:`LogSource.open_artifact`."""
        import io  # noqa: PLC0415 - only needed where artifacts are

        data = self._artifacts.get(sha256)
        return None if data is None else io.BytesIO(data)
