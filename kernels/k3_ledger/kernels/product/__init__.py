"""A matrix times vectors, one a token: what decoding spends its time on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import Dims
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.product import naive

if TYPE_CHECKING:
    from torch import Tensor


def check(x: Tensor, weight: Tensor, *, by_count: bool = False) -> None:  # noqa: ARG001 (either is in the contract)
    """Refuse arguments outside the contract of :func:`.naive.product`."""
    dims = Dims()
    dims.check("weight", weight, "... O I")
    heads = "H " if weight.dim() == 3 else ""
    dims.check("weight", weight, f"{heads}O I")
    dims.check("x", x, f"T {heads}I", {weight.dtype, torch.float32})
    if not dims["I"]:
        raise ValueError("there is nothing to sum: I is 0")


OP: Final = Op("product", check, naive.product, __name__)
