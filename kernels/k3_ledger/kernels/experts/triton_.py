"""Expert kernels: slots sorted by expert into tiles of rows, two grouped products, a combine in slot order.

A tile's shape and the order of its sums are constants, so a row's bits do not depend on which rows share its tile, and
a token's not on the other tokens of the call; unless a caller gives that up (``by_load``). Nothing waits for the host:
tiles past the last are planned and skipped, and a few slots get a tile each.
Products accumulate in float32 (:func:`~k3_ledger.kernels.language.dot`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypedDict

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from k3_ledger.kernels import language
from k3_ledger.kernels.experts.lanes_ import down_lanes, up_lanes
from k3_ledger.kernels.language import dot, narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

SINGLE: Final = 64
"""Most slots of a call that get a tile each, without a plan: decode."""
COMBINE: Final = 1024
"""Values a program of the combine."""
BLOCK: Final = 1024
"""Ids that a program of the plan looks at together."""


class Tile(TypedDict):
    """Rows, output columns and inner values a program takes at once, and its launch."""

    ROWS: int
    COLUMNS: int
    INNER: int
    num_warps: int
    num_stages: int


WIDE: Final = Tile(ROWS=4, COLUMNS=64 if language.INTERPRETED else 4, INNER=512, num_warps=4, num_stages=1)
"""The one tile of float32, in lanes (:mod:`.lanes_`); of a call without a plan it has one row. The interpreter takes as
long for a program of few columns as for one of many."""
EXACT: Final = Tile(ROWS=32, COLUMNS=64, INNER=128, num_warps=4, num_stages=3)
"""The one tile of 16-bit inputs, whatever the tokens, where bits count."""
BY_LOAD: Final = (
    (10, Tile(ROWS=16, COLUMNS=64, INNER=128, num_warps=4, num_stages=3)),
    (24, EXACT),
    (52, Tile(ROWS=64, COLUMNS=128, INNER=64, num_warps=4, num_stages=4)),
)
"""Most slots per expert, and the tile up to there, for 16-bit inputs.

