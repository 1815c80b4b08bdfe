"""Whole commands, run as a person would: words in, words and an exit code out."""

from __future__ import annotations

import io
import json
import sys
from typing import Any, NamedTuple

import pytest

import k3_ledger.cli
from tests.ledger.writer.support import TIME


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """``run("ls", "-l", "ledger")`` in a scratch folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["k3-ledger", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            k3_ledger.cli.main()
        out, err = capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return Done(code or 0, out, err)

    return run


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
