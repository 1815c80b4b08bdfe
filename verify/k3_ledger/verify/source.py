"""Where a log's bytes come from. The caller opens things; this room only reads what it is handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class LogSource(Protocol):
    """Bytes of one ledger: a directory, a tar, a download; whatever the caller opened.

    Every method may raise :class:`~k3_ledger.schemas.errors.StoreError` when the medium fails, and reading an artifact
    that was opened ``OSError``.
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

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """A readable artifact by its hexadecimal digest, or None when it is not there."""
        ...


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

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """See :meth:`LogSource.open_artifact`."""
        import io  # noqa: PLC0415 - only needed where artifacts are

        data = self._artifacts.get(sha256)
        return None if data is None else io.BytesIO(data)
