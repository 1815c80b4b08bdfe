"""Products of a matrix with the vectors of a call, the specification. Source: K3_MATH §1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def product(x: Tensor, weight: Tensor, *, by_count: bool = False) -> Tensor:  # noqa: ARG001 (how, not what)
    """``weight @ x`` of each token, or of each token and head: a vector is multiplied with the weight of its head.

    Args:
        x: ``[T, I]``, or ``[T, H, I]``: float32 or the type of the weight, to which it is rounded first.
        weight: ``[O, I]``, or ``[H, O, I]``.
        by_count: a token by itself may have other bits than beside others.

    Returns:
        ``[T, O]``, or ``[T, H, O]``, float32 (float64 where the weight is). Computed in float64.
    """
    rounded = x.to(weight.dtype).double()
    out = torch.einsum("thi,hoi->tho" if weight.dim() == 3 else "ti,oi->to", rounded, weight.double())
    return out.to(torch.float64 if weight.dtype == torch.float64 else torch.float32)
