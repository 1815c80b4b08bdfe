"""Merge kernel: one program an item and block of columns; blocks of 32 slices are added in order in float32.

The block is a constant and what is empty adds exact zeros, so slices that a larger cache appends change no bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import is_nan, narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

SLICES: Final = 32
"""Slices added at once."""
COLUMNS: Final = 64


@triton.jit
def _mla_merge(
    peak, total, latent, out, J, N, blocks,
    V: tl.constexpr, BJ: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    program = program_id(0)
    item = program // blocks
    column = program % blocks * BV + tl.arange(0, BV)
    part = tl.arange(0, BJ)
    stride = tl.zeros([BJ], dtype=tl.int64) + N
    greatest = tl.full([BJ], float("-inf"), dtype=tl.float32)
    for first in range(0, J, BJ):
        j = first + part
        height = tl.load(peak + (j * stride + item), mask=j < J, other=float("-inf"))
        # tl.maximum may drop a NaN; a broken slice must reach the result.
        greatest = tl.where(is_nan(height), height, tl.maximum(greatest, height))
    top = tl.max(greatest, axis=0)
    broken = tl.sum(is_nan(greatest).to(tl.int32), axis=0)
    origin = tl.where(top == float("-inf"), 0.0, top)  # never -inf - -inf
    norm = 0.0
    mixed = tl.zeros([BV], dtype=tl.float32)
    for first in range(0, J, BJ):
        j = first + part
        place = j * stride + item
        height = tl.load(peak + place, mask=j < J, other=float("-inf"))
        weight = tl.exp(height - origin)
        present = height != float("-inf")
        norm += tl.sum(weight * tl.load(total + place, mask=present, other=0.0), axis=0)
        mask = present[:, None] & (column < V)[None, :]
        sums = tl.load(latent + place[:, None] * V + column[None, :], mask=mask, other=0.0)
        mixed += tl.sum(weight[:, None] * sums, axis=0)
    norm = tl.where(broken > 0, float("nan"), tl.where(norm == 0.0, 1.0, norm))
    tl.store(out + item * V + column, narrow(mixed / norm, out.dtype.element_ty), mask=column < V)


def merge_into(out: Tensor, peak: Tensor, total: Tensor, latent: Tensor) -> None:
    """Merge ``[J, ...]`` slices into ``out`` ``[..., V]``, rounding to its type."""
    slices, width = latent.shape[0], latent.shape[-1]
    items = peak.numel() // slices
    blocks = triton.cdiv(width, COLUMNS)
    if items:
        _mla_merge[(items * blocks,)](peak, total, latent, out, slices, items, blocks, V=width, BJ=SLICES, BV=COLUMNS)


def mla_merge(peak: Tensor, total: Tensor, latent: Tensor) -> Tensor:
    """As :func:`.naive.mla_merge`, in float32."""
    out = torch.empty(latent.shape[1:], dtype=latent.dtype, device=latent.device)
    merge_into(out, peak, total, latent)
    return out
