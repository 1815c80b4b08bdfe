"""Parses one file's header. Limits are checked before anything is allocated or walked.

What is enforced: magic, byte order, version; every count and length against the bytes that are left; at most
:data:`MAX_HEADER_BYTES` of header, :data:`MAX_KEYS` keys and :data:`MAX_TENSORS` tensors; keys and tensor names
once each; booleans 0 or 1; UTF-8; no nested arrays; alignment a power of two in range; tensors of 1 to 4
dimensions whose sizes cannot overflow, placed one after another on the alignment and inside the file.
What a key or a tensor means is the caller's business. What is kept of a header takes no more than about three times the
bytes that it is long: arrays stay as they lie there.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import numpy as np

from k3_ledger.engine.gguf.arrays import Numbers, Texts
from k3_ledger.engine.gguf.types import (
    DEFAULT_ALIGNMENT,
    MAGIC,
    MAX_ALIGNMENT,
    MIN_ALIGNMENT,
    SCALARS,
    VERSIONS,
    Storage,
    ValueType,
    storage_of,
)
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_HEADER_BYTES: Final = 256 << 20
"""Bytes of header that are read at most: K3's own header, with 163,840 tokens and their merges, is under 8 MiB."""
MAX_KEYS: Final = 65_536
MAX_TENSORS: Final = 1 << 17
"""Each becomes an object: 4096 layers have fewer."""
MAX_ITEMS: Final = 1 << 22
"""Elements of one array."""
MAX_TEXTS: Final = 1 << 21
"""Texts of all arrays together: twice the tokens that a tokenizer takes, for its merges. Each is read by itself."""
MAX_KEY_BYTES: Final = 65_535
MAX_NAME_BYTES: Final = 63
MAX_DIMENSIONS: Final = 4
_MIN_KEY: Final = 8 + 4 + 1
_MIN_TENSOR: Final = 8 + 4 + 8 + 4 + 8
_NUMPY: Final = {kind: np.dtype(packer.format) for kind, packer in SCALARS.items()}

Scalar = int | float | bool | str
Value = Scalar | Numbers | Texts | tuple[Scalar, ...]
"""A header value. Arrays of one type are tuples where they are made, and lie as in the file where they are read."""
ARRAYS: Final = (Numbers, Texts, tuple)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor as the header describes it.

    Attributes:
        name: the tensor's name.
        shape: row-major, outermost first (the file stores the reverse).
        storage: storage type.
        offset: from the start of the data section, in bytes.
        size: bytes of data.
    """

    name: str
    shape: tuple[int, ...]
    storage: Storage
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Header:
    """One file's header. ``data_offset`` is where its data section starts; ``size`` is how many bytes it is long."""

    version: int
    alignment: int
    values: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    data_offset: int
    size: int


class Readable(Protocol):
    """A file of known length, read by slices: a buffer, or what reads one piece after another."""

    def __len__(self) -> int: ...

    def __getitem__(self, wanted: slice, /) -> bytes | memoryview: ...


