"""A bundle is complete or not there; what cannot be read about a machine is not made up."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine import bundle, machine
from k3_ledger.engine.bundle import describe_artifact, write_bundle
from k3_ledger.schemas.measurement import FailedMeasurement, Subject
from k3_ledger.schemas.validate import parse_bundle

if TYPE_CHECKING:
    from pathlib import Path

LOG = b"out of memory\n"
RUN = object()  # what no file can be written from


def failed(**changes: object) -> FailedMeasurement:
    fields: dict[str, object] = {
        "role": "candidate",
        "subject": Subject(name="engine", version="1", source=None, build_sha256=None),
        "model": None,
        "machine": machine.probe_machine("here", ["engine", "--run"], ["pydantic", "no-such-distribution"]),
        "round": None,
        "artifacts": (describe_artifact("log.txt", LOG, "text/plain"),),
        "stage": "decode",
        "reason": "out of memory",
        "exit_status": -9,
    }
    return FailedMeasurement.model_validate({**fields, **changes})


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_bundle_is_bundle_json_beside_its_blobs(tmp_path: Path) -> None:
    identity = write_bundle(tmp_path / "b", failed(), {digest(LOG): LOG})
    data = (tmp_path / "b" / "bundle.json").read_bytes()
    assert identity == digest(data)
    read = parse_bundle(data)
    assert (read.kind, read.body.exit_status) == ("failed", -9)
    assert [software.name for software in read.body.machine.software] == ["python", "pydantic"]
    assert (tmp_path / "b" / "blobs" / digest(LOG)).read_bytes() == LOG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]


def test_a_bundle_never_takes_the_place_of_another(tmp_path: Path) -> None:
    write_bundle(tmp_path / "b", failed(), {digest(LOG): LOG})
    with pytest.raises(FileExistsError):
        write_bundle(tmp_path / "b", failed(), {digest(LOG): LOG})


@pytest.mark.parametrize("blobs", [{}, {digest(LOG): b"other"}, {digest(LOG): LOG, digest(b"more"): b"more"}])
def test_blobs_are_exactly_what_the_measurement_names(tmp_path: Path, blobs: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="artifacts"):
        write_bundle(tmp_path / "b", failed(), blobs)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "format_bundle", lambda _: RUN)
    monkeypatch.setattr(bundle, "parse_bundle", lambda _: None)
    with pytest.raises(TypeError):
        write_bundle(tmp_path / "b", failed(), {digest(LOG): LOG})
    assert not list(tmp_path.iterdir())


def test_a_source_tree_is_clean_dirty_or_no_repository_at_all(tmp_path: Path) -> None:
    assert machine.probe_source(tmp_path) == (None, b"")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "file").write_text("one\n")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    clean, patch = machine.probe_source(tmp_path)
    assert clean is not None
    assert (len(clean.commit or ""), clean.dirty, clean.patch_sha256, patch) == (40, False, None, b"")
    (tmp_path / "other").write_text("untracked\n")
    untracked, patch = machine.probe_source(tmp_path)
    assert untracked is not None
    assert (untracked.dirty, patch) == (True, b"")
    (tmp_path / "file").write_text("two\n")
    dirty, patch = machine.probe_source(tmp_path)
    assert dirty is not None
    assert (dirty.dirty, dirty.patch_sha256) == (True, digest(patch))


def test_accelerators_are_what_the_driver_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda _: None)
    assert machine.probe_accelerators() == []
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    monkeypatch.setattr(machine, "_run", lambda _: "NVIDIA H200, 143771, 580.1, 1980\nOther, [N/A], , [N/A]\n")
    first, second = machine.probe_accelerators()
    assert (first.name, first.memory_bytes, first.driver, first.clock_mhz) == (
        "NVIDIA H200",
        143771 << 20,
        "580.1",
        1980,
    )
    assert (second.memory_bytes, second.driver, second.clock_mhz) == (0, None, None)
    monkeypatch.setattr(machine, "_run", lambda _: None)
    assert machine.probe_accelerators() == []
