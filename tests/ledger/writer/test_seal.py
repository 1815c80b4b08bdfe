from __future__ import annotations

import errno
import hashlib
import os
import tarfile

import pytest

from k3_ledger.ledger.writer.blobs import blob_path
from k3_ledger.ledger.writer.seal import seal
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import BundleError, LedgerError, MalformedError, SchemaError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import (
    OPENING,
    SIGNERS,
    TIME,
    FailingDisk,
    Killed,
    MortalDisk,
    artifact,
    bundle_body,
    new_ledger,
    read_entries,
    tar_of,
    write_bundle,
)

CONTENTS = {"samples.csv": b"1,2,3\n" * 5000, "stdout.log": b"hello\n", "empty": b""}


def sealed(ledger, path, *, signer=SIGNERS["runner"]):
    with ledger.writer(signer) as writer:
        return seal(ledger, path, writer, time=TIME)


def stored(ledger) -> set[str]:
    return {path.name for path in ledger.blobs_path.rglob("*") if path.is_file()}


@pytest.fixture
def bundle(tmp_path):
    return write_bundle(tmp_path / "bundle", CONTENTS)


def refused(ledger, path) -> LedgerError:
    """The error of sealing; nothing was stored."""
    before = ledger.log_path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        sealed(ledger, path)
    assert ledger.log_path.read_bytes() == before
    assert stored(ledger) == set()
    return caught.value


def test_bundle_becomes_a_receipt_and_its_artifacts_are_stored(ledger, bundle):
    done = sealed(ledger, bundle)
    entry = read_entries(ledger.log_path)[-1]
    assert (done.index, done.identity, done.added, done.artifacts_added) == (OPENING, entry["identity"], True, 3)
    assert (entry["kind"], entry["key"], entry["time"]) == ("run", SIGNERS["runner"].key_id, TIME)
    document = canonical.parse((bundle / "bundle.json").read_bytes())
    digest = hashlib.sha256((bundle / "bundle.json").read_bytes()).hexdigest()
    assert entry["body"] == {**document["body"], "bundle": digest}
    for content in CONTENTS.values():
        assert blob_path(ledger, hashlib.sha256(content).hexdigest()).read_bytes() == content


def test_sealing_twice_adds_nothing_and_names_the_entry(ledger, bundle):
    first = sealed(ledger, bundle)
    before = ledger.log_path.read_bytes()
    again = sealed(ledger, bundle)
    assert (again.index, again.identity, again.added, again.artifacts_added) == (first.index, first.identity, False, 0)
    assert ledger.log_path.read_bytes() == before


def test_sealing_again_restores_an_artifact_that_was_lost(ledger, bundle):
    sealed(ledger, bundle)
    lost = blob_path(ledger, hashlib.sha256(b"hello\n").hexdigest())
    lost.unlink()
    assert sealed(ledger, bundle).artifacts_added == 1
    assert lost.read_bytes() == b"hello\n"


def test_bundle_whose_digest_only_occurs_elsewhere_is_not_taken_for_sealed(ledger, bundle):
    digest = hashlib.sha256((bundle / "bundle.json").read_bytes()).hexdigest()
    with ledger.writer(SIGNERS["judge"]) as writer:
        writer.append("note", {"text": f'it says "bundle":"{digest}"', "artifacts": []})
    assert sealed(ledger, bundle).added


def test_run_that_failed_is_sealed_as_a_failure(ledger, tmp_path):
    body = bundle_body([])
    for field in ("timing", "parity", "memory", "flags", "expert_load", "tee"):
        del body[field]
    body.update(stage="build", reason="it did not compile", exit_status=2)
    (tmp_path / "bundle").mkdir()
    document = {"schema": "k3-ledger/bundle/1", "kind": "failed", "body": body}
    (tmp_path / "bundle" / "bundle.json").write_bytes(canonical.format(document))
    assert sealed(ledger, tmp_path / "bundle").added
    assert read_entries(ledger.log_path)[-1]["kind"] == "failed"


