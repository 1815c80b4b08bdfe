"""RMS norm over the last dimension, optionally gated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import Dims, check_positive
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.rms_norm import naive

if TYPE_CHECKING:
    from torch import Tensor

MAX_WIDTH: Final = 16384
"""Widest row: the kernel holds a whole row in registers, so that its sum has one fixed order."""


def check(x: Tensor, weight: Tensor, *, eps: float, gate: Tensor | None = None) -> None:
    """Refuse arguments outside the contract of :func:`.naive.rms_norm`."""
    dims = Dims()
    dims.check("x", x, "... D")
    dims.check("weight", weight, "D")
    if gate is not None:
        dims.check("gate", gate, "... D")
    check_positive("eps", eps)
    if not 1 <= dims["D"] <= MAX_WIDTH:
        raise ValueError(f"rows of {dims['D']} values; 1 to {MAX_WIDTH} are supported")


OP: Final = Op("rms_norm", check, naive.rms_norm, __name__)
