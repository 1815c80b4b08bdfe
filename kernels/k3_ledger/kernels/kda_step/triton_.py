"""Kimi delta attention kernel, token by token: the state of a head stays in registers across the tokens of a call.

A program owns a block of value columns, which the delta rule never mixes, and all key rows, which it sums over: the
sum's order depends on the head width alone. All arithmetic is float32 on CUDA cores; there is no matrix product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import log_decay, narrow, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor

TILE: Final = {"BV": 16, "num_warps": 4}
"""Value columns a program takes, and how it is launched."""


@triton.jit
def _kda_step(
    q, k, v, f, beta, a, dt_bias, state, out, T, H, lower_bound, l2_eps,
    K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BOUNDED: tl.constexpr,
):  # fmt: skip
    blocks: tl.constexpr = (V + BV - 1) // BV
    program = program_id(0)
    head = program // blocks % H
    sequence = program // blocks // H
    row = tl.arange(0, BK)
    column = program % blocks * BV + tl.arange(0, BV)
    in_row = row < K
    in_column = column < V
    place = state + ((sequence * H + head) * K + row[:, None]) * V + column[None, :]
    mask = in_row[:, None] & in_column[None, :]
    current = tl.load(place, mask=mask, other=0.0)
    slope = -tl.load(a + head).to(tl.float32)
    bias = tl.load(dt_bias + head * K + row, mask=in_row, other=0.0).to(tl.float32)
    for t in range(T):
        token = (sequence * T + t) * H + head
        query = tl.load(q + token * K + row, mask=in_row, other=0.0).to(tl.float32)
        key = tl.load(k + token * K + row, mask=in_row, other=0.0).to(tl.float32)
        value = tl.load(v + token * V + column, mask=in_column, other=0.0).to(tl.float32)
        pre = tl.load(f + token * K + row, mask=in_row, other=0.0).to(tl.float32) + bias
        write = sigmoid(tl.load(beta + token).to(tl.float32))
        query = query * (1.0 / tl.sqrt((tl.sum(query * query, axis=0) + l2_eps) * K))
        key = key * (1.0 / tl.sqrt(tl.sum(key * key, axis=0) + l2_eps))
        current = current * tl.exp(log_decay(pre, slope, lower_bound, BOUNDED))[:, None]
        delta = write * (value - tl.sum(current * key[:, None], axis=0))
        current = current + key[:, None] * delta[None, :]
        result = tl.sum(current * query[:, None], axis=0)
        tl.store(out + token * V + column, narrow(result, out.dtype.element_ty), mask=in_column)
    tl.store(place, current, mask=mask)


def kda_step(
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
    """As :func:`.naive.kda_step`, in float32."""
    batch, tokens, heads, width = q.shape
    values = v.shape[3]
    out = torch.empty_like(v)
    if batch * heads:
        _kda_step[(batch * heads * triton.cdiv(values, TILE["BV"]),)](
            q, k, v, f, beta, a, dt_bias, state, out, tokens, heads,
            0.0 if lower_bound is None else float(lower_bound), float(l2_eps),
            K=width, V=values, BK=triton.next_power_of_2(width), BOUNDED=lower_bound is not None, **TILE,
        )  # fmt: skip
    return out
