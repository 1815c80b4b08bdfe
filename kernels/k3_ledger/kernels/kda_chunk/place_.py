"""Where a program that prepares a chunk finds it, for the kernels of this operation."""

from __future__ import annotations

import triton
import triton.language as tl

from k3_ledger.kernels.language import program_id


@triton.jit
def place_of_chunk(T, H, chunks, C: tl.constexpr):
    """Program, head, rows, which of them are tokens, the tokens' places in ``[B, T, H]``, and the rows' in scratch."""
    program = program_id(0)
    chunk = program % chunks
    head = program // chunks % H
    sequence = program // chunks // H
    row = tl.arange(0, C)
    valid = chunk * C + row < T
    token = (sequence * T + chunk * C + row) * H + head
    return program, head, row, valid, token, (program * C + row)[:, None]
