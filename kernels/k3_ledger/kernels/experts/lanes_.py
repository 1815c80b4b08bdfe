"""Expert products of float32: a weight's rows by the vectors of up to four slots, in lanes.

Matrix units do not multiply float32, and a tile of sixteen rows multiplies in vain where one is used: at one token that
took nine times what the weights take to read. A slot's sum has an order of its own, however many share its tile.
"""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels import language


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
def _row(source, row, k, wide, there):
    return tl.load(source + row * wide + k, mask=(k < wide) & there, other=0.0)[None, :]


@triton.jit
def _activated(gate, up, hidden, column, F, there, beta, linear_beta):
    value = language.situ(tl.sum(gate, axis=1), tl.sum(up, axis=1), beta, linear_beta)
    tl.store(hidden + column, value, mask=(column < F) & there)


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
        p = _slot(order, begin, 0, count, SINGLE)
        q = _slot(order, begin, 1, count, SINGLE)
        r = _slot(order, begin, 2, count, SINGLE)
        s = _slot(order, begin, 3, count, SINGLE)
        gp = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        up_ = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        gq = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        uq = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        gr = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        ur = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        gs = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        us = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        for first in range(0, M, INNER):
            k = first + tl.arange(0, INNER)
            mask = (column < F)[:, None] & (k < M)[None, :]
            g = tl.load(gate + line + k[None, :], mask=mask, other=0.0)
            u = tl.load(up + line + k[None, :], mask=mask, other=0.0)
            value = _row(x, p // slots, k, M, count > 0)
            gp += g * value
            up_ += u * value
            if ROWS > 1:
                value = _row(x, q // slots, k, M, count > 1)
                gq += g * value
                uq += u * value
                value = _row(x, r // slots, k, M, count > 2)
                gr += g * value
                ur += u * value
                value = _row(x, s // slots, k, M, count > 3)
                gs += g * value
                us += u * value
        _activated(gp, up_, hidden + p * F, column, F, count > 0, beta, linear_beta)
        if ROWS > 1:
            _activated(gq, uq, hidden + q * F, column, F, count > 1, beta, linear_beta)
            _activated(gr, ur, hidden + r * F, column, F, count > 2, beta, linear_beta)
            _activated(gs, us, hidden + s * F, column, F, count > 3, beta, linear_beta)


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
        p = _slot(order, begin, 0, count, SINGLE)
        q = _slot(order, begin, 1, count, SINGLE)
        r = _slot(order, begin, 2, count, SINGLE)
        s = _slot(order, begin, 3, count, SINGLE)
        a = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        b = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        c = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        d = tl.zeros([COLUMNS, INNER], dtype=tl.float32)
        for first in range(0, F, INNER):
            k = first + tl.arange(0, INNER)
            w = tl.load(down + line + k[None, :], mask=(column < M)[:, None] & (k < F)[None, :], other=0.0)
            a += w * _row(hidden, p, k, F, count > 0)
            if ROWS > 1:
                b += w * _row(hidden, q, k, F, count > 1)
                c += w * _row(hidden, r, k, F, count > 2)
                d += w * _row(hidden, s, k, F, count > 3)
        inside = column < M
        tl.store(parts + p * M + column, tl.sum(a, axis=1), mask=inside)
        if ROWS > 1:
            tl.store(parts + q * M + column, tl.sum(b, axis=1), mask=inside & (count > 1))
            tl.store(parts + r * M + column, tl.sum(c, axis=1), mask=inside & (count > 2))
            tl.store(parts + s * M + column, tl.sum(d, axis=1), mask=inside & (count > 3))
