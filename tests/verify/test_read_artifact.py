"""Small artifacts read whole: what is not there, not itself, or on a bad medium is None, and never an error."""

from __future__ import annotations

import errno
import io
from hashlib import sha256
from typing import Any

import pytest

from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.artifacts import read_artifact

DATA = b"twelve bytes"
DIGEST = sha256(DATA).hexdigest()


class Worn(io.BytesIO):
    """A medium that fails while it is read."""

    def read(self, size: int | None = -1) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().read(3)


class Short(io.BytesIO):
    """A stream that gives a byte at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(1)


class Source:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def open_artifact(self, digest: str) -> Any:
        assert digest == DIGEST
        if isinstance(self._stream, Exception):
            raise self._stream
        return self._stream


@pytest.mark.parametrize("stream", [io.BytesIO, Short])
@pytest.mark.parametrize("limit", [len(DATA), len(DATA) + 1, 1 << 20])
def test_what_is_there_is_read_whole(stream: Any, limit: int) -> None:
    assert read_artifact(Source(stream(DATA)), DIGEST, limit) == DATA  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stream",
    [
        None,
        StoreError(Code.UNREADABLE, "no"),
        OSError(errno.EIO, "no"),
        Worn(DATA),
        io.BytesIO(b""),
        io.BytesIO(DATA[:-1]),
        io.BytesIO(DATA + b"x"),
        io.BytesIO(DATA.upper()),
    ],
)
def test_anything_else_is_none(stream: Any) -> None:
    assert read_artifact(Source(stream), DIGEST, 100) is None  # type: ignore[arg-type]


def test_what_is_longer_than_it_may_be_is_none() -> None:
    assert read_artifact(Source(io.BytesIO(DATA)), DIGEST, len(DATA) - 1) is None  # type: ignore[arg-type]