@pytest.mark.parametrize("prefix", ["", "./", "run-17/"])
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_of_a_bundle_is_the_same_bundle(ledger, bundle, tmp_path, prefix, format):  # noqa: A002
    (tmp_path / "bundle.tar").write_bytes(tar_of(bundle, prefix, format=format))
    first = sealed(ledger, tmp_path / "bundle.tar")
    assert first.added
    assert not sealed(ledger, bundle).added
    for content in CONTENTS.values():
        assert blob_path(ledger, hashlib.sha256(content).hexdigest()).read_bytes() == content


def test_one_artifact_under_two_names_is_one_file(ledger, tmp_path):
    body = bundle_body([artifact(b"same", "a"), artifact(b"same", "b")])
    assert sealed(ledger, write_bundle(tmp_path / "b", {"a": b"same"}, body=body)).artifacts_added == 1


def test_one_artifact_with_two_sizes_is_refused(ledger, tmp_path):
    body = bundle_body([artifact(b"same", "a"), {**artifact(b"same", "b"), "size": 5}])
    error = refused(ledger, write_bundle(tmp_path / "b", {"a": b"same"}, body=body))
    assert (error.code, error.finding.position.field) == (Code.BUNDLE_MISMATCH, "body.artifacts[1].size")


# ------------------------------------------------------------------------------------------------ hostile or broken


def test_missing_artifact_is_named(ledger, bundle):
    name = hashlib.sha256(b"hello\n").hexdigest()
    (bundle / "blobs" / name).unlink()
    error = refused(ledger, bundle)
    assert error.code is Code.BUNDLE_MISSING_FILE
    assert name in str(error)


@pytest.mark.parametrize("name", ["notes.txt", "blobs/extra", "blobs/" + "0" * 64, ".DS_Store", "bundle.json~"])
def test_file_that_the_bundle_does_not_name_is_refused(ledger, bundle, name):
    (bundle / name).write_bytes(b"x")
    error = refused(ledger, bundle)
    assert error.code is Code.BUNDLE_EXTRA_FILE
    assert name in str(error)


@pytest.mark.parametrize("name", ["blobs/link", "link", "blobs/folder"])
def test_link_or_deeper_folder_is_refused(ledger, bundle, name):
    if "folder" in name:
        (bundle / name).mkdir()
    else:
        (bundle / name).symlink_to("/etc/passwd")
    error = refused(ledger, bundle)
    assert error.code is Code.BUNDLE_EXTRA_FILE
    assert "neither a file nor the folder blobs" in str(error)


def test_artifact_replaced_by_a_link_is_not_followed(ledger, bundle, monkeypatch):
    name = hashlib.sha256(b"hello\n").hexdigest()
    target = bundle.parent / "target"
    target.write_bytes(b"hello\n")
    real = os.open

    def racing(path, flags, *rest):
        if str(path).endswith(name):
            (bundle / "blobs" / name).unlink(missing_ok=True)
            (bundle / "blobs" / name).symlink_to(target)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", racing)
    with pytest.raises(StoreError) as caught:
        sealed(ledger, bundle)
    assert caught.value.code is Code.STORE_MISSING


def test_changed_artifact_is_refused_by_size_or_digest(ledger, bundle):
    path = bundle / "blobs" / hashlib.sha256(b"hello\n").hexdigest()
    for content in (b"hello", b"HELLO\n"):
        path.write_bytes(content)
        error = refused(ledger, bundle)
        assert error.code is Code.BUNDLE_MISMATCH
        assert path.name in str(error)


def test_artifact_that_changes_between_the_two_readings_is_refused(ledger, bundle):
    path = bundle / "blobs" / hashlib.sha256(b"hello\n").hexdigest()
    with ledger.writer(SIGNERS["runner"]) as writer:
        rehearse = writer.rehearse

        def change(drafts):
            path.write_bytes(b"HELLO\n")
            rehearse(drafts)

        writer.rehearse = change  # type: ignore[method-assign]
        with pytest.raises(BundleError) as caught:
            seal(ledger, bundle, writer)
    assert caught.value.code is Code.BUNDLE_MISMATCH
    assert len(read_entries(ledger.log_path)) == OPENING


