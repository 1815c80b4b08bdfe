"""Tiles against a second implementation of the specification, and what is refused."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.merkle import EMPTY_ROOT, check_inclusion
from k3_ledger.ledger.core.tiles import (
    ENTRIES,
    MAX_LEVEL,
    Tile,
    TileWalk,
    border_tiles,
    format_entries,
    parse_entries,
    parse_hashes,
    tile_at,
    tile_path,
    tiles_of,
)
from k3_ledger.ledger.core.tiletree import KEPT_TILES, TileMissingError, TileTree
from k3_ledger.schemas.errors import LedgerError, ProofError, StoreError
from k3_ledger.schemas.findings import Code
from tests.reference import naive_merkle, naive_tiles

if TYPE_CHECKING:
    from collections.abc import Iterable

SIZES = [1, 2, 255, 256, 257, 511, 512, 513, 70_000]


def lines(size: int) -> list[bytes]:
    return [b"line %d" % number * (1 + number % 3) for number in range(size)]


def made(size: int) -> dict[str, bytes]:
    walk = TileWalk()
    found = {}
    for line in lines(size):
        found.update({tile_path(tile): data for tile, data in walk.append(line, leaf_hash(line))})
    assert walk.size == size
    return found | {tile_path(tile): data for tile, data in walk.rest()}


def root(size: int) -> bytes:
    walk = TileWalk()
    for line in lines(size):
        walk.append(line, leaf_hash(line))
    return walk.root()


class Files:
    """Offers tiles from a mapping, notes what was asked for and what was accepted."""

    def __init__(self, *copies: dict[str, bytes]) -> None:
        self.copies = copies
        self.asked: list[str] = []
        self.accepted: dict[str, bytes] = {}

    def __call__(self, tile: Tile) -> Iterable[bytes]:
        self.asked.append(tile_path(tile))
        return [copy[tile_path(tile)] for copy in self.copies if tile_path(tile) in copy]

    def accept(self, tile: Tile, data: bytes) -> None:
        self.accepted[tile_path(tile)] = data

    def tree(self, size: int) -> TileTree:
        return TileTree(size, root(size), self, self.accept)


@pytest.mark.parametrize("size", SIZES)
def test_the_tiles_are_those_of_the_definition(size: int) -> None:
    assert made(size) == naive_tiles.files(lines(size))


@pytest.mark.parametrize("size", SIZES)
def test_the_list_of_tiles_names_every_one_and_no_other(size: int) -> None:
    assert sorted(map(tile_path, tiles_of(size))) == sorted(naive_tiles.files(lines(size)))
    assert [tile.level for tile in tiles_of(size, level=0)] == [0] * -(-size // 256)


def test_an_empty_tree_has_no_tiles_and_the_empty_root() -> None:
    assert not [*tiles_of(0), *border_tiles(0), *TileWalk().rest()]
    TileTree(0, EMPTY_ROOT, Files()).check()
    with pytest.raises(LedgerError) as caught:
        TileTree(0, bytes(32), Files()).check()
    assert caught.value.code is Code.TILE_MISMATCH


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0, 256), "tile/0/000"),
        (Tile(3, 999, 256), "tile/3/999"),
        (Tile(ENTRIES, 1000, 256), "tile/entries/x001/000"),
        (Tile(0, 1234067, 70), "tile/0/x001/x234/067.p/70"),
        (Tile(MAX_LEVEL, 2**45, 1), "tile/6/x035/x184/x372/x088/832.p/1"),
    ],
)
def test_paths_are_those_of_the_specification(tile: Tile, path: str) -> None:
    assert tile_path(tile) == path


TILES = st.builds(Tile, st.sampled_from([ENTRIES, *range(MAX_LEVEL + 1)]), st.integers(0, 2**45), st.integers(1, 256))


@given(TILES, TILES)
def test_no_two_tiles_have_one_path(one: Tile, other: Tile) -> None:
    assert (tile_path(one) == tile_path(other)) == (one == other)


@pytest.mark.parametrize("tile", [Tile(7, 0, 1), Tile(-2, 0, 1), Tile(0, -1, 1), Tile(0, 0, 0), Tile(0, 0, 257)])
def test_what_is_no_tile_has_no_path(tile: Tile) -> None:
    with pytest.raises(ValueError, match="not a tile"):
        tile_path(tile)


@pytest.mark.parametrize(("level", "index"), [(0, 3), (1, 1), (2, 0), (7, 0), (-2, 0), (0, -1)])
def test_a_tree_has_only_the_tiles_that_it_reaches(level: int, index: int) -> None:
    with pytest.raises(ValueError, match="has no tile"):
        tile_at(level, index, 600)


def test_entries_come_back_and_damage_is_named_by_its_place() -> None:
    some = [b"", b"a", b"b" * 65_535]
    data = format_entries(some)
    assert parse_entries(data, 3) == some
    for damaged in (data[:-1], data + b"\0", data[:-65_536], data + b"\0\0"):
        with pytest.raises(LedgerError) as caught:
            parse_entries(damaged, 3)
        assert caught.value.code is Code.TILE_MALFORMED
    with pytest.raises(LedgerError, match="ends inside an entry") as caught:
        parse_entries(data[:6], 3)
    assert caught.value.finding.position.byte_offset == 5
    with pytest.raises(LedgerError, match="line feed") as caught:
        parse_entries(format_entries([b"a", b"b\nc"]), 2)
    assert caught.value.finding.position.byte_offset == 3
    with pytest.raises(LedgerError) as caught:
        parse_entries(bytes(2 * 300), 3)
    assert caught.value.finding.found == "more than 256"
    for wrong in ([], [b""] * 257, [b"x" * 65_536]):
        with pytest.raises(ValueError, match="entry bundle"):
            format_entries(wrong)


def test_a_full_bundle_or_tile_stands_in_for_the_partial_one_that_grew_into_it() -> None:
    some = lines(256)
    assert parse_entries(format_entries(some), 3) == some[:3]
    hashes = [hashlib.sha256(line).digest() for line in some]
    assert parse_hashes(b"".join(hashes), 3) == hashes[:3]
    with pytest.raises(LedgerError) as caught:
        parse_hashes(bytes(64), 3)
    assert caught.value.code is Code.TILE_MALFORMED


@pytest.mark.parametrize("size", [1, 2, 3, 255, 256, 257, 700])
def test_proofs_from_tiles_are_those_of_the_definition(size: int) -> None:
    leaves = [naive_merkle.leaf(line) for line in lines(size)]
    tree = Files(made(size)).tree(size)
    for index in {0, 1, size // 2, size - 1} & set(range(size)):
        assert list(tree.inclusion(index)) == naive_merkle.inclusion(index, leaves)
        assert lines(size)[index] in tree.entries(index // 256)
    assert tree.range(0, size).root() == naive_merkle.root(leaves)


def test_a_proof_reads_two_tiles_a_level() -> None:
    size = 70_000
    files = Files(made(size))
    tree = files.tree(size)
    check_inclusion(12_345, size, leaf_hash(lines(size)[12_345]), tree.inclusion(12_345), root(size))
    assert len(files.asked) == len(set(files.asked)) <= 2 * 3
    tree.entries(12_345 // 256)
    assert [path for path in files.asked if "entries" in path] == ["tile/entries/048"]


def test_memory_does_not_grow_with_the_tree() -> None:
    size = 70_000
    files = Files(made(size))
    tree = files.tree(size)
    for index in range(size // 256):
        tree.entries(index)
    assert len(tree._kept) == KEPT_TILES
    assert files.asked.count("tile/1/000") == 1, "what is used again and again is kept"


@pytest.mark.parametrize("path", sorted(naive_tiles.files(lines(700))))
def test_no_byte_of_a_tile_can_be_changed(path: str) -> None:
    files = made(700)
    for place in {0, 1, len(files[path]) // 2, len(files[path]) - 1}:
        data = bytearray(files[path])
        data[place] ^= 1
        tree = Files(files | {path: bytes(data)}).tree(700)
        with pytest.raises(LedgerError) as caught:
            list(map(tree.entries, range(3)))
        assert caught.value.code in (Code.TILE_MISMATCH, Code.TILE_MALFORMED)


def refused(files: dict[str, bytes], size: int) -> tuple[str | None, str]:
    """Which tile is blamed, and in which words; nothing that was read to find out is kept."""
    given = Files(files)
    with pytest.raises(ProofError) as caught:
        given.tree(size).check()
    assert caught.value.code is Code.TILE_MISMATCH
    assert not given.accepted
    return caught.value.finding.position.source, caught.value.finding.message


def turned(data: bytes, place: int = 0) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


ALONE = "the tile does not lead to the root of the signed head"


@pytest.mark.parametrize(
    ("size", "path"), [(size, tile_path(tile)) for size in (3, 255, 512, 700, 70_000) for tile in border_tiles(size)]
)
def test_the_tile_of_the_border_that_is_wrong_is_the_one_that_is_named(size: int, path: str) -> None:
    files = made(size)
    for place in {0, len(files[path]) // 2, len(files[path]) - 1}:
        assert refused(files | {path: turned(files[path], place)}, size) == (path, ALONE)


def test_where_it_cannot_be_told_which_is_wrong_all_that_may_be_are_named() -> None:
    files, border = made(700), ("tile/0/002.p/188", "tile/1/000.p/2")
    said = "the tiles do not lead to the root of the signed head: one of {} is wrong, or the head"
    both = files | {path: turned(files[path]) for path in border}
    assert refused(both, 700) == (border[0], said.format(", ".join(border)))
    for lost in ("tile/entries/002.p/188", "tile/0/001"):  # what would tell is not there, or is wrong itself
        wrong = border[1] if "entries" in lost else border[0]
        changed = files | {wrong: turned(files[wrong])}
        assert refused({path: data for path, data in changed.items() if path != lost}, 700)[1] == said.format(
            ", ".join(border)
        )
        assert refused(changed | {lost: turned(files[lost])}, 700)[1] == said.format(", ".join(border))
    other = TileTree(700, bytes(32), Files(files))
    with pytest.raises(ProofError) as caught:
        other.check()
    assert caught.value.finding.message == said.format(", ".join(border))


@pytest.mark.parametrize("lost", [(), ("tile/0/000",), ("tile/0/001",), ("tile/0/000", "tile/0/001")])
def test_what_is_missing_blames_no_tile_alone(lost: tuple[str, ...]) -> None:
    """The newest bundle and its hashes are another log's, and agree with each other: the tile above them is right."""
    other = [b"other %d" % number for number in range(188)]
    newest = {"tile/entries/002.p/188": format_entries(other), "tile/0/002.p/188": b"".join(map(leaf_hash, other))}
    files = {path: data for path, data in (made(700) | newest).items() if path not in lost}
    assert "one of tile/0/002.p/188, tile/1/000.p/2 is wrong" in refused(files, 700)[1]


