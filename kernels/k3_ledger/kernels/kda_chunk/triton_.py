"""Kimi delta attention kernels in chunks: what needs no state, for all chunks at once; then the scan over chunks.

Scratch between the two, per head and chunk: ``w = A (beta k e^G)``, ``u = A (beta v)`` with ``A = (I + L)^-1``, ``m``,
``q e^G``, ``k e^(G_last - G)`` and ``G_last``, all float32. Pair decays ``e^(G_t - G_s)`` are products of
``e^(G_t - G_8)`` and ``e^(G_8 - G_s)`` where the gate's bound keeps both in range (at -5 the middle of a chunk is e^40
from its ends), and are formed one by one from differences, never above 0, where no bound does. Matrix products are
three TF32 products each (2^-22 relative), unlike the IEEE products of the bit-identical operations. 16-bit inputs
of a gate that stays in range take the kernels of :mod:`.half_` instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.kda_chunk.half_ import prepare_half, scan_half
from k3_ledger.kernels.kda_chunk.naive import CHUNK
from k3_ledger.kernels.kda_chunk.place_ import place_of_chunk
from k3_ledger.kernels.kda_chunk.triangle_ import invert
from k3_ledger.kernels.language import dot_tf32x3, log_decay, narrow, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor

SUB: Final = 16
"""Key channels whose pair decays are held at once."""
SPLIT_BOUND: Final = -5.0
"""Lowest bound of the log decay for which a whole chunk, e^75, stays in range of float32."""
PREPARE_TILE: Final = {"WIDTH": 16, "num_warps": 1, "num_stages": 1, "maxnreg": 128}
"""Channels that the part without state takes at once, and how it is launched.

Its products have 16 rows: more warps than one repeat each other's work and wait for each other, and few channels at
once leave registers for 16 programs a multiprocessor where whole rows left them for two.
"""
SCAN_TILE: Final = {"BLOCK": 32, "num_warps": 4, "num_stages": 2, "maxnreg": 168}
"""Value columns a program of the scan takes, and how it is launched.

