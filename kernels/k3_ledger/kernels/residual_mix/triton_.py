"""Residual mixing kernel: one program a token; it scores the candidates, then sums them in order, in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor


@triton.jit
def _score(value, weight, eps, D: tl.constexpr):
    return tl.sum(value * weight, axis=0) / tl.sqrt(tl.sum(value * value, axis=0) / D + eps)


@triton.jit
def _residual_mix(
    bank, x, score_weight, out, stride_n, stride_t, eps,
    COUNT: tl.constexpr, D: tl.constexpr, BD: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    token = program_id(0)
    channel = tl.arange(0, BD)
    mask = channel < D
    candidate = tl.arange(0, BN)
    weight = tl.load(score_weight + channel, mask=mask, other=0.0).to(tl.float32)
    current = tl.load(x + token * D + channel, mask=mask, other=0.0).to(tl.float32)
    scores = tl.where(candidate == COUNT, _score(current, weight, eps, D), float("-inf"))
    place = bank + token * stride_t
    for j in range(COUNT):
        value = tl.load(place + channel, mask=mask, other=0.0).to(tl.float32)
        scores = tl.where(candidate == j, _score(value, weight, eps, D), scores)
        place += stride_n
    power = tl.exp(scores - tl.max(scores, axis=0))
    share = power / tl.sum(power, axis=0)
    mixed = tl.zeros([BD], dtype=tl.float32)
    place = bank + token * stride_t
    for j in range(COUNT):
        value = tl.load(place + channel, mask=mask, other=0.0).to(tl.float32)
        mixed += value * tl.sum(tl.where(candidate == j, share, 0.0), axis=0)
        place += stride_n
    mixed += current * tl.sum(tl.where(candidate == COUNT, share, 0.0), axis=0)
    tl.store(out + token * D + channel, narrow(mixed, out.dtype.element_ty), mask=mask)


def residual_mix(bank: Tensor, x: Tensor, score_weight: Tensor, *, count: int, eps: float) -> Tensor:
    """As :func:`.naive.residual_mix`, in float32."""
    tokens, width = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(width)
    if tokens:
        _residual_mix[(tokens,)](
            bank, x, score_weight, out, bank.stride(0), bank.stride(1), float(eps),
            COUNT=count, D=width, BD=block, BN=triton.next_power_of_2(count + 1),
            num_warps=max(1, min(16, block // 256)),
        )  # fmt: skip
    return out
