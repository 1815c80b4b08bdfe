"""Expanded MLA attention with a causal mask, the specification. Source: K3_MATH §6, "Unabsorbed"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def mla_prefill(query: Tensor, key: Tensor, key_pe: Tensor, value: Tensor, *, start: int, scale: float) -> Tensor:
    """Causal attention of a chunk of tokens, expanded form.

    Token ``t`` of the chunk stands at position ``start + t`` and sees rows ``0 ... start + t``. Its key at row ``s``
    is ``[key[s, h] | key_pe[s]]``: the second part is one vector for all heads, nothing is rotated.

    Args:
        query: ``[B, T, H, N + P]`` (K3: 128 + 64).
        key: ``[B, S, H, N]``, ``S >= start + T``. Later rows are never used and may hold NaN.
        key_pe: ``[B, S, P]``.
        value: ``[B, S, H, V]``.
        start: tokens before this chunk, at least 0.
        scale: K3: ``1 / sqrt(192)``.

    Returns:
        ``[B, T, H, V]`` in the type of ``query``. Computed in float64.
    """
    rows, tokens, nope = start + query.shape[1], query.shape[1], key.shape[3]
    wide = query.double()
    score = torch.einsum("bthn,bshn->bhts", wide[..., :nope], key[:, :rows].double())
    score = score + torch.einsum("bthp,bsp->bhts", wide[..., nope:], key_pe[:, :rows].double())
    last = torch.arange(start, start + tokens, device=query.device)
    hidden = torch.arange(rows, device=query.device) > last[:, None]
    weight = (score * scale).masked_fill(hidden, -torch.inf).softmax(-1)
    return torch.einsum("bhts,bshv->bthv", weight, value[:, :rows].double()).to(query.dtype).contiguous()
