from __future__ import annotations

import errno
import hashlib
import io

import pytest

from k3_ledger.ledger.writer import blobs
from k3_ledger.ledger.writer.blobs import blob_path, check_blob, check_publishable, put_blob
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import FailingDisk, FullDisk, Killed, MortalDisk, RecordingDisk, new_ledger

CONTENT = b"raw samples\n" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def stored(ledger):
    return sorted(path for path in ledger.blobs_path.rglob("*") if path.is_file())


def test_artifact_is_stored_under_its_digest(ledger):
    blob = put_blob(ledger, io.BytesIO(CONTENT))
    assert (blob.sha256, blob.size, blob.added) == (DIGEST, len(CONTENT), True)
    assert blob_path(ledger, DIGEST) == ledger.root / "blobs" / "sha256" / DIGEST[:2] / DIGEST
    assert blob_path(ledger, DIGEST).read_bytes() == CONTENT
    assert check_blob(ledger, DIGEST) == len(CONTENT)


def test_empty_artifact_is_an_artifact(ledger):
    assert put_blob(ledger, io.BytesIO(b"")).size == 0


def test_artifact_stored_twice_is_read_again_and_left_alone(ledger):
    put_blob(ledger, io.BytesIO(CONTENT))
    before = blob_path(ledger, DIGEST).stat()
    assert not put_blob(ledger, io.BytesIO(CONTENT)).added
    assert blob_path(ledger, DIGEST).stat().st_ino == before.st_ino


def test_damaged_artifact_is_reported_and_not_overwritten(ledger):
    put_blob(ledger, io.BytesIO(CONTENT))
    blob_path(ledger, DIGEST).write_bytes(b"rotten")
    for attempt in (lambda: put_blob(ledger, io.BytesIO(CONTENT)), lambda: check_blob(ledger, DIGEST)):
        with pytest.raises(StoreError) as caught:
            attempt()
        assert caught.value.code is Code.BLOB_DAMAGED
        assert caught.value.finding.expected == DIGEST
    assert blob_path(ledger, DIGEST).read_bytes() == b"rotten"


def test_artifact_that_is_a_symbolic_link_is_not_followed(ledger, tmp_path):
    put_blob(ledger, io.BytesIO(CONTENT))
    path = blob_path(ledger, DIGEST)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as caught:
        put_blob(ledger, io.BytesIO(CONTENT))
    assert caught.value.code is Code.STORE_MISSING


def test_missing_artifact_is_named(ledger):
    with pytest.raises(StoreError) as caught:
        check_blob(ledger, DIGEST)
    assert caught.value.code is Code.STORE_MISSING
    assert DIGEST in str(caught.value)


def test_artifact_is_synced_before_it_gets_its_name(tmp_path):
    disk = RecordingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.calls.clear()
    put_blob(ledger, io.BytesIO(CONTENT))
    assert disk.calls[-4:] == ["fsync", "rename", "open", "fsync"]
    assert disk.calls.count("mkdir") == 4


@pytest.mark.parametrize("room", [0, 1, 5000])
def test_full_disk_leaves_no_partial_artifact(tmp_path, room):
    disk = FullDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.room = room
    with pytest.raises(StoreError) as caught:
        put_blob(ledger, io.BytesIO(CONTENT))
    assert caught.value.code is Code.DISK_FULL
    assert stored(ledger) == []
    assert list(ledger.staging_path.iterdir()) == []


@pytest.mark.parametrize("call", ["mkdir", "open", "flock", "fstat", "write", "fsync", "rename"])
@pytest.mark.parametrize("nth", range(4))
def test_failing_disk_leaves_a_whole_artifact_or_none(tmp_path, call, nth):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail(call, errno.EIO, nth=nth)
    try:
        put_blob(ledger, io.BytesIO(CONTENT))
    except StoreError:
        assert [path.read_bytes() for path in stored(ledger)] in ([], [CONTENT])
        assert list(ledger.staging_path.iterdir()) == []
        put_blob(ledger, io.BytesIO(CONTENT))
    assert [path.read_bytes() for path in stored(ledger)] == [CONTENT]


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_at_any_step_leaves_a_whole_artifact_or_none(tmp_path, when):
    for step in range(100):
        disk = MortalDisk()
        ledger = new_ledger(tmp_path / str(step), disk)
        disk.arm(step, when)
        try:
            put_blob(ledger, io.BytesIO(CONTENT))
        except Killed:
            disk.disarm()
        else:
            break
        assert [path.read_bytes() for path in stored(ledger)] in ([], [CONTENT])
        put_blob(ledger, io.BytesIO(CONTENT))
        assert [path.read_bytes() for path in stored(ledger)] == [CONTENT]
        assert list(ledger.staging_path.iterdir()) == []
    assert 15 < step < 100


@pytest.mark.parametrize("over", [0, 1])
def test_an_artifact_that_grows_beyond_the_limit_while_it_is_read_is_not_stored(ledger, monkeypatch, over):
    monkeypatch.setattr(blobs, "MAX_ARTIFACT", len(CONTENT) - over)
    monkeypatch.setattr(blobs, "BLOCK", 100)
    if not over:
        assert put_blob(ledger, io.BytesIO(CONTENT)).size == len(CONTENT)
        assert check_publishable(io.BytesIO(CONTENT), "x") == (DIGEST, len(CONTENT))
        return
    endless = type("Endless", (), {"read": lambda _, size: b"x" * size})()
    for attempt in (
        lambda: put_blob(ledger, io.BytesIO(CONTENT)),
        lambda: put_blob(ledger, endless),
        lambda: check_publishable(io.BytesIO(CONTENT), "x"),
        lambda: check_publishable(endless, "x"),
    ):
        with pytest.raises(StoreError) as caught:
            attempt()
        assert caught.value.code is Code.ARTIFACT_TOO_LONG
    assert stored(ledger) == []
    assert not [path for path in ledger.staging_path.rglob("*") if path.is_file()]


def test_a_longer_artifact_that_stands_there_is_read_all_the_same(ledger, monkeypatch):
    """The control: what others stored is verified whatever its size."""
    put_blob(ledger, io.BytesIO(CONTENT))
    monkeypatch.setattr(blobs, "MAX_ARTIFACT", 10)
    assert check_blob(ledger, DIGEST) == len(CONTENT)


@pytest.mark.parametrize("place", ["blobs", "blobs/sha256", f"blobs/sha256/{DIGEST[:2]}"])
@pytest.mark.parametrize("what", ["a link to nowhere", "a link to itself", "a file"])
def test_what_stands_in_the_place_of_a_folder_of_the_store_is_named(ledger, place, what):
    path = ledger.root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rmdir()
    if what == "a file":
        path.write_bytes(b"x")
    else:
        path.symlink_to(path if what == "a link to itself" else ledger.root / "nowhere")
    with pytest.raises(StoreError) as caught:
        put_blob(ledger, io.BytesIO(CONTENT))
    assert caught.value.code is Code.STORE_MISSING
    assert caught.value.finding.position.source == str(path)
    assert caught.value.finding.expected == "a directory"


def test_a_folder_of_the_store_may_be_a_link_to_a_folder(ledger, tmp_path):
    """The control."""
    (ledger.root / "blobs").mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (ledger.root / "blobs" / "sha256").symlink_to(tmp_path / "elsewhere")
    assert put_blob(ledger, io.BytesIO(CONTENT)).added
    assert check_blob(ledger, DIGEST) == len(CONTENT)
