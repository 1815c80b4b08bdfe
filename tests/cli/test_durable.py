"""Every command that says that something stands in a ledger has synced it itself, whoever wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3_ledger.ledger.writer.disk import Disk
from tests.ledger.writer.support import write_bundle
from tests.verify.polaris import make_log

APPEND = ("append", "note", "-b", "note.json", "-l", "ledger", "-k", "judge.pem")
COMMANDS = {
    "append": APPEND,
    "seal": ("seal", "bundle", "-l", "ledger", "-k", "runner.pem"),
    "import": ("import", "polaris", "log", "--into", "ledger", "--key", "log.pem"),
    "checkpoint": ("checkpoint", "-l", "ledger", "-k", "log.pem"),
    "recover": ("recover", "-l", "ledger"),
    "key": ("key", "enrol", "judge", "spare.pub.pem", "-l", "ledger", "-k", "root.pem"),
}
ONCE = {"key"}
"""What is refused the second time."""


@pytest.fixture
def synced(monkeypatch):
    """Paths that were synced, in order."""
    paths: list[Path] = []

    def sync(disk: Disk, fd: int) -> None:
        paths.append(Path(f"/proc/self/fd/{fd}").readlink())

    monkeypatch.setattr(Disk, "fsync", sync)
    monkeypatch.setattr(Disk, "fdatasync", sync)
    return paths


@pytest.mark.parametrize("name", COMMANDS)
def test_success_is_said_of_what_this_very_process_synced(run, ledger, tmp_path, synced, name):
    (tmp_path / "note.json").write_text(json.dumps({"text": "a note"}))
    write_bundle(tmp_path / "bundle", {"a": b"alpha"})
    for path, data in make_log.build(make_log.draft()).items():
        (tmp_path / "log" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "log" / path).write_bytes(data)
    for _ in range(1 if name in ONCE else 2):
        synced.clear()
        done = run(*COMMANDS[name])
        assert done.code == 0, done.err
        log = ledger / "ledger.jsonl"
        assert {log, ledger} <= set(synced)
        if name == "seal":
            assert any(path.parent == ledger / "blobs" / "sha256" for path in synced)
        if name == "checkpoint":
            assert ledger / "checkpoints" in synced
