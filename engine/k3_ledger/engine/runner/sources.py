"""An engine process as a source of logits: parity is graded on the very process that was timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.runner.replies import is_integer, printable
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.runner.channel import Channel
    from k3_ledger.engine.runner.folder import Folder

_VALUE_BYTES = 4


class ProcessSource:
    """Asks a running engine for rows of raw logits.

    Args:
        channel: the engine process.
        name, version: as it reported itself.
        vocabulary: number of tokens, as it reported.
        folder: where it may write; each file is the controller's to read once.
    """

    independent = False

    def __init__(self, channel: Channel, name: str, version: str, vocabulary: int, folder: Folder) -> None:
        self.name = name
        self.version = version
        self._channel = channel
        self._vocabulary = vocabulary
        self._folder = folder

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        """See :class:`~k3_ledger.engine.parity.rows.LogitSource`.

        Raises:
            RunError: the answer does not describe the file, or the file is not of that size.
        """
        name = self._folder.fresh()
        out = str(self._folder.path / name)
        reply = self._channel.ask("logits", ids=list(ids), count=count, way=path, out=out).data
        processing = reply.get("processing")
        shape = (reply.get("rows"), reply.get("vocabulary"))
        wanted = count * self._vocabulary * _VALUE_BYTES
        data = self._folder.take(name, wanted + 1)
        fits = is_integer(shape[0], count) and is_integer(shape[1], self._vocabulary)
        if not fits or len(data) != wanted:
            raise RunError(
                Code.RUN_PROTOCOL,
                "the engine's rows of logits are not of the size they should be",
                expected=f"{count} rows of {self._vocabulary} float32 values",
                found=printable(f"{shape[0]} rows of {shape[1]}, {len(data)} bytes"),
            )
        values = np.frombuffer(data, dtype="<f4").reshape(count, self._vocabulary).astype(np.float64)
        return Rows(ids_digest([ids]), "raw" if processing == "raw" else "processed", values)
