"""Residual mixing kernels in float32: a score a program for every token and candidate, then the sum by blocks of
channels, candidates in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

BLOCK: Final = 512
"""Channels a program of the sum."""


@triton.jit
def _scores(
    bank, x, score_weight, scores, stride_n, stride_t, eps,
    COUNT: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    program = program_id(0)
    candidate = program % (COUNT + 1)
    token = program // (COUNT + 1)
    channel = tl.arange(0, BD)
    mask = channel < D
    weight = tl.load(score_weight + channel, mask=mask, other=0.0).to(tl.float32)
    if candidate < COUNT:
        value = tl.load(bank + candidate * stride_n + token * stride_t + channel, mask=mask, other=0.0).to(tl.float32)
    else:
        value = tl.load(x + token * D + channel, mask=mask, other=0.0).to(tl.float32)
    root = tl.sqrt(tl.sum(value * value, axis=0) / D + eps)
    tl.store(scores + program, tl.sum(value * weight, axis=0) / root)


@triton.jit
def _mix(
    bank, x, scores, out, stride_n, stride_t,
    COUNT: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (D + BLOCK - 1) // BLOCK
    program = program_id(0)
    token = program // blocks
    channel = program % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = channel < D
    candidate = tl.arange(0, BN)
    score = tl.load(scores + token * (COUNT + 1) + candidate, mask=candidate <= COUNT, other=float("-inf"))
    power = tl.exp(score - tl.max(score, axis=0))
    share = power / tl.sum(power, axis=0)
    mixed = tl.zeros([BLOCK], dtype=tl.float32)
    place = bank + token * stride_t + channel
    for j in tl.static_range(COUNT):
        value = tl.load(place, mask=mask, other=0.0).to(tl.float32)
        mixed += value * tl.sum(tl.where(candidate == j, share, 0.0), axis=0)
        place += stride_n
    current = tl.load(x + token * D + channel, mask=mask, other=0.0).to(tl.float32)
    mixed += current * tl.sum(tl.where(candidate == COUNT, share, 0.0), axis=0)
    tl.store(out + token * D + channel, narrow(mixed, out.dtype.element_ty), mask=mask)


def residual_mix(bank: Tensor, x: Tensor, score_weight: Tensor, *, count: int, eps: float) -> Tensor:
    """As :func:`.naive.residual_mix`, in float32."""
    tokens, width = x.shape
    out = torch.empty_like(x)
    scores = torch.empty((tokens, count + 1), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(width)
    if tokens:
        strides = bank.stride(0), bank.stride(1)
        _scores[(tokens * (count + 1),)](
            bank, x, score_weight, scores, *strides, float(eps),
            COUNT=count, D=width, BD=block, num_warps=max(1, min(16, block // 256)),
        )  # fmt: skip
        _mix[(tokens * triton.cdiv(width, BLOCK),)](
            bank, x, scores, out, *strides, COUNT=count, D=width, BLOCK=BLOCK, BN=triton.next_power_of_2(count + 1)
        )
    return out
