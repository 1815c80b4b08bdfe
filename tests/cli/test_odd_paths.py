"""What is no file, what may not be read, output that nobody takes: one clear error, never the code of a verdict."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ledgers import small_ledger
from tests.support import plain_environment

COMMAND = (sys.executable, "-m", "k3_ledger.cli")
READERS = {
    "verify": ("verify", "it"),
    "ls": ("ls", "-l", "it"),
    "show": ("show", "0", "-l", "it"),
    "prove": ("prove", "0", "-l", "it"),
    "trust init": ("trust", "init", "it"),
    "key ls": ("key", "ls", "-l", "it"),
    "recover": ("recover", "-l", "it"),
    "rescore": ("rescore", "it", "--rule", "v0.2.1"),
    "reconcile": ("reconcile", "it"),
    "audit": ("audit", "polaris", "it"),
}


@pytest.fixture
def speed(run, tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    return small_ledger().write(folder)


def one_error(done) -> str:
    """The one error line of a command that gave no verdict."""
    assert done.code in (2, 3), done
    text = done.out + done.err
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    assert "hint: " in text
    assert "output is incomplete" not in text
    return lines[0]


@pytest.mark.parametrize("kind", ["missing", "dangling", "loop", "pipe", "socket", "null", "endless", "empty folder"])
@pytest.mark.parametrize("command", READERS)
def test_what_is_no_ledger_is_one_clear_error(run, speed, tmp_path, command, kind):
    it = tmp_path / "it"
    if kind == "dangling":
        it.symlink_to("nowhere")
    elif kind == "loop":
        it.symlink_to("that")
        (tmp_path / "that").symlink_to("it")
    elif kind == "pipe":
        os.mkfifo(it)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(it))
    elif kind in ("null", "endless"):
        it.symlink_to("/dev/null" if kind == "null" else "/dev/zero")
    elif kind == "empty folder":
        it.mkdir()
    one_error(run(*READERS[command]))


@pytest.mark.parametrize("command", READERS)
def test_a_name_that_no_file_can_have_is_one_clear_error(run, speed, command):
    name = "x" * 300
    error = one_error(run(*(name if word == "it" else word for word in READERS[command])))
    assert "File name too long" in error or "x" * 100 in error


class Refusing:
    """Refuses one path and what is below it: whoever runs the tests may be allowed everything by the system."""

    def __init__(self, target: Path, *, itself: bool) -> None:
        self.target, self.itself = target, itself

    def guard(self, real, *, listing: bool):
        def call(path, *args, **more):
            full = Path(os.fspath(path)).absolute() if isinstance(path, str | os.PathLike) else None
            if full is not None and (self.target in full.parents or (full == self.target and (listing or self.itself))):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *args, **more)

        return call


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_may_not_be_read_is_one_clear_error(run, tmp_path, monkeypatch, command, what):
    (tmp_path / "it").mkdir()
    small_ledger().write(tmp_path / "it")
    target = tmp_path / "it" if what == "folder" else tmp_path / "it" / "ledger.jsonl"
    refusing = Refusing(target, itself=what == "file")
    monkeypatch.setattr(os, "open", refusing.guard(os.open, listing=False))
    monkeypatch.setattr(io, "open", refusing.guard(io.open, listing=False))
    monkeypatch.setattr(os, "listdir", refusing.guard(os.listdir, listing=True))
    if what == "folder":
        monkeypatch.setattr(os, "stat", refusing.guard(os.stat, listing=False))
    done = run(*READERS[command])
    one_error(done)
    assert "Permission denied" in done.out + done.err


def begun(*words: str, cwd: Path, **more) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *words], cwd=cwd, env=plain_environment(), **more)


@pytest.mark.parametrize(
    "words", [("verify", "speed"), ("verify", "speed", "--json"), ("--help",), ("verify", "--help")]
)
def test_output_that_nobody_reads_is_no_verdict_and_no_noise(speed, tmp_path, words):
    reading, writing = os.pipe()
    os.close(reading)
    process = begun(*words, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    _, err = process.communicate()
    assert (process.returncode, err) == (3, b"")


def test_output_without_room_is_no_verdict(speed, tmp_path):
    with Path("/dev/full").open("wb") as full:
        process = begun("verify", "speed", cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate()
    assert (process.returncode, err.count(b"error: "), b"No space left" in err) == (3, 1, True)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_stream_that_is_closed_from_the_start_makes_nothing_false(speed, tmp_path, number):
    for damaged in (False, True):
        if damaged:
            log = speed / "ledger.jsonl"
            log.write_bytes(log.read_bytes().replace(b'"count":10', b'"count":11', 1))
        shell = f'exec "$@" {number}>&-' if number else 'exec "$@" <&-'
        done = subprocess.run(
            ["sh", "-c", shell, "sh", *COMMAND, "verify", "speed"],
            cwd=tmp_path, env=plain_environment(), capture_output=True, check=False,
        )  # fmt: skip
        unread = 3 if number == 1 else 0  # a report that nobody takes is no pass, and false stays false
        assert done.returncode == (1 if damaged else unread), done
        assert b"Traceback" not in done.stderr


def test_a_body_from_a_closed_stream_is_one_clear_error(run, ledger, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    from k3_ledger.cli.store import _read_body
    from k3_ledger.schemas.errors import StoreError

    with pytest.raises(StoreError, match="stdin"):
        _read_body("-")
