"""Sigmoid router: the top k of biased probabilities, ties by the lower index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import Dims
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.router import naive

if TYPE_CHECKING:
    from torch import Tensor

MAX_EXPERTS: Final = 4096
WIDE: Final = frozenset({torch.float32, torch.float64})


def check(
    logits: Tensor,
    bias: Tensor,
    *,
    top_k: int,
    renormalise: bool,  # noqa: ARG001  checks share the operation's signature
    scale: float,  # noqa: ARG001  any factor is meaningful
    min_sum: float,
) -> None:
    """Refuse arguments outside the contract of :func:`.naive.router`."""
    dims = Dims()
    dims.check("logits", logits, "T E", WIDE)
    dims.check("bias", bias, "E")
    if dims["E"] > MAX_EXPERTS:
        raise ValueError(f"{dims['E']} experts; at most {MAX_EXPERTS} are supported")
    if not 1 <= top_k <= dims["E"]:
        raise ValueError(f"top_k is {top_k} of {dims['E']} experts")
    if not min_sum >= 0:
        raise ValueError(f"min_sum must be 0 or above, not {min_sum}")


OP: Final = Op("router", check, naive.router, __name__)
