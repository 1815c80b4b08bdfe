"""Runs a command the way a person does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Done]:
    """``command("rules", "list")`` in a scratch folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return runner(monkeypatch, capsys)