A second tile reads an expert's weights again, so a tile holds what 19 of 20 experts get where tokens spread by chance.
"""
GROUP: Final = 16
"""Tiles that are taken together, a block of columns after the other: their rows stay in the cache until every block has
read them, and so do an expert's weights where it has several tiles. Taken all at once, the tiles' rows were read from
memory again for each of 28 blocks."""
FEW: Final = 4
"""The same for the tile of most rows."""
FULL: Final = Tile(ROWS=128, COLUMNS=128, INNER=64, num_warps=8, num_stages=4)
"""The tile of more."""
DOWN: Final = Tile(ROWS=128, COLUMNS=256, INNER=64, num_warps=8, num_stages=3)
"""That of its second product: one sum leaves registers for columns."""
BULK: Final = True
"""Whether the copy engine reads the weights of these two."""


class Plan(NamedTuple):
    """Tiles of slots, on the device.

    Attributes:
        order: slot numbers ``t * k + slot``, grouped by local expert; as many as are held here, of ``[pairs]``.
        expert: ``[tiles]`` local expert of each tile; unwritten where no row is used.
        begin: ``[tiles]`` where its rows begin in ``order``; likewise.
        rows: ``[tiles]`` how many; 0 for a tile that was planned and is not needed.
    """

    order: Tensor
    expert: Tensor
    begin: Tensor
    rows: Tensor


@triton.jit
def _group(ids, order, begins, counts, pairs, first_expert, held, BLOCK: tl.constexpr):
    """Slots of one expert in order, behind those of all lower experts: one program an expert, each reads every id."""
    expert = program_id(0)
    before = tl.zeros([], dtype=tl.int32)
    own = tl.zeros([], dtype=tl.int32)
    for first in range(0, pairs, BLOCK):
        pair = first + tl.arange(0, BLOCK)
        local = tl.load(ids + pair, mask=pair < pairs, other=0).to(tl.int64) - first_expert
        here = (pair < pairs) & (local >= 0) & (local < held)
        before += tl.sum((here & (local < expert)).to(tl.int32), axis=0)
        own += tl.sum((here & (local == expert)).to(tl.int32), axis=0)
    tl.store(begins + expert, before)
    tl.store(counts + expert, own)
    at = before
    for first in range(0, pairs, BLOCK):
        pair = first + tl.arange(0, BLOCK)
        local = tl.load(ids + pair, mask=pair < pairs, other=0).to(tl.int64) - first_expert
        mine = ((pair < pairs) & (local == expert)).to(tl.int32)
        tl.store(order + at + tl.cumsum(mine, axis=0) - 1, pair, mask=mine > 0)
        at += tl.sum(mine, axis=0)


@triton.jit
def _cut(begins, counts, tile_expert, tile_begin, tile_rows, held, HELD: tl.constexpr, ROWS: tl.constexpr):
    """Tiles of one expert, behind those of all lower experts."""
    expert = program_id(0)
    every = tl.arange(0, HELD)
    tiles = (tl.load(counts + every, mask=every < held, other=0) + ROWS - 1) // ROWS
    tile = tl.sum(tl.where(every < expert, tiles, 0), axis=0)
    begin = tl.load(begins + expert)
    end = begin + tl.load(counts + expert)
    for first in range(begin, end, ROWS):
        tl.store(tile_expert + tile, expert.to(tl.int32))
        tl.store(tile_begin + tile, first)
        tl.store(tile_rows + tile, tl.minimum(end - first, ROWS))
        tile += 1


def plan(ids: Tensor, *, first_expert: int, held: int, rows: int) -> Plan:
    """Group slots by expert, in order; slots of experts not held here get no place and no tile.

    Three launches: sorting by a library took as many as thirty, 80 µs.
    """
    pairs = ids.numel()
    tiles = pairs // rows + min(pairs, held)
    order, begins, counts, expert, begin = (
        torch.empty(size, dtype=torch.int32, device=ids.device) for size in (pairs, held, held, tiles, tiles)
    )
    used = torch.zeros(tiles, dtype=torch.int32, device=ids.device)
    _group[(held,)](ids, order, begins, counts, pairs, first_expert, held, BLOCK=BLOCK)
    _cut[(held,)](begins, counts, expert, begin, used, held, HELD=triton.next_power_of_2(held), ROWS=rows)
    return Plan(order, expert, begin, used)


@triton.jit
def _tile(ids, order, experts, begins, counts, tile, first_expert, held, SINGLE: tl.constexpr, ROWS: tl.constexpr):
    """Local expert, slots, and which rows of a tile are used; without a plan a tile is one slot."""
    row = tl.arange(0, ROWS)
    if SINGLE:
        expert = tl.load(ids + tile).to(tl.int64) - first_expert
        count = tl.where((expert >= 0) & (expert < held), 1, 0)
        pair = tile + row.to(tl.int64) * 0
    else:
        expert = tl.load(experts + tile).to(tl.int64)
        count = tl.load(counts + tile).to(tl.int32)
        pair = tl.load(order + tl.load(begins + tile) + row, mask=row < count, other=0).to(tl.int64)
    return expert, pair, row < count, count


@triton.jit
def _place(tiles, blocks, GROUP: tl.constexpr):
    """Tile and column block of a program: groups of tiles in order, in a group all tiles of a block, then the next."""
    program = program_id(0)
    first = program // (GROUP * blocks) * GROUP
    width = tl.minimum(tiles - first, GROUP)
    inside = program - first * blocks
    return first + inside % width, inside // width


@triton.jit
def _up(
    x, gate, up, hidden, ids, order, experts, begins, counts, tiles, first_expert, held, slots, M, F, beta, linear_beta,
    SINGLE: tl.constexpr, LANES: tl.constexpr, GROUP: tl.constexpr, BULK: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tile, block = _place(tiles, (F + COLUMNS - 1) // COLUMNS, GROUP)
    if LANES:
        up_lanes(
            x, gate, up, hidden, ids, order, experts, begins, counts, tile, block, first_expert, held, slots, M, F,
            beta, linear_beta, SINGLE, ROWS, COLUMNS, INNER,
        )  # fmt: skip
        return
    expert, pair, present, count = _tile(ids, order, experts, begins, counts, tile, first_expert, held, SINGLE, ROWS)
    if count > 0:
        column = block * COLUMNS + tl.arange(0, COLUMNS)
        inner = tl.arange(0, INNER)
        source = x + (pair // slots)[:, None] * M
        line = (expert * F + column)[None, :] * M
        top = (expert * F + block * COLUMNS).to(tl.int32)
        g = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        u = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        for first in range(0, M, INNER):
            k = first + inner
            value = tl.load(source + k[None, :], mask=present[:, None] & (k < M)[None, :], other=0.0)
            if BULK:
                g = dot(value, tl.trans(gate.load([top, first])), g)
                u = dot(value, tl.trans(up.load([top, first])), u)
            else:
                place = line + k[:, None]
                mask = (k < M)[:, None] & (column < F)[None, :]
                g = dot(value, tl.load(gate + place, mask=mask, other=0.0), g)
                u = dot(value, tl.load(up + place, mask=mask, other=0.0), u)
        result = narrow(language.situ(g, u, beta, linear_beta), hidden.dtype.element_ty)
        tl.store(hidden + pair[:, None] * F + column[None, :], result, mask=present[:, None] & (column < F)[None, :])


@triton.jit
def _down(
    hidden, down, parts, ids, order, experts, begins, counts, tiles, first_expert, held, M, F,
    SINGLE: tl.constexpr, LANES: tl.constexpr, GROUP: tl.constexpr, BULK: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    tile, block = _place(tiles, (M + COLUMNS - 1) // COLUMNS, GROUP)
    if LANES:
        down_lanes(
            hidden, down, parts, ids, order, experts, begins, counts, tile, block, first_expert, held, M, F,
            SINGLE, ROWS, COLUMNS, INNER,
        )  # fmt: skip
        return
    expert, pair, present, count = _tile(ids, order, experts, begins, counts, tile, first_expert, held, SINGLE, ROWS)
    if count > 0:
        column = block * COLUMNS + tl.arange(0, COLUMNS)
        inner = tl.arange(0, INNER)
        source = hidden + pair[:, None] * F
        line = (expert * M + column)[None, :] * F
        top = (expert * M + block * COLUMNS).to(tl.int32)
        total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        for first in range(0, F, INNER):
            k = first + inner
            value = tl.load(source + k[None, :], mask=present[:, None] & (k < F)[None, :], other=0.0)
            if BULK:
                total = dot(value, tl.trans(down.load([top, first])), total)
            else:
                mask = (k < F)[:, None] & (column < M)[None, :]
                total = dot(value, tl.load(down + line + k[:, None], mask=mask, other=0.0), total)
        tl.store(parts + pair[:, None] * M + column[None, :], total, mask=present[:, None] & (column < M)[None, :])


@triton.jit
def _combine(parts, ids, weights, out, slots, M, blocks, first_expert, held, expert_count, BLOCK: tl.constexpr):
    program = program_id(0)
    token = program // blocks
    column = program % blocks * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for slot in range(slots):
        pair = token * slots + slot
        expert = tl.load(ids + pair).to(tl.int64)
        here = (expert >= first_expert) & (expert < first_expert + held)
        part = tl.load(parts + pair * M + column, mask=here & (column < M), other=0.0)
        total += tl.load(weights + pair, mask=here, other=0.0).to(tl.float32) * part
        owned = (expert >= 0) & (expert < expert_count)
        total = tl.where(owned, total, float("nan"))
    tl.store(out + token * M + column, total, mask=column < M)


def tiles(dtype: torch.dtype, load: float | None) -> Tile:
    """The tile of a type; by the slots per expert where ``load`` says how many, and then for 16-bit inputs only."""
    if dtype == torch.float32:
        return WIDE
    if load is None:
        return EXACT
    return next((tile for most, tile in BY_LOAD if load <= most), FULL)


def described(weights: Tensor, tile: Tile) -> TensorDescriptor:
    """Weights ``[L, out, in]`` as rows, for the copy engine; columns past an expert's last are never stored."""
    rows: TensorDescriptor = TensorDescriptor.from_tensor(weights.flatten(0, 1), [tile["COLUMNS"], tile["INNER"]])
    return rows