def test_bundle_without_description_is_refused(ledger, tmp_path):
    (tmp_path / "empty").mkdir()
    error = refused(ledger, tmp_path / "empty")
    assert error.code is Code.BUNDLE_MISSING_FILE
    assert "bundle.json" in str(error)


@pytest.mark.parametrize(
    ("mutate", "kind"),
    [
        (lambda data: data + b"\n", MalformedError),
        (lambda data: data.replace(b'":', b'": ', 1), MalformedError),
        (lambda data: b"\xef\xbb\xbf" + data, MalformedError),
        (lambda data: data.replace(b'"kind":"run"', b'"kind":"note"'), SchemaError),
        (lambda data: data.replace(b'"round":null,', b""), SchemaError),
        (lambda data: data.replace(b'"round":null', b'"tier":"XL"'), LedgerError),
        (lambda data: b"[" * 20_000, MalformedError),
        (lambda data: data[:-1] + b" " * 70_000 + b"}", MalformedError),
        (lambda data: bytes(len(data)), MalformedError),
    ],
    ids=["newline", "space", "BOM", "kind", "field missing", "label", "deep", "long", "NULs"],
)
def test_description_that_is_not_canonical_or_does_not_fit_is_refused(ledger, bundle, mutate, kind):
    path = bundle / "bundle.json"
    path.write_bytes(mutate(path.read_bytes()))
    assert isinstance(refused(ledger, bundle), kind)


def test_missing_bundle_and_something_else_are_named(ledger, tmp_path):
    assert refused(ledger, tmp_path / "missing").code is Code.STORE_MISSING
    (tmp_path / "text").write_bytes(b"hello" * 1000)
    assert refused(ledger, tmp_path / "text").code is Code.BUNDLE_TAR


def test_key_that_may_not_seal_is_refused_before_anything_is_stored(ledger, bundle):
    before = ledger.log_path.read_bytes()
    with pytest.raises(LedgerError) as caught:
        sealed(ledger, bundle, signer=SIGNERS["judge"])
    assert caught.value.code is Code.KEY_WRONG_ROLE
    assert stored(ledger) == set()
    assert ledger.log_path.read_bytes() == before


# ------------------------------------------------------------------------------------------------- the disk fails


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename", "fdatasync", "flock", "mkdir"])
@pytest.mark.parametrize("nth", [0, 1, 2, 5])
def test_failing_disk_leaves_no_receipt_and_sealing_can_be_repeated(tmp_path, bundle, call, nth):
    disk = FailingDisk()
    ledger = new_ledger(tmp_path / "ledger", disk)
    disk.fail(call, errno.ENOSPC, nth=nth)
    try:
        sealed(ledger, bundle)
    except StoreError:
        assert len(read_entries(ledger.log_path)) == OPENING
        sealed(ledger, bundle)
    assert len(read_entries(ledger.log_path)) == OPENING + 1
    assert len(stored(ledger)) == 3


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_killed_at_any_step_leaves_artifacts_at_most_and_sealing_can_be_repeated(tmp_path, when):
    bundle = write_bundle(tmp_path / "bundle", {"a": b"alpha", "b": b"beta"})
    for step in range(300):
        disk = MortalDisk()
        ledger = new_ledger(tmp_path / str(step), disk)
        disk.arm(step, when)
        try:
            sealed(ledger, bundle)
        except Killed:
            disk.disarm()
        else:
            break
        data = ledger.log_path.read_bytes()
        named = data.count(hashlib.sha256(b"alpha").hexdigest().encode())
        assert not named or len(stored(ledger)) == 2
        if not data.endswith(b"\n"):
            from k3_ledger.ledger.writer.recover import recover

            recover(ledger)
        sealed(ledger, bundle)
        assert len(read_entries(ledger.log_path)) == OPENING + 1
        assert len(stored(ledger)) == 2
    assert 40 < step < 300
