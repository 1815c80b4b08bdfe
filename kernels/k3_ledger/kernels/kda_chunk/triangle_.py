"""Inverse of a unit lower triangular block, for the kernels of this operation."""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels.language import dot_tf32x3


@triton.jit
def invert(lower, C: tl.constexpr):
    """``(I + lower)^-1`` of a strictly lower triangular matrix, by blocks of 4, then 8, then 16 rows.

    A block of 4 is nilpotent of order 4: ``(I + N)^-1 = (I - N)(I + N^2)``. Two blocks with inverse ``A`` and ``Q``
    below them have the inverse ``A - A Q A``: forward substitution in six small products, without its chain of rows.
    """
    row = tl.arange(0, C)[:, None]
    column = tl.arange(0, C)[None, :]
    unit = tl.where(row == column, 1.0, 0.0)
    zero = tl.zeros([C, C], dtype=tl.float32)
    block = tl.where(row // 4 == column // 4, lower, 0.0)
    inverse = dot_tf32x3(unit - block, unit + dot_tf32x3(block, block, zero), zero)
    for size in tl.static_range(3, 5):
        below = (row >> size == column >> size) & (row >> (size - 1) != column >> (size - 1))
        step = dot_tf32x3(tl.where(below, lower, 0.0), inverse, zero)
        inverse -= dot_tf32x3(inverse, step, zero)
    return inverse
