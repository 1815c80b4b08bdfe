"""Static publishing: ``tile/`` rebuilt from the log, so that any static host serves it as C2SP tlog-tiles.

The tiles are those of the newest checkpoint's tree, in one pass over the log and in flat memory. Nothing is signed.

1. The heads must be signed by log keys of this ledger that stand, or nothing is written; and the tree must have the
   roots that they state, or nothing more than full tiles was written and the run ends in an error.
2. A full tile is never rewritten: one that stands there is compared, and one that differs stops everything.
3. A partial tile that stands there is compared and kept until the full tile of its place exists; then it is removed,
   as readers know to ask for the full one (tlog-tiles, "Partial Tiles").
4. Each file appears whole, and the checkpoint of a mirror last: a reader never sees a head whose tiles are not there.

Beside the tiles stands ``key-entries``: the positions of all entries that change keys, one in a line, so that who makes
a proof from tiles finds the entries that enrol keys. It is derived, and a reader believes nothing because of it.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.tiles import Tile, TileWalk, tile_path
from k3_ledger.ledger.regular import open_regular, read_up_to, stands_there
from k3_ledger.ledger.writer.beside import read_heads
from k3_ledger.ledger.writer.disk import Disk, make_directory, storage_errors, sync_directory
from k3_ledger.ledger.writer.heads import check_roots, first_lines, open_published
from k3_ledger.ledger.writer.state import whole_lines
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.envelope import ROOT_ACTIONS
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.ledger.core.checkpoint import Checkpoint

KEY_ENTRIES = "key-entries"
"""Name of the list of positions of key entries."""
_ACTIONS = tuple(f'"kind":"{kind}"'.encode() for kind in sorted(ROOT_ACTIONS))


@dataclass(frozen=True, slots=True)
class TilesWritten:
    """What one run did.

    Attributes:
        checkpoint: the head whose tree the tiles are of.
        tiles: how many tiles and entry bundles that tree has.
        added: how many of them were not there.
        removed: how many partial ones were removed, having grown into full ones.
    """

    checkpoint: Checkpoint
    tiles: int
    added: int
    removed: int


def write_tiles(
    ledger: Ledger, out: Path | None = None, *, progress: Callable[[int], None] | None = None
) -> TilesWritten:
    """Bring the tiles of a ledger up to date with its newest checkpoint.

    Args:
        ledger: the ledger.
        out: a directory that becomes a mirror without ``ledger.jsonl``: tiles, entry bundles and signed heads; the
            ledger's own directory when omitted. Artifacts are not copied.
        progress: called with the bytes of the log read so far.

    Raises:
        StoreError: there is no checkpoint (``NOT_CHECKPOINTED``), the log is shorter (``CHECKPOINT_AHEAD``) or another
            (``CHECKPOINT_ROOT``) than a head says, a tile that stands there is another (``TILES_CONFLICT``), or the
            storage refused.
        SignatureError, MalformedError: a head is not signed as it has to be, or cannot be read.
    """
    notes = read_heads(ledger.root)
    heads = open_published(ledger, notes, lacking="the ledger has no checkpoint, so there is nothing to publish")
    note, newest = heads[ledger.checkpoint_path]
    head, roots = newest.checkpoint, {}
    sizes = {signed.checkpoint.size for _, signed in heads.values()}
    target = ledger if out is None else Ledger(out, ledger.disk)
    with storage_errors(target.root, "write tiles", output=out is not None):
        _make_directories(target.disk, target.root)
        publisher = _Publisher(target)
        walk, keys = TileWalk(), []
        for line in first_lines(ledger, head.size, progress):
            if any(mark in line for mark in _ACTIONS):
                keys.append(walk.size)
            for tile, data in walk.append(line, leaf_hash(line)):
                publisher.put(tile, data)
            if walk.size in sizes:
                roots[walk.size] = walk.root()
        check_roots(ledger, heads, {**roots, walk.size: walk.root()})
        for tile, data in walk.rest():
            publisher.put(tile, data)
        target.publish(target.root / KEY_ENTRIES, b"".join(b"%d\n" % index for index in keys))
        if out is not None:
            for path, data in notes.items():
                if path != ledger.checkpoint_path:
                    _make_directories(target.disk, target.checkpoints_path)
                    target.publish(target.checkpoints_path / path.name, data)
            target.publish(target.checkpoint_path, note)
    return TilesWritten(head, publisher.tiles, publisher.added, publisher.removed)


def is_begun_list(ledger: Ledger, place: Path) -> bool:
    """Whether a list of key entries is this ledger's, or was when it was shorter: an interrupted run left it.

    Raises:
        StoreError: one of them cannot be read.
    """
    with (
        storage_errors(ledger.log_path, "read the ledger"),
        ledger.log_path.open("rb") as log,
        open_regular(place) as file,
    ):
        fd, seen = log.fileno(), False
        blocks = whole_lines(lambda n, at: os.pread(fd, n, at), 0, os.fstat(fd).st_size)
        for index, line in enumerate(line for _, block in blocks for line in block.split(b"\n")[:-1]):
            if any(mark in line for mark in _ACTIONS):
                expected = b"%d\n" % index
                found = read_up_to(file, len(expected))
                if found != expected:
                    return seen and not found
                seen = True
        return seen and not read_up_to(file, 1)


class _Publisher:
    """Writes tiles below a directory, once each."""

    def __init__(self, target: Ledger) -> None:
        self._target = target
        self.tiles = self.added = self.removed = 0

    def put(self, tile: Tile, data: bytes) -> None:
        """Write a tile that is not there, compare one that is, and remove partial ones that it supersedes."""
        target = self._target
        path = target.root / tile_path(tile)
        self.tiles += 1
        if not stands_there(path):
            _make_directories(target.disk, path.parent)
            target.publish(path, data)
            self.added += 1
        else:
            with open_regular(path) as file:
                found = read_up_to(file, len(data) + 1)
            if found != data:
                raise StoreError(
                    Code.TILES_CONFLICT,
                    "a tile that stands there is not what the ledger makes, and is not overwritten",
                    position=Position(source=str(path)),
                    expected=f"{len(data)} bytes as made from the ledger",
                    found=f"{len(found)} bytes" if len(found) != len(data) else "other bytes",
                )
        partial = path.with_name(f"{path.name}.p")
        if tile.is_full and partial.is_dir():
            self._remove_beginnings(partial, data)

    def _remove_beginnings(self, partial: Path, data: bytes) -> None:
        """Remove what the full tile supersedes, and nothing that is not a beginning of it."""
        for path in sorted(partial.iterdir()):
            if path.is_file() and not path.is_symlink():
                with open_regular(path) as file:
                    if not data.startswith(read_up_to(file, len(data))):
                        continue
                path.unlink()
                self.removed += 1
        with contextlib.suppress(OSError):  # something else stands there
            partial.rmdir()
        sync_directory(self._target.disk, partial.parent)


def _make_directories(disk: Disk, path: Path) -> None:
    """Create a directory and those above it, durably."""
    if not path.is_dir():
        _make_directories(disk, path.parent)
        make_directory(disk, path)
