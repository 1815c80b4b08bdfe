"""Whole commands, run as a person would: words in, words and an exit code out."""

from __future__ import annotations

import pytest

from tests.commands import runner
from tests.ledger.writer.support import TIME


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """``run("ls", "-l", "ledger")`` in a scratch folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)


@pytest.fixture
def keys(run):
    done = run("keygen", "root.pem", "log.pem", "runner.pem", "judge.pem", "spare.pem", "--json")
    assert done.code == 0
    return {key["path"].removesuffix(".pem"): key for key in done.json["keys"]}


@pytest.fixture
def ledger(run, keys, tmp_path):
    enrol = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
    done = run("init", "ledger", "--origin", "example.org/bench", "-k", "root.pem", *enrol, "--time", TIME)
    assert done.code == 0
    return tmp_path / "ledger"
