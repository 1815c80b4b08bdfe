"""Cross-layer residual mixing, the specification. Source: K3_MATH §4, MIX."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def residual_mix(bank: Tensor, x: Tensor, score_weight: Tensor, *, count: int, eps: float) -> Tensor:
    """Softmax-weighted sum of the banked residuals and the current one.

    Candidates are ``bank[0 ... count - 1]`` in order, then ``x``; ``score_j = sum_c w_c v_jc / sqrt(mean(v_j^2) +
    eps)``; the result is ``sum_j softmax(score)_j v_j`` over the raw candidates, not the normalised ones.

    Args:
        bank: ``[N, T, D]`` capacity ``N``; any strides with contiguous rows (``[T, N, D]`` storage is passed as its
            transpose). Vectors at or past ``count`` are never read and may hold NaN.
        x: ``[T, D]`` of the type of ``bank``. Kernels sum squares in float32: to them a candidate whose root mean
            square is over 1e18 has a score of 0.
        score_weight: ``[D]``.
        count: banked vectors in use, 0 to N; 0 returns ``x``.
        eps: one epsilon for every candidate.

    Returns:
        ``[T, D]`` in the type of ``x``. Computed in float64.
    """
    candidates = torch.cat([bank[:count].double(), x.double()[None]])
    normed = candidates / (candidates.square().mean(-1, keepdim=True) + eps).sqrt()
    weight = (normed * score_weight.double()).sum(-1).softmax(0)
    return (weight[..., None] * candidates).sum(0).to(x.dtype)
