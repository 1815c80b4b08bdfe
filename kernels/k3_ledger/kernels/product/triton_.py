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

from k3_ledger.kernels.lanes_ import lanes
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
def _lanes(
    x, weight, out, tokens, heads, long, wide, tiles,
    TOKENS: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    program, head = program_id(0), program_id(1)
    token = program % tiles * TOKENS
    row = program // tiles * ROWS + tl.arange(0, ROWS)
    line = weight + (head * long + row)[:, None] * wide
    places = ()
    there = ()
    for number in tl.static_range(TOKENS):
        places = places + (((token + number) * heads + head) * wide,)  # noqa: RUF005
        there = there + (token + number < tokens,)  # noqa: RUF005
    sums = lanes((line,), (row < long)[:, None], x, places, there, wide, 1, TOKENS, ROWS, INNER)
    for number in tl.static_range(TOKENS):
        place = out + ((token + number) * heads + head) * long + row
        tl.store(place, tl.sum(sums[number], axis=1), mask=(row < long) & there[number])


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
        few = LONG if wide % LONG["INNER"] == 0 else SHORT if wide < MIDDLE["INNER"] else MIDDLE
        count = 1 if tokens == 1 else TOKENS
        tiles = triton.cdiv(tokens, count)
        _lanes[(tiles * triton.cdiv(long, few["ROWS"]), heads)](
            x, weight, out, tokens, heads, long, wide, tiles, TOKENS=count, **few
        )
        return out
    tile = SOME if long <= FEW_ROWS and heads == 1 else MANY
    tiles = triton.cdiv(tokens, COLUMNS)
    _units[(tiles * triton.cdiv(long, tile["ROWS"]), heads)](
        x, weight, out, tokens, heads, long, wide, tiles, COLUMNS=COLUMNS, **tile
    )
    return out
