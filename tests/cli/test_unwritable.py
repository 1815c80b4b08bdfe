"""Every command that writes a file, on a disk that is full, read-only or not ours: one error, and a cure that fits."""

from __future__ import annotations

import errno
import os
import resource
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_operator import append_notes_with

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REFUSE: dict[str, tuple[int, str]] = {}
"""What the disk says while a test lasts: (error number, paths that begin so)."""


def _disk(event: str, args: tuple[object, ...]) -> None:
    """Refuse to make or to open for writing anything at a place, as the system would."""
    if not _REFUSE or event not in ("open", "os.mkdir"):
        return
    path = args[0]
    if not isinstance(path, str | bytes | os.PathLike):
        return
    number, below = _REFUSE["now"]
    writes = event == "os.mkdir" or (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    if writes and os.path.realpath(os.fsdecode(path)).startswith(below):
        raise OSError(number, os.strerror(number), path)


@pytest.fixture
def refuse() -> Iterator[Callable[[int, object], None]]:
    if not hasattr(sys, "_k3_disk_hook"):
        sys.addaudithook(_disk)
        sys._k3_disk_hook = True  # type: ignore[attr-defined] # hooks stay for good: one is enough

    def refuse(number: int, below: object) -> None:
        _REFUSE["now"] = number, os.path.realpath(str(below))

    yield refuse
    _REFUSE.clear()


COMMANDS = {
    "prove": ("prove", 1, "-l", "ledger", "-o", "out/1.proof"),
    "consistency": ("prove", "--consistency", 4, 5, "-l", "ledger", "-o", "out/c.proof"),
    "bundle pack": ("bundle", "pack", "ledger", "--out", "out/p.tar"),
    "export": ("export", "ledger", "--dsse", "-k", "other.pem", "--entries", "4", "-o", "out/e.jsonl"),
    "tiles": ("tiles", "ledger", "--out", "out/mirror"),
    "trust init": ("trust", "init", "ledger", "--root-key", "root.pub.pem", "--out", "out/trust.toml"),
    "trust init, replaced": ("trust", "init", "ledger", "--root-key", "root.pub.pem", "--out", "out/t.toml",
                             "--replace"),
    "key propose": ("key", "revoke", "judge", "-l", "ledger", "--propose", "out/p.json"),
    "key endorse": ("key", "endorse", "out/ready.json", "-k", "root.pem"),
    "keygen": ("keygen", "out/k.pem"),
    "init": ("init", "out/new", "--origin", "example.org/x", "-k", "root.pem"),
    "index": ("index", "-l", "out/ledger"),
    "index, rebuilt": ("index", "-l", "out/ledger", "--rebuild"),
    "append": ("append", "note", "-b", "note.json", "-k", "judge.pem", "-l", "out/ledger"),
    "checkpoint": ("checkpoint", "-k", "log.pem", "-l", "out/ledger"),
    "witness init": ("witness", "init", "out/w", "--name", "w.example/1", "-k", "other.pem"),
    "timestamp request": ("timestamp", "request", "ledger", "--out", "out/t.tsq"),
    "memory": ("verify", "ledger", "--memory", "out/seen"),
}  # fmt: skip
OF_A_LEDGER = {"append", "checkpoint", "index", "index, rebuilt"}


@pytest.fixture
def place(run, ledger, tmp_path):
    """A ledger with two heads, and a folder `out` with what commands write over."""
    (tmp_path / "note.json").write_text('{"text": "x"}')
    assert run("keygen", "other.pem").code == 0
    for _ in range(2):
        assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
        append_notes_with(run, "more")
    assert run("checkpoint", "-l", "ledger", "-k", "log.pem").code == 0
    append_notes_with(run, "more")
    out = tmp_path / "out"
    out.mkdir()
    assert run("key", "revoke", "judge", "-l", "ledger", "--propose", "out/ready.json").code == 0
    assert run("trust", "init", "ledger", "--root-key", "root.pub.pem", "--out", "out/t.toml").code == 0
    import shutil

    shutil.copytree(ledger, out / "ledger")
    return out


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES], ids=lambda n: errno.errorcode[n])
def test_a_place_that_cannot_be_written_is_named_with_its_cause_and_a_cure(run, place, refuse, name, number):
    refuse(number, place)
    done = run(*COMMANDS[name])
    code = {errno.ENOSPC: "DISK-FULL", errno.EROFS: "READ-ONLY", errno.EACCES: "ACCESS-DENIED"}[number]
    assert done.code == 3, (done.out, done.err)
    assert (done.err.count("error:"), done.err.count(f"[K3L-{code}]")) == (1, 1), done.err
    cure = done.err.partition("hint: ")[2]
    assert cure
    assert "check the path and its permissions" not in cure
    assert ("free space" in cure) == (number == errno.ENOSPC)
    if name not in OF_A_LEDGER:
        assert "original" not in cure
        assert "ledger directory" not in cure
    assert (done.out.count("verified, and could not be remembered (exit code 3)") == 1) == (name == "memory")


WITH_ROOM_FOR_NONE = [
    name
    for name in COMMANDS
    # The first three leave directories; SQLite calls this limit an I/O error, and a full disk a full disk.
    if name not in ("tiles", "init", "witness init", "index", "index, rebuilt")
]


@pytest.mark.parametrize("name", WITH_ROOM_FOR_NONE)
def test_a_disk_that_fills_up_while_a_file_is_written_is_called_full(run, place, name):
    """The system itself refuses each write: the limit of a file's size is 0 bytes."""
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        done = run(*COMMANDS[name])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (done.code, done.err.count("[K3L-DISK-FULL]")) == (3, 1), done.err
    left = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    assert {path: data for path, data in left.items() if "index" not in path.name} == {
        path: data for path, data in before.items() if "index" not in path.name
    }


def test_what_is_no_matter_of_the_disk_keeps_its_code_and_gets_a_cure(run, place):
    done = run("prove", 1, "-l", "ledger", "-o", "nowhere/1.proof")
    assert (done.code, "[K3L-UNREADABLE]" in done.err, "make the directory first" in done.err) == (3, True, True)


def test_a_memory_on_a_read_only_disk_keeps_its_own_cure(run, place, refuse):
    refuse(errno.EROFS, place)
    assert "choose a --memory file" in run(*COMMANDS["memory"]).err
    refuse(errno.ENOSPC, place)
    assert "choose a --memory file" not in run(*COMMANDS["memory"]).err


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS], ids=lambda n: errno.errorcode[n])
def test_a_refusal_that_no_command_expects_is_named_all_the_same(run, place, monkeypatch, number):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "somewhere")

    monkeypatch.setattr("k3_ledger.cli.proofs._write", refuse)
    done = run(*COMMANDS["prove"])
    code = {errno.ENOSPC: "DISK-FULL", errno.EROFS: "READ-ONLY"}[number]
    assert (done.code, done.err.count(f"[K3L-{code}]")) == (3, 1)


def test_a_verdict_is_false_whether_or_not_its_evidence_can_be_kept(run, place, refuse):
    import shutil

    shutil.copytree("ledger", "cut")
    assert run("verify", "ledger", "--memory", "out/seen").code == 0
    shutil.rmtree("cut/checkpoints")
    log = place.parent / "cut" / "ledger.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-3]))
    refuse(errno.ENOSPC, place)
    done = run("verify", "cut", "--memory", "out/seen")
    assert (done.code, done.err.count("[K3L-DISK-FULL]")) == (1, 1)
    assert "NOT VERIFIED (exit code 1)" in done.out
