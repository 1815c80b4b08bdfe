"""A cut that falls on the end of a line leaves a good log that must not be continued."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess

import pytest

from k3_ledger.ledger.core.checkpoint import Checkpoint, format_checkpoint
from k3_ledger.ledger.core.note import MAX_NOTE, sign_note
from k3_ledger.ledger.regular import stands_there
from k3_ledger.ledger.writer.beside import read_head, read_heads
from k3_ledger.ledger.writer.checkpoint import NoteSigner, make_checkpoint
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import LedgerError, MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import ORIGIN, SIGNERS, TIME, append_notes, note


@pytest.fixture
def signed(ledger):
    append_notes(ledger, "one", "two", "three")
    make_checkpoint(ledger, SIGNERS["log"])
    return ledger


def refused(action, kind=StoreError) -> LedgerError:
    with pytest.raises(kind) as caught:
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


@pytest.mark.parametrize("place", ["checkpoint", "checkpoints/000000000099.note"])
@pytest.mark.parametrize("by", ["a thief of the log key", "nobody that the log knows"])
@pytest.mark.parametrize("action", ["append", "checkpoint"])
def test_a_head_that_was_put_there_stops_the_writer_and_its_cure_leads_back(signed, place, by, action):
    """The file that stops it is named, the command in the hint takes it away, and it is kept as evidence."""
    signer = SIGNERS["log" if by == "a thief of the log key" else "judge"]
    text = format_checkpoint(Checkpoint(ORIGIN, 99, bytes(32)))
    forged = sign_note(text, [NoteSigner(ORIGIN, signer)])
    path = signed.root / place
    path.write_bytes(forged)

    def act() -> None:
        if action == "append":
            append_notes(signed, "goes on")
        else:
            make_checkpoint(signed, SIGNERS["log"])

    found = refused(act, LedgerError)
    stranger = action == "checkpoint" and signer is SIGNERS["judge"]
    assert found.code is (Code.NOTE_UNSIGNED if stranger else Code.CHECKPOINT_AHEAD)
    assert found.finding.position.source == str(path)
    assert str(path) in str(found)
    [cure] = re.findall(r"`(mv [^`]+)`", found.finding.advice)
    subprocess.run(shlex.split(cure), check=True)
    act()
    append_notes(signed, "and on")
    assert make_checkpoint(signed, SIGNERS["log"]).checkpoint.size > 8
    assert path.with_name(f"{path.name}.set-aside").read_bytes() == forged
    assert read_heads(signed.root).keys().isdisjoint({path} - {signed.checkpoint_path})


def test_a_log_at_or_behind_its_head_is_continued(signed):
    append_notes(signed, "four")
    append_notes(signed, "five")
    assert recover(signed).cut == 0


PLACES = ("checkpoint", "checkpoints/000000000008.note")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("damage", [b"", b"no note", b"\xff"])
def test_nothing_is_appended_beside_a_head_that_is_none(signed, damage, place):
    (signed.root / place).write_bytes(damage)
    found = refused(lambda: append_notes(signed, "four"), MalformedError)
    assert found.finding.message.endswith(": nothing is appended while a signed head cannot be read")
    assert found.finding.position.source == str(signed.root / place)
    assert "`k3-ledger checkpoint`" in found.finding.advice


def test_what_the_refusal_advises_makes_the_ledger_appendable_again(signed):
    whole = signed.checkpoint_path.read_bytes()
    signed.checkpoint_path.write_bytes(b"no note")
    refused(lambda: append_notes(signed, "four"), MalformedError)
    signed.checkpoint_path.rename(signed.root.with_name("aside"))
    assert not make_checkpoint(signed, SIGNERS["log"]).added
    assert signed.checkpoint_path.read_bytes() == whole
    append_notes(signed, "four")


def test_of_kept_heads_the_largest_counts_whatever_its_name_sorts_like(signed):
    (signed.checkpoints_path / "000000000008.note").rename(signed.checkpoints_path / "0008.note")
    signed.checkpoint_path.unlink()
    (signed.checkpoints_path / "9.note.txt").write_bytes(b"not one of them")
    (signed.checkpoints_path / "000000000009.txt").mkdir()
    shutil.copy(signed.checkpoints_path / "0008.note", signed.checkpoints_path / "7.note")
    assert list(read_heads(signed.root)) == [signed.checkpoints_path / name for name in ("7.note", "0008.note")]
    shorten(signed, 7)
    found = refused(lambda: append_notes(signed, "four"))
    assert found.finding.position.source == str(signed.checkpoints_path / "0008.note")


def test_a_ledger_without_heads_is_continued(signed):
    signed.checkpoint_path.unlink()
    append_notes(signed, "four")
    (signed.checkpoints_path / "000000000008.note").unlink()
    append_notes(signed, "five")
    signed.checkpoints_path.rmdir()
    append_notes(signed, "six")


@pytest.mark.parametrize("place", PLACES)
def test_a_link_to_a_head_is_followed(signed, place):
    path = signed.root / place
    path.rename(signed.root.with_name("elsewhere"))
    path.symlink_to(signed.root.with_name("elsewhere"))
    append_notes(signed, "four")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("thing", ["pipe", "folder", "huge", "nowhere", "loop"])
def test_what_is_no_file_of_a_heads_size_is_named_in_a_heads_place(signed, thing, place):
    path = signed.root / place
    path.unlink()
    if thing == "pipe":
        os.mkfifo(path)
    elif thing == "folder":
        path.mkdir()
    elif thing == "huge":
        path.write_bytes(bytes(MAX_NOTE + 1))
    else:
        path.symlink_to("nowhere" if thing == "nowhere" else path.name)
    for action in (lambda: append_notes(signed, "x"), lambda: make_checkpoint(signed, SIGNERS["log"])):
        found = refused(action)
        assert (found.code, found.finding.position.source) == (Code.CHECKPOINT_UNREADABLE, str(path))
        assert found.finding.found is not None
        assert str(path) not in found.finding.found
    assert stands_there(path)


def test_a_head_of_just_the_greatest_length_is_read(signed):
    signed.checkpoint_path.write_bytes(b"x" * MAX_NOTE)
    assert read_head(signed.checkpoint_path) == b"x" * MAX_NOTE
    assert read_head(signed.root / "nothing") is None


@pytest.mark.parametrize("name", ["checkpoint", "checkpoints", "blobs"])
def test_no_ledger_is_begun_beside_the_remains_of_one(tmp_path, name):
    root = tmp_path / "lost"
    (root / name).mkdir(parents=True)
    found = refused(lambda: Ledger.create(root, origin=ORIGIN, root=SIGNERS["root"], time=TIME))
    assert found.code is Code.STORE_EXISTS
    assert found.finding.position.source == str(root / name)
    assert [path.name for path in root.iterdir() if path.name != ".incoming"] == [name]


@pytest.mark.parametrize("name", ["checkpoint", "checkpoints", "blobs", "ledger.jsonl"])
def test_a_link_to_nowhere_is_what_remains_of_a_ledger_too(tmp_path, name):
    root = tmp_path / "lost"
    root.mkdir()
    (root / name).symlink_to("nowhere")
    found = refused(lambda: Ledger.create(root, origin=ORIGIN, root=SIGNERS["root"], time=TIME))
    assert found.code is (Code.UNREADABLE if name == "ledger.jsonl" else Code.STORE_EXISTS)
    assert (root / name).readlink().name == "nowhere"
