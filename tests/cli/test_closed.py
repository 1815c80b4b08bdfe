"""Streams that were closed before the program began, and what the environment says in the place of a command."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CLOSED = [(1,), (0, 1), (1, 2), (0, 1, 2)]


def ended(folder: Path, words: list[str], *, closed: tuple[int, ...]) -> tuple[int, str]:
    """(exit code, stderr) of a command that a shell starts with streams closed."""
    redirected = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in closed)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "k3_ledger.cli", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("closed", CLOSED, ids=str)
@pytest.mark.parametrize(
    "words",
    [["verify", "ledger"], ["verify", "ledger", "--json"], ["ls", "-l", "ledger"], ["--version"], ["-h"]],
    ids=" ".join,
)
def test_a_report_that_nobody_takes_is_no_pass(ledger, tmp_path, words, closed):
    assert ended(tmp_path, words, closed=())[0] == 0
    status, said = ended(tmp_path, words, closed=closed)
    assert status == 3
    assert "Traceback" not in said
    assert ("the output could not be written" in said) == (2 not in closed)


@pytest.mark.parametrize("closed", CLOSED, ids=str)
def test_false_stays_false_and_what_was_done_stays_done(ledger, tmp_path, closed):
    log = ledger / "ledger.jsonl"
    (tmp_path / "note.json").write_text('{"text": "x"}')
    before = log.read_bytes()
    words = ["append", "note", "-b", "note.json", "-l", "ledger", "-k", "judge.pem"]
    assert ended(tmp_path, words, closed=closed)[0] == 0
    after = log.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == before.count(b"\n") + 1, (
        "the streams' numbers are nobody's: nothing is said into the log"
    )
    log.write_bytes(after.replace(b'"index":2', b'"index":9', 1))
    assert ended(tmp_path, ["verify", "ledger"], closed=closed)[0] == 1


@pytest.mark.parametrize("closed", [(0,), (2,), (0, 2)], ids=str)
def test_a_verdict_needs_neither_stdin_nor_stderr(ledger, tmp_path, closed):
    assert ended(tmp_path, ["verify", "ledger"], closed=closed)[0] == 0


def installed(folder: Path, *words: str, **environment: str) -> int:
    """Exit code of the command under the name by which it is installed."""
    program = "import sys; sys.argv[0] = 'k3-ledger'; from k3_ledger.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, check=False,
    ).returncode  # fmt: skip


@pytest.mark.parametrize("value", ["x", "bash_source", "zsh_complete", "complete_bash", "source_fish"])
def test_no_variable_of_a_completion_stands_in_the_place_of_a_verdict(ledger, tmp_path, value):
    assert installed(tmp_path, "verify", "ledger", _K3_LEDGER_COMPLETE=value) == 0
    (ledger / "ledger.jsonl").write_bytes((ledger / "ledger.jsonl").read_bytes().replace(b'"index":2', b'"index":9', 1))
    assert installed(tmp_path, "verify", "ledger", _K3_LEDGER_COMPLETE=value) == 1
    assert installed(tmp_path, "verify", "nothing", _K3_LEDGER_COMPLETE=value) == 3


WEAK = ["00" * 32, "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "ff" * 32, "ed" + "ff" * 30 + "7f"]
"""Keys that no signature is accepted from: of low order, and spelled otherwise than a point is."""


@pytest.mark.parametrize("key", WEAK)
def test_a_readers_own_bad_key_is_nothing_against_the_log(run, ledger, key):
    for words in (("verify", "ledger", "--root-key", key), ("audit", "polaris", "ledger", "--public-key", key)):
        done = run(*words)
        assert done.code == 2, (words, done)
        assert "no signature is accepted from such a key" in " ".join(done.err.replace("│", " ").split())
    assert run("verify", "ledger").code == 0
