"""Unpacking kernels, byte by byte: packed rows need no alignment. Arithmetic is float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id
from k3_ledger.kernels.unpack.formats import LAYOUTS

if TYPE_CHECKING:
    from torch import Tensor

TILE: Final = 2048
"""Values a program."""


@triton.jit
def _word(place, mask):
    low = tl.load(place, mask=mask, other=0).to(tl.uint16)
    high = tl.load(place + 1, mask=mask, other=0).to(tl.uint16)
    return low | (high << 8)


@triton.jit
def _half(place, mask):
    return _word(place, mask).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _plain(block, mask, BYTES: tl.constexpr, BRAIN: tl.constexpr):
    if BYTES == 4:
        low = _word(block, mask).to(tl.uint32)
        value = (low | (_word(block + 2, mask).to(tl.uint32) << 16)).to(tl.float32, bitcast=True)
    elif BRAIN:
        value = (_word(block, mask).to(tl.uint32) << 16).to(tl.float32, bitcast=True)
    else:
        value = _half(block, mask)
    return value


@triton.jit
def _q8_0(block, lane, mask):
    byte = tl.load(block + 2 + lane, mask=mask, other=0)
    return _half(block, mask) * byte.to(tl.int8, bitcast=True).to(tl.float32)


@triton.jit
def _mxfp4(block, lane, mask):
    exponent = tl.load(block, mask=mask, other=0).to(tl.uint32)
    # Exponent 0 is 2^-127, a subnormal: its pattern is not a shifted exponent field.
    pattern = tl.where(exponent == 0, 0x00400000, exponent << 23)
    scale = tl.where(exponent == 255, 0x7FC00000, pattern).to(tl.uint32).to(tl.float32, bitcast=True)
    packed = tl.load(block + 1 + lane % 16, mask=mask, other=0).to(tl.int32)
    code = (packed >> (lane // 16 * 4)) & 15
    power = (code >> 1) & 3
    mantissa = (code & 1).to(tl.float32) * 0.5
    whole = tl.where(power == 3, 4.0, tl.where(power == 2, 2.0, 1.0))
    magnitude = tl.where(power == 0, mantissa, (1.0 + mantissa) * whole)
    return scale * tl.where(code >= 8, -magnitude, magnitude)


@triton.jit
def _iq1_s(block, lane, mask, grid):
    high = _word(block + 34 + lane // 32 * 2, mask).to(tl.int32)
    low = tl.load(block + 2 + lane // 8, mask=mask, other=0).to(tl.int32)
    index = low | (((high >> (lane // 8 % 4 * 3)) & 7) << 8)
    scale = _half(block, mask) * (2 * ((high >> 12) & 7) + 1).to(tl.float32)
    delta = tl.where(high >= 0x8000, -0.125, 0.125)
    return scale * (tl.load(grid + index * 8 + lane % 8, mask=mask, other=0).to(tl.float32) + delta)


@triton.jit
def _unpack(data, grid, out, count, QUANT: tl.constexpr, BYTES: tl.constexpr, VALUES: tl.constexpr, TILE: tl.constexpr):
    offset = program_id(0) * TILE + tl.arange(0, TILE)
    mask = offset < count
    block = data + offset // VALUES * BYTES
    lane = (offset % VALUES).to(tl.int32)
    if QUANT == "q8_0":
        value = _q8_0(block, lane, mask)
    elif QUANT == "mxfp4":
        value = _mxfp4(block, lane, mask)
    elif QUANT == "iq1_s":
        value = _iq1_s(block, lane, mask, grid)
    else:
        value = _plain(block, mask, BYTES, QUANT == "bf16")
    tl.store(out + offset, narrow(value, out.dtype.element_ty), mask=mask)


def unpack(data: Tensor, *, quant: str, dtype: torch.dtype, grid: Tensor | None = None) -> Tensor:
    """As :func:`.naive.unpack`."""
    layout = LAYOUTS[quant]
    blocks = data.numel() // layout.block_bytes
    width = data.shape[-1] // layout.block_bytes * layout.block_values
    out = torch.empty((*data.shape[:-1], width), dtype=dtype, device=data.device)
    count = blocks * layout.block_values
    if count:
        _unpack[(triton.cdiv(count, TILE),)](
            data, data if grid is None else grid, out, count,
            QUANT=quant, BYTES=layout.block_bytes, VALUES=layout.block_values, TILE=TILE,
        )  # fmt: skip
    return out
