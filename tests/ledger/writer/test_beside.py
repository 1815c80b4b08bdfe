"""A cut that falls on the end of a line leaves a good log that must not be continued."""

from __future__ import annotations

import os
import shutil

import pytest

from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import ORIGIN, SIGNERS, TIME, append_notes, note


@pytest.fixture
def signed(ledger):
    append_notes(ledger, "one", "two", "three")
    make_checkpoint(ledger, SIGNERS["log"])
    return ledger


def refused(action) -> StoreError:
    with pytest.raises(StoreError) as caught:
        action()
    return caught.value


def shorten(ledger: Ledger, entries: int) -> bytes:
    lines = ledger.log_path.read_bytes().splitlines(keepends=True)
    ledger.log_path.write_bytes(b"".join(lines[:entries]))
    return ledger.log_path.read_bytes()


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("left", ["both", "newest", "kept"])
def test_nothing_is_appended_to_a_log_that_is_shorter_than_its_signed_head(signed, lost, left):
    data = shorten(signed, 8 - lost)
    if left == "newest":
        shutil.rmtree(signed.checkpoints_path)
    elif left == "kept":
        signed.checkpoint_path.unlink()

    def append() -> None:
        with signed.writer(SIGNERS["judge"]) as writer:
            for _ in range(2):
                found = refused(lambda: writer.append("note", note("x")))
                assert found.code is Code.CHECKPOINT_AHEAD
            raise found

    found = refused(append)
    assert found.finding.expected == "at least 8 entries"
    assert found.finding.found == f"{8 - lost} entries"
    assert refused(lambda: recover(signed)).code is Code.CHECKPOINT_AHEAD
    assert signed.log_path.read_bytes() == data


def test_a_log_at_or_behind_its_head_is_continued(signed):
    append_notes(signed, "four")
    append_notes(signed, "five")
    assert recover(signed).cut == 0


@pytest.mark.parametrize("damage", [b"", b"no note", b"\xff"])
def test_a_head_that_cannot_be_read_stops_no_append(signed, damage):
    signed.checkpoint_path.write_bytes(damage)
    (signed.checkpoints_path / "000000000008.note").write_bytes(damage)
    append_notes(signed, "four")
    shutil.rmtree(signed.checkpoints_path)
    signed.checkpoints_path.mkdir()
    append_notes(signed, "five")


@pytest.mark.parametrize("thing", ["pipe", "folder", "huge"])
def test_what_is_no_note_in_a_heads_place_holds_no_writer(signed, thing):
    for path in (signed.checkpoint_path, signed.checkpoints_path / "000000000008.note"):
        path.unlink()
        if thing == "pipe":
            os.mkfifo(path)
        elif thing == "folder":
            path.mkdir()
        else:
            with path.open("wb") as file:
                file.truncate(1 << 36)
    append_notes(signed, "four")


@pytest.mark.parametrize("name", ["checkpoint", "checkpoints", "blobs"])
def test_no_ledger_is_begun_beside_the_remains_of_one(tmp_path, name):
    root = tmp_path / "lost"
    (root / name).mkdir(parents=True)
    found = refused(lambda: Ledger.create(root, origin=ORIGIN, root=SIGNERS["root"], time=TIME))
    assert found.code is Code.STORE_EXISTS
    assert found.finding.position.source == str(root / name)
    assert [path.name for path in root.iterdir() if path.name != ".incoming"] == [name]
