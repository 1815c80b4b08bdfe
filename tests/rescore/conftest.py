"""Runs a command the way a person does."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import k3_ledger.cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.out)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Done]:
    """``command("rules", "list")`` in a scratch folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["k3-ledger", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            k3_ledger.cli.main()
        out, err = capsys.readouterr()
        code = caught.value.code
        assert code is None or isinstance(code, int)
        return Done(code or 0, out, err)

    return run
