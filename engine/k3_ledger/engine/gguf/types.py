"""Value types and storage types of the container, as numbers and sizes."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

MAGIC: Final = b"GGUF"
VERSIONS: Final = frozenset({2, 3})
DEFAULT_ALIGNMENT: Final = 32
MIN_ALIGNMENT: Final = 8
MAX_ALIGNMENT: Final = 1 << 20


class ValueType(enum.IntEnum):
    """Type tags of header values."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12


SCALARS: Final[dict[ValueType, struct.Struct]] = {
    ValueType.UINT8: struct.Struct("<B"),
    ValueType.INT8: struct.Struct("<b"),
    ValueType.UINT16: struct.Struct("<H"),
    ValueType.INT16: struct.Struct("<h"),
    ValueType.UINT32: struct.Struct("<I"),
    ValueType.INT32: struct.Struct("<i"),
    ValueType.FLOAT32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<B"),
    ValueType.UINT64: struct.Struct("<Q"),
    ValueType.INT64: struct.Struct("<q"),
    ValueType.FLOAT64: struct.Struct("<d"),
}


@dataclass(frozen=True, slots=True)
class Storage:
    """How a tensor's values are stored.

    Attributes:
        name: the format's own name for it.
        tag: its number in the file.
        block: values in a block; the innermost dimension is a multiple of it.
        block_bytes: bytes of a block.
    """

    name: str
    tag: int
    block: int
    block_bytes: int

    def row_bytes(self, columns: int) -> int:
        """Bytes of one row of ``columns`` values, which must be a multiple of the block."""
        assert columns % self.block == 0
        return columns // self.block * self.block_bytes


def _storage(kind: GGMLQuantizationType) -> Storage:
    block, size = GGML_QUANT_SIZES[kind]
    return Storage(kind.name, int(kind), block, size)


F32: Final = _storage(GGMLQuantizationType.F32)
F16: Final = _storage(GGMLQuantizationType.F16)
BF16: Final = _storage(GGMLQuantizationType.BF16)
Q8_0: Final = _storage(GGMLQuantizationType.Q8_0)
MXFP4: Final = _storage(GGMLQuantizationType.MXFP4)
IQ1_S: Final = _storage(GGMLQuantizationType.IQ1_S)
SUPPORTED: Final[dict[int, Storage]] = {s.tag: s for s in (F32, F16, BF16, Q8_0, MXFP4, IQ1_S)}
BY_NAME: Final[dict[str, Storage]] = {s.name: s for s in SUPPORTED.values()}
_KNOWN: Final[dict[int, str]] = {int(kind): kind.name for kind in GGMLQuantizationType}


def storage_of(tag: int, tensor: str) -> Storage:
    """The storage type numbered ``tag``.

    Raises:
        ModelError: GGUF_QUANTISATION, naming the type where the format has a name for it.
    """
    storage = SUPPORTED.get(tag)
    if storage is None:
        name = _KNOWN.get(tag, f"unknown type {tag}")
        raise ModelError(
            Code.GGUF_QUANTISATION,
            f"tensor {tensor!r} is stored as {name}, which this engine does not read",
            expected=", ".join(BY_NAME),
            found=name,
        )
    return storage
