"""RMS norm kernel: a program holds whole rows, sums in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor


@triton.jit
def _rms_norm(
    x, gate, weight, out, rows, eps, D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, GATED: tl.constexpr
):
    row = program_id(0) * BR + tl.arange(0, BR)
    channel = tl.arange(0, BD)
    offset = row[:, None] * D + channel[None, :]
    mask = (row < rows)[:, None] & (channel < D)[None, :]
    value = tl.load(x + offset, mask=mask, other=0.0).to(tl.float32)
    scale = tl.load(weight + channel, mask=channel < D, other=0.0).to(tl.float32)
    mean = tl.sum(value * value, axis=1) / D
    result = value * (1.0 / tl.sqrt(mean + eps))[:, None] * scale[None, :]
    if GATED:
        result = result * sigmoid(tl.load(gate + offset, mask=mask, other=0.0).to(tl.float32))
    tl.store(out + offset, narrow(result, out.dtype.element_ty), mask=mask)


def rms_norm(x: Tensor, weight: Tensor, *, eps: float, gate: Tensor | None = None) -> Tensor:
    """As :func:`.naive.rms_norm`, in float32. The order of a row's sum depends on its width alone."""
    out = torch.empty_like(x)
    width = x.shape[-1]
    rows = x.numel() // width
    block = triton.next_power_of_2(width)
    together = max(1, 1024 // block)
    warps = max(1, min(16, block * together // 256))
    if rows:
        _rms_norm[(triton.cdiv(rows, together),)](
            x, x if gate is None else gate, weight, out, rows, eps,
            D=width, BD=block, BR=together, GATED=gate is not None, num_warps=warps,
        )  # fmt: skip
    return out
