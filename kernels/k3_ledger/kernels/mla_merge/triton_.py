"""Merge kernel: one program a token and head, slices added in their order in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor


@triton.jit
def _mla_merge(peak, total, latent, out, J, N, V: tl.constexpr, BV: tl.constexpr):
    item = program_id(0)
    column = tl.arange(0, BV)
    greatest = tl.load(peak + item)
    place = item
    for _ in range(1, J):
        place += N
        greatest = tl.maximum(greatest, tl.load(peak + place))
    origin = tl.where(greatest == float("-inf"), 0.0, greatest)  # never -inf - -inf
    norm = 0.0
    mixed = tl.zeros([BV], dtype=tl.float32)
    place = item
    for _ in range(J):
        height = tl.load(peak + place)
        # By way of an integer: the interpreter broadcasts a scalar comparison of floats as a float.
        present = tl.where(height == float("-inf"), 0, 1) > 0
        weight = tl.exp(height - origin)
        norm += weight * tl.load(total + place, mask=present, other=0.0)
        mixed += weight * tl.load(latent + (place * V + column), mask=present & (column < V), other=0.0)
        place += N
    divisor = tl.where(norm == 0.0, 1.0, norm)
    tl.store(out + (item * V + column), narrow(mixed / divisor, out.dtype.element_ty), mask=column < V)


def merge_into(out: Tensor, peak: Tensor, total: Tensor, latent: Tensor) -> None:
    """Merge ``[J, ...]`` slices into ``out`` ``[..., V]``, rounding to its type."""
    slices, width = latent.shape[0], latent.shape[-1]
    items = peak.numel() // slices
    if items:
        _mla_merge[(items,)](peak, total, latent, out, slices, items, V=width, BV=triton.next_power_of_2(width))


def mla_merge(peak: Tensor, total: Tensor, latent: Tensor) -> Tensor:
    """As :func:`.naive.mla_merge`, in float32."""
    out = torch.empty(latent.shape[1:], dtype=latent.dtype, device=latent.device)
    merge_into(out, peak, total, latent)
    return out