def test_a_tile_that_cannot_be_read_clears_nobody() -> None:
    files = made(700)

    class Failing(Files):
        def __call__(self, tile: Tile) -> Iterable[bytes]:
            if tile.level < 0:
                raise StoreError(Code.UNREADABLE, "the medium fails")
            return super().__call__(tile)

    tree = Failing(files | {"tile/1/000.p/2": turned(files["tile/1/000.p/2"])}).tree(700)
    with pytest.raises(ProofError, match=r"one of tile/0/002\.p/188, tile/1/000\.p/2 is wrong"):
        tree.check()


def test_what_stands_below_the_border_may_have_grown_full() -> None:
    files = made(800)
    files = {path: data for path, data in files.items() if ".p/" not in path} | {
        "tile/0/002.p/188": files["tile/0/002"][: 32 * 188],
        "tile/1/000.p/2": turned(files["tile/1/000.p/3"][:64]),
    }
    assert refused(files, 700) == ("tile/1/000.p/2", ALONE)


def test_a_wrong_copy_is_passed_over_and_only_right_full_tiles_are_accepted() -> None:
    good = made(700)
    bad = {path: data[:-1] + bytes([data[-1] ^ 1]) for path, data in good.items() if ".p/" not in path}
    files = Files(bad, good)
    tree = files.tree(700)
    assert [line for index in range(3) for line in tree.entries(index)] == lines(700)
    assert files.accepted == {path: data for path, data in good.items() if ".p/" not in path}


