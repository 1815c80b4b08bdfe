"""Unpacking of quantised storage: Q8_0, MXFP4, IQ1_S and the plain float types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import Dims
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.unpack import naive
from k3_ledger.kernels.unpack.formats import IQ1_S_GRID, LAYOUTS

if TYPE_CHECKING:
    from torch import Tensor

OUTPUTS: Final = frozenset({torch.float32, torch.bfloat16, torch.float16, torch.float64})


def check(data: Tensor, *, quant: str, dtype: torch.dtype, grid: Tensor | None = None) -> None:
    """Refuse arguments outside the contract of :func:`.naive.unpack`."""
    layout = LAYOUTS.get(quant)
    if layout is None:
        raise ValueError(f"unknown quantisation {quant!r}; known: {', '.join(LAYOUTS)}")
    if dtype not in OUTPUTS:
        raise TypeError(f"cannot unpack to {dtype}")
    dims = Dims()
    dims.check("data", data, "... N", {torch.uint8})
    if dims["N"] % layout.block_bytes:
        raise ValueError(f"rows of {dims['N']} bytes are no whole number of {layout.block_bytes}-byte {quant} blocks")
    if (grid is not None) != (quant == "iq1_s"):
        raise ValueError("grid is required for iq1_s and for nothing else")
    if grid is not None:
        dims.check("grid", grid, f"{IQ1_S_GRID[0]} {IQ1_S_GRID[1]}", {torch.int8})


OP: Final = Op("unpack", check, naive.unpack, __name__)
