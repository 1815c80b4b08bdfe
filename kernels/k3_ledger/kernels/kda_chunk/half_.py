"""Kimi delta attention kernels in chunks for 16-bit inputs: products of half-precision operands, the state turned over.

Of a chunk, ``prepare`` keeps what needs no state: ``k e^G``, ``q e^G``, ``k e^(G_last - G)``, ``(I + L)^-1 beta`` and
``m``, all about 1 in size at most and stored as float16, and the decay ``e^G_last``. ``scan`` holds the state as
``[V, K]``: value columns are the rows of every product, and 64 of them fill a matrix instruction where 16 tokens do
not; state, residual and update are operands straight from registers. By the delta rule a column's state stays within
the root of the number of tokens times the column's greatest value, so float16 holds it in units of the greatest value
seen so far. The state itself stays float32.

Float16 operands are rounded at 2^-12, and the sums over channels behind ``L`` and ``m`` are one TF32 product: together
less than the rounding of a bfloat16 result. Gates must be bounded by -5 or above, and below 0: then ``e^-G`` of 16
tokens stays under e^80, in range of float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels.kda_chunk.place_ import place_of_chunk
from k3_ledger.kernels.kda_chunk.triangle_ import invert
from k3_ledger.kernels.language import dot, dot_tf32, narrow, program_id, sigmoid

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def prepare_half(
    q, k, f, beta, a, dt_bias, k_minus, q_plus, k_rest, inverse, mixed, decay, T, H, chunks, lower_bound, l2_eps,
    K: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One chunk of one head."""
    program, head, row, valid, token, line = place_of_chunk(T, H, chunks, C)
    slope = tl.load(a + head).to(tl.float32) * LOG2_E  # logarithms are to base 2 here, as the exponential unit is
    query_squares = tl.zeros([C], dtype=tl.float32)
    key_squares = tl.zeros([C], dtype=tl.float32)
    for begin in tl.static_range(0, BK, WIDTH):
        channel = begin + tl.arange(0, WIDTH)
        place = token[:, None] * K + channel[None, :]
        mask = valid[:, None] & (channel < K)[None, :]
        query = tl.load(q + place, mask=mask, other=0.0).to(tl.float32)
        key = tl.load(k + place, mask=mask, other=0.0).to(tl.float32)
        query_squares += tl.sum(query * query, axis=1)
        key_squares += tl.sum(key * key, axis=1)
    query_scale = 1.0 / tl.sqrt((query_squares + l2_eps) * K)
    key_scale = 1.0 / tl.sqrt(key_squares + l2_eps)
    m = tl.zeros([C, C], dtype=tl.float32)
    lower = tl.zeros([C, C], dtype=tl.float32)
    for begin in range(0, BK, WIDTH):
        channel = begin + tl.arange(0, WIDTH)
        place = token[:, None] * K + channel[None, :]
        mask = valid[:, None] & (channel < K)[None, :]
        bias = tl.load(dt_bias + head * K + channel, mask=channel < K, other=0.0).to(tl.float32)
        pre = tl.load(f + place, mask=mask, other=0.0).to(tl.float32) + bias[None, :]
        gate = tl.where(mask, lower_bound * LOG2_E / (1.0 + tl.exp2(tl.minimum(slope * pre, 126.0))), 0.0)
        total = tl.cumsum(gate, axis=0)
        final = tl.exp2(tl.sum(gate, axis=0))
        rise = tl.exp2(total)
        query = tl.load(q + place, mask=mask, other=0.0).to(tl.float32) * query_scale[:, None] * rise
        key = tl.load(k + place, mask=mask, other=0.0).to(tl.float32) * key_scale[:, None]
        falling = key * tl.exp2(-total)
        key *= rise
        turned = tl.trans(falling)
        m = dot_tf32(query, turned, m)
        lower = dot_tf32(key, turned, lower)
        target = line * BK + channel[None, :]
        tl.store(q_plus + target, query.to(tl.float16))
        tl.store(k_minus + target, (-key).to(tl.float16))
        tl.store(k_rest + target, (falling * final[None, :]).to(tl.float16))
        tl.store(decay + program * BK + channel, final)
    write = tl.where(valid, sigmoid(tl.load(beta + token, mask=valid, other=0.0).to(tl.float32)), 0.0)
    strict = row[:, None] > row[None, :]
    answer = invert(tl.where(strict, lower * write[:, None], 0.0), C) * write[None, :]
    square = line * C + row[None, :]
    tl.store(inverse + square, answer.to(tl.float16))
    tl.store(mixed + square, tl.where(row[:, None] >= row[None, :], m, 0.0).to(tl.float16))


@triton.jit
def scan_half(
    k_minus, q_plus, k_rest, inverse, mixed, decay, v, units, state, out, T, H, chunks,
    K: tl.constexpr, V: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """All chunks of one head and block of value columns, in order."""
    blocks: tl.constexpr = (V + BLOCK - 1) // BLOCK
    program = program_id(0)
    item = program // blocks
    head = item % H
    sequence = item // H
    row = tl.arange(0, C)
    channel = tl.arange(0, BK)
    column = program % blocks * BLOCK + tl.arange(0, BLOCK)
    mask = (column < V)[:, None] & (channel < K)[None, :]
    place = state + (item * K + channel[None, :]) * V + column[:, None]
    unit = tl.maximum(tl.load(units + item * V + column, mask=column < V, other=1.0).to(tl.float32), 1e-30)
    per_unit = (1.0 / unit)[:, None]
    current = tl.load(place, mask=mask, other=0.0).to(tl.float32) * per_unit
    zero = tl.zeros([BLOCK, C], dtype=tl.float32)
    source = v + (sequence * T * H + head) * V + column[:, None]
    sink = out + (sequence * T * H + head) * V + column[:, None]
    in_value = (column < V)[:, None]
    # What no product reads from shared memory is fetched a chunk ahead by hand: the step would wait for it.
    next_decay = tl.load(decay + item * chunks * BK + channel)
    next_value = tl.load(source + (row.to(tl.int64) * H * V)[None, :], mask=in_value & (row < T)[None, :], other=0.0)
    for chunk in range(chunks):
        step_decay = next_decay
        value = next_value.to(tl.float32)
        base = item * chunks + chunk
        time = chunk * C + row.to(tl.int64)
        later = time + C
        next_decay = tl.load(decay + tl.minimum(base + 1, item * chunks + chunks - 1) * BK + channel)
        next_value = tl.load(source + (later * H * V)[None, :], mask=in_value & (later < T)[None, :], other=0.0)
        square = (base * C + row[:, None]) * C + row[None, :]
        wide = (base * C + row[:, None]) * BK + channel[None, :]
        known = current.to(tl.float16)
        rest = dot(known, tl.trans(tl.load(k_minus + wide)), value * per_unit).to(tl.float16)
        result = dot(known, tl.trans(tl.load(q_plus + wide)), zero)
        update = dot(rest, tl.trans(tl.load(inverse + square)), zero).to(tl.float16)
        result = dot(update, tl.trans(tl.load(mixed + square)), result)
        current *= step_decay[None, :]
        current = dot(update, tl.load(k_rest + wide), current)
        place_out = sink + (time * H * V)[None, :]
        tl.store(place_out, narrow(result * unit[:, None], out.dtype.element_ty), mask=in_value & (time < T)[None, :])
    tl.store(place, current * unit[:, None], mask=mask)
