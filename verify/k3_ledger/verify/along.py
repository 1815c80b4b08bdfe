"""Reading a log in the very pass that verifies it, so that its entries are decoded once.

A :class:`Companion` is handed entries as workers verify them, before anyone knows whether the log holds. What it makes
of them is worth nothing until then: it hears of the verified log at the end, and must keep its results back so far.
Once something was found false it hears nothing any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.log import VerifiedLog


class ChunkReader(Protocol):
    """Reads the entries of one chunk, in the worker that verifies it."""

    def take(self, offset: int, entry: Any) -> None:
        """Read the entry on the chunk's line ``offset``: its signature holds, and it is not wrong by itself."""

    def finish(self) -> Any:
        """What came out, to be pickled. Nothing is taken afterwards."""


class Companion(Protocol):
    """Goes along with a verification."""

    @property
    def start(self) -> Callable[[], ChunkReader]:
        """Makes the reader of a chunk; to be pickled, it goes to the workers."""

    def take(self, first_line: int, chunk: bytes, read: Any) -> None:
        """The next chunk in log order, and what its reader made of it."""

    def verified(self, log: VerifiedLog) -> None:
        """All that was handed over stands in this log, and the log holds."""
