"""Places that hold the files of a ledger or a mirror: a directory, a tar, an address. Each opens files by name.

A store promises bytes and nothing about them. What stands in it is judged by the verifier; what a store refuses is what
could hang, never end, or stand for something else: links, devices, archives that climb or announce what they lack.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from k3_ledger.cli.sources import BLOCK, LOG_NAME, TOKEN_NAME, read_start, sane
from k3_ledger.ledger.core.checkpoint import KEPT_NAME, kept_path
from k3_ledger.ledger.core.note import MAX_NOTE
from k3_ledger.ledger.core.tiles import ENTRIES, MAX_BUNDLE_BYTES, MAX_TILE_BYTES, tile_path
from k3_ledger.ledger.regular import names_in, open_regular, read_stream, stands_there, unreadable
from k3_ledger.schemas.errors import LedgerError, MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.verify.source import InTurn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from k3_ledger.cli.cache import Cache
    from k3_ledger.ledger.core.tiles import Tile
    from k3_ledger.ledger.writer.tarball import Member

MAX_KEY_ENTRIES = 1 << 20
"""Longest list of positions of key entries that is read, in bytes."""
_HIDDEN_PART = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._+@-]*")


class Store(Protocol):
    """Files by their names relative to a ledger's root."""

    @property
    def name(self) -> str:
        """What to call the place in reports."""
        ...

    def open(self, path: str) -> BinaryIO | None:
        """A file from its start, or None when it is not there.

        Raises:
            StoreError: it is there and cannot be read.
        """
        ...

    def names(self, folder: str) -> list[str] | None:
        """Names of what a folder holds, sorted; None where the place does not say which files it has.

        Raises:
            StoreError: it would say, and this time it cannot.
        """
        ...


def read_file(store: Store, path: str, limit: int = MAX_NOTE) -> bytes | None:
    """A whole small file of a store, or None when it is not there.

    Raises:
        StoreError: it cannot be read, or is longer than ``limit`` bytes.
    """
    stream = store.open(path)
    if stream is None:
        return None
    with stream:
        return read_stream(stream, path, limit)


