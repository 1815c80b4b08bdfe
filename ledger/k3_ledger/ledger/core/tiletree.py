"""Reads a Merkle tree from tiles, believing nothing that does not lead to the root of a signed head.

The partial tiles on the right border hold the perfect subtrees that the root is folded from, so together they are
checked against the root. Every hash in a full tile is checked against the tile above, whose hash of it is known by
then; and the leaves of an entry bundle against the tile of their hashes. So each answer is either the one that the
root commits to, or an error.

Bytes come as **candidates**: several copies of a tile may be offered (a cache's, then the origin's), and the first that
is right is taken. A wrong copy therefore costs time and never changes an answer. The copy that was taken is reported
to ``accept``, which may keep it: nothing else should ever be kept.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.merkle import CompactRange, decompose, prove_inclusion
from k3_ledger.ledger.core.tiles import (
    ENTRIES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Tile,
    border_tiles,
    parse_entries,
    parse_hashes,
    tile_at,
    tile_path,
)
from k3_ledger.schemas.errors import MalformedError, ProofError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Candidates = Callable[[Tile], Iterable[bytes]]
    """Offers every copy of a tile that there is, the cheapest first; none when there is none."""
    Accept = Callable[[Tile, bytes], object]
    """Is told of a full tile and the copy of it that was right."""

KEPT_TILES: Final = 64
"""Tiles of hashes held in memory at a time: half a megabyte."""


class TileMissingError(ProofError):
    """No copy of a tile could be had, so nothing can be said about what it holds."""


class TileUnreadableError(TileMissingError):
    """Something stands in the place of a tile, and it cannot be read: the finding is the medium's."""


def _perfect_root(hashes: list[bytes]) -> bytes:
    tree = CompactRange()
    for digest in hashes:
        tree.append(digest)
    return tree.root()


