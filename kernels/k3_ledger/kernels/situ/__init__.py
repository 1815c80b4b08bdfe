"""The activation of K3's feed-forward layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import Dims, check_positive
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.situ import naive

if TYPE_CHECKING:
    from torch import Tensor


def check(gate: Tensor, up: Tensor, *, beta: float, linear_beta: float) -> None:
    """Refuse arguments outside the contract of :func:`.naive.situ`."""
    dims = Dims()
    dims.check("gate", gate, "... F")
    dims.check("up", up, "... F", {gate.dtype})
    check_betas(beta, linear_beta)


def check_betas(beta: float, linear_beta: float) -> None:
    """Refuse saturation constants that situ cannot divide by."""
    check_positive("beta", beta)
    if not linear_beta >= 0:
        raise ValueError(f"linear_beta must be 0 (off) or above, not {linear_beta}")


OP: Final = Op("situ", check, naive.situ, __name__)
