"""The loop that ``product`` and the float32 ``experts`` share: rows of one weight or two by a few vectors, in lanes."""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow


@triton.jit
def _vector(source, place, k, wide, there, dtype: tl.constexpr):
    """A piece of one vector as the weight's type holds it; zeros for a vector that is not there."""
    value = tl.load(source + place + k, mask=(k < wide) & there, other=0.0)
    return narrow(value.to(tl.float32), dtype).to(tl.float32)[None, :]


@triton.jit
def lanes(
    lines, fits, source, places, there, wide,
    WEIGHTS: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    """Sums of ``ROWS`` rows of each weight by each vector, still spread over ``INNER`` lanes: float32.

    A row's pieces are read once for all vectors. Each sum has an order of its own, whatever stands beside it.

    ``lines`` are pointers to the first value of the rows of each of ``WEIGHTS`` weights, ``[ROWS, 1]``; ``fits`` says
    which of the rows there are. In ``source`` each of ``COUNT`` vectors begins at its place of ``places``; nothing is
    read of one that is not ``there``. The result is a tuple of ``COUNT * WEIGHTS`` tensors ``[ROWS, INNER]``, those
    of the first vector in front.
    """
    dtype: tl.constexpr = lines[0].dtype.element_ty
    sums = (tl.zeros([ROWS, INNER], dtype=tl.float32),) * (WEIGHTS * COUNT)
    for begin in range(0, wide, INNER):
        k = begin + tl.arange(0, INNER)
        mask = fits & (k < wide)[None, :]
        pieces = ()
        for weight in tl.static_range(WEIGHTS):
            pieces = pieces + (tl.load(lines[weight] + k[None, :], mask=mask, other=0.0).to(tl.float32),)  # noqa: RUF005
        added = ()
        for vector in tl.static_range(COUNT):
            value = _vector(source, places[vector], k, wide, there[vector], dtype)
            for weight in tl.static_range(WEIGHTS):
                added = added + (sums[vector * WEIGHTS + weight] + pieces[weight] * value,)  # noqa: RUF005
        sums = added
    return sums
