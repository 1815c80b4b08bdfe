"""Short causal convolution with a carried window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import Dims
from k3_ledger.kernels.conv import naive
from k3_ledger.kernels.op import Op

if TYPE_CHECKING:
    from torch import Tensor

MAX_TAPS: Final = 8


def check(x: Tensor, window: Tensor, weight: Tensor) -> None:
    """Refuse arguments outside the contract of :func:`.naive.conv`."""
    dims = Dims()
    dims.check("x", x, "B T C")
    dims.check("window", window, "B P C")
    dims.check("weight", weight, f"C {window.shape[1] + 1}")
    if not 2 <= weight.shape[1] <= MAX_TAPS:
        raise ValueError(f"weight has {weight.shape[1]} taps; 2 to {MAX_TAPS} are supported")


OP: Final = Op("conv", check, naive.conv, __name__)
