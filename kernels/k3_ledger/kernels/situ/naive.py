"""The situ activation, the specification. Source: K3_MATH §3."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def situ(gate: Tensor, up: Tensor, *, beta: float, linear_beta: float) -> Tensor:
    """``beta * tanh(gate / beta) * sigmoid(gate) * (linear_beta * tanh(up / linear_beta))``, element by element.

    Only the gate branch has a sigmoid. ``linear_beta`` 0 switches the second tanh off (the factor is ``up``).

    Args:
        gate: ``[..., F]``, any float type.
        up: ``[..., F]``.
        beta: saturation of the gate branch, above 0 (K3: 4).
        linear_beta: saturation of the linear branch, or 0 (K3: 25).

    Returns:
        ``[..., F]`` in the type of ``gate``; ``|situ| <= beta * linear_beta`` where that is above 0. Computed in
        float64.
    """
    wide, linear = gate.double(), up.double()
    if linear_beta > 0:
        linear = linear_beta * (linear / linear_beta).tanh()
    return (beta * (wide / beta).tanh() * wide.sigmoid() * linear).to(gate.dtype)
