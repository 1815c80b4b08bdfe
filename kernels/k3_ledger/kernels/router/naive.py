"""Sigmoid router with a selection bias, the specification. Source: K3_MATH §7, §11."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def router(
    logits: Tensor, bias: Tensor, *, top_k: int, renormalise: bool, scale: float, min_sum: float
) -> tuple[Tensor, Tensor]:
    """Choose ``top_k`` experts a token, and their weights.

    ``P = sigmoid(logits)``; the greatest ``P + bias`` are chosen, ties by the lower index; an expert's weight is its
    ``P`` (the bias never enters it), divided by the chosen experts' sum where asked, times ``scale``.

    Args:
        logits: ``[T, E]`` float32 (float64 in naive checks), from the full-width input.
        bias: ``[E]``.
        top_k: ``k``, 1 to E.
        renormalise: divide the chosen weights by their sum.
        scale: factor on every weight.
        min_sum: least divisor (llama.cpp: 2^-14; 0 for none).

    Returns:
        ids ``[T, k]`` int64 in order of falling score, and weights ``[T, k]`` in the type of ``logits``. A token with
        a NaN logit gets NaN weights, so that it cannot pass unseen. Computed in float64; kernels take scores in
        float32, to which those less than 2^-22 apart can be ties: sigmoids of logits over 16 among them, all near 1.
    """
    probability = logits.double().sigmoid()
    score = probability + bias.double()
    broken = score.isnan()
    ranked = score.masked_fill(broken, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
    ids = ranked[:, :top_k].contiguous()
    weights = probability.gather(1, ids)
    if renormalise:
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=min_sum)
    weights = (weights * scale).masked_fill(broken.any(-1, keepdim=True), torch.nan)
    return ids, weights.to(logits.dtype)
