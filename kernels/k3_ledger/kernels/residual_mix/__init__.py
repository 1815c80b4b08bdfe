"""Mix of the banked residuals of earlier layers with the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import Dims, check_positive
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.residual_mix import naive

if TYPE_CHECKING:
    from torch import Tensor

MAX_COUNT: Final = 15
"""Most banked vectors (K3 seals 8)."""
MAX_WIDTH: Final = 16384


def check(bank: Tensor, x: Tensor, score_weight: Tensor, *, count: int, eps: float) -> None:
    """Refuse arguments outside the contract of :func:`.naive.residual_mix`."""
    dims = Dims()
    dims.check("bank", bank, "N T D", rows_strided=True)
    dims.check("x", x, "T D", {bank.dtype})
    dims.check("score_weight", score_weight, "D")
    check_positive("eps", eps)
    if not 0 <= count <= min(dims["N"], MAX_COUNT):
        raise ValueError(f"count is {count}; the bank holds {dims['N']}, at most {MAX_COUNT} can be mixed")
    if not 1 <= dims["D"] <= MAX_WIDTH:
        raise ValueError(f"rows of {dims['D']} values; 1 to {MAX_WIDTH} are supported")


OP: Final = Op("residual_mix", check, naive.residual_mix, __name__)
