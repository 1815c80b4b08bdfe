"""Where the words of a command cannot be written, its exit code still says what happened."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import k3_ledger.cli
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full, a device that is always full")


def code(folder: Path, *words: str, out: bool = False, err: bool = False) -> int:
    """Exit code of a command whose output or diagnostics, or both, go to a full disk."""
    with FULL.open("wb") as full:
        return subprocess.run(
            [sys.executable, "-m", "k3_ledger.cli", *words],
            cwd=folder, stdin=subprocess.DEVNULL, check=False,
            stdout=full if out else subprocess.DEVNULL, stderr=full if err else subprocess.DEVNULL,
        ).returncode  # fmt: skip


def test_refusal_keeps_its_exit_code_where_its_words_cannot_be_written(run, ledger, tmp_path):
    append = ("append", "note", "-b", "note.json", "-l", "ledger")
    (tmp_path / "note.json").write_text('{"text": "x"}')
    (tmp_path / "open.pem").write_bytes((tmp_path / "judge.pem").read_bytes())
    (tmp_path / "open.pem").chmod(0o644)
    with (ledger / "ledger.jsonl").open("ab") as log:
        log.write(b'{"entry":{"bod')
    for words, wanted in (
        (("verify", "nothing"), 3),
        ((*append, "-k", "judge.pem"), 5),  # a torn tail
        ((*append, "-k", "open.pem"), 2),  # a key that others can read
    ):
        assert run(*words).code == wanted
        assert code(tmp_path, *words, err=True) == wanted
        assert code(tmp_path, *words, err=True, out=True) == wanted


def test_no_report_is_no_pass_and_no_accusation(run, ledger, tmp_path):
    assert run("verify", "ledger").code == 0
    assert code(tmp_path, "verify", "ledger") == 0
    for err in (False, True):
        assert code(tmp_path, "verify", "ledger", out=True, err=err) == 3


def test_an_error_is_told_where_the_words_about_it_cannot_be_read_any_more(monkeypatch, capsys):
    """They are modules of this package, and the disk that they stand on may be the one that fails."""

    def gone(code: Code) -> None:
        raise OSError(5, "")

    monkeypatch.setattr(Code, "info", property(gone))
    assert k3_ledger.cli.fail(LedgerError(Code.UNREADABLE, "no such file: nothing")) == 3
    assert capsys.readouterr().err.splitlines() == [
        "error: no such file: nothing [K3L-UNREADABLE]",
        "hint: check the disk before anything else",
    ]
