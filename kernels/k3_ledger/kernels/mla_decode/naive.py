"""Absorbed MLA attention over a latent cache, the specification. Source: K3_MATH §6."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor


class Slices(NamedTuple):
    """Attention over ``J`` disjoint slices of the context, before they are merged.

    Attributes:
        peak: ``[J, B, T, H]`` greatest score of the slice, natural log space; -inf where it has no visible row.
        total: ``[J, B, T, H]`` sum of ``exp(score - peak)``; 0 for an empty slice.
        latent: ``[J, B, T, H, V]`` sum of ``exp(score - peak) * row[:V]``. Unspecified (NaN too) for an empty slice.
    """

    peak: Tensor
    total: Tensor
    latent: Tensor


def mla_slices(
    query: Tensor, cache: Tensor, lengths: Tensor, *, value_dim: int, scale: float, slice_rows: int
) -> Slices:
    """Attention of every token over each slice of the cache on its own.

    Slice ``j`` covers cache rows ``[j * slice_rows, (j + 1) * slice_rows)``, whatever ``T`` is: a token's result does
    not depend on which tokens share the call. Arguments as in :func:`mla_decode`.

    Returns:
        Slices with ``J = ceil(S / slice_rows)``, float32 (float64 for float64 queries). Computed in float64.
    """
    rows = cache.shape[1]
    count = -(-rows // slice_rows)
    position = torch.arange(rows, device=cache.device)
    visible = position < lengths[..., None]
    # Rows past a token's length may hold anything: 0 * NaN is NaN, so they are replaced, not weighted.
    reach = position < lengths.amax(dim=1)[:, None]
    stored = torch.where(reach[..., None], cache.double(), 0.0)
    score = torch.einsum("bthr,bsr->bths", query.double(), stored) * scale
    score = score.masked_fill(~visible[:, :, None], -torch.inf)
    peaks, totals, latents = [], [], []
    for j in range(count):
        part = slice(j * slice_rows, (j + 1) * slice_rows)
        peak = score[..., part].amax(-1)
        power = (score[..., part] - peak.masked_fill(peak.isneginf(), 0.0)[..., None]).exp()
        peaks.append(peak)
        totals.append(power.sum(-1))
        latents.append(torch.einsum("bths,bsv->bthv", power, stored[:, part, :value_dim]))
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    return Slices(torch.stack(peaks).to(dtype), torch.stack(totals).to(dtype), torch.stack(latents).to(dtype))


def mla_decode(
    query: Tensor,
    cache: Tensor,
    lengths: Tensor,
    *,
    value_dim: int,
    scale: float,
    slice_rows: int,  # noqa: ARG001  the specification has no slices; kernels share its signature
) -> Tensor:
    """Attention of ``T`` tokens over one latent cache, absorbed form, split context; decode is ``T = 1``.

    ``p = softmax(scale * query . row)`` over the rows a token may see, result ``sum p * row[:value_dim]``.

    Args:
        query: ``[B, T, H, R]`` per head ``[K_b q_nope | q_pe]`` (K3: 512 + 64), nothing rotated.
        cache: ``[B, S, R]`` rows ``[normed latent | k_pe]`` shared by all heads, type of ``query``. Rows may be
            strided. Rows at or past a token's length are never used and may hold NaN.
        lengths: ``[B, T]`` integers: rows each token sees, itself included. A tensor, so that a captured graph does
            not freeze it. 0 to S; length 0 gives exact zeros. Others are refused where they lie in host memory; on
            an accelerator, where to look would be to wait for it, one above S counts as S.
        value_dim: ``V``, leading values of a row that are summed (K3: 512).
        scale: K3: ``1 / sqrt(192)``, by the unabsorbed key width.
        slice_rows: rows a slice. Part of the result's bits, never of its meaning.

    Returns:
        ``[B, T, H, V]`` in the type of ``query``. Computed in float64.
    """
    rows = cache.shape[1]
    visible = torch.arange(rows, device=cache.device) < lengths[..., None]
    reach = torch.arange(rows, device=cache.device) < lengths.amax(dim=1)[:, None]
    stored = torch.where(reach[..., None], cache.double(), 0.0)
    score = torch.einsum("bthr,bsr->bths", query.double(), stored) * scale
    weight = score.masked_fill(~visible[:, :, None], -torch.inf).softmax(-1)
    weight = torch.where(lengths[..., None, None] > 0, weight, 0.0)
    return torch.einsum("bths,bsv->bthv", weight, stored[..., :value_dim]).to(query.dtype)
