from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.writer.disk import Staging, make_directory, sweep
from k3_ledger.ledger.writer.store import GITATTRIBUTES, Ledger, NewKey
from k3_ledger.schemas.errors import LedgerError, MalformedError, SchemaError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import (
    OPENING,
    ORIGIN,
    SIGNERS,
    TIME,
    FailingDisk,
    Killed,
    MortalDisk,
    RecordingDisk,
    append_notes,
    new_ledger,
    public,
    read_entries,
)

if TYPE_CHECKING:
    from pathlib import Path


def create(path: Path, disk=None, **options) -> Ledger:
    return Ledger.create(path, **{"origin": ORIGIN, "root": SIGNERS["root"], "time": TIME, "disk": disk, **options})


def files(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_new_ledger_opens_with_genesis_and_its_first_keys(tmp_path):
    ledger = new_ledger(tmp_path / "ledger")
    entries = read_entries(ledger.log_path)
    assert [entry["kind"] for entry in entries] == ["genesis"] + ["key"] * (OPENING - 1)
    assert {entry["key"] for entry in entries} == {SIGNERS["root"].key_id}
    assert entries[0]["body"] == {
        "format": "k3-ledger/1", "origin": ORIGIN, "root_public_key": SIGNERS["root"].public_key.hex(),
    }  # fmt: skip
    assert ledger.origin() == Ledger.open(ledger.root).origin() == ORIGIN


def test_new_ledger_keeps_git_from_rewriting_line_endings(tmp_path):
    ledger = new_ledger(tmp_path / "ledger")
    assert (ledger.root / ".gitattributes").read_bytes() == GITATTRIBUTES
    assert b"* -text" in GITATTRIBUTES
    assert files(ledger.root) == [".gitattributes", "ledger.jsonl"]


def test_existing_directory_is_used_and_its_gitattributes_kept(tmp_path):
    (tmp_path / "README").write_text("mine")
    (tmp_path / ".gitattributes").write_text("*.png binary\n* -text\n")
    create(tmp_path)
    assert (tmp_path / ".gitattributes").read_text() == "*.png binary\n* -text\n"
    assert (tmp_path / "README").read_text() == "mine"


def test_ledger_that_exists_is_never_overwritten(tmp_path):
    ledger = new_ledger(tmp_path / "ledger")
    append_notes(ledger, "precious")
    before = ledger.log_path.read_bytes()
    with pytest.raises(StoreError) as caught:
        create(ledger.root)
    assert caught.value.code is Code.STORE_EXISTS
    assert ledger.log_path.read_bytes() == before


def test_time_is_the_clocks_when_none_is_given(tmp_path):
    assert read_entries(create(tmp_path / "ledger", time=None).log_path)[0]["time"] > "2024"


@pytest.mark.parametrize("origin", ["", "two words", "line\nfeed", "x" * 200, "été"])
def test_origin_that_could_not_be_a_key_name_is_refused(tmp_path, origin):
    with pytest.raises(SchemaError) as caught:
        create(tmp_path / "ledger", origin=origin)
    assert caught.value.finding.position.field == "body.origin"
    assert not (tmp_path / "ledger").exists()


def test_key_given_twice_is_refused_before_anything_is_made(tmp_path):
    key = NewKey("log", "log-1", public(SIGNERS["log"]))
    with pytest.raises(LedgerError) as caught:
        create(tmp_path / "ledger", keys=[key, key])
    assert caught.value.code is Code.KEY_ENROLLED_TWICE
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda path: None, Code.STORE_MISSING),
        (lambda path: path.mkdir(), Code.STORE_MISSING),
        (lambda path: (path / "ledger.jsonl").mkdir(parents=True), Code.STORE_MISSING),
        (lambda path: path.write_text("a file"), Code.STORE_MISSING),
    ],
    ids=["nothing", "empty directory", "directory for log", "file for directory"],
)
def test_opening_what_is_no_ledger_directory_names_path_and_cure(tmp_path, make, code):
    path = tmp_path / "ledger"
    make(path)
    with pytest.raises(StoreError) as caught:
        Ledger.open(path)
    assert caught.value.code is code
    assert str(path) in str(caught.value)
    assert caught.value.finding.advice


def test_creating_below_a_missing_directory_names_it(tmp_path):
    with pytest.raises(StoreError) as caught:
        create(tmp_path / "missing" / "ledger")
    assert caught.value.code is Code.STORE_MISSING