def experts(
    x: Tensor,
    ids: Tensor,
    weights: Tensor,
    *,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    beta: float,
    linear_beta: float,
    first_expert: int,
    expert_count: int,
    by_load: bool = False,
) -> Tensor:
    """As :func:`.naive.experts`, accumulated in float32; the activation between is rounded to the type of ``x``."""
    tokens, slots = ids.shape
    held, width, latent = gate.shape
    pairs = tokens * slots
    shape = tiles(x.dtype, pairs / expert_count if by_load else None)  # spread evenly: nobody asks the device
    single = pairs <= SINGLE
    planned = (
        Plan(ids, ids, ids, ids) if single else plan(ids, first_expert=first_expert, held=held, rows=shape["ROWS"])
    )
    count = pairs if single else planned.expert.numel()
    hidden = torch.empty((pairs, width), dtype=x.dtype, device=x.device)
    parts = torch.empty((pairs, latent), dtype=torch.float32, device=x.device)
    out = torch.empty((tokens, latent), dtype=torch.float32, device=x.device)
    lanes = shape is WIDE
    if lanes and single:
        shape = Tile(**{**WIDE, "ROWS": 1})
    after, group = (DOWN, FEW) if shape is FULL else (shape, GROUP)
    bulk = BULK and not single and shape["ROWS"] == FULL["ROWS"] and latent % 8 == 0 and width % 8 == 0
    _up[(count * triton.cdiv(width, shape["COLUMNS"]),)](
        x, *(described(w, shape) if bulk else w for w in (gate, up)), hidden, ids, *planned, count, first_expert, held,
        slots, latent, width, float(beta), float(linear_beta), SINGLE=single, LANES=lanes, GROUP=group, BULK=bulk,
        **shape,
    )  # fmt: skip
    _down[(count * triton.cdiv(latent, after["COLUMNS"]),)](
        hidden, described(down, after) if bulk else down, parts, ids, *planned, count, first_expert, held, latent,
        width, SINGLE=single, LANES=lanes, GROUP=group, BULK=bulk, **after,
    )  # fmt: skip
    blocks = triton.cdiv(latent, COMBINE)
    _combine[(tokens * blocks,)](
        parts, ids, weights, out, slots, latent, blocks, first_expert, held, expert_count, BLOCK=COMBINE
    )
    return out
