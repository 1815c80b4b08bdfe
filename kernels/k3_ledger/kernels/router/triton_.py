"""Router kernel: one program a token, the experts in registers, one maximum after another; scores in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import is_nan, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor


@triton.jit
def _router(
    logits, bias, ids, weights, E, scale, min_sum,
    TOP_K: tl.constexpr, BE: tl.constexpr, BT: tl.constexpr, RENORMALISE: tl.constexpr,
):  # fmt: skip
    token = program_id(0)
    expert = tl.arange(0, BE)
    mask = expert < E
    probability = sigmoid(tl.load(logits + token * E + expert, mask=mask, other=0.0))
    score = probability + tl.load(bias + expert, mask=mask, other=0.0).to(tl.float32)
    broken = tl.max((mask & is_nan(score)).to(tl.int32), axis=0) > 0
    bits = tl.where(is_nan(score), float("-inf"), score).to(tl.int32, bitcast=True)
    # Order of floats as order of integers; below it, the lower index is the greater one. One maximum gives both.
    rank = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    key = (rank.to(tl.int64) << 32) | (BE - 1 - expert)
    removed: tl.constexpr = -(2**63)
    key = tl.where(mask, key, removed)
    slots = tl.arange(0, BT)
    picked = tl.zeros([BT], dtype=tl.int32)
    for slot in range(TOP_K):
        best = tl.max(key, axis=0)
        chosen = (BE - 1 - (best & 0xFFFFFFFF)).to(tl.int32)
        key = tl.where(expert == chosen, removed, key)
        picked = tl.where(slots == slot, chosen, picked)
    used = slots < TOP_K
    values = tl.where(used, sigmoid(tl.load(logits + token * E + picked, mask=used, other=0.0)), 0.0)
    if RENORMALISE:
        total = tl.sum(values, axis=0)
        values = values / tl.where(total < min_sum, min_sum, total)
    values = tl.where(broken, float("nan"), values * scale)
    place = token * TOP_K + slots
    tl.store(ids + place, picked.to(tl.int64), mask=used)
    tl.store(weights + place, values, mask=used)


def router(
    logits: Tensor, bias: Tensor, *, top_k: int, renormalise: bool, scale: float, min_sum: float
) -> tuple[Tensor, Tensor]:
    """As :func:`.naive.router`, in float32: scores that differ by less than its rounding count as ties."""
    tokens, experts = logits.shape
    ids = torch.empty((tokens, top_k), dtype=torch.int64, device=logits.device)
    weights = torch.empty((tokens, top_k), dtype=logits.dtype, device=logits.device)
    if tokens:
        _router[(tokens,)](
            logits, bias, ids, weights, experts, float(scale), float(min_sum),
            TOP_K=top_k, BE=triton.next_power_of_2(experts), BT=triton.next_power_of_2(top_k), RENORMALISE=renormalise,
        )  # fmt: skip
    return ids, weights
