"""A directory that keeps what was fetched, so that it is fetched once.

Two kinds of files are kept, and both are immutable: full tiles that led to a signed root, and artifacts under their
digest. Signed heads, lists and partial tiles never are. Nothing in the cache is trusted: a tile is traced to the signed
root whenever it is used and an artifact is hashed again, so that a changed file is passed over and fetched anew. The
cache can be deleted at any time; what it cannot write it does without.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from k3_ledger.cli.sources import BLOCK
from k3_ledger.ledger.regular import open_regular, read_small
from k3_ledger.schemas.errors import LedgerError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Cache:
    """The part of a cache directory that belongs to one place.

    Args:
        root: the directory; made when something is kept.
        place: what the tiles belong to, such as an address. Artifacts are shared by all places.
    """

    def __init__(self, root: Path, place: str) -> None:
        self._tiles = root / "tiles" / hashlib.sha256(place.encode()).hexdigest()
        self._blobs = root / "sha256"

    def read_tile(self, path: str, limit: int) -> bytes | None:
        """A tile that was kept, or None."""
        with contextlib.suppress(LedgerError):
            return read_small(self._tiles / path, limit)
        return None

    def keep_tile(self, path: str, data: bytes) -> None:
        """Keep a full tile, unless it is kept already as it is."""
        if self.read_tile(path, len(data)) == data:
            return
        aside = _Aside(self._tiles / path)
        aside.write(data)
        aside.keep()

    def open_blob(self, sha256: str) -> BinaryIO | None:
        """An artifact that was kept, if it still hashes to its digest."""
        try:
            stream = open_regular(self._blob(sha256), follow=False)
        except LedgerError:
            return None
        state = hashlib.sha256()
        while block := stream.read(BLOCK):
            state.update(block)
        stream.seek(0)
        if state.hexdigest() == sha256:
            return stream
        stream.close()
        return None

    def keeping(self, stream: BinaryIO, sha256: str) -> BinaryIO:
        """The same stream; what was read from it is kept when it ends and hashes to its digest."""
        return cast(BinaryIO, _Keeping(stream, sha256, _Aside(self._blob(sha256))))

    def _blob(self, sha256: str) -> Path:
        return self._blobs / sha256[:2] / sha256


class _Aside:
    """A file beside its place until it is whole. Whatever the disk refuses ends the attempt and nothing else."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path: Path | None = None
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(prefix=".", dir=target.parent)
            self._file = os.fdopen(handle, "wb", buffering=0)
            self._path = Path(path)

    def write(self, data: bytes) -> None:
        """Add bytes."""
        try:
            if self._path is not None:
                self._file.write(data)
        except OSError:
            self.drop()

    def keep(self) -> None:
        """Give the file its name."""
        if self._path is not None:
            self._file.close()
            with contextlib.suppress(OSError):
                self._path.replace(self._target)
            self._path = None

    def drop(self) -> None:
        """Remove what was written."""
        if self._path is not None:
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._path = None


class _Keeping(io.RawIOBase):
    """Passes a stream through and keeps what passes."""

    def __init__(self, stream: BinaryIO, sha256: str, aside: _Aside) -> None:
        self._stream, self._sha256, self._aside = stream, sha256, aside
        self._state = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = self._stream.read(len(view))
        view[: len(data)] = data
        self._state.update(data)
        self._aside.write(data)
        if not data and self._state.hexdigest() == self._sha256:
            self._aside.keep()
        return len(data)

    def close(self) -> None:
        self._aside.drop()
        self._stream.close()
        super().close()
