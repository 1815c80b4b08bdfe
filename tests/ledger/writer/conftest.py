"""Fixtures of the writer's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger.writer.support import new_ledger

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.ledger.writer.store import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A fresh ledger: genesis, and one key for each role."""
    return new_ledger(tmp_path / "ledger")
