"""Merge of attention over slices of the context, the specification. Source: K3_MATH §6, "Split context"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def mla_merge(peak: Tensor, total: Tensor, latent: Tensor) -> Tensor:
    """Softmax-weighted sum over disjoint slices, from each slice's peak, total and unnormalised sum.

    ``M = max_j peak_j``, ``w_j = e^(peak_j - M)``, result ``sum w_j latent_j / sum w_j total_j``, added in the order
    of ``j``. An empty slice (``peak = -inf``) weighs exactly 0 and its other values are never read; if every slice is
    empty the result is exact zeros.

    Args:
        peak: ``[J, B, T, H]`` float32, natural log space.
        total: ``[J, B, T, H]``.
        latent: ``[J, B, T, H, V]``.

    Returns:
        ``[B, T, H, V]`` in the type of ``latent``. Computed in float64.
    """
    empty = peak.isneginf()
    greatest = peak.double().amax(0)
    offset = peak.double() - greatest.masked_fill(greatest.isneginf(), 0.0)
    weight = offset.exp()
    norm = torch.where(empty, 0.0, weight * total.double()).sum(0)
    mixed = torch.where(empty[..., None], 0.0, weight[..., None] * latent.double()).sum(0)
    merged = torch.where(empty.all(0)[..., None], 0.0, mixed / norm[..., None])
    return merged.to(latent.dtype)
