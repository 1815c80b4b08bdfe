"""Routed experts: two grouped products with situ between, combined in slot order without atomics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import FLOATS, INTEGERS, Dims
from k3_ledger.kernels.experts import naive
from k3_ledger.kernels.op import Op
from k3_ledger.kernels.situ import check_betas

if TYPE_CHECKING:
    from torch import Tensor

WIDE: Final = frozenset({torch.float32, torch.float64})


def check(
    x: Tensor,
    ids: Tensor,
    weights: Tensor,
    *,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    beta: float,
    linear_beta: float,
    first_expert: int,
    expert_count: int,
    by_load: bool = False,
) -> None:
    """Refuse arguments outside the contract of :func:`.naive.experts`."""
    if not isinstance(by_load, bool):
        raise TypeError(f"by_load is {by_load!r}, not a bool")
    dims = Dims()
    dims.check("x", x, "T M", FLOATS)
    dims.check("ids", ids, "T k", INTEGERS)
    dims.check("weights", weights, "T k", WIDE)
    dims.check("gate", gate, "L F M", {x.dtype})
    dims.check("up", up, "L F M", {x.dtype})
    dims.check("down", down, "L M F", {x.dtype})
    check_betas(beta, linear_beta)
    if min(dims["T"], dims["k"], dims["L"], dims["F"], dims["M"]) < 1:
        raise ValueError("tokens, slots, experts and widths must be at least 1")
    if first_expert < 0 or first_expert + dims["L"] > expert_count:
        raise ValueError(
            f"experts [{first_expert}, {first_expert + dims['L']}) are not a band of {expert_count} experts"
        )


OP: Final = Op("experts", check, naive.experts, __name__)
