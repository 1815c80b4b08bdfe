"""Merge of attention over slices of the context, from one card or from several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import Dims
from k3_ledger.kernels.mla_merge import naive
from k3_ledger.kernels.op import Op

if TYPE_CHECKING:
    from torch import Tensor

WIDE: Final = frozenset({torch.float32, torch.float64})


def check(peak: Tensor, total: Tensor, latent: Tensor) -> None:
    """Refuse arguments outside the contract of :func:`.naive.mla_merge`."""
    dims = Dims()
    dims.check("peak", peak, "J B T H", WIDE)
    dims.check("total", total, "J B T H", {peak.dtype})
    dims.check("latent", latent, "J B T H V", {peak.dtype})
    if dims["J"] < 1:
        raise ValueError("no slices to merge")


OP: Final = Op("mla_merge", check, naive.mla_merge, __name__)
