"""Absorbed MLA kernel: one program a token, block of heads and slice of the context; slices merge in a second launch.

Scores and sums are float32. For 16-bit inputs the softmax powers are rounded to the cache's type before the second
product, as matrix units want; for float32 both products are IEEE float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import dot, narrow, program_id
from k3_ledger.kernels.mla_decode.naive import Slices
from k3_ledger.kernels.mla_decode.passes_ import PowersTile, ValuesTile, slices_into
from k3_ledger.kernels.mla_merge.triton_ import merge_into

if TYPE_CHECKING:
    from torch import Tensor

POWERS: Final = PowersTile(BN=128, BK=64, num_warps=4, num_stages=4)
VALUES: Final = ValuesTile(BV=256, BK=64, num_warps=8, num_stages=3)
"""Tiles of the two passes that 16-bit inputs of more than 16 heads take."""
PASSES: Final = True
ROOM: Final = 1 << 26
"""Powers that are kept at once, of several queries: 128 MiB."""


@triton.jit
def _mla_slices(
    query, cache, lengths, peaks, totals, latents, rows, tokens, items, slices, slice_rows, stride_b, stride_s, scale,
    H: tl.constexpr, R: tl.constexpr, V: tl.constexpr, BH: tl.constexpr, BV: tl.constexpr, BP: tl.constexpr,
    BN: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (H + BH - 1) // BH
    program = program_id(0)
    part = program // blocks % slices
    item = program // blocks // slices
    head = program % blocks * BH + tl.arange(0, BH)
    column = tl.arange(0, BV)
    rest = V + tl.arange(0, BP)
    begin = part * slice_rows
    # Whatever a length says, no row past the cache is read: there is no time to look at it before.
    end = tl.minimum(begin + slice_rows, tl.minimum(tl.load(lengths + item).to(tl.int64), rows))
    source = query + (item * H + head[:, None]) * R
    in_head = (head < H)[:, None]
    q_latent = tl.load(source + column[None, :], mask=in_head & (column < V)[None, :], other=0.0)
    q_rest = tl.load(source + rest[None, :], mask=in_head & (rest < R)[None, :], other=0.0)
    peak = tl.full([BH], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BH], dtype=tl.float32)
    latent = tl.zeros([BH, BV], dtype=tl.float32)
    base = cache + item // tokens * stride_b
    for first in range(begin, end, BN):
        row = first + tl.arange(0, BN)
        seen = row < end
        line = base + row[:, None] * stride_s
        k_latent = tl.load(line + column[None, :], mask=seen[:, None] & (column < V)[None, :], other=0.0)
        k_rest = tl.load(line + rest[None, :], mask=seen[:, None] & (rest < R)[None, :], other=0.0)
        score = dot(q_latent, tl.trans(k_latent), tl.zeros([BH, BN], dtype=tl.float32))
        score = dot(q_rest, tl.trans(k_rest), score) * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        new = tl.maximum(peak, tl.max(score, axis=1))
        power = tl.exp(score - new[:, None])
        shrink = tl.exp(peak - new)
        total = total * shrink + tl.sum(power, axis=1)
        latent = dot(narrow(power, k_latent.dtype), k_latent, latent * shrink[:, None])
        peak = new
    place = (part * items + item) * H + head
    tl.store(peaks + place, peak, mask=head < H)
    tl.store(totals + place, total, mask=head < H)
    # An empty slice stores no sum: nobody reads one whose peak is -inf.
    mask = in_head & (column < V)[None, :] & (begin < end)
    tl.store(latents + place[:, None] * V + column[None, :], latent, mask=mask)


def tiles(dtype: torch.dtype, heads: int) -> dict[str, int]:
    """Heads and rows a program takes at once, and how it is launched; never by tokens or context."""
    if dtype == torch.float32:
        return {"BH": 16, "BN": 16, "num_warps": 4, "num_stages": 2}
    if heads <= 16:
        return {"BH": 16, "BN": 64, "num_warps": 4, "num_stages": 2}
    return {"BH": 64, "BN": 64, "num_warps": 8, "num_stages": 2}


def mla_slices(
    query: Tensor, cache: Tensor, lengths: Tensor, *, value_dim: int, scale: float, slice_rows: int
) -> Slices:
    """As :func:`.naive.mla_slices`, accumulated in float32."""
    batch, tokens, heads, width = query.shape
    slices = triton.cdiv(cache.shape[1], slice_rows)
    kept = (slices, batch, tokens, heads)
    peak, total = (torch.empty(kept, dtype=torch.float32, device=query.device) for _ in range(2))
    latent = torch.empty((*kept, value_dim), dtype=torch.float32, device=query.device)
    out = Slices(peak, total, latent)
    # Never by tokens or context: a result's bits depend on neither.
    if PASSES and query.dtype != torch.float32 and heads > 16 and slice_rows % POWERS["BN"] == 0:
        slices_into(
            out,
            query,
            cache,
            lengths,
            scale=scale,
            slice_rows=slice_rows,
            powers_tile=POWERS,
            values_tile=VALUES,
            room=ROOM,
        )
        return out
    shape = tiles(query.dtype, heads)
    _mla_slices[(batch * tokens * slices * triton.cdiv(heads, shape["BH"]),)](
        query, cache, lengths, peak, total, latent, cache.shape[1],
        tokens, batch * tokens, slices, slice_rows, cache.stride(0), cache.stride(1), float(scale),
        H=heads, R=width, V=value_dim, BV=max(16, triton.next_power_of_2(value_dim)),
        BP=max(16, triton.next_power_of_2(width - value_dim)), **shape,
    )  # fmt: skip
    return out


def mla_decode(
    query: Tensor, cache: Tensor, lengths: Tensor, *, value_dim: int, scale: float, slice_rows: int
) -> Tensor:
    """As :func:`.naive.mla_decode`, accumulated in float32."""
    parts = mla_slices(query, cache, lengths, value_dim=value_dim, scale=scale, slice_rows=slice_rows)
    out = torch.empty((*query.shape[:3], value_dim), dtype=query.dtype, device=query.device)
    merge_into(out, parts.peak, parts.total, parts.latent)
    return out
