"""No tile and no request for a timestamp is made of a head that does not verify, and of every other one as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.writer import heads, state, tiles
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, Key, key_body, sign_head, small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LATER, STRANGER, WITNESS = Key("later"), Key("stranger"), Key("witness")
COMMANDS: dict[str, tuple[str, ...]] = {
    "tiles": ("tiles", "ledger"),
    "tiles elsewhere": ("tiles", "ledger", "--out", "mirror"),
    "timestamp request": ("timestamp", "request", "ledger", "--out", "request.tsq"),
}
Made = tuple[Builder, bytes]


def _signed(signer: Key, size: int | None = None, **options: Any) -> Made:
    ledger = small_ledger()
    return ledger, sign_head(ledger.lines[:size], signer, **options)


def _then(*actions: tuple[Key, dict[str, Any]], size: int | None = None, by: Key = LOG) -> Made:
    """Some actions on log keys behind six runs, and a head of so many entries."""
    ledger = small_ledger()
    for key, more in actions:
        ledger.act("key", key_body(key, "log", **more), ROOT)
    ledger.runs(2)
    return ledger, sign_head(ledger.lines[:size], by)


def _elsewhere(size: int | None = None) -> Made:
    """A head over other content: one receipt is another."""
    ledger, other = small_ledger(), Builder().open().runs(5)
    other.add("note", {"text": "x", "artifacts": []}, RUNNER)
    return ledger, sign_head(other.lines[:size])


def _flipped() -> Made:
    ledger, head = _signed(LOG)
    at = head.index("\u2014".encode()) + 30
    return ledger, head[:at] + (b"A" if head[at : at + 1] != b"A" else b"B") + head[at + 1 :]


def _cut() -> Made:
    ledger, head = _signed(LOG)
    ledger.lines[2:] = []  # the entry that enrols the log key is left
    return ledger, head


def _cut_to_genesis() -> Made:
    ledger, head = _signed(LOG)
    ledger.lines[1:] = []
    return ledger, head


REVOKED: dict[str, Any] = {"action": "revoke"}
BAD: dict[str, tuple[Callable[[], Made], Code]] = {
    "by a key that nobody enrolled": (lambda: _signed(STRANGER), Code.NOTE_UNSIGNED),
    "by a key of another role": (lambda: _signed(JUDGE), Code.NOTE_UNSIGNED),
    "by the root key": (lambda: _signed(ROOT), Code.NOTE_UNSIGNED),
    "with a changed signature": (_flipped, Code.NOTE_SIGNATURE),
    "of another log": (lambda: _signed(LOG, origin="example.org/other"), Code.NOTE_UNSIGNED),
    "by a key that was retired before": (lambda: _then((LOG, REVOKED)), Code.CHECKPOINT_SIGNATURE),
    "by a key that was enrolled later": (lambda: _then((LATER, {}), size=8, by=LATER), Code.CHECKPOINT_SIGNATURE),
    "by a key that a revocation took back": (
        lambda: _then((LOG, REVOKED | {"revoked_from": 6}), size=9),
        Code.CHECKPOINT_SIGNATURE,
    ),
    "over other content": (_elsewhere, Code.CHECKPOINT_ROOT),
    "over more than is left": (_cut, Code.CHECKPOINT_AHEAD),
    "over more than genesis, which is left": (_cut_to_genesis, Code.CHECKPOINT_AHEAD),
}
GOOD: dict[str, Callable[[], Made]] = {
    "of the whole log": lambda: _signed(LOG),
    "of its beginning": lambda: _signed(LOG, 7),
    "over other content behind it": lambda: _elsewhere(9),
    "by a key that was retired behind it": lambda: _then((LOG, REVOKED), size=10),
    "by a key that was rotated in": lambda: _then((LATER, {"action": "rotate", "replaces": LOG.id}), by=LATER),
    "below what a revocation took back": lambda: _then((LOG, REVOKED | {"revoked_from": 9}), size=9),
}


def lay_out(folder: Path, made: Made, **kept: bytes) -> None:
    ledger, head = made
    (folder / "ledger" / "checkpoints").mkdir(parents=True)
    (folder / "ledger" / "ledger.jsonl").write_bytes(ledger.data)
    (folder / "ledger" / "checkpoint").write_bytes(head)
    for size, note in kept.items():
        (folder / "ledger" / "checkpoints" / f"{int(size[1:]):012d}.note").write_bytes(note)


def made_by(command: str, folder: Path) -> bool:
    return {
        "tiles": folder / "ledger" / "tile",
        "tiles elsewhere": folder / "mirror" / "checkpoint",
        "timestamp request": folder / "request.tsq",
    }[command].exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", BAD)
def test_a_head_that_does_not_verify_is_not_passed_on(what: str, command: str, run: Any, tmp_path: Path) -> None:
    make, code = BAD[what]
    lay_out(tmp_path, make())
    assert run("verify", "ledger", "--processes", "1").code == 1
    done = run(*COMMANDS[command])
    assert (done.code, done.err.count("error:"), made_by(command, tmp_path)) == (1, 1, False), done.err
    assert code.id in done.err
    assert not done.out


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("what", GOOD)
def test_a_good_head_is_passed_on_whatever_stands_behind_it(
    what: str, torn: bool, command: str, run: Any, tmp_path: Path
) -> None:
    lay_out(tmp_path, GOOD[what]())
    assert run("verify", "ledger", "--processes", "1").code == 0
    if torn:
        with (tmp_path / "ledger" / "ledger.jsonl").open("ab") as log:
            log.write(b'{"entry":{"bo')
    done = run(*COMMANDS[command])
    assert (done.code, made_by(command, tmp_path)) == (0, True), done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_kept_heads_are_held_to_the_same_where_they_are_published(command: str, run: Any, tmp_path: Path) -> None:
    """A request for a timestamp has no use for them."""
    _, foreign = _signed(STRANGER, 8)
    _, other = _elsewhere(10)
    for name, kept in (("unsigned", foreign), ("another", other)):
        folder = tmp_path / name
        made = _then(size=11)
        lay_out(folder, made, **({"n8": kept} if name == "unsigned" else {"n10": kept}))
        words = [
            str(folder / word) if word in {"ledger", "mirror", "request.tsq"} else word for word in COMMANDS[command]
        ]
        done = run(*words)
        expected = 0 if command == "timestamp request" else 1
        assert (done.code, made_by(command, folder)) == (expected, not expected), done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_kept_head_that_a_revocation_took_back_keeps_nobody_from_publishing(
    command: str, run: Any, tmp_path: Path
) -> None:
    """As it keeps nobody from signing: it vouches for nothing, and a reader is told so."""
    made = _then((LATER, {}), (LOG, REVOKED | {"revoked_from": 6}), by=LATER)
    ledger, _ = made
    lay_out(tmp_path, made, n9=sign_head(ledger.lines[:9]))
    assert run("verify", "ledger", "--processes", "1").code == 0
    done = run(*COMMANDS[command])
    assert (done.code, made_by(command, tmp_path)) == (0, True), done.err


@pytest.mark.parametrize("command", ["tiles elsewhere", "timestamp request"])
def test_a_log_that_is_cut_while_it_is_read_is_passed_on_by_nobody(
    command: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, _signed(LOG))
    for module in (heads, tiles):
        monkeypatch.setattr(module, "first_lines", lambda ledger, *_: ledger.log_path.read_bytes().split(b"\n")[:7])
    done = run(*COMMANDS[command])
    assert (done.code, made_by(command, tmp_path)) == (1, False)
    assert Code.CHECKPOINT_AHEAD.id in done.err


def test_the_first_lines_of_a_log_are_read_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = small_ledger()
    (tmp_path / "ledger.jsonl").write_bytes(ledger.data)
    monkeypatch.setattr(state, "BLOCK", 4096)
    for count in (1, 7, 10, 99):
        lines = list(heads.first_lines(Ledger.open(tmp_path), count))
        assert lines == [line[:-1] for line in ledger.lines[:count]]