class _Cursor:
    """Reads a buffer forward; refuses to pass ``end``, the smaller of the file's size and the header limit."""

    def __init__(self, data: Readable, source: str) -> None:
        self.data = data
        self.source = source
        self.at = 0
        self.many_texts = 0
        self.end = min(len(data), MAX_HEADER_BYTES)

    def fail(self, code: Code, message: str, **details: str) -> NoReturn:
        raise ModelError(code, message, position=Position(source=self.source, byte_offset=self.at), **details)

    def need(self, count: int, what: str) -> None:
        if count > self.end - self.at:
            self.fail(
                Code.GGUF_LENGTH,
                f"{what} needs {count} bytes where {self.end - self.at} are left",
                found=str(count),
            )

    def scalar(self, kind: ValueType, what: str) -> int | float:
        packer = SCALARS[kind]
        self.need(packer.size, what)
        value: int | float = packer.unpack(self.data[self.at : self.at + packer.size])[0]
        self.at += packer.size
        return value

    def count(self, what: str) -> int:
        return int(self.scalar(ValueType.UINT64, what))

    def text(self, what: str, limit: int) -> str:
        length = self.count(f"length of {what}")
        if length > limit:
            self.fail(Code.GGUF_LENGTH, f"{what} is {length} bytes long", expected=f"at most {limit}")
        self.need(length, what)
        raw = bytes(self.data[self.at : self.at + length])
        try:
            value = raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fail(Code.GGUF_VALUE, f"{what} is not UTF-8")
        self.at += length
        return value

    def kind(self, what: str) -> ValueType:
        tag = int(self.scalar(ValueType.UINT32, f"type of {what}"))
        try:
            return ValueType(tag)
        except ValueError:
            self.at -= 4
            self.fail(Code.GGUF_VALUE, f"{what} has the unknown value type {tag}", found=str(tag))

    def boolean(self, what: str) -> bool:
        raw = self.scalar(ValueType.BOOL, what)
        if raw not in {0, 1}:
            self.at -= 1
            self.fail(Code.GGUF_VALUE, f"{what} is a boolean of value {raw}", expected="0 or 1", found=str(raw))
        return raw == 1

    def value(self, what: str) -> Value:
        kind = self.kind(what)
        if kind is ValueType.ARRAY:
            return self.array(what)
        return self.one(kind, what)

    def one(self, kind: ValueType, what: str) -> Scalar:
        if kind is ValueType.STRING:
            return self.text(what, MAX_HEADER_BYTES)
        if kind is ValueType.BOOL:
            return self.boolean(what)
        return self.scalar(kind, what)

    def array(self, what: str) -> Numbers | Texts:
        kind = self.kind(f"elements of {what}")
        length = self.count(f"length of {what}")
        if kind is ValueType.ARRAY:
            self.fail(Code.GGUF_VALUE, f"{what} is an array of arrays")
        if length > MAX_ITEMS:
            self.fail(Code.GGUF_LENGTH, f"{what} has {length} elements", expected=f"at most {MAX_ITEMS}")
        if kind is ValueType.STRING:
            return self.texts(length, what)
        size = SCALARS[kind].size
        self.need(length * size, what)
        # Copied: nobody writes to it any more, and the file can be closed.
        out = np.frombuffer(bytes(self.data[self.at : self.at + length * size]), dtype=_NUMPY[kind])
        if kind is ValueType.BOOL:
            if wrong := np.flatnonzero(out > 1)[:1].tolist():
                self.at += wrong[0]
                self.boolean(f"{what}[{wrong[0]}]")
            out = out.astype(np.bool_)
        self.at += length * size
        return Numbers(out)

    def texts(self, length: int, what: str) -> Texts:
        self.need(length * 8, what)
        self.many_texts += length
        if self.many_texts > MAX_TEXTS:
            found = str(self.many_texts)
            self.fail(Code.GGUF_LENGTH, f"too many texts up to {what}", expected=f"at most {MAX_TEXTS}", found=found)
        begin, starts = self.at, array("Q")
        for index in range(length):
            starts.append(self.at - begin)
            self.text(f"{what}[{index}]", MAX_HEADER_BYTES)
        return Texts(bytes(self.data[begin : self.at]), starts)


def _preamble(cursor: _Cursor) -> tuple[int, int, int]:
    """Checks magic, byte order and version; returns version, number of tensors, number of keys."""
    if bytes(cursor.data[:4]) != MAGIC:
        found = bytes(cursor.data[:4]).hex()
        cursor.fail(Code.GGUF_MAGIC, "file does not begin with GGUF", expected=MAGIC.hex(), found=found)
    cursor.at = 4
    version = int(cursor.scalar(ValueType.UINT32, "version"))
    if version not in VERSIONS:
        cursor.at = 4
        # A small version number read in the wrong byte order has its low half empty.
        if version & 0xFFFF == 0 and version:
            cursor.fail(Code.GGUF_BYTE_ORDER, "big-endian file", found=f"version bytes {version:08x}")
        cursor.fail(Code.GGUF_VERSION, f"GGUF version {version}", expected="2 or 3", found=str(version))
    tensors, keys = cursor.count("number of tensors"), cursor.count("number of keys")
    for count, limit, least, what in (
        (keys, MAX_KEYS, _MIN_KEY, "keys"),
        (tensors, MAX_TENSORS, _MIN_TENSOR, "tensors"),
    ):
        if count > limit:
            cursor.fail(Code.GGUF_LENGTH, f"header announces {count} {what}", expected=f"at most {limit}")
        cursor.need(count * least, f"{count} {what}")
    return version, tensors, keys


