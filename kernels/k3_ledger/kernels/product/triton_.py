"""Product kernels: rows of the weight by a few vectors in float32 lanes, or by sixteen on matrix units.

Both read a weight once for all tokens of a tile. A token's sum has an order of its own, which no other token of the
call and no number of them changes. Float32 has the lanes alone; 16-bit weights have the matrix units, and the lanes for
a token by itself where its bits may differ (``by_count``): they keep more rows in flight where rows are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import INTERPRETED, dot, narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

TOKENS: Final = 8
"""Vectors that a program of lanes takes at once, where there is more than one."""
COLUMNS: Final = 16
"""Vectors that a program of matrix units takes at once."""
FEW_ROWS: Final = 4096
"""Up to so many rows a weight is cut into smaller pieces, so that every multiprocessor has one."""


class Lanes(TypedDict):
    """Rows and inner values that a program of lanes takes at once, and its launch."""

    ROWS: int
    INNER: int
    num_warps: int


class Tile(TypedDict):
    """The same of matrix units."""

    ROWS: int
    INNER: int
    num_warps: int
    num_stages: int


PAIR: Final = 16 if INTERPRETED else 2
"""Rows of a program; the interpreter takes as long for two as for many."""
LONG: Final = Lanes(ROWS=PAIR, INNER=1024, num_warps=4)
"""For rows of whole multiples of 1,024 values."""
MIDDLE: Final = Lanes(ROWS=PAIR, INNER=512, num_warps=2)
SHORT: Final = Lanes(ROWS=16, INNER=128, num_warps=4)
"""For rows of less than 512."""
MANY: Final = Tile(ROWS=64, INNER=128, num_warps=4, num_stages=4)
SOME: Final = Tile(ROWS=16, INNER=256, num_warps=2, num_stages=4)
"""For weights of few rows."""


@triton.jit
def _vector(x, token, tokens, at, inner, wide, dtype: tl.constexpr):
    """A piece of one token's vector as the weight's type holds it; zeros for a token that is not there."""
    value = tl.load(x + at, mask=(inner < wide) & (token < tokens), other=0.0)
    return narrow(value.to(tl.float32), dtype).to(tl.float32)[None, :]


@triton.jit
def _lanes(
    x, weight, out, tokens, heads, long, wide, tiles,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    program, head = program_id(0), program_id(1)
    token = program % tiles * TOKENS
    row = program // tiles * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, INNER)
    line = weight + (head * long + row)[:, None] * wide
    step = heads * wide
    first = x + token * step + head * wide
    a = tl.zeros([ROWS, INNER], dtype=tl.float32)
    b = tl.zeros([ROWS, INNER], dtype=tl.float32)
    c = tl.zeros([ROWS, INNER], dtype=tl.float32)
    d = tl.zeros([ROWS, INNER], dtype=tl.float32)
    e = tl.zeros([ROWS, INNER], dtype=tl.float32)
    f = tl.zeros([ROWS, INNER], dtype=tl.float32)
    g = tl.zeros([ROWS, INNER], dtype=tl.float32)
    h = tl.zeros([ROWS, INNER], dtype=tl.float32)
    for begin in range(0, wide, INNER):
        k = begin + inner
        w = tl.load(line + k[None, :], mask=(row < long)[:, None] & (k < wide)[None, :], other=0.0).to(tl.float32)
        a += w * _vector(first, token, tokens, k, k, wide, weight.dtype.element_ty)
        if TOKENS > 1:
            b += w * _vector(first, token + 1, tokens, step + k, k, wide, weight.dtype.element_ty)
            c += w * _vector(first, token + 2, tokens, 2 * step + k, k, wide, weight.dtype.element_ty)
            d += w * _vector(first, token + 3, tokens, 3 * step + k, k, wide, weight.dtype.element_ty)
            e += w * _vector(first, token + 4, tokens, 4 * step + k, k, wide, weight.dtype.element_ty)
            f += w * _vector(first, token + 5, tokens, 5 * step + k, k, wide, weight.dtype.element_ty)
            g += w * _vector(first, token + 6, tokens, 6 * step + k, k, wide, weight.dtype.element_ty)
            h += w * _vector(first, token + 7, tokens, 7 * step + k, k, wide, weight.dtype.element_ty)
    step = heads * long
    place = out + token * step + head * long + row
    tl.store(place, tl.sum(a, axis=1), mask=row < long)
    if TOKENS > 1:
        tl.store(place + step, tl.sum(b, axis=1), mask=(row < long) & (token + 1 < tokens))
        tl.store(place + 2 * step, tl.sum(c, axis=1), mask=(row < long) & (token + 2 < tokens))
        tl.store(place + 3 * step, tl.sum(d, axis=1), mask=(row < long) & (token + 3 < tokens))
        tl.store(place + 4 * step, tl.sum(e, axis=1), mask=(row < long) & (token + 4 < tokens))
        tl.store(place + 5 * step, tl.sum(f, axis=1), mask=(row < long) & (token + 5 < tokens))
        tl.store(place + 6 * step, tl.sum(g, axis=1), mask=(row < long) & (token + 6 < tokens))
        tl.store(place + 7 * step, tl.sum(h, axis=1), mask=(row < long) & (token + 7 < tokens))


@triton.jit
def _units(
    x, weight, out, tokens, heads, long, wide, tiles,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    program, head = program_id(0), program_id(1)
    token = program % tiles * COLUMNS + tl.arange(0, COLUMNS)
    row = program // tiles * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, INNER)
    line = weight + (head * long + row)[:, None] * wide
    first = x + ((token * heads + head) * wide)[None, :]
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for begin in range(0, wide, INNER):
        k = begin + inner
        w = tl.load(line + k[None, :], mask=(row < long)[:, None] & (k < wide)[None, :], other=0.0)
        value = tl.load(first + k[:, None], mask=(token < tokens)[None, :] & (k < wide)[:, None], other=0.0)
        total = dot(w, narrow(value.to(tl.float32), weight.dtype.element_ty), total)
    place = out + ((token * heads + head) * long)[None, :] + row[:, None]
    tl.store(place, total, mask=(token < tokens)[None, :] & (row < long)[:, None])


def product(x: Tensor, weight: Tensor, *, by_count: bool = False) -> Tensor:
    """As :func:`.naive.product`, accumulated in float32."""
    tokens, heads = x.shape[0], weight.shape[0] if weight.dim() == 3 else 1
    long, wide = weight.shape[-2:]
    out = torch.empty((*x.shape[:-1], long), dtype=torch.float32, device=x.device)
    if not out.numel():
        return out
    if weight.dtype == torch.float32 or (by_count and tokens == 1):
        lanes = LONG if wide % LONG["INNER"] == 0 else SHORT if wide < MIDDLE["INNER"] else MIDDLE
        count = 1 if tokens == 1 else TOKENS
        tiles = triton.cdiv(tokens, count)
        _lanes[(tiles * triton.cdiv(long, lanes["ROWS"]), heads)](
            x, weight, out, tokens, heads, long, wide, tiles, TOKENS=count, **lanes
        )
        return out
    tile = SOME if long <= FEW_ROWS and heads == 1 else MANY
    tiles = triton.cdiv(tokens, COLUMNS)
    _units[(tiles * triton.cdiv(long, tile["ROWS"]), heads)](
        x, weight, out, tokens, heads, long, wide, tiles, COLUMNS=COLUMNS, **tile
    )
    return out
