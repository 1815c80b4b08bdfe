"""Absorbed MLA of many heads in two launches: softmax powers of every row, then their products with the rows.

One program cannot hold the sums of 96 heads, and with 64 heads a program both of its halves work out the same scores.
So the first launch takes a tile of rows for all heads at once and keeps the powers, relative to the tile's own
greatest score, in float16: they are at most 1, and what is below 2^-24 of a tile's greatest adds nothing. The second
takes the tiles of a slice in order, brings their powers to the slice's greatest score, and rounds them to the cache's
type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import dot, narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

    from k3_ledger.kernels.mla_decode.naive import Slices

LOG2_E: Final = tl.constexpr(1.4426950408889634)


class PowersTile(TypedDict):
    """Rows of a tile, inner values a step, and the launch."""

    BN: int
    BK: int
    num_warps: int
    num_stages: int


class ValuesTile(TypedDict):
    """Value columns of a program, rows a step, and the launch."""

    BV: int
    BK: int
    num_warps: int
    num_stages: int


@triton.jit
def _keep(score, head, seen, powers, peaks, totals, place, line, H: tl.constexpr):
    """Powers, greatest score and sum of a tile for some heads."""
    score = tl.where(seen[:, None], score, float("-inf"))
    peak = tl.max(score, axis=0)
    power = tl.exp2((score - peak[None, :]) * LOG2_E)
    mask = head < H
    tl.store(powers + line[:, None] * H + head[None, :], power.to(tl.float16), mask=seen[:, None] & mask[None, :])
    tl.store(peaks + place * H + head, peak, mask=mask)
    tl.store(totals + place * H + head, tl.sum(power, axis=0), mask=mask)


@triton.jit
def _mla_powers(
    query, cache, lengths, powers, peaks, totals, first_item, rows, tokens, tiles, stride_b, stride_s, scale,
    H: tl.constexpr, R: tl.constexpr, HA: tl.constexpr, HB: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    program = program_id(0)
    tile = program % tiles
    own = program // tiles
    item = first_item + own
    begin = tile * BN
    # Whatever a length says, no row past the cache is read: there is no time to look at it before.
    end = tl.minimum(begin + BN, tl.minimum(tl.load(lengths + item).to(tl.int64), rows))
    if begin < end:
        row = begin + tl.arange(0, BN)
        seen = row < end
        line = cache + item // tokens * stride_b + row[:, None] * stride_s
        a = tl.arange(0, HA)
        b = HA + tl.arange(0, HB)
        source = query + item * H * R
        one = tl.zeros([BN, HA], dtype=tl.float32)
        two = tl.zeros([BN, HB], dtype=tl.float32)
        for first in range(0, R, BK):
            inner = first + tl.arange(0, BK)
            within = inner < R
            key = tl.load(line + inner[None, :], mask=seen[:, None] & within[None, :], other=0.0)
            q = tl.load(source + a[:, None] * R + inner[None, :], mask=(a < H)[:, None] & within[None, :], other=0.0)
            one = dot(key, tl.trans(q), one)
            if H > HA:
                q = tl.load(
                    source + b[:, None] * R + inner[None, :], mask=(b < H)[:, None] & within[None, :], other=0.0
                )
                two = dot(key, tl.trans(q), two)
        place = own * tiles + tile
        kept = own * tiles * BN + row
        _keep(one * scale, a, seen, powers, peaks, totals, place, kept, H)
        if H > HA:
            _keep(two * scale, b, seen, powers, peaks, totals, place, kept, H)


@triton.jit
def _mla_values(
    cache, lengths, powers, tile_peaks, tile_totals, peaks, totals, latents, first_item, rows, tokens, items, slices,
    slice_rows, tiles, stride_b, stride_s,
    H: tl.constexpr, V: tl.constexpr, BH: tl.constexpr, BN: tl.constexpr, BV: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (V + BV - 1) // BV
    program = program_id(0)
    block = program % blocks
    part = program // blocks % slices
    own = program // blocks // slices
    item = first_item + own
    head = tl.arange(0, BH)
    in_head = head < H
    column = block * BV + tl.arange(0, BV)
    in_row = column < V
    begin = part * slice_rows
    end = tl.minimum(begin + slice_rows, tl.minimum(tl.load(lengths + item).to(tl.int64), rows))
    heights = tile_peaks + own * tiles * H + head
    counts = tile_totals + own * tiles * H + head
    peak = tl.full([BH], float("-inf"), dtype=tl.float32)
    for tile in range(begin // BN, (end + BN - 1) // BN):
        peak = tl.maximum(peak, tl.load(heights + tile * H, mask=in_head, other=float("-inf")))
    origin = tl.where(peak == float("-inf"), 0.0, peak)  # of rows that are no heads, and of empty slices
    total = tl.zeros([BH], dtype=tl.float32)
    for tile in range(begin // BN, (end + BN - 1) // BN):
        height = tl.load(heights + tile * H, mask=in_head, other=float("-inf"))
        total += tl.exp2((height - origin) * LOG2_E) * tl.load(counts + tile * H, mask=in_head, other=0.0)
    latent = tl.zeros([BH, BV], dtype=tl.float32)
    base = cache + item // tokens * stride_b + column[None, :]
    kept = powers + own * tiles * BN * H + head[None, :]
    for first in range(begin, end, BK):
        row = first + tl.arange(0, BK)
        seen = row < end
        height = tl.load(heights + first // BN * H, mask=in_head, other=float("-inf"))
        power = tl.load(kept + row[:, None] * H, mask=seen[:, None] & in_head[None, :], other=0.0)
        value = tl.load(base + row[:, None] * stride_s, mask=seen[:, None] & in_row[None, :], other=0.0)
        power = power.to(tl.float32) * tl.exp2((height - origin) * LOG2_E)[None, :]
        latent = dot(tl.trans(narrow(power, value.dtype)), value, latent)
    place = (part * items + item) * H + head
    if block == 0:
        tl.store(peaks + place, peak, mask=in_head)
        tl.store(totals + place, total, mask=in_head)
    # An empty slice stores no sum: nobody reads one whose peak is -inf.
    mask = in_head[:, None] & in_row[None, :] & (begin < end)
    tl.store(latents + place[:, None] * V + column[None, :], latent, mask=mask)


def slices_into(
    out: Slices,
    query: Tensor,
    cache: Tensor,
    lengths: Tensor,
    *,
    scale: float,
    slice_rows: int,
    powers_tile: PowersTile,
    values_tile: ValuesTile,
    room: int,
) -> None:
    """Slices of the context, as :func:`.naive.mla_slices` keeps them; ``slice_rows`` is a multiple of the tile's rows.

    Queries are taken in groups whose powers fit ``room`` values: no bit depends on how many those are.
    """
    batch, tokens, heads, width = query.shape
    slices, items, value_dim = out.latent.shape[0], batch * tokens, out.latent.shape[-1]
    rows, tile = cache.shape[1], powers_tile["BN"]
    tiles = triton.cdiv(rows, tile)
    group = min(items, max(1, room // (tiles * tile * heads)))
    powers = torch.empty((group, tiles * tile, heads), dtype=torch.float16, device=query.device)
    heights, counts = (torch.empty((group, tiles, heads), device=query.device) for _ in range(2))
    most = 1 << (heads.bit_length() - 1)
    for first in range(0, items, group):
        several = min(group, items - first)
        _mla_powers[(several * tiles,)](
            query, cache, lengths, powers, heights, counts, first, rows, tokens, tiles, cache.stride(0),
            cache.stride(1), float(scale), H=heads, R=width, HA=most,
            HB=max(16, triton.next_power_of_2(heads - most)), **powers_tile,
        )  # fmt: skip
        _mla_values[(several * slices * triton.cdiv(value_dim, values_tile["BV"]),)](
            cache, lengths, powers, heights, counts, *out, first, rows, tokens, items, slices,
            slice_rows, tiles, cache.stride(0), cache.stride(1), H=heads, V=value_dim,
            BH=max(64, triton.next_power_of_2(heads)), BN=tile, **values_tile,
        )  # fmt: skip
