"""Whole commands, run as a person would: words in, words and an exit code out."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import k3_ledger.cli

if TYPE_CHECKING:
    from collections.abc import Callable


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as JSON."""
        return json.loads(self.out)


def runner(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """``run("ls", "-l", "ledger")`` in this process and folder: exit code, stdout, stderr."""

    def fall(error: Exception) -> int:
        raise error  # a fault of the program passes for no exit code here

    monkeypatch.setattr(k3_ledger.cli, "unforeseen", fall)

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
