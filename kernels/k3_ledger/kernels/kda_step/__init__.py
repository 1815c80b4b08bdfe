"""Kimi delta attention, one token after another: gate, l2 norms, beta and delta rule in one operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.checks import Dims, check_positive
from k3_ledger.kernels.kda_step import naive
from k3_ledger.kernels.op import Op

if TYPE_CHECKING:
    from torch import Tensor

MAX_HEAD: Final = 256
"""Widest head in keys or values."""


def check(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    f: Tensor,
    beta: Tensor,
    *,
    a: Tensor,
    dt_bias: Tensor,
    state: Tensor,
    lower_bound: float | None,
    l2_eps: float,
) -> None:
    """Refuse arguments outside the contract of :func:`.naive.kda_step`."""
    dims = Dims()
    dims.check("q", q, "B T H K")
    dims.check("k", k, "B T H K", {q.dtype})
    dims.check("v", v, "B T H V", {q.dtype})
    dims.check("f", f, "B T H K")
    dims.check("beta", beta, "B T H")
    dims.check("a", a, "H")
    dims.check("dt_bias", dt_bias, "H K")
    dims.check("state", state, "B H K V", {torch.float32, torch.float64})
    check_positive("l2_eps", l2_eps)
    if dims["T"] < 1:
        raise ValueError("no tokens: T must be at least 1")
    if not (1 <= dims["K"] <= MAX_HEAD and 1 <= dims["V"] <= MAX_HEAD):
        raise ValueError(f"heads of {dims['K']} keys and {dims['V']} values; 1 to {MAX_HEAD} are supported")
    if lower_bound is not None and not lower_bound < 0:
        raise ValueError(f"lower_bound must be below 0 or None, not {lower_bound}")


OP: Final = Op("kda_step", check, naive.kda_step, __name__)
