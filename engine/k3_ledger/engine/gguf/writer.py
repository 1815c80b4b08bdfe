"""Writes GGUF files as a stream: header first, then each tensor's bytes as its generator yields them.

Nothing larger than one yielded chunk is held in memory. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from k3_ledger.engine.gguf.header import ARRAYS
from k3_ledger.engine.gguf.types import DEFAULT_ALIGNMENT, MAGIC, SCALARS, Storage, ValueType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from k3_ledger.engine.gguf.header import Scalar, Value

_VERSION: Final = 3
_UINT32: Final = 2**32


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor to write: ``chunks()`` yields its stored bytes in order, ``size`` bytes in all."""

    name: str
    shape: tuple[int, ...]
    storage: Storage
    chunks: Callable[[], Iterable[bytes | memoryview]]

    @property
    def size(self) -> int:
        """Bytes of data."""
        rows = 1
        for dimension in self.shape[:-1]:
            rows *= dimension
        return rows * self.storage.row_bytes(self.shape[-1])


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _type_of(value: Scalar) -> ValueType:
    if isinstance(value, bool):
        return ValueType.BOOL
    if isinstance(value, str):
        return ValueType.STRING
    if isinstance(value, float):
        return ValueType.FLOAT32
    return ValueType.UINT32 if 0 <= value < _UINT32 else ValueType.INT64


def _scalar(kind: ValueType, value: Scalar) -> bytes:
    return _text(value) if isinstance(value, str) else SCALARS[kind].pack(value)


def _value(value: Value) -> bytes:
    if not isinstance(value, ARRAYS):
        kind = _type_of(value)
        return struct.pack("<I", kind) + _scalar(kind, value)
    # Of an array without elements no reader sees more than its length: merges may be none.
    kind = _type_of(value[0]) if value else ValueType.STRING
    if kind is ValueType.UINT32:
        kind = ValueType.INT32  # the format's readers take token types and layer maps as INT32
    head = struct.pack("<IIQ", ValueType.ARRAY, kind, len(value))
    return head + b"".join(_scalar(kind, item) for item in value)


def _header(values: Mapping[str, Value], tensors: Sequence[NewTensor], alignment: int) -> bytes:
    parts = [MAGIC, struct.pack("<IQQ", _VERSION, len(tensors), len(values))]
    parts += [_text(key) + _value(value) for key, value in values.items()]
    offset = 0
    for tensor in tensors:
        parts.append(_text(tensor.name) + struct.pack("<I", len(tensor.shape)))
        parts.append(np.array(tensor.shape[::-1], dtype="<u8").tobytes())
        parts.append(struct.pack("<IQ", tensor.storage.tag, offset))
        offset = -(-(offset + tensor.size) // alignment) * alignment
    return b"".join(parts)


def _pad(file: BinaryIO, alignment: int) -> None:
    file.write(b"\0" * (-file.tell() % alignment))


def write_gguf(
    path: Path,
    values: Mapping[str, Value],
    tensors: Sequence[NewTensor],
    *,
    progress: Callable[[int], None] = lambda _written: None,
) -> int:
    """Writes a file and returns its size in bytes. The file is renamed into place when whole.

    Args:
        path: target; an existing file is replaced, and it is the caller's to refuse whatever else stands there.
        values: header values in the order to write them.
        tensors: tensors in the order to write them.
        progress: told the bytes of tensor data written since its last call.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        with partial.open("xb") as file:
            file.write(_header(values, tensors, DEFAULT_ALIGNMENT))
            _pad(file, DEFAULT_ALIGNMENT)
            for tensor in tensors:
                written = 0
                for chunk in tensor.chunks():
                    file.write(chunk)
                    written += len(chunk)
                    progress(len(chunk))
                assert written == tensor.size, f"{tensor.name}: {written} bytes written, {tensor.size} announced"
                _pad(file, DEFAULT_ALIGNMENT)
            size = file.tell()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return size