class DirectoryStore:
    """A directory. Symbolic links are not followed out of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = str(root)

    def open(self, path: str) -> BinaryIO | None:
        """See :meth:`Store.open`."""
        place = self.root / path
        return open_regular(place, follow=False) if stands_there(place) else None

    def names(self, folder: str) -> list[str]:
        """See :meth:`Store.names`."""
        return names_in(self.root / folder)


class _Slice(io.RawIOBase):
    """Some bytes of an open file as a stream of their own."""

    def __init__(self, handle: int, offset: int, size: int) -> None:
        self._handle, self._at, self._end = handle, offset, offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer)
        data = os.pread(self._handle, min(len(view), self._end - self._at), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class TarStore:
    """An uncompressed tar of a ledger directory, of a mirror, or of an offline bundle: what is in it, or in the one
    directory in it. Its members are checked, all of them, before any content is looked at.
    """

    def __init__(self, path: Path) -> None:
        """Open the tar and list it.

        Raises:
            StoreError: the file cannot be read.
            MalformedError: it is no acceptable tar (``ARCHIVE_REFUSED``).
        """
        from k3_ledger.ledger.writer.tarball import list_members

        self.name = path.name
        self._file = open_regular(path)
        try:
            members = list_members(self._file, os.fstat(self._file.fileno()).st_size, path.name, part=_HIDDEN_PART)
        except LedgerError as error:
            self._file.close()
            found = error.finding
            raise MalformedError(
                Code.ARCHIVE_REFUSED,
                found.message,
                position=found.position,
                expected=found.expected,
                found=found.found,
            ) from None
        except OSError as error:
            self._file.close()
            raise unreadable(path, error) from None
        tops = {name.partition("/")[0] for name in members}
        inside = f"{next(iter(tops))}/" if len(tops) == 1 and "/" in next(iter(members)) else ""
        self.members: dict[str, Member] = {name.removeprefix(inside): member for name, member in members.items()}
        """Regular files by name, in the order in which they stand in the tar."""

    def close(self) -> None:
        """Close the file; streams that were opened from it end here as well."""
        self._file.close()

    def open(self, path: str) -> BinaryIO | None:
        """See :meth:`Store.open`."""
        member = self.members.get(path)
        if member is None:
            return None
        return cast("BinaryIO", _Slice(self._file.fileno(), member.offset, member.size))

    def names(self, folder: str) -> list[str]:
        """See :meth:`Store.names`."""
        return sorted(name.removeprefix(f"{folder}/") for name in self.members if name.startswith(f"{folder}/"))


class _Files:
    """What logs and mirrors in a store have in common."""

    def __init__(self, store: Store, cache: Cache | None = None) -> None:
        self.store = store
        self.cache = cache
        self.name = store.name
        self._checkpoint: bytes | None = None
        self._checkpoint_read = False
        self._names: dict[str, list[str] | None] = {}

    def checkpoint(self) -> bytes | None:
        """The newest signed tree head, read once and never cached: it is what changes."""
        if not self._checkpoint_read:
            self._checkpoint = read_file(self.store, "checkpoint")
            self._checkpoint_read = True
        return self._checkpoint

    def kept_checkpoints(self) -> Iterator[tuple[str, bytes]]:
        """Signed tree heads kept in ``checkpoints/``, where the place lists them."""
        return InTurn(lambda: self._named("checkpoints", KEPT_NAME), self._read)

    def timestamps(self) -> Iterator[tuple[str, bytes]]:
        """Timestamp tokens of signed heads in ``timestamps/``, where the place lists them."""
        return InTurn(lambda: self._named("timestamps", TOKEN_NAME), self._read)

    def lists(self, folder: str) -> bool:
        """See :class:`~k3_ledger.verify.source.LogSource`. A place that would, and this time cannot, does."""
        try:
            return self._all(folder) is not None
        except StoreError:
            return True

    def kept_checkpoint(self, size: int) -> bytes | None:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        return read_file(self.store, kept_path(size))

    def _all(self, folder: str) -> list[str] | None:
        """What a folder holds, asked once."""
        if folder not in self._names:
            self._names[folder] = self.store.names(folder)
        return self._names[folder]

    def _named(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        return [f"{folder}/{name}" for name in self._all(folder) or () if pattern.fullmatch(name)]

    def _read(self, path: str) -> bytes:
        data = read_file(self.store, path)
        if data is None:
            raise StoreError(Code.UNREADABLE, "it is listed, and is no file that is there", position=Position(path))
        return data

    def open_artifact(self, sha256: str) -> BinaryIO | None:
        """An artifact, from the cache when it holds exactly these bytes."""
        path = f"blobs/sha256/{sha256[:2]}/{sha256}"
        if self.cache is None:
            return self.store.open(path)
        kept = self.cache.open_blob(sha256)
        if kept is not None:
            return kept
        stream = self.store.open(path)
        return None if stream is None else self.cache.keeping(stream, sha256)


class StoreLog(_Files):
    """A log file in a store; a :class:`k3_ledger.verify.source.LogSource`.

    What comes over a network is copied to a nameless file on disk as it is read, so that it is fetched once and every
    later pass sees the same bytes.
    """

    def __init__(self, store: Store, cache: Cache | None = None, *, spool: bool = False) -> None:
        super().__init__(store, cache)
        self.size: int | None = None
        self._spool = spool
        self._spooled: BinaryIO | None = None
        self._copies: list[BinaryIO] = []

    def blocks(self) -> Iterator[bytes]:
        """See :class:`~k3_ledger.verify.source.LogSource`."""
        if self._spooled is not None:
            self._spooled.seek(0)
            yield from _read(self._spooled)
            return
        stream = self.store.open(LOG_NAME)
        if stream is None:
            raise StoreError(Code.UNREADABLE, f"{LOG_NAME} is not there", position=Position(source=self.name))
        with stream:
            import tempfile

            if not self._spool:
                yield from _read(stream)
                return
            self._copies.append(copy := cast("BinaryIO", tempfile.TemporaryFile()))  # noqa: SIM115 - see close()
            for block in sane(_read(stream), self.name):
                copy.write(block)
                yield block
            self._spooled = copy

    def close(self) -> None:
        """Give the disk space of what was copied back."""
        for copy in self._copies:
            copy.close()


def _read(stream: BinaryIO) -> Iterator[bytes]:
    try:
        while block := stream.read(BLOCK):
            yield block
    except OSError as error:
        raise StoreError(Code.UNREADABLE, f"{LOG_NAME} cannot be read: {error}", position=Position(LOG_NAME)) from None


class StoreMirror(_Files):
    """Tiles in a store; a :class:`k3_ledger.verify.mirror.Mirror`."""

    def candidates(self, tile: Tile) -> Iterator[bytes]:
        """The cache's copy, which was right when it was kept, then the store's."""
        path = tile_path(tile)
        limit = MAX_BUNDLE_BYTES if tile.level == ENTRIES else MAX_TILE_BYTES
        if self.cache is not None and tile.is_full:
            kept = self.cache.read_tile(path, limit)
            if kept is not None:
                yield kept
        stream = self.store.open(path)
        if stream is not None:
            with stream:  # one byte more than it can have shows that it is no tile, and what it is
                yield read_start(stream, Path(path), limit + 1)

    def accept(self, tile: Tile, data: bytes) -> None:
        """Keep a full tile that led to the signed root: it will never change."""
        if self.cache is not None:
            self.cache.keep_tile(tile_path(tile), data)

    def key_entries(self) -> bytes | None:
        """See :class:`~k3_ledger.verify.mirror.Mirror`."""
        return read_file(self.store, "key-entries", MAX_KEY_ENTRIES)
