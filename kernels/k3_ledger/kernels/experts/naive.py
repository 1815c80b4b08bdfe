"""Routed experts with the situ activation, the specification. Source: K3_MATH §7, §8."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from k3_ledger.kernels.situ.naive import situ

if TYPE_CHECKING:
    from torch import Tensor


def experts(
    x: Tensor,
    ids: Tensor,
    weights: Tensor,
    *,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    beta: float,
    linear_beta: float,
    first_expert: int,
    expert_count: int,
    by_load: bool = False,
) -> Tensor:
    """``sum over slots of weight * down_e . situ(gate_e . x, up_e . x)``, slots added in their order.

    One rank holds the experts ``[first_expert, first_expert + L)`` of ``expert_count``. A slot that names another
    rank's expert contributes exactly nothing; an id outside ``[0, expert_count)`` belongs to nobody and makes its
    token's whole result NaN.

    Args:
        x: ``[T, M]`` latent inputs (K3: 3584 wide).
        ids: ``[T, k]`` integers, numbered over all ranks.
        weights: ``[T, k]`` float32 of the router.
        gate: ``[L, F, M]`` of the type of ``x``.
        up: ``[L, F, M]``.
        down: ``[L, M, F]``.
        beta: of situ.
        linear_beta: of situ.
        first_expert: number of the first expert held here.
        expert_count: experts of all ranks together.
        by_load: a kernel may choose its tiles from the slots per expert. A token's bits then depend on how many tokens
            the call has: equal within the tolerance, and no longer bit for bit. The specification is the same.

    Returns:
        ``[T, M]`` in float32 (float64 for float64 inputs): ranks add these before the norm. Computed in float64;
        kernels round the activation between the two products to the type of ``x``.
    """
    del by_load
    tokens, slots = ids.shape
    parts = x.new_zeros((tokens, slots, x.shape[1]), dtype=torch.float64)
    local = ids.long() - first_expert
    for expert in torch.unique(local).tolist():
        if not 0 <= expert < gate.shape[0]:
            continue
        token, slot = (local == expert).nonzero(as_tuple=True)
        rows = x[token].double()
        hidden = situ(rows @ gate[expert].double().T, rows @ up[expert].double().T, beta=beta, linear_beta=linear_beta)
        parts[token, slot] = weights[token, slot, None].double() * (hidden @ down[expert].double().T)
    total = parts.sum(1)
    unowned = ((ids < 0) | (ids >= expert_count)).any(1, keepdim=True)
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return total.masked_fill(unowned, torch.nan).to(dtype)