Registers and stages leave room for three programs a multiprocessor: 96 heads are 384 programs, and an H200 has 132.
"""
HALF: Final = True
"""Whether 16-bit inputs with a bounded gate take the kernels of :mod:`.half_`."""
HALF_PREPARE_TILE: Final = {"WIDTH": 32, "num_warps": 1, "num_stages": 1, "maxnreg": 128}
HALF_SCAN_TILE: Final = {"BLOCK": 64, "num_warps": 4, "num_stages": 3}
"""As the two tables above, for those kernels."""


@triton.jit
def _gates(f, dt_bias, a, place, head, channel, mask, lower_bound, K, BOUNDED: tl.constexpr):
    """Cumulative log decay ``[C, channels]`` of a chunk; rows past its end add 0."""
    bias = tl.load(dt_bias + head * K + channel, mask=channel < K, other=0.0).to(tl.float32)
    pre = tl.load(f + place, mask=mask, other=0.0).to(tl.float32) + bias[None, :]
    g = log_decay(pre, -tl.load(a + head).to(tl.float32), lower_bound, BOUNDED)
    return tl.cumsum(tl.where(mask, g, 0.0), axis=0)


@triton.jit
def _products(query, key, total, mixed, lower, C: tl.constexpr):
    """What :func:`_pairs` adds up, as two matrix products around the middle of the chunk, where gates stay in range."""
    row = tl.arange(0, C)
    middle = tl.sum(tl.where((row == C // 2)[:, None], total, 0.0), axis=0)
    rise = tl.exp(total - middle[None, :])
    turned = tl.trans(key * tl.exp(middle[None, :] - total))
    return dot_tf32x3(query * rise, turned, mixed), dot_tf32x3(key * rise, turned, lower)


@triton.jit
def _pairs(
    q, k, f, dt_bias, a, token, valid, head, lower_bound, query_scale, key_scale,
    K: tl.constexpr, C: tl.constexpr, SUB: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    """``M`` and the sums of ``L`` before beta, ``[C, C]``, over blocks of key channels in order."""
    row = tl.arange(0, C)
    mixed = tl.zeros([C, C], dtype=tl.float32)
    lower = tl.zeros([C, C], dtype=tl.float32)
    seen = row[:, None] >= row[None, :]
    for begin in range(0, K, SUB):
        channel = begin + tl.arange(0, SUB)
        place = token[:, None] * K + channel[None, :]
        mask = valid[:, None] & (channel < K)[None, :]
        total = _gates(f, dt_bias, a, place, head, channel, mask, lower_bound, K, BOUNDED)
        query = tl.load(q + place, mask=mask, other=0.0).to(tl.float32) * query_scale[:, None]
        key = tl.load(k + place, mask=mask, other=0.0).to(tl.float32) * key_scale[:, None]
        gap = total[:, None, :] - total[None, :, :]
        pair = tl.exp(tl.where(seen[:, :, None], gap, float("-inf"))) * key[None, :, :]
        mixed += tl.sum(query[:, None, :] * pair, axis=2)
        lower += tl.sum(key[:, None, :] * pair, axis=2)
    return mixed, lower


@triton.jit
def _squares(source, token, valid, K: tl.constexpr, BK: tl.constexpr):
    """Sum of the squares of each row; 0 for rows past the end."""
    channel = tl.arange(0, BK)
    mask = valid[:, None] & (channel < K)[None, :]
    value = tl.load(source + token[:, None] * K + channel[None, :], mask=mask, other=0.0).to(tl.float32)
    return tl.sum(value * value, axis=1)


@triton.jit
def _prepare(
    q, k, v, f, beta, a, dt_bias, w, u, m, q_plus, k_rest, last, T, H, chunks, lower_bound, l2_eps,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    SUB: tl.constexpr, BOUNDED: tl.constexpr, SPLIT: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    program, head, row, valid, token, line = place_of_chunk(T, H, chunks, C)
    query_scale = 1.0 / tl.sqrt((_squares(q, token, valid, K, BK) + l2_eps) * K)
    key_scale = 1.0 / tl.sqrt(_squares(k, token, valid, K, BK) + l2_eps)
    mixed = tl.zeros([C, C], dtype=tl.float32)
    lower = tl.zeros([C, C], dtype=tl.float32)
    for begin in range(0, BK, WIDTH):
        channel = begin + tl.arange(0, WIDTH)
        place = token[:, None] * K + channel[None, :]
        mask = valid[:, None] & (channel < K)[None, :]
        total = _gates(f, dt_bias, a, place, head, channel, mask, lower_bound, K, BOUNDED)
        query = tl.load(q + place, mask=mask, other=0.0).to(tl.float32) * query_scale[:, None]
        key = tl.load(k + place, mask=mask, other=0.0).to(tl.float32) * key_scale[:, None]
        if SPLIT:
            mixed, lower = _products(query, key, total, mixed, lower, C)
        final = tl.sum(tl.where((row == C - 1)[:, None], total, 0.0), axis=0)
        tl.store(q_plus + line * BK + channel[None, :], query * tl.exp(total))
        tl.store(k_rest + line * BK + channel[None, :], key * tl.exp(final[None, :] - total))
        tl.store(last + program * BK + channel, final)
    if not SPLIT:
        mixed, lower = _pairs(
            q, k, f, dt_bias, a, token, valid, head, lower_bound, query_scale, key_scale, K, C, SUB, BOUNDED
        )
    tl.store(m + line * C + row[None, :], tl.where(row[:, None] >= row[None, :], mixed, 0.0))
    write = tl.where(valid, sigmoid(tl.load(beta + token, mask=valid, other=0.0).to(tl.float32)), 0.0)
    strict = row[:, None] > row[None, :]
    inverse = invert(tl.where(strict, lower * write[:, None], 0.0), C)

    zero = tl.zeros([C, WIDTH], dtype=tl.float32)
    for begin in range(0, BK, WIDTH):
        channel = begin + tl.arange(0, WIDTH)
        place = token[:, None] * K + channel[None, :]
        mask = valid[:, None] & (channel < K)[None, :]
        total = _gates(f, dt_bias, a, place, head, channel, mask, lower_bound, K, BOUNDED)
        key = tl.load(k + place, mask=mask, other=0.0).to(tl.float32) * (key_scale * write)[:, None]
        tl.store(w + line * BK + channel[None, :], dot_tf32x3(inverse, key * tl.exp(total), zero))
    for begin in range(0, BV, WIDTH):
        column = begin + tl.arange(0, WIDTH)
        in_value = valid[:, None] & (column < V)[None, :]
        value = tl.load(v + token[:, None] * V + column[None, :], mask=in_value, other=0.0).to(tl.float32)
        tl.store(u + line * BV + column[None, :], dot_tf32x3(inverse, value * write[:, None], zero))


@triton.jit
def _scan(
    w, u, m, q_plus, k_rest, last, state, out, T, H, chunks,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (V + BLOCK - 1) // BLOCK
    program = program_id(0)
    item = program // blocks
    head = item % H
    sequence = item // H
    row = tl.arange(0, C)
    channel = tl.arange(0, BK)
    column = program % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = (channel < K)[:, None] & (column < V)[None, :]
    place = state + (item * K + channel[:, None]) * V + column[None, :]
    current = tl.load(place, mask=mask, other=0.0)
    for chunk in range(chunks):
        base = item * chunks + chunk
        scratch = (base * C + row[:, None]) * BK + channel[None, :]
        turned = (base * C + row[None, :]) * BK + channel[:, None]
        square = (base * C + row[:, None]) * C + row[None, :]
        in_value = (column < V)[None, :] & (row >= 0)[:, None]
        decay = tl.exp(tl.load(last + base * BK + channel))  # early: the step would wait for it after three products
        update = tl.load(u + (base * C + row[:, None]) * BV + column[None, :], mask=in_value, other=0.0)
        update = dot_tf32x3(-tl.load(w + scratch), current, update)
        result = dot_tf32x3(tl.load(q_plus + scratch), current, tl.zeros([C, BLOCK], dtype=tl.float32))
        result = dot_tf32x3(tl.load(m + square), update, result)
        current = current * decay[:, None]
        current = dot_tf32x3(tl.load(k_rest + turned), update, current)
        time = chunk * C + row
        target = ((sequence * T + time) * H + head)[:, None] * V + column[None, :]
        tl.store(out + target, narrow(result, out.dtype.element_ty), mask=in_value & (time < T)[:, None])
    tl.store(place, current, mask=mask)


def kda_chunk(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    f: Tensor,
    beta: Tensor,
    *,
    a: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    lower_bound: float | None,
    l2_eps: float,
) -> Tensor:
    """As :func:`.naive.kda_chunk`, in float32."""
    batch, tokens, heads, width = q.shape
    values = v.shape[3]
    out = torch.empty_like(v)
    items, chunks = batch * heads, triton.cdiv(tokens, CHUNK)
    if not items * tokens:
        return out
    bound = 0.0 if lower_bound is None else float(lower_bound)
    if HALF and q.element_size() == 2 and SPLIT_BOUND <= bound < 0.0:
        _by_halves(q, k, v, f, beta, a, dt_bias, state, out, bound, float(l2_eps))
        return out
    padded, padded_values = (max(16, triton.next_power_of_2(size)) for size in (width, values))

    def scratch(*shape: int) -> Tensor:
        return torch.empty((items * chunks, *shape), dtype=torch.float32, device=q.device)

    w, q_plus, k_rest = (scratch(CHUNK, padded) for _ in range(3))
    u, m, last = scratch(CHUNK, padded_values), scratch(CHUNK, CHUNK), scratch(padded)
    split = lower_bound is not None and lower_bound >= SPLIT_BOUND
    sizes = {"K": width, "V": values, "C": CHUNK, "BK": padded, "BV": padded_values}
    tile = PREPARE_TILE if split else {**PREPARE_TILE, "num_warps": 4}  # decays of pairs fill the registers of four
    _prepare[(items * chunks,)](
        q, k, v, f, beta, a, dt_bias, w, u, m, q_plus, k_rest, last, tokens, heads, chunks,
        bound, float(l2_eps),
        SUB=SUB, BOUNDED=lower_bound is not None, SPLIT=split, **sizes, **tile,
    )  # fmt: skip
    _scan[(items * triton.cdiv(values, SCAN_TILE["BLOCK"]),)](
        w, u, m, q_plus, k_rest, last, state, out, tokens, heads, chunks, **sizes, **SCAN_TILE
    )
    return out


def _by_halves(
    q: Tensor, k: Tensor, v: Tensor, f: Tensor, beta: Tensor, a: Tensor, dt_bias: Tensor, state: Tensor, out: Tensor,
    bound: float, l2_eps: float,
) -> None:  # fmt: skip
    """Write ``out`` and ``state`` by the kernels of :mod:`.half_`."""
    batch, tokens, heads, width = q.shape
    values = v.shape[3]
    items, chunks = batch * heads, triton.cdiv(tokens, CHUNK)
    padded = max(16, triton.next_power_of_2(width))

    def scratch(*shape: int, dtype: torch.dtype = torch.float16) -> Tensor:
        return torch.empty((items * chunks, *shape), dtype=dtype, device=q.device)

    kept = (
        *(scratch(CHUNK, padded) for _ in range(3)),
        *(scratch(CHUNK, CHUNK) for _ in range(2)),
        scratch(padded, dtype=torch.float32),
    )
    units = torch.maximum(
        torch.linalg.vector_norm(state, torch.inf, dim=2), torch.linalg.vector_norm(v, torch.inf, dim=1)
    )
    sizes = {"K": width, "C": CHUNK, "BK": padded}
    prepare = {**HALF_PREPARE_TILE, "WIDTH": min(padded, HALF_PREPARE_TILE["WIDTH"])}
    prepare_half[(items * chunks,)](
        q, k, f, beta, a, dt_bias, *kept, tokens, heads, chunks, bound, l2_eps, **sizes, **prepare
    )
    scan_half[(items * triton.cdiv(values, HALF_SCAN_TILE["BLOCK"]),)](
        *kept, v, units, state, out, tokens, heads, chunks, V=values, **sizes, **HALF_SCAN_TILE
    )