class TileTree:
    """The tree of ``size`` leaves with the root ``root``, read from tiles.

    Every method raises :class:`TileMissingError` (``TILE_MISSING``) when a tile that it needs is not there,
    :class:`TileUnreadableError` when what stands there cannot be read, and
    :class:`ProofError` (``TILE_MISMATCH``) or :class:`MalformedError` (``TILE_MALFORMED``) when the tile is there and
    wrong in all its copies.

    Attributes:
        size: number of leaves.
        root: the root that everything is traced to; it comes from a signed head.
    """

    def __init__(self, size: int, root: bytes, candidates: Candidates, accept: Accept | None = None) -> None:
        self.size = size
        self.root = root
        self._candidates = candidates
        self._accept = accept or (lambda _tile, _data: None)
        self._border: dict[int, list[bytes]] | None = None
        self._kept: dict[Tile, list[bytes]] = {}

    def node(self, level: int, index: int) -> bytes:
        """Hash of the perfect subtree ``(level, index)``: a :data:`k3_ledger.ledger.core.merkle.NodeReader`.

        Raises:
            ValueError: that subtree is not complete in a tree of this size.
        """
        tile_level, height = divmod(level, TILE_HEIGHT)
        first = index << height
        if (index + 1) << level > self.size:
            raise ValueError(f"a tree of {self.size} leaves has no perfect subtree ({level}, {index})")
        hashes = self.hashes(tile_level, first // TILE_WIDTH)
        within = first % TILE_WIDTH
        return _perfect_root(hashes[within : within + (1 << height)])

    def inclusion(self, index: int) -> tuple[bytes, ...]:
        """Inclusion proof of the leaf at ``index``. Reads at most two tiles a level, and one a level on average."""
        return tuple(prove_inclusion(index, self.size, self.node))

    def range(self, begin: int, end: int) -> CompactRange:
        """The compact range over leaves ``[begin, end)``, whether or not their entries can be had."""
        return CompactRange(begin, end, [self.node(level, index) for level, index in decompose(begin, end)])

    def hashes(self, level: int, index: int) -> list[bytes]:
        """All hashes of the tile ``index`` of a level, as far as the tree reaches."""
        tile = tile_at(level, index, self.size)
        if self._border is None:
            self._border = self._read_border()
        if not tile.is_full:
            return self._border[level]
        found = self._kept.pop(tile, None)
        if found is None:
            above = self.hashes(level + 1, index // TILE_WIDTH)[index % TILE_WIDTH]
            found = self._read(tile, partial(_check_hashes, tile, expected=above))
            if len(self._kept) >= KEPT_TILES:
                del self._kept[next(iter(self._kept))]
        self._kept[tile] = found  # last in order: used last
        return found

    def entries(self, index: int) -> list[bytes]:
        """The leaves of entry bundle ``index``: raw lines without their LF."""
        leaves = self.hashes(0, index)
        tile = tile_at(ENTRIES, index, self.size)
        return self._read(tile, partial(_check_entries, tile, leaves=leaves))

    def check(self) -> None:
        """Trace the border to the root: nothing can be read before that holds, so it is done first of all."""
        if self._border is None:
            self._border = self._read_border()

    def _read_border(self) -> dict[int, list[bytes]]:
        """The partial tiles, by level, once they lead to the root together."""
        tiles = border_tiles(self.size)
        found: dict[int, list[bytes]] = {}
        lost: TileMissingError | None = None
        for tile in tiles:
            try:
                found[tile.level] = self._read(tile, partial(_any_hashes, tile))
            except TileMissingError as error:  # another one may be no tile at all, which weighs more
                lost = lost or error
        if lost is not None:
            raise lost
        # Perfect subtrees of falling size: from the highest level down, each tile's hashes stand left of the next's.
        covered = CompactRange(
            0,
            self.size,
            [
                _perfect_root(found[level // TILE_HEIGHT][at : at + (1 << level % TILE_HEIGHT)])
                for level, first in decompose(0, self.size)
                for at in ((first << level % TILE_HEIGHT) % TILE_WIDTH,)
            ],
        )
        if (root := covered.root()) != self.root:
            raise _border_mismatch(self._suspects(tiles, found), self.root, root)
        return found

    def _suspects(self, tiles: list[Tile], found: dict[int, list[bytes]]) -> list[Tile]:
        """Those of the border that what is below them contradicts; all, where that cannot be told of each."""
        fits = {tile: self._fits(tile, found[tile.level]) for tile in tiles}
        return tiles if None in fits.values() else [tile for tile in tiles if not fits[tile]] or tiles

    def _fits(self, tile: Tile, hashes: list[bytes]) -> bool | None:
        """Whether a tile of the border is what the entries or the tiles below it make it; None where some are missing.

        False as soon as one that is there contradicts it.
        """
        if tile.level == 0:
            return self._has(tile_at(ENTRIES, tile.index, self.size), partial(_check_entries, leaves=hashes))
        first = tile.index * TILE_WIDTH
        said: bool | None = True
        for at, expected in enumerate(hashes):
            has = self._has(tile_at(tile.level - 1, first + at, self.size), partial(_check_hashes, expected=expected))
            if has is False:
                return False
            said = None if has is None else said
        return said

    def _has(self, tile: Tile, check: Callable[[Tile, bytes], object]) -> bool | None:
        """Whether there is a copy of a tile that ``check`` does not refuse; None where there is none that can be read.

        None is kept: no root vouches for it.
        """
        refused = None
        for wanted in (tile,) if tile.is_full else (tile, tile.full):
            with contextlib.suppress(StoreError):
                for data in self._candidates(wanted):
                    try:
                        check(tile, data)
                    except (ProofError, MalformedError):
                        refused = False
                    else:
                        return True
        return refused

    def _read(self, tile: Tile, check: Callable[[bytes], list[bytes]]) -> list[bytes]:
        """The content of the first candidate that ``check`` does not refuse.

        A partial tile may have grown into a full one and been deleted (tlog-tiles, "Partial Tiles"); the full one
        holds it, so its bytes are candidates as well. A copy that is wrong beats one that cannot be read, unless the
        latter is of the same file: then the wrong one came out of a cache, and the file itself was not seen.
        """
        refused: ProofError | MalformedError | None = None
        unreadable: StoreError | None = None
        for wanted in (tile,) if tile.is_full else (tile, tile.full):
            wrong: ProofError | MalformedError | None = None
            try:
                for data in self._candidates(wanted):
                    try:
                        found = check(data)
                    except (ProofError, MalformedError) as error:
                        wrong = error
                        continue
                    if tile.is_full:
                        self._accept(tile, data)
                    return found
            except StoreError as error:
                unreadable = error
            else:
                refused = wrong or refused
        if refused is not None:
            raise refused
        if unreadable is not None:
            said = unreadable.finding
            raise TileUnreadableError(said.code, said.message, position=said.position, hint=said.hint)
        raise TileMissingError(
            Code.TILE_MISSING, "a tile is not there: what it holds was not looked at", position=_place(tile)
        )


def _any_hashes(tile: Tile, data: bytes) -> list[bytes]:
    return parse_hashes(data, tile.width, position=_place(tile))


def _check_hashes(tile: Tile, data: bytes, expected: bytes) -> list[bytes]:
    hashes = parse_hashes(data, tile.width, position=_place(tile))
    if (found := _perfect_root(hashes)) != expected:
        raise _mismatch(tile, expected, found)
    return hashes


def _check_entries(tile: Tile, data: bytes, leaves: list[bytes]) -> list[bytes]:
    lines = parse_entries(data, tile.width, position=_place(tile))
    for line, expected in zip(lines, leaves, strict=True):
        if (found := leaf_hash(line)) != expected:
            raise _mismatch(tile, expected, found)
    return lines


def _border_mismatch(suspects: list[Tile], expected: bytes, found: bytes) -> ProofError:
    """The error about tiles that do not lead to the root together, and of which any may be the wrong one."""
    error = _mismatch(suspects[0] if suspects else None, expected, found)
    if len(suspects) > 1:
        paths = ", ".join(map(tile_path, suspects))
        said = f"the tiles do not lead to the root of the signed head: one of {paths} is wrong, or the head"
        error.finding = replace(error.finding, message=said)
    return error


def _mismatch(tile: Tile | None, expected: bytes, found: bytes) -> ProofError:
    return ProofError(
        Code.TILE_MISMATCH,
        "the tile does not lead to the root of the signed head",
        position=Position() if tile is None else _place(tile),
        expected=expected.hex(),
        found=found.hex(),
    )


def _place(tile: Tile) -> Position:
    return Position(source=tile_path(tile))