def _alignment(cursor: _Cursor, values: Mapping[str, Value]) -> int:
    alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
    if (
        not isinstance(alignment, int)
        or isinstance(alignment, bool)
        or not MIN_ALIGNMENT <= alignment <= MAX_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        cursor.fail(
            Code.GGUF_ALIGNMENT,
            f"general.alignment is {alignment!r}",
            expected=f"a power of two from {MIN_ALIGNMENT} to {MAX_ALIGNMENT}",
            found=repr(alignment),
        )
    return alignment


def _tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.text("tensor name", MAX_NAME_BYTES)
    dimensions = int(cursor.scalar(ValueType.UINT32, f"dimensions of {name!r}"))
    if not 1 <= dimensions <= MAX_DIMENSIONS:
        cursor.fail(Code.GGUF_TENSOR, f"tensor {name!r} has {dimensions} dimensions", expected="1 to 4")
    inner_first = [cursor.count(f"dimension of {name!r}") for _ in range(dimensions)]
    tag = int(cursor.scalar(ValueType.UINT32, f"storage type of {name!r}"))
    offset = cursor.count(f"offset of {name!r}")
    storage = storage_of(tag, name)
    if min(inner_first) < 1 or inner_first[0] % storage.block:
        cursor.fail(
            Code.GGUF_TENSOR,
            f"tensor {name!r} of shape {inner_first[::-1]} cannot be stored as {storage.name}",
            expected=f"rows of a positive multiple of {storage.block} values",
        )
    # Python integers do not overflow: a product of hostile dimensions is just a large number, refused below.
    size = math.prod(inner_first[1:]) * storage.row_bytes(inner_first[0])
    return TensorInfo(name, tuple(reversed(inner_first)), storage, offset, size)


def _place(cursor: _Cursor, tensors: Mapping[str, TensorInfo], alignment: int, data_offset: int) -> None:
    """Tensors stand one after another, each on the alignment, inside the file, with nothing after the last."""
    available = len(cursor.data) - data_offset
    expected = 0
    for info in tensors.values():
        if info.offset % alignment:
            cursor.fail(Code.GGUF_ALIGNMENT, f"tensor {info.name!r} starts at {info.offset}, off the alignment")
        if info.offset != expected:
            cursor.fail(
                Code.GGUF_TENSOR,
                f"tensor {info.name!r} does not follow its neighbour",
                expected=str(expected),
                found=str(info.offset),
            )
        if info.size > available - info.offset:
            cursor.fail(
                Code.GGUF_LENGTH,
                f"tensor {info.name!r} ends {info.offset + info.size - available} bytes after the file",
            )
        expected = -(-(info.offset + info.size) // alignment) * alignment
    if available > expected:
        cursor.fail(Code.GGUF_TENSOR, f"{available - expected} bytes follow the last tensor")


def parse_header(data: Readable, source: str = "model") -> Header:
    """Parses the header of one file.

    Args:
        data: the whole file; only the header's bytes are asked for.
        source: name used in findings.

    Raises:
        ModelError: with one of the GGUF codes, at the byte where the trouble stands.
    """
    cursor = _Cursor(data, source)
    version, tensor_count, key_count = _preamble(cursor)
    values: dict[str, Value] = {}
    for _ in range(key_count):
        key = cursor.text("key", MAX_KEY_BYTES)
        if key in values:
            cursor.fail(Code.GGUF_DUPLICATE, f"key {key!r} appears twice", found=key)
        values[key] = cursor.value(f"value of {key!r}")
    alignment = _alignment(cursor, values)
    tensors: dict[str, TensorInfo] = {}
    for _ in range(tensor_count):
        info = _tensor(cursor)
        if info.name in tensors:
            cursor.fail(Code.GGUF_DUPLICATE, f"tensor {info.name!r} appears twice", found=info.name)
        tensors[info.name] = info
    data_offset = -(-cursor.at // alignment) * alignment
    if tensors:
        _place(cursor, tensors, alignment, data_offset)
    return Header(version, alignment, values, tensors, data_offset, cursor.at)
