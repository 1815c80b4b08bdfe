"""A bundle is complete or not there; what cannot be read about a machine is not made up."""

from __future__ import annotations

import errno
import hashlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine import bundle, machine
from k3_ledger.engine.bundle import Reserved, describe_artifact, write_bundle
from k3_ledger.engine.machine import Said
from k3_ledger.schemas.measurement import FailedMeasurement, Subject
from k3_ledger.schemas.validate import parse_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
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


def test_accelerators_are_what_the_driver_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda _: None)
    assert machine.probe_accelerators() == []
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    listed = b"NVIDIA H200, 143771, 580.1, 1980\nOther, [N/A], , [N/A]\n"
    monkeypatch.setattr(machine, "ask", lambda _: Said(listed))
    first, second = machine.probe_accelerators()
    assert (first.name, first.memory_bytes, first.driver, first.clock_mhz) == (
        "NVIDIA H200",
        143771 << 20,
        "580.1",
        1980,
    )
    assert (second.memory_bytes, second.driver, second.clock_mhz) == (0, None, None)
    monkeypatch.setattr(machine, "ask", lambda _: Said(b"No devices were found\n", "it ended with status 6"))
    assert machine.probe_accelerators() == []


@pytest.mark.parametrize(
    "said",
    [
        Said(b"", "it gave no answer in time"),
        Said(b"NVIDIA H200, 143771, 580.1, 1980\n", "it ended with status 9"),
        Said(b"NVIDIA-SMI has failed\n"),
        Said(b"\xff\xfe\n"),
        Said(b"a, b, c, d, e\n"),
        Said(b"Card, 99999999999999999999, 1, 1\n"),
        Said("Card, ².²¹, 1, ².²\n".encode() * 65),
    ],
)
def test_an_accelerator_that_the_driver_does_not_tell_of_is_unknown_and_not_absent(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda name: name)
    monkeypatch.setattr(machine, "ask", lambda _: said)
    (found,) = machine.probe_accelerators()
    assert (found.name, found.memory_bytes, found.driver, found.clock_mhz) == ("unknown", 0, None, None)


@pytest.mark.parametrize(
    ("script", "data", "fault"),
    [
        ("#!/bin/sh\necho fine\n", b"fine\n", None),
        ("#!/bin/sh\nprintf '\\377'\n", b"\xff", None),
        ("#!/bin/sh\necho half; exit 9\n", b"half\n", "it ended with status 9"),
        ("#!/bin/sh\nkill -9 $$\n", b"", "it ended with status -9"),
        ("#!/bin/sh\nsleep 600\n", b"", "it gave no answer in time"),
        ("#!/bin/sh\necho half; exec >&-; sleep 600\n", b"", "it gave no answer in time"),
        ("#!/bin/sh\nsleep 600 & echo fine\n", b"", "it gave no answer in time"),
        ("#!/bin/sh\nyes\n", b"", "it prints without end"),
        ("garbage", b"", "it cannot be executed: Exec format error"),
        (None, b"", "it cannot be executed: No such file or directory"),
    ],
)
def test_a_tool_that_fails_costs_its_answer_and_nothing_else(
    script: str | None, data: bytes, fault: str | None, tmp_path: Path
) -> None:
    tool = tmp_path / "tool"
    if script is not None:
        tool.write_text(script)
        tool.chmod(0o755)
    hangs = script is not None and "600" in script
    assert machine.ask([str(tool)], seconds=0.5 if hangs else 60, most=1 << 16) == Said(data, fault)


BUNDLE = b"{}\n"


def whole(folder: Path) -> bool:
    return (folder / "bundle.json").read_bytes() == BUNDLE and (folder / "blobs" / digest(LOG)).read_bytes() == LOG


def test_of_two_that_want_one_place_the_second_is_told_at_once(tmp_path: Path) -> None:
    with Reserved(tmp_path / "b") as place:
        with pytest.raises(FileExistsError, match=r"'.*/b'"):
            Reserved(tmp_path / "b")
        with pytest.raises(FileExistsError):
            write_bundle(tmp_path / "b", failed(), {digest(LOG): LOG})
        assert place.keep(BUNDLE, {digest(LOG): LOG}) == tmp_path / "b"
    assert whole(tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("name", ["b", "n" * 255, " ", "é"])
def test_a_place_that_is_not_used_is_given_back(name: str, tmp_path: Path) -> None:
    with Reserved(tmp_path / name):
        assert (tmp_path / name).is_dir()
    assert not list(tmp_path.iterdir())
    with Reserved(tmp_path / name) as place:
        assert place.keep(BUNDLE, {digest(LOG): LOG}) == tmp_path / name


LOSSES: dict[str, Callable[[Path], object]] = {
    "the folder above was moved": lambda above: above.rename(above.with_name("moved")),
    "and another stands in its place": lambda above: (above.rename(above.with_name("moved")), above.mkdir()),
    "and a file stands in its place": lambda above: (above.rename(above.with_name("moved")), above.touch()),
    "the folder above is gone": shutil.rmtree,
    "somebody has put something in": lambda above: (above / "b" / "x").touch(),
    "it was removed": lambda above: (above / "b").rmdir(),
    "it was removed, and another has taken the place": lambda above: (
        (above / "b").rename(above / "old"),
        (above / "b").mkdir(),
    ),
    "a file stands there": lambda above: ((above / "b").rmdir(), (above / "b").write_text("mine")),
    "a link stands there": lambda above: ((above / "b").rmdir(), (above / "b").symlink_to("elsewhere")),
}


@pytest.mark.parametrize("lost", LOSSES)
def test_what_was_measured_is_kept_and_named_whatever_became_of_its_place(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above, scratch = tmp_path / "above", tmp_path / "scratch"
    above.mkdir()
    scratch.mkdir()
    monkeypatch.setattr(bundle.tempfile, "gettempdir", lambda: str(scratch))
    with Reserved(above / "b") as place:
        LOSSES[lost](above)
        before = {path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()}
        kept = place.keep(BUNDLE, {digest(LOG): LOG})
    assert whole(kept)
    assert kept != above / "b"
    assert kept.parent == {"the folder above is gone": scratch}.get(
        lost, above.with_name("moved") if (tmp_path / "moved").exists() else above
    )
    assert before == {path for path in before if path.exists() or path.is_symlink()}, "nothing of anybody else's went"
    assert not list(tmp_path.rglob(".k3-ledger*"))


def test_a_full_disk_sends_a_bundle_to_the_next_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    real, full = bundle._publish, [tmp_path]

    def publish(parent: Path, *rest: Any) -> None:
        if parent.resolve() in full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(parent, *rest)

    monkeypatch.setattr(bundle, "_publish", publish)
    monkeypatch.setattr(bundle.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with Reserved(tmp_path / "b") as place:
        assert place.keep(BUNDLE, {}).parent == tmp_path / "home"
    assert not (tmp_path / "b").exists()
    full.append(tmp_path / "home")
    with Reserved(tmp_path / "c") as place, pytest.raises(OSError, match="No space left"):
        place.keep(BUNDLE, {})
