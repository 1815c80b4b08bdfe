"""Stored values to float32, and the rounding that llama.cpp's CPU kernels give to activations.

Every function works on ``[rows, ...]`` arrays. Dequantised values are exact: each is one float32 product of a
scale and a small integer (IQ1_S: of ``d·(2s+1)`` and ``grid + delta``), which is how the format defines them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from gguf.quants import IQ1_S as _FOREIGN_IQ1_S

from k3_ledger.engine.gguf.types import BF16, F16, F32, IQ1_S, MXFP4, Q8_0, Storage
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.engine.gguf.file import TensorView

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

E2M1: Final = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.float32)
"""Twice the value of each 4-bit float; the block scale carries the missing half."""
MXFP4_NAN_SCALE: Final = 0xFF
IQ1_S_DELTA: Final = np.float32(0.125)
VALUES_AT_ONCE: Final = 1 << 20
"""Values of a block that is decoded at once: what that takes comes and goes."""


@cache
def iq1_s_grid() -> npt.NDArray[np.int8]:
    """The 2,048 codewords of IQ1_S, ``[2048, 8]`` over {-1, 0, 1}, as PyPI ``gguf`` publishes them."""
    _FOREIGN_IQ1_S.init_grid()  # type: ignore[no-untyped-call]  # PyPI gguf does not annotate it
    grid = np.asarray(_FOREIGN_IQ1_S.grid).reshape(2048, 8)
    return grid.astype(np.int8)


def _f32(rows: Bytes) -> Floats:
    return np.ascontiguousarray(rows).view("<f4").astype(np.float32)


def _f16(rows: Bytes) -> Floats:
    return np.ascontiguousarray(rows).view("<f2").astype(np.float32)


def _bf16(rows: Bytes) -> Floats:
    wide = np.ascontiguousarray(rows).view("<u2").astype(np.uint32) << 16
    return wide.view(np.float32)


def _q8_0(rows: Bytes) -> Floats:
    blocks = rows.reshape(rows.shape[0], -1, Q8_0.block_bytes)
    scale = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    return (blocks[..., 2:].view(np.int8).astype(np.float32) * scale).reshape(rows.shape[0], -1)


def _mxfp4(rows: Bytes) -> Floats:
    blocks = rows.reshape(rows.shape[0], -1, MXFP4.block_bytes)
    exponent = blocks[..., :1].astype(np.int32)
    # 0xFF is the format's NaN: it becomes one here and is refused by the caller.
    scale = np.where(exponent == MXFP4_NAN_SCALE, np.float32(np.nan), np.ldexp(np.float32(1), exponent - 128))
    # Byte j holds element j in its low nibble and element j + 16 in its high one.
    codes = np.concatenate([blocks[..., 1:] & 0x0F, blocks[..., 1:] >> 4], axis=-1)
    with np.errstate(over="ignore"):  # the two largest scales overflow float32: the caller refuses infinities
        return np.asarray((E2M1[codes] * scale).reshape(rows.shape[0], -1), dtype=np.float32)


def _iq1_s(rows: Bytes) -> Floats:
    blocks = rows.reshape(rows.shape[0], -1, IQ1_S.block_bytes)
    scale = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    low = blocks[..., 2:34].reshape(*blocks.shape[:2], 8, 4).astype(np.int32)
    high = np.ascontiguousarray(blocks[..., 34:]).view("<u2").astype(np.int32)
    step = scale * (2 * ((high >> 12) & 7) + 1).astype(np.float32)
    delta = np.where(high & 0x8000, -IQ1_S_DELTA, IQ1_S_DELTA)
    shifts = np.array([0, 3, 6, 9])
    index = low | (((high[..., None] >> shifts) & 7) << 8)
    values = iq1_s_grid()[index].astype(np.float32) + delta[..., None, None]
    return np.asarray((step[..., None, None] * values).reshape(rows.shape[0], -1), dtype=np.float32)


_DECODERS: Final[dict[Storage, Callable[[Bytes], Floats]]] = {
    F32: _f32,
    F16: _f16,
    BF16: _bf16,
    Q8_0: _q8_0,
    MXFP4: _mxfp4,
    IQ1_S: _iq1_s,
}


def decode_rows(rows: Bytes, storage: Storage) -> Floats:
    """Stored rows ``[R, row bytes]`` to float32 ``[R, columns]``; values may be anything the bits say."""
    return _DECODERS[storage](rows)


def dequantise(view: TensorView) -> Floats:
    """A whole tensor as float32 in its own shape.

    Raises:
        ModelError: MODEL_WEIGHT_VALUE when a stored value decodes to NaN or infinity, with its position.
    """
    info = view.info
    out = np.empty((view.count, info.shape[-1]), dtype=np.float32)
    step = max(1, VALUES_AT_ONCE // info.shape[-1])
    for start in range(0, out.shape[0], step):
        part = decode_rows(view.rows(start, start + step), info.storage)
        if not np.isfinite(part).all():
            row, column = np.argwhere(~np.isfinite(part))[0]
            raise ModelError(
                Code.MODEL_WEIGHT_VALUE,
                f"{info.name!r} holds {part[row, column]} at row {start + row}, column {column}",
                position=Position(field=info.name),
                expected="finite weights",
            )
        out[start : start + step] = part
    return out.reshape(info.shape)


def round_activations(x: npt.NDArray[np.floating], storage: Storage) -> Floats:
    """The activation that llama.cpp's CPU kernel multiplies with a weight of this storage type.

    ``x`` is ``[..., columns]``. F16 and BF16 weights take activations of their own type; Q8_0 and MXFP4 take
    blocks of 32 int8 with a float16 scale; IQ1_S takes blocks of 256 int8 with a float32 scale; F32 takes them as
    they are.
    """
    values = np.ascontiguousarray(x, dtype=np.float32)
    if storage is F16:
        return values.astype(np.float16).astype(np.float32)
    if storage is BF16:
        return _round_bf16(values)
    if storage in {Q8_0, MXFP4}:
        return _round_q8_0(values)
    if storage is IQ1_S:
        return _round_q8_k(values)
    return values


def _round_bf16(values: Floats) -> Floats:
    bits = values.view(np.uint32)
    rounded: npt.NDArray[np.uint32] = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.asarray(rounded.view(np.float32))


def _round_q8_0(values: Floats) -> Floats:
    blocks = values.reshape(*values.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(axis=-1, keepdims=True) / np.float32(127)
    # Rounded with the float32 scale, multiplied back with its float16 rounding: both as the kernel does it.
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.rint(blocks * inverse)
    return np.asarray((codes * scale.astype(np.float16).astype(np.float32)).reshape(values.shape), dtype=np.float32)


def _round_q8_k(values: Floats) -> Floats:
    blocks = values.reshape(*values.shape[:-1], -1, 256)
    place = np.abs(blocks).argmax(axis=-1, keepdims=True)
    peak = np.take_along_axis(blocks, place, axis=-1)
    # The scale is signed: the entry of largest magnitude becomes -127 whatever its sign.
    inverse = np.divide(np.float32(-127), peak, out=np.zeros_like(peak), where=peak != 0)
    codes = np.minimum(np.rint(blocks * inverse), np.float32(127))
    scale = np.divide(np.float32(1), inverse, out=np.zeros_like(inverse), where=inverse != 0)
    return np.asarray((codes * scale).reshape(values.shape), dtype=np.float32)
