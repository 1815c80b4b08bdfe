"""Router kernel: one program a token, the experts in registers, one maximum after another in float32."""

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
    score = tl.where(is_nan(score), float("-inf"), score)
    left = mask
    slots = tl.arange(0, BT)
    picked = tl.zeros([BT], dtype=tl.int32)
    values = tl.zeros([BT], dtype=tl.float32)
    total = 0.0
    for slot in range(TOP_K):
        best = tl.max(tl.where(left, score, float("-inf")), axis=0)
        # The lowest index among equals; a removed expert is never chosen twice, not even at -inf.
        chosen = tl.min(tl.where(left & (score == best), expert, BE), axis=0)
        weight = tl.sum(tl.where(expert == chosen, probability, 0.0), axis=0)
        total += weight
        left = left & (expert != chosen)
        picked = tl.where(slots == slot, chosen, picked)
        values = tl.where(slots == slot, weight, values)
    if RENORMALISE:
        values = values / tl.where(total < min_sum, min_sum, total)
    values = tl.where(broken, float("nan"), values * scale)
    place = token * TOP_K + slots
    tl.store(ids + place, picked.to(tl.int64), mask=slots < TOP_K)
    tl.store(weights + place, values, mask=slots < TOP_K)


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
