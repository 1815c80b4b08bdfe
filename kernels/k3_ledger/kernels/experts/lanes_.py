"""Expert products of float32: a weight's rows by the vectors of up to four slots, in lanes.

Matrix units do not multiply float32, and a tile of sixteen rows multiplies in vain where one is used: at one token that
took nine times what the weights take to read. A slot's sum has an order of its own, however many share its tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels import language
from k3_ledger.kernels.lanes_ import lanes


@triton.jit
def _taken(ids, experts, begins, counts, tile, first_expert, held, SINGLE: tl.constexpr):
    """Local expert, where the slots of a tile begin in ``order``, and how many there are; without a plan it is one."""
    if SINGLE:
        expert = tl.load(ids + tile).to(tl.int64) - first_expert
        count = tl.where((expert >= 0) & (expert < held), 1, 0)
        begin = tile
    else:
        expert = tl.load(experts + tile).to(tl.int64)
        count = tl.load(counts + tile).to(tl.int32)
        begin = tl.load(begins + tile, mask=count > 0, other=0).to(tl.int64)
    return expert, begin, count


@triton.jit
def _slot(order, begin, number, count, SINGLE: tl.constexpr):
    """A slot of a tile; 0 for one that it does not have."""
    pair = begin
    if not SINGLE:
        pair = tl.load(order + begin + number, mask=number < count, other=0).to(tl.int64)
    return pair


@triton.jit
def _slots(order, begin, count, ROWS: tl.constexpr, SINGLE: tl.constexpr):
    """Slots of a tile, and whether it has them."""
    pairs = ()
    there = ()
    for number in tl.static_range(ROWS):
        pairs = pairs + (_slot(order, begin, number, count, SINGLE),)  # noqa: RUF005
        there = there + (number < count,)  # noqa: RUF005
    return pairs, there


@triton.jit
def up_lanes(
    x, gate, up, hidden, ids, order, experts, begins, counts, tile, block, first_expert, held, slots, M, F, beta,
    linear_beta, SINGLE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """``situ`` of the first two products, a few columns of a tile's slots."""
    expert, begin, count = _taken(ids, experts, begins, counts, tile, first_expert, held, SINGLE)
    if count > 0:
        column = block * COLUMNS + tl.arange(0, COLUMNS)
        line = (expert * F + column)[:, None] * M
        pairs, there = _slots(order, begin, count, ROWS, SINGLE)
        places = ()
        for number in tl.static_range(ROWS):
            places = places + (pairs[number] // slots * M,)  # noqa: RUF005
        fits = (column < F)[:, None]
        sums = lanes((gate + line, up + line), fits, x, places, there, M, 2, ROWS, COLUMNS, INNER)
        for number in tl.static_range(ROWS):
            g, u = tl.sum(sums[2 * number], axis=1), tl.sum(sums[2 * number + 1], axis=1)
            value = language.situ(g, u, beta, linear_beta)
            tl.store(hidden + pairs[number] * F + column, value, mask=(column < F) & there[number])


@triton.jit
def down_lanes(
    hidden, down, parts, ids, order, experts, begins, counts, tile, block, first_expert, held, M, F,
    SINGLE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """The third product, a few columns of a tile's slots."""
    expert, begin, count = _taken(ids, experts, begins, counts, tile, first_expert, held, SINGLE)
    if count > 0:
        column = block * COLUMNS + tl.arange(0, COLUMNS)
        line = (expert * M + column)[:, None] * F
        pairs, there = _slots(order, begin, count, ROWS, SINGLE)
        places = ()
        for number in tl.static_range(ROWS):
            places = places + (pairs[number] * F,)  # noqa: RUF005
        sums = lanes((down + line,), (column < M)[:, None], hidden, places, there, F, 1, ROWS, COLUMNS, INNER)
        for number in tl.static_range(ROWS):
            total = tl.sum(sums[number], axis=1)
            tl.store(parts + pairs[number] * M + column, total, mask=(column < M) & there[number])
