"""``tile/`` on a disk: rebuilt, never rewritten, whole or not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint
from k3_ledger.ledger.core.note import sign_note
from k3_ledger.ledger.writer.checkpoint import NoteSigner, make_checkpoint
from k3_ledger.ledger.writer.tiles import KEY_ENTRIES, write_tiles
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import OPENING, ORIGIN, SIGNERS, append_notes
from tests.reference import naive_tiles

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.ledger.writer.store import Ledger


def grow(ledger: Ledger, size: int) -> None:
    """Append notes until there are ``size`` entries, and sign the head."""
    there = ledger.log_path.read_bytes().count(b"\n")
    append_notes(ledger, *(f"note {number}" for number in range(there, size)))
    make_checkpoint(ledger, SIGNERS["log"])


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.glob("tile/**/*")) if path.is_file()}


def expected(ledger: Ledger) -> dict[str, bytes]:
    return naive_tiles.files(ledger.log_path.read_bytes().split(b"\n")[:-1])


def test_the_tiles_are_those_of_the_checkpoint(ledger: Ledger) -> None:
    grow(ledger, 300)
    tree = expected(ledger)
    append_notes(ledger, "past the checkpoint")
    done = write_tiles(ledger)
    assert files(ledger.root) == tree
    assert (done.tiles, done.added, done.removed, done.checkpoint.size) == (len(tree), len(tree), 0, 300)
    assert (ledger.root / KEY_ENTRIES).read_bytes() == b"".join(b"%d\n" % i for i in range(1, OPENING))


def test_writing_again_writes_nothing_again(ledger: Ledger) -> None:
    grow(ledger, 300)
    write_tiles(ledger)
    before = {path: path.stat().st_ino for path in ledger.root.glob("tile/**/*")}
    assert (write_tiles(ledger).added, {path: path.stat().st_ino for path in ledger.root.glob("tile/**/*")}) == (
        0,
        before,
    )


def test_growth_keeps_partial_tiles_until_their_full_one_is_there(ledger: Ledger) -> None:
    grow(ledger, 10)
    write_tiles(ledger)
    grow(ledger, 20)
    write_tiles(ledger)
    assert [path for path in files(ledger.root) if "/0/" in path] == ["tile/0/000.p/10", "tile/0/000.p/20"]
    grow(ledger, 257)
    full = ledger.root / "tile" / "0" / "000"
    done = write_tiles(ledger)
    inode = full.stat().st_ino
    assert (done.added, done.removed, files(ledger.root)) == (5, 4, expected(ledger))
    grow(ledger, 300)
    write_tiles(ledger)
    assert full.stat().st_ino == inode, "a full tile is never rewritten"


def test_a_mirror_gets_the_signed_heads_and_no_log(ledger: Ledger, tmp_path: Path) -> None:
    grow(ledger, 10)
    grow(ledger, 20)
    out = tmp_path / "some" / "mirror"
    write_tiles(ledger, out)
    assert files(out) == expected(ledger)
    assert (out / "checkpoint").read_bytes() == ledger.checkpoint_path.read_bytes()
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["000000000010.note", "000000000020.note"]
    assert not (out / "ledger.jsonl").exists()
    assert not (ledger.root / "tile").exists()
    assert list((out / ".incoming").iterdir()) == []


@pytest.mark.parametrize("path", ["tile/0/000", "tile/entries/000", "tile/0/001.p/44"])
@pytest.mark.parametrize("damage", [(1, b"?"), (0, b"?"), (8192, b"")])
def test_a_tile_that_is_another_stops_everything_and_stays(
    ledger: Ledger, path: str, damage: tuple[int, bytes]
) -> None:
    grow(ledger, 300)
    write_tiles(ledger)
    cut, more = damage
    data = (ledger.root / path).read_bytes()
    wrong = data[: max(0, len(data) - cut)] + more
    (ledger.root / path).write_bytes(wrong)
    with pytest.raises(LedgerError) as caught:
        write_tiles(ledger)
    assert caught.value.code is Code.TILES_CONFLICT
    assert (ledger.root / path).read_bytes() == wrong


def test_without_a_checkpoint_there_is_nothing_to_publish(ledger: Ledger) -> None:
    with pytest.raises(LedgerError) as caught:
        write_tiles(ledger)
    assert caught.value.code is Code.NOT_CHECKPOINTED


@pytest.mark.parametrize(
    ("size", "root", "code"), [(6, None, Code.CHECKPOINT_AHEAD), (OPENING, bytes(32), Code.CHECKPOINT_ROOT)]
)
def test_no_mirror_is_finished_of_a_log_that_its_head_does_not_commit_to(
    ledger: Ledger, tmp_path: Path, size: int, root: bytes | None, code: Code
) -> None:
    text = format_checkpoint(Checkpoint(ORIGIN, size, root or bytes(32)))
    ledger.checkpoint_path.write_bytes(sign_note(text, [NoteSigner(ORIGIN, SIGNERS["log"])]))
    with pytest.raises(LedgerError) as caught:
        write_tiles(ledger, tmp_path / "mirror")
    assert caught.value.code is code
    assert not (tmp_path / "mirror" / "checkpoint").exists()


def test_progress_is_told_and_a_refusing_disk_is_said(ledger: Ledger, tmp_path: Path) -> None:
    make_checkpoint(ledger, SIGNERS["log"])
    told: list[int] = []
    write_tiles(ledger, progress=told.append)
    assert told == [ledger.log_path.stat().st_size]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(LedgerError) as caught:
        write_tiles(ledger, tmp_path / "file" / "mirror")
    assert caught.value.code in (Code.STORE_MISSING, Code.STORE_EXISTS)
