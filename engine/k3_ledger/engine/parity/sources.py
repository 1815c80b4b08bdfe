"""This project's own engines as sources of logits."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import numpy as np

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.reference import ReferenceState
from k3_ledger.engine.walk import graded_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.model import Model
    from k3_ledger.engine.reference import Reference


def own_version() -> str:
    """Version of the installed package, or ``source`` when it is not installed."""
    try:
        return version("k3-ledger")
    except PackageNotFoundError:
        return "source"


class ModelSource:
    """A loaded model, on one chunk width."""

    independent = False

    def __init__(self, model: Model, chunk: int) -> None:
        self.model = model
        self.chunk = chunk
        self.name = "k3-ledger/engine"
        self.version = own_version()

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        """See :class:`~k3_ledger.engine.parity.rows.LogitSource`."""
        rows = graded_rows(self.model, ids, count, path, chunk=self.chunk, capacity=len(ids))
        return Rows(ids_digest([ids]), "raw", rows.double().cpu().numpy())


class ReferenceSource:
    """The float64 specification. A record graded against it is never independent.

    It keeps the state behind the last ids, and goes on from there where the next ones begin with them.
    """

    independent = False

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.name = "k3-ledger/reference-float64"
        self.version = own_version()
        self._ids: list[int] = []
        self._state = ReferenceState()

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:  # noqa: ARG002 (it has one path)
        """See :class:`~k3_ledger.engine.parity.rows.LogitSource`."""
        taken, state = len(self._ids), self._state
        if taken > len(ids) - count or self._ids != list(ids[:taken]):
            taken, state = 0, ReferenceState()
        self._ids, self._state = [], ReferenceState()  # a step that fails leaves nothing to go on from
        values = [self.reference.step(token, state) for token in ids[taken:]]
        self._ids, self._state = list(ids), state
        return Rows(ids_digest([ids]), "raw", np.stack(values[-count:]))
