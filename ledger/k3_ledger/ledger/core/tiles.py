"""C2SP tlog-tiles (c2sp.org/tlog-tiles): a Merkle tree and its leaves as files that never change once they are full.

A **tile** holds the hashes of up to 256 neighbouring nodes of one level of the tree, every eighth level having tiles:
hash ``i`` of tile ``(L, N)`` is the root of the perfect subtree ``(8 * L, 256 * N + i)``. An **entry bundle** holds up
to 256 leaves, each behind its length as a big-endian number of 16 bits. A tile with fewer than 256 hashes is partial,
and its width is part of its path:

    tile/0/001            tile/1/x001/x234/067.p/70            tile/entries/x001/234

:class:`Tile` names either kind, a bundle by the level :data:`ENTRIES`. This module maps trees to tiles, tiles to paths,
and tiles to bytes and back, in one spelling each; :class:`TileWalk` makes all tiles of a tree in one pass over its
leaves. What a tile says is not to be believed before :class:`k3_ledger.ledger.core.tiletree.TileTree` has traced it to
a root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.framing import MAX_LINE
from k3_ledger.ledger.core.merkle import HASH_LEN, CompactRange
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import NOWHERE, Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TILE_HEIGHT: Final = 8
"""Levels of the tree between one level of tiles and the next."""
TILE_WIDTH: Final = 1 << TILE_HEIGHT
"""Hashes in a full tile, and leaves in a full entry bundle."""
ENTRIES: Final = -1
"""Level of entry bundles, which stand below the leaf hashes."""
MAX_LEVEL: Final = 6
"""Highest level of tiles in a tree of at most 2^53-1 leaves."""
MAX_TILE_BYTES: Final = TILE_WIDTH * HASH_LEN
"""Bytes of a full tile of hashes."""
MAX_BUNDLE_BYTES: Final = TILE_WIDTH * (2 + MAX_LINE)
"""Most bytes in an entry bundle."""


@dataclass(frozen=True, slots=True)
class Tile:
    """Which tile: a place in the tree, and how much of it exists.

    Attributes:
        level: 0 for leaf hashes, ``1 <= level <= 6`` for hashes of hashes, :data:`ENTRIES` for the leaves themselves.
        index: which of that level, from the left, counted from 0.
        width: how many hashes or leaves are in it, ``1 <= width <= 256``.
    """

    level: int
    index: int
    width: int

    @property
    def is_full(self) -> bool:
        """Whether this tile will never change."""
        return self.width == TILE_WIDTH

    @property
    def full(self) -> Tile:
        """The same place once it is full."""
        return Tile(self.level, self.index, TILE_WIDTH)


# --------------------------------------------------------------------------------------------- which tiles there are


def tile_at(level: int, index: int, size: int) -> Tile:
    """The tile at a place in the tree of ``size`` leaves, full or partial.

    Raises:
        ValueError: there is no such tile in that tree.
    """
    width = min(TILE_WIDTH, (size >> TILE_HEIGHT * max(level, 0)) - index * TILE_WIDTH)
    if not ENTRIES <= level <= MAX_LEVEL or index < 0 or width < 1:
        raise ValueError(f"a tree of {size} leaves has no tile {index} at level {level}")
    return Tile(level, index, width)


def tiles_of(size: int, *, level: int | None = None) -> Iterator[Tile]:
    """Every tile of the tree of ``size`` leaves, entry bundles first, or those of one level."""
    for at in range(ENTRIES, MAX_LEVEL + 1) if level is None else (level,):
        count = size >> TILE_HEIGHT * max(at, 0)
        for index in range(-(-count // TILE_WIDTH)):
            yield tile_at(at, index, size)


def border_tiles(size: int) -> list[Tile]:
    """The partial tiles of hashes of the tree of ``size`` leaves, by level: together they hold what its root is over.

    A level whose last tile is full has none: the level above holds that tile's root.
    """
    found = []
    for level in range(MAX_LEVEL + 1):
        count = size >> TILE_HEIGHT * level
        if count % TILE_WIDTH:
            found.append(tile_at(level, count // TILE_WIDTH, size))
    return found


# ----------------------------------------------------------------------------------------------------------- paths


def tile_path(tile: Tile) -> str:
    """Where a tile stands, relative to the log: ``tile/<level>/<index>[.p/<width>]``.

    Raises:
        ValueError: no tile has these numbers.
    """
    if not (ENTRIES <= tile.level <= MAX_LEVEL and tile.index >= 0 and 1 <= tile.width <= TILE_WIDTH):
        raise ValueError(f"not a tile: {tile}")
    level = "entries" if tile.level == ENTRIES else str(tile.level)
    rest, last = divmod(tile.index, 1000)
    parts = [f"{last:03}"]
    while rest:
        rest, part = divmod(rest, 1000)
        parts.insert(0, f"x{part:03}")
    suffix = "" if tile.is_full else f".p/{tile.width}"
    return f"tile/{level}/{'/'.join(parts)}{suffix}"


# ----------------------------------------------------------------------------------------------------------- bytes


def parse_hashes(data: bytes, width: int, *, position: Position = NOWHERE) -> list[bytes]:
    """The hashes of a tile of ``width``. A full tile is also taken for a partial one: that it has grown into.

    Raises:
        MalformedError: with ``TILE_MALFORMED``: the length is another.
    """
    if len(data) not in (width * HASH_LEN, MAX_TILE_BYTES):
        raise MalformedError(
            Code.TILE_MALFORMED, "the tile has the wrong length", position=position,
            expected=f"{width * HASH_LEN} bytes", found=f"{len(data)} bytes",
        )  # fmt: skip
    return [data[at : at + HASH_LEN] for at in range(0, width * HASH_LEN, HASH_LEN)]


def format_entries(lines: Sequence[bytes]) -> bytes:
    """An entry bundle of 1 to 256 leaves, each at most 65,535 bytes.

    Raises:
        ValueError: it would be empty, too long, or a leaf would not fit its length field.
    """
    if not 1 <= len(lines) <= TILE_WIDTH or any(len(line) > MAX_LINE for line in lines):
        raise ValueError(f"an entry bundle holds 1 to {TILE_WIDTH} leaves of at most {MAX_LINE} bytes")
    return b"".join(part for line in lines for part in (len(line).to_bytes(2, "big"), line))


def parse_entries(data: bytes, width: int, *, position: Position = NOWHERE) -> list[bytes]:
    """The first ``width`` leaves of an entry bundle that holds that many, or 256 of them.

    Raises:
        MalformedError: with ``TILE_MALFORMED``: a length leads beyond the end, another number of leaves is there, or
            one of them holds a line feed, which no line of a ledger does.
    """
    lines: list[bytes] = []
    at = 0
    while at < len(data) and len(lines) <= TILE_WIDTH:
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data) or at + 2 > len(data):
            raise MalformedError(
                Code.TILE_MALFORMED,
                "the entry bundle ends inside an entry",
                position=Position(source=position.source, byte_offset=at),
            )
        lines.append(data[at + 2 : end])
        if b"\n" in lines[-1]:
            raise MalformedError(
                Code.TILE_MALFORMED,
                "an entry in the bundle holds a line feed",
                position=Position(source=position.source, byte_offset=at),
            )
        at = end
    if len(lines) not in (width, TILE_WIDTH):
        raise MalformedError(
            Code.TILE_MALFORMED, "the entry bundle holds another number of entries", position=position,
            expected=str(width), found=f"more than {TILE_WIDTH}" if len(lines) > TILE_WIDTH else str(len(lines)),
        )  # fmt: skip
    return lines[:width]


# --------------------------------------------------------------------------------------------------------- making


class TileWalk:
    """Makes the tiles of a tree from its leaves, in order, holding one unfinished tile a level: at most 16 MiB.

    ``for tile, data in walk.append(line, leaf)`` gives each tile when it is full, ``walk.rest()`` the partial ones.
    """

    def __init__(self) -> None:
        self._tree = CompactRange()
        self._lines: list[bytes] = []
        self._hashes: list[list[bytes]] = [[] for _ in range(MAX_LEVEL + 1)]

    @property
    def size(self) -> int:
        """Leaves so far."""
        return self._tree.end

    def root(self) -> bytes:
        """Root of the tree so far."""
        return self._tree.root()

    def append(self, line: bytes, leaf: bytes) -> list[tuple[Tile, bytes]]:
        """Add one leaf and its hash; returns the tiles that this fills, with their bytes."""
        full: list[tuple[Tile, bytes]] = []

        def visit(level: int, index: int, digest: bytes) -> None:
            if level % TILE_HEIGHT:
                return
            hashes = self._hashes[level // TILE_HEIGHT]
            hashes.append(digest)
            if len(hashes) == TILE_WIDTH:
                full.append((Tile(level // TILE_HEIGHT, index // TILE_WIDTH, TILE_WIDTH), b"".join(hashes)))
                hashes.clear()

        self._lines.append(line)
        self._tree.append(leaf, visit)
        if len(self._lines) == TILE_WIDTH:
            full.insert(0, (tile_at(ENTRIES, self.size // TILE_WIDTH - 1, self.size), format_entries(self._lines)))
            self._lines.clear()
        return full

    def rest(self) -> list[tuple[Tile, bytes]]:
        """The partial tiles of the tree as it is now, with their bytes."""
        found = [] if not self._lines else [(ENTRIES, format_entries(self._lines))]
        found += [(level, b"".join(hashes)) for level, hashes in enumerate(self._hashes) if hashes]
        return [
            (tile_at(level, (self.size >> TILE_HEIGHT * max(level, 0)) // TILE_WIDTH, self.size), data)
            for level, data in found
        ]
