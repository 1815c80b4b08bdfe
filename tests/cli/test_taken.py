"""What a command writes takes nothing's place unless it is told to, and what is named and not there is exit code 2."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

import pytest
import typer

from k3_ledger.cli.files import check_vacant, replace_file
from k3_ledger.schemas.errors import StoreError

WRITING: dict[str, tuple[str, ...]] = {
    "prove": ("prove", "1", "-l", "ledger", "-o", "made"),
    "prove --consistency": ("prove", "--consistency", "4", "5", "-l", "ledger", "-o", "made"),
    "export": ("export", "ledger", "--dsse", "-k", "spare.pem", "-o", "made"),
    "bundle pack": ("bundle", "pack", "ledger", "-o", "made"),
    "timestamp request": ("timestamp", "request", "ledger", "-o", "made"),
    "frontier": ("frontier", "ledger", "--picture", "made.svg"),
}


@pytest.fixture
def signed(run, ledger):
    head = ("checkpoint", "-k", "log.pem", "-l", "ledger")
    assert run(*head).code == 0
    assert run("append", "note", "-b", "-", "-k", "judge.pem", "-l", "ledger", stdin=b'{"text":"x"}').code == 0
    assert run(*head).code == 0
    return ledger


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("kind", ["file", "link to nowhere"])
def test_nothing_is_overwritten_by_accident(run, signed, tmp_path, name, kind) -> None:
    target = tmp_path / WRITING[name][-1]
    if kind == "file":
        target.write_bytes(b"mine")
    else:
        target.symlink_to("nowhere")
    done = run(*WRITING[name])
    assert (done.code, done.out) == (2, "")
    assert f"{target.name} exists already; --replace writes in its place" in " ".join(done.err.split())
    assert kind != "file" or target.read_bytes() == b"mine"
    assert kind != "link to nowhere" or (target.is_symlink() and not (tmp_path / "nowhere").exists())


@pytest.mark.parametrize("name", [name for name in WRITING if name != "frontier"])
def test_what_is_there_is_replaced_when_that_is_asked_for(run, signed, tmp_path, name) -> None:
    (tmp_path / "made").write_bytes(b"mine")
    assert run(*WRITING[name], "--replace").code == 0
    assert (tmp_path / "made").read_bytes() != b"mine"


def _device(path):
    with contextlib.suppress(PermissionError):  # only root makes one
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def _socket(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(path.name)


IRREGULAR = {
    "named pipe": os.mkfifo,
    "folder": os.mkdir,
    "folder with files": lambda path: (path.mkdir(), (path / "inner").touch()),
    "socket": _socket,
    "device": _device,
}


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
def test_only_regular_files_are_ever_replaced(run, signed, tmp_path, name, linked) -> None:
    """A device that a file is renamed over is gone for everybody."""
    target = tmp_path / WRITING[name][-1]
    for kind, make in IRREGULAR.items():
        there = tmp_path / kind if linked else target
        make(there)
        if not there.exists():
            continue
        if linked:
            target.symlink_to(there)
        before, names = there.lstat(), sorted(path.name for path in tmp_path.iterdir())
        for asked in ((), ("--replace",)):
            done = run(*WRITING[name], *asked)
            assert (done.code, done.out) == (2, ""), kind
            assert f"{target.name} is no regular file" in " ".join(done.err.split())
            assert (there.lstat().st_ino, there.lstat().st_mode) == (before.st_ino, before.st_mode)
            assert sorted(path.name for path in tmp_path.iterdir()) == names
        target.rename(tmp_path / f"{kind} that was tried")


@pytest.mark.parametrize("name", WRITING)
def test_a_descriptor_is_no_place_for_a_file_whatever_is_open_there(run, signed, tmp_path, name) -> None:
    """``-o /dev/stdout --replace > file`` by root took ``/dev/stdout`` away from everybody."""
    target, kept = tmp_path / WRITING[name][-1], tmp_path / "kept"
    kept.write_bytes(b"mine")
    with kept.open() as opened:
        (tmp_path / "stdout").symlink_to(f"/proc/self/fd/{opened.fileno()}")
        target.symlink_to("stdout")
        for asked in ((), ("--replace",)):
            done = run(*WRITING[name], *asked)
            assert (done.code, done.out) == (2, "")
            assert f"{target.name} is no regular file" in " ".join(done.err.split())
            assert target.is_symlink()
            assert (tmp_path / "stdout").is_symlink()
    assert kept.read_bytes() == b"mine"


def test_links_in_a_circle_lead_to_no_descriptor(tmp_path) -> None:
    (tmp_path / "made").symlink_to("made")
    check_vacant(tmp_path / "made", replace=True)
    with pytest.raises(typer.BadParameter, match="exists already"):
        check_vacant(tmp_path / "made", replace=False)


@pytest.mark.parametrize("kind", IRREGULAR)
def test_small_files_are_put_in_the_place_of_regular_ones_alone(tmp_path, kind, monkeypatch) -> None:
    """Policies, bundles, memories and endorsed proposals are written by this."""
    monkeypatch.chdir(tmp_path)
    target = tmp_path / "made"
    IRREGULAR[kind](target)
    if target.exists():
        before = target.lstat()
        with pytest.raises(StoreError, match="not a regular file"):
            replace_file(target, b"mine")
        assert (target.lstat().st_ino, target.lstat().st_mode) == (before.st_ino, before.st_mode)
        assert [path.name for path in tmp_path.iterdir()] == ["made"]
    control = tmp_path / "control"
    for data in (b"first", b"second"):
        replace_file(control, data)
        assert control.read_bytes() == data


def test_a_proof_without_a_name_is_not_overwritten_either(run, signed) -> None:
    assert run("prove", "1", "-l", "ledger").code == 0
    assert run("prove", "1", "-l", "ledger").code == 2


MISSING: dict[str, tuple[tuple[str, ...], str]] = {
    "entry to show": (("show", "99", "-l", "ledger"), "K3L-NO-SUCH-ENTRY"),
    "entry to prove": (("prove", "99", "-l", "ledger"), "K3L-NO-SUCH-ENTRY"),
    "entry to pack": (("bundle", "pack", "ledger", "--entries", "99", "-o", "made"), "K3L-NO-SUCH-ENTRY"),
    "entry to export": (
        ("export", "ledger", "--dsse", "-k", "spare.pem", "--entries", "99", "-o", "made"), "K3L-NO-SUCH-ENTRY",
    ),
    "key to revoke": (("key", "revoke", "bogus", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "key to rotate": (("key", "rotate", "bogus", "spare.pub.pem", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "key of another ledger": (("key", "revoke", "spare.pub.pem", "-k", "root.pem", "-l", "ledger"), "K3L-NO-SUCH-KEY"),
    "head to lead to": (("prove", "1", "--head", "3", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "older head": (("prove", "--consistency", "1", "5", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "newer head": (("prove", "--consistency", "4", "9", "-l", "ledger"), "K3L-NO-SUCH-HEAD"),
    "rule": (("rules", "show", "bogus"), "K3L-RULE-UNKNOWN"),
    "kind": (("ls", "--kind", "bogus", "-l", "ledger"), "'bogus' is not one of"),
    "step": (("verify", "ledger", "--require", "bogus"), "unknown step 'bogus'"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISSING)
def test_what_is_named_and_not_there_is_a_usage_error(run, signed, tmp_path, name) -> None:
    words, says = MISSING[name]
    size = (signed / "ledger.jsonl").stat().st_size
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert (signed / "ledger.jsonl").stat().st_size == size
    assert not (tmp_path / "made").exists()
