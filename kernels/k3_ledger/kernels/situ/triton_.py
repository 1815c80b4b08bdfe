"""The situ activation as a kernel, element by element in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels import language
from k3_ledger.kernels.language import narrow, program_id

if TYPE_CHECKING:
    from torch import Tensor

BLOCK: Final = 1024


@triton.jit
def _situ(gate, up, out, count, beta, linear_beta, BLOCK: tl.constexpr):
    offset = program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offset < count
    g = tl.load(gate + offset, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(up + offset, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + offset, narrow(language.situ(g, u, beta, linear_beta), out.dtype.element_ty), mask=mask)


def situ(gate: Tensor, up: Tensor, *, beta: float, linear_beta: float) -> Tensor:
    """As :func:`.naive.situ`, in float32."""
    out = torch.empty_like(gate)
    count = gate.numel()
    if count:
        _situ[(triton.cdiv(count, BLOCK),)](gate, up, out, count, float(beta), float(linear_beta), BLOCK=BLOCK)
    return out
