"""Expanded MLA attention with a causal mask, for chunks of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import Dims, check_positive
from k3_ledger.kernels.mla_prefill import naive
from k3_ledger.kernels.op import Op

if TYPE_CHECKING:
    from torch import Tensor

MAX_WIDTH: Final = 128
"""Widest part of a key, and widest value."""


def check(query: Tensor, key: Tensor, key_pe: Tensor, value: Tensor, *, start: int, scale: float) -> None:
    """Refuse arguments outside the contract of :func:`.naive.mla_prefill`."""
    dims = Dims()
    dims.check("key", key, "B S H N", {query.dtype})
    dims.check("key_pe", key_pe, "B S P", {query.dtype})
    dims.check("value", value, "B S H V", {query.dtype})
    dims.check("query", query, f"B T H {dims['N'] + dims['P']}")
    check_positive("scale", scale)
    if max(dims["N"], dims["P"], dims["V"]) > MAX_WIDTH or min(dims["N"], dims["P"], dims["V"], dims["T"]) < 1:
        raise ValueError(f"key parts and values of 1 to {MAX_WIDTH} and at least one token are supported")
    if start < 0 or start + dims["T"] > dims["S"]:
        raise ValueError(f"{dims['S']} rows cannot hold {dims['T']} tokens from position {start}")


OP: Final = Op("mla_prefill", check, naive.mla_prefill, __name__)
