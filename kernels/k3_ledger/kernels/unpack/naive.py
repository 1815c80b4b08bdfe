"""Unpacking of quantised storage, the specification. Source: K3_MATH §10; layouts in :mod:`.formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from k3_ledger.kernels.unpack.formats import LAYOUTS

if TYPE_CHECKING:
    from torch import Tensor


def unpack(data: Tensor, *, quant: str, dtype: torch.dtype, grid: Tensor | None = None) -> Tensor:
    """Values of packed rows.

    Args:
        data: ``[..., bytes]`` uint8, each row a whole number of blocks.
        quant: a key of :data:`.formats.LAYOUTS`.
        dtype: type of the result. Products are formed in float32 (exact for every format but ``iq1_s``, whose scale
            product may round once) and rounded to it.
        grid: ``[2048, 8]`` int8 of -1, 0, 1; for ``iq1_s`` alone, required there.

    Returns:
        ``[..., values]`` in ``dtype``. A block whose stored scale is NaN unpacks to NaN throughout: the loader
        refuses such a file, a kernel cannot.
    """
    layout = LAYOUTS[quant]
    leading = data.shape[:-1]
    blocks = data.reshape(-1, layout.block_bytes)
    if quant == "iq1_s":
        assert grid is not None
        values = _iq1_s(blocks, grid)
    else:
        values = {"f32": _f32, "f16": _f16, "bf16": _bf16, "q8_0": _q8_0, "mxfp4": _mxfp4}[quant](blocks)
    return values.to(dtype).reshape(*leading, -1)


def _word(blocks: Tensor, begin: int, words: int) -> Tensor:
    pairs = blocks[:, begin : begin + 2 * words].int().reshape(len(blocks), words, 2)
    return pairs[..., 0] | (pairs[..., 1] << 8)


def _half(blocks: Tensor, begin: int = 0) -> Tensor:
    return _word(blocks, begin, 1).to(torch.int16).view(torch.float16).float()


def _f32(blocks: Tensor) -> Tensor:
    return blocks.contiguous().view(torch.float32)


def _f16(blocks: Tensor) -> Tensor:
    return _half(blocks)


def _bf16(blocks: Tensor) -> Tensor:
    return (_word(blocks, 0, 1) << 16).view(torch.float32)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks) * blocks[:, 2:].contiguous().view(torch.int8).float()


def _mxfp4(blocks: Tensor) -> Tensor:
    exponent = blocks[:, :1].int()
    # Exponent 0 is 2^-127, a subnormal: its pattern is not a shifted exponent field.
    pattern = torch.where(exponent == 0, 0x00400000, exponent << 23)
    scale = torch.where(exponent == 255, 0x7FC00000, pattern).view(torch.float32)
    packed = blocks[:, 1:].int()
    code = torch.cat([packed & 15, packed >> 4], dim=1)
    power = (code >> 1) & 3
    mantissa = (code & 1).float()
    magnitude = torch.where(power == 0, 0.5 * mantissa, (1 + 0.5 * mantissa) * (1 << (power - 1).clamp(min=0)))
    return scale * torch.where(code >= 8, -magnitude, magnitude)


def _iq1_s(blocks: Tensor, grid: Tensor) -> Tensor:
    low = blocks[:, 2:34].int().reshape(-1, 8, 4)
    high = _word(blocks, 34, 8)
    shifts = torch.arange(0, 12, 3, dtype=torch.int32, device=blocks.device)
    index = low | (((high[..., None] >> shifts) & 7) << 8)
    scale = _half(blocks) * (2 * ((high >> 12) & 7) + 1).float()
    delta = torch.where(high >= 0x8000, -0.125, 0.125)
    values = scale[..., None, None] * (grid[index.long()].float() + delta[..., None, None])
    return values.reshape(len(blocks), -1)
