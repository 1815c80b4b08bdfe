"""What may stand in the place of a signed head, before every command that works on a ledger.

A pipe, a device, a directory, a link to nowhere or to itself, a file without an end: none of them hangs a command,
fills its memory, or passes for a head that is not there.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.ledger.writer.support import TIME, bundle_body, write_bundle
from tests.verify.polaris import make_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NEVER_S = 60
"""No command takes that long: a safety net, so that a regression is a failure and not a test run that never ends."""


def _endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)  # more than any memory: whoever reads it whole gets a MemoryError


THINGS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a file without an end": _endless,
}
NOTE = ("append", "note", "--body", "note.json", "-k", "judge.pem", "-l", "ledger")
ROOT = ("-k", "root.pem", "-l", "ledger")
REFUSING: dict[str, tuple[object, ...]] = {
    "append": NOTE,
    "seal": ("seal", "bundle", "-k", "runner.pem", "-l", "ledger"),
    "import": ("import", "polaris", "log", "-k", "log.pem", "--into", "ledger"),
    "checkpoint": ("checkpoint", "-k", "log.pem", "-l", "ledger"),
    "recover": ("recover", "-l", "ledger"),
    "tiles": ("tiles", "ledger"),
    "tiles elsewhere": ("tiles", "ledger", "--out", "mirror"),
    "key enrol": ("key", "enrol", "judge", "spare.pub.pem", *ROOT),
    "key rotate": ("key", "rotate", "judge", "spare.pub.pem", *ROOT),
    "key revoke": ("key", "revoke", "judge", *ROOT),
    "key threshold": ("key", "threshold", "1", *ROOT),
    "timestamp request": ("timestamp", "request", "ledger", "--out", "request.tsq", "--replace"),
    "cosign": ("cosign", "-l", "ledger", "--witness", "KEY=http://127.0.0.1:9/"),
    "witness cosign": ("witness", "cosign", "ledger", "--state", "witness", "-k", "spare.pem", "--keep"),
    "bundle pack": ("bundle", "pack", "ledger", "--out", "all.tar"),
    "export": ("export", "ledger", "--dsse", "--out", "out.dsse", "-k", "spare.pem"),
    "prove": ("prove", "1", "--ledger", "ledger", "--out", "one.proof", "--replace"),
    "rescore --seal": ("rescore", "ledger", "--rule", "house-1.decode", "--seal", "judge.pem", "--processes", "1"),
    "reconcile": ("reconcile", "ledger", "--processes", "1"),
    "verify": ("verify", "ledger", "--processes", "1"),
}
UNCONCERNED = {
    "index": ("index", "-l", "ledger"),
    "ls": ("ls", "-l", "ledger"),
    "show": ("show", "0", "-l", "ledger"),
    "key ls": ("key", "ls", "-l", "ledger"),
}
"""Commands that have no use for heads."""
COMMANDS = REFUSING | UNCONCERNED
PLACES = ("checkpoint", "checkpoints/000000000005.note", "checkpoints")
ONLY_NEWEST = {"timestamp request", "prove"}
"""Commands that need the newest head and no other."""


@pytest.fixture
def signed(run, ledger, tmp_path) -> Path:
    """A signed ledger of which every command has what it asks for."""
    (tmp_path / "note.json").write_text('{"text": "x"}')
    assert run(*NOTE, "--time", TIME).code == 0
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    write_bundle(tmp_path / "bundle", {}, body=bundle_body([]))
    for name, data in make_log.build(make_log.draft()).items():
        path = tmp_path / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    made = run("witness", "init", "witness", "--name", "witness.example/w", "-k", "spare.pem", "--json").json
    (tmp_path / "KEY").write_text(made["verifier_key"])
    assert run("witness", "add-log", "example.org/bench", "log.pub.pem", "--state", "witness").code == 0
    return ledger


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def cells(signed: Path) -> Iterator[tuple[Path, str]]:
    """Put every thing into every place, one after the other."""
    whole = signed.with_name("whole")
    signed.rename(whole)
    for name in PLACES:
        for thing, make in THINGS.items():
            if (name, thing) == ("checkpoints", "a folder"):
                continue
            shutil.copytree(whole, signed)
            target = signed / name
            shutil.rmtree(target) if target.is_dir() else target.unlink()
            make(target)
            yield target, thing
            shutil.rmtree(signed)


@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_stands_in_a_heads_place_is_named_and_stops_what_needs_the_head(run, signed, tmp_path, command):
    words = [str(word).replace("KEY", (tmp_path / "KEY").read_text()) for word in COMMANDS[command]]
    log = (signed / "ledger.jsonl").read_bytes()
    seen = 0
    for target, thing in cells(signed):
        with no_longer_than(NEVER_S):
            done = run(*words)
        said, seen = done.out + done.err, seen + 1
        if command in UNCONCERNED or (command in ONLY_NEWEST and target.name != "checkpoint"):
            assert done.code == 0, (target.name, thing, said)
        else:
            assert done.code == 3, (target.name, thing, said)
            assert f"{target.name}: " in said, (target.name, thing, said)
            assert "[K3L-CHECKPOINT-UNREADABLE]" in said, (target.name, thing, said)
            assert "Traceback" not in said
        assert (signed / "ledger.jsonl").read_bytes() == log
    assert seen == len(PLACES) * len(THINGS) - 1
