"""Absorbed MLA over a latent cache: the whole operation, and its slices alone (for a context split over ranks)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.kernels.checks import FLOATS, INTEGERS, Dims, check_positive
from k3_ledger.kernels.mla_decode import naive
from k3_ledger.kernels.op import Op

if TYPE_CHECKING:
    from torch import Tensor

MAX_VALUES: Final = 512
"""Widest latent part of a cache row."""


def check(query: Tensor, cache: Tensor, lengths: Tensor, *, value_dim: int, scale: float, slice_rows: int) -> None:
    """Refuse arguments outside the contract of :func:`.naive.mla_decode`."""
    dims = Dims()
    dims.check("query", query, "B T H R", FLOATS)
    dims.check("cache", cache, "B S R", {query.dtype}, rows_strided=True)
    dims.check("lengths", lengths, "B T", INTEGERS)
    check_positive("scale", scale)
    check_positive("slice_rows", slice_rows)
    if min(dims["B"], dims["T"], dims["H"], dims["S"]) < 1:
        raise ValueError("batch, tokens, heads and cache rows must be at least 1")
    if lengths.device.type == "cpu" and not 0 <= int(lengths.min()) <= int(lengths.max()) <= dims["S"]:
        raise ValueError(f"lengths from {int(lengths.min())} to {int(lengths.max())} of a cache of {dims['S']} rows")
    if not 1 <= value_dim < dims["R"] or value_dim > MAX_VALUES:
        raise ValueError(
            f"value_dim {value_dim} of rows of {dims['R']}; 1 to {MAX_VALUES}, below the row, is supported"
        )


OP: Final = Op("mla_decode", check, naive.mla_decode, __name__)
SLICES: Final = Op("mla_slices", check, naive.mla_slices, __name__)