def test_origin_of_a_log_without_genesis_is_refused(tmp_path):
    ledger = new_ledger(tmp_path / "ledger")
    lines = ledger.log_path.read_bytes().split(b"\n")
    ledger.log_path.write_bytes(b"\n".join(lines[1:]))
    with pytest.raises(MalformedError) as caught:
        ledger.origin()
    assert caught.value.code is Code.CHAIN_NO_GENESIS


@pytest.mark.parametrize("call", ["mkdir", "open", "flock", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", [0, 1, 2])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_failed_creation_leaves_no_ledger_and_can_be_repeated(tmp_path, call, nth, error):
    disk = FailingDisk()
    disk.fail(call, error, nth=nth)
    try:
        create(tmp_path / "ledger", disk)
    except StoreError:
        leftovers = set(files(tmp_path)) - {"ledger/.gitattributes", "ledger/ledger.jsonl"}
        assert not leftovers
    if not (tmp_path / "ledger" / "ledger.jsonl").exists():
        create(tmp_path / "ledger")
    assert len(read_entries(tmp_path / "ledger" / "ledger.jsonl")) == 1


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_creation_killed_at_any_step_leaves_a_whole_ledger_or_none(tmp_path, when):
    step = 0
    while True:
        path = tmp_path / str(step)
        disk = MortalDisk()
        disk.arm(step, when)
        try:
            create(path, disk)
        except Killed:
            step += 1
        else:
            break
        if not (path / "ledger.jsonl").exists():
            create(path)
        assert len(read_entries(path / "ledger.jsonl")) == 1
    assert step > 15


def test_new_ledger_is_synced_before_it_gets_its_name(tmp_path):
    disk = RecordingDisk()
    create(tmp_path / "ledger", disk)
    assert disk.calls[:3] == ["mkdir", "open", "fsync"]
    written = disk.calls[len(disk.calls) - disk.calls[::-1].index("write") :]
    assert written == ["fsync", "rename", "open", "fsync"]


# -------------------------------------------------------------------------------------------------------- staging


def test_partial_file_of_a_killed_process_is_swept(tmp_path):
    disk = MortalDisk()
    staged = Staging(disk, tmp_path / "in").__enter__()
    disk.arm(0, "after")
    with pytest.raises(Killed):
        staged.write(b"half")
    with pytest.raises(Killed):
        staged.__exit__()
    assert len(files(tmp_path / "in")) == 1
    with Staging(RecordingDisk(), tmp_path / "in"):
        assert len(files(tmp_path / "in")) == 1
    assert files(tmp_path / "in") == []


def test_partial_file_that_is_being_written_is_not_swept(tmp_path):
    with Staging(RecordingDisk(), tmp_path / "in") as staged:
        assert sweep(RecordingDisk(), tmp_path / "in") == 0
        staged.write(b"whole")
        staged.publish(tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"whole"
    assert files(tmp_path) == ["target"]


def test_sweep_leaves_what_is_not_a_partial_file(tmp_path):
    (tmp_path / "other").write_text("x")
    (tmp_path / "link.part").symlink_to(tmp_path / "other")
    assert sweep(RecordingDisk(), tmp_path) == 0
    assert files(tmp_path) == ["link.part", "other"]


def test_staging_survives_a_sweep_between_creation_and_lock(tmp_path):
    class Racing(FailingDisk):
        raced = False

        def flock(self, fd, operation):
            if not self.raced:
                self.raced = True
                assert sweep(RecordingDisk(), tmp_path / "in") == 1
            super().flock(fd, operation)

    with Staging(Racing(), tmp_path / "in") as staged:
        staged.write(b"x")
        staged.publish(tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"x"


def test_published_file_has_no_path_any_more(tmp_path):
    with Staging(RecordingDisk(), tmp_path / "in") as staged:
        staged.publish(tmp_path / "target")
        with pytest.raises(AssertionError):
            _ = staged.path


def test_staging_that_cannot_be_locked_leaves_nothing(tmp_path):
    disk = FailingDisk()
    disk.fail("flock", errno.ENOLCK)
    with pytest.raises(OSError, match=os.strerror(errno.ENOLCK)), Staging(disk, tmp_path / "in"):
        pass
    assert files(tmp_path) == []


def test_a_directory_that_stands_in_one_that_may_not_be_opened_is_taken_as_it_is(tmp_path):
    disk = FailingDisk()
    (tmp_path / "there").mkdir()
    disk.fail("open", errno.EACCES)
    make_directory(disk, tmp_path / "there")
    disk.fail("open", errno.EACCES)
    with pytest.raises(PermissionError):
        make_directory(disk, tmp_path / "made")
