"""Fixtures of the witness's tests: a server on a real socket of the loopback interface."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.ledger.witness.support import Clock, new_witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from k3_ledger.ledger.witness.cosign import CosigningWitness
    from k3_ledger.schemas.errors import LedgerError


class Served:
    """A witness that is being served: its port, and what it reported."""

    def __init__(self, witness: CosigningWitness) -> None:
        from k3_ledger.ledger.witness.server import WitnessServer

        self.witness = witness
        self.refused: list[LedgerError] = []
        self._server = WitnessServer(witness, 0, self.refused.append)
        self.port = self._server.port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()

    def stop(self) -> None:
        self._server.stop()
        self._thread.join()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(tmp_path: Path, clock: Clock) -> Iterator[Served]:
    running = Served(new_witness(tmp_path / "w", clock))
    yield running
    running.stop()