def test_a_partial_tile_that_was_deleted_is_read_from_the_full_one_and_not_accepted() -> None:
    grown = made(800)
    files = Files(
        {path: data for path, data in grown.items() if ".p/" not in path}
        | {"tile/1/000.p/2": grown["tile/1/000.p/3"][:64]}
    )
    tree = files.tree(700)
    assert tree.entries(2) == lines(700)[512:]
    assert not {path for path in files.accepted if "002" in path}, "what is behind it was never traced"


def test_a_tile_that_is_not_there_is_missing_and_not_wrong() -> None:
    files = made(700)
    del files["tile/0/001"]
    tree = Files(files).tree(700)
    assert tree.entries(0) == lines(700)[:256]
    with pytest.raises(TileMissingError) as caught:
        tree.entries(1)
    assert (caught.value.code, caught.value.finding.position.source) == (Code.TILE_MISSING, "tile/0/001")
    assert tree.range(256, 512).hashes == (tree.node(8, 1),), "what is known of its root is still known"


def test_no_node_beyond_the_tree_is_read() -> None:
    tree = Files(made(300)).tree(300)
    with pytest.raises(ValueError, match="no perfect subtree"):
        tree.node(8, 1)
    tree.check()
    tree.check()


@given(st.binary(max_size=900), st.integers(min_value=1, max_value=256))
def test_any_bytes_are_an_entry_bundle_or_an_error(data: bytes, width: int) -> None:
    with contextlib.suppress(LedgerError):
        assert data.startswith(format_entries(parse_entries(data, width)))
