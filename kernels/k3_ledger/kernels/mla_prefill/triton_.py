"""Expanded MLA kernel: causal attention with a running softmax, one program a head and block of tokens.

Blocks of rows stand at fixed positions and are added in order, and a block that a token cannot see adds exact zeros,
so a token's bits do not depend on the chunk it came in. Scores and sums are float32, the scale comes to the kernel in
powers of 2, and for 16-bit inputs the softmax powers are rounded to the value's type before the second product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import dot, narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

LOG2_E: Final = 1.4426950408889634


@triton.jit
def _attend(
    q_nope, q_rest, keys, rests, values, peak, total, mixed, first, end, position, H, scale,
    N: tl.constexpr, P: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr,
    BN: tl.constexpr, BP: tl.constexpr, BV: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One block of rows added to the running softmax."""
    nope = tl.arange(0, BN)
    rest = tl.arange(0, BP)
    column = tl.arange(0, BV)
    row = tl.arange(0, BS).to(tl.int64) + first
    in_nope = (nope < N)[None, :]
    in_rest = (rest < P)[None, :]
    in_value = (column < V)[None, :]
    if MASKED:
        seen = (row < end)[:, None]
        in_nope = seen & in_nope
        in_rest = seen & in_rest
        in_value = seen & in_value
    k_nope = tl.load(keys + row[:, None] * (H * N) + nope[None, :], mask=in_nope, other=0.0)
    k_rest = tl.load(rests + row[:, None] * P + rest[None, :], mask=in_rest, other=0.0)
    score = dot(q_nope, tl.trans(k_nope), tl.zeros([BT, BS], dtype=tl.float32))
    score = dot(q_rest, tl.trans(k_rest), score)
    if MASKED:
        score = tl.where(row[None, :] <= position[:, None], score, float("-inf"))
    new = tl.maximum(peak, tl.max(score, axis=1))
    # The greatest score is found before scaling, so that one fused operation and one power of 2 are left for each.
    power = tl.exp2(tl.fma(score, scale, -(new * scale)[:, None]))
    shrink = tl.exp2((peak - new) * scale)
    total = total * shrink + tl.sum(power, axis=1)
    v = tl.load(values + row[:, None] * (H * V) + column[None, :], mask=in_value, other=0.0)
    return new, total, dot(narrow(power, v.dtype), v, mixed * shrink[:, None])


@triton.jit
def _mla_prefill(
    query, key, key_pe, value, out, T, S, H, start, scale,
    N: tl.constexpr, P: tl.constexpr, V: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr,
    BN: tl.constexpr, BP: tl.constexpr, BV: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    blocks = (T + BT - 1) // BT
    program = program_id(0)
    head = program % H
    block = blocks - 1 - program // H % blocks  # longest first
    sequence = program // H // blocks
    token = block * BT + tl.arange(0, BT)
    nope = tl.arange(0, BN)
    rest = tl.arange(0, BP)
    column = tl.arange(0, BV)
    present = (token < T)[:, None]
    source = query + ((sequence * T + token) * H + head)[:, None] * (N + P)
    q_nope = tl.load(source + nope[None, :], mask=present & (nope < N)[None, :], other=0.0)
    q_rest = tl.load(source + (N + rest)[None, :], mask=present & (rest < P)[None, :], other=0.0)
    peak = tl.full([BT], float("-inf"), dtype=tl.float32)
    total = tl.zeros([BT], dtype=tl.float32)
    mixed = tl.zeros([BT, BV], dtype=tl.float32)
    # Rows that the block's first token sees need no mask; the few after them do. Two loops, one result: the launch
    # forbids the compiler to fuse multiplications into additions, which it would do differently in each.
    end = tl.minimum(start + (block + 1) * BT, start + T)
    whole = (start + block * BT + 1) // BS * BS if SKIP else 0
    keys = key + (sequence * S * H + head) * N
    rests = key_pe + sequence * S * P
    values = value + (sequence * S * H + head) * V
    position = start + token
    for first in range(0, whole, BS):
        peak, total, mixed = _attend(
            q_nope, q_rest, keys, rests, values, peak, total, mixed, first, end, position, H, scale,
            N, P, V, BT, BS, BN, BP, BV, False,
        )  # fmt: skip
    for first in range(whole, end, BS):
        peak, total, mixed = _attend(
            q_nope, q_rest, keys, rests, values, peak, total, mixed, first, end, position, H, scale,
            N, P, V, BT, BS, BN, BP, BV, True,
        )  # fmt: skip
    target = ((sequence * T + token) * H + head)[:, None] * V + column[None, :]
    result = narrow(mixed / total[:, None], out.dtype.element_ty)
    tl.store(out + target, result, mask=present & (column < V)[None, :])


def tiles(dtype: torch.dtype) -> dict[str, int]:
    """Tokens and rows a program takes at once, whether it skips masks, and its launch; never by tokens or context."""
    if dtype == torch.float32:
        return {"BT": 32, "BS": 32, "SKIP": True, "num_warps": 8, "num_stages": 2}
    return {"BT": 128, "BS": 64, "SKIP": True, "num_warps": 8, "num_stages": 3}


def mla_prefill(query: Tensor, key: Tensor, key_pe: Tensor, value: Tensor, *, start: int, scale: float) -> Tensor:
    """As :func:`.naive.mla_prefill`, accumulated in float32."""
    batch, tokens, heads = query.shape[:3]
    rows, nope, rest, values = key.shape[1], key.shape[3], key_pe.shape[2], value.shape[3]
    out = torch.empty((batch, tokens, heads, values), dtype=query.dtype, device=query.device)
    shape = tiles(query.dtype)
    if batch * heads:
        _mla_prefill[(batch * heads * triton.cdiv(tokens, shape["BT"]),)](
            query, key, key_pe, value, out, tokens, rows, heads, start, float(scale) * LOG2_E,
            N=nope, P=rest, V=values,
            BN=max(16, triton.next_power_of_2(nope)), BP=max(16, triton.next_power_of_2(rest)),
            BV=max(16, triton.next_power_of_2(values)), enable_fp_fusion=False, **shape,
        )  # fmt: skip
    return out
