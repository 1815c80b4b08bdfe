"""RMS norm, the specification. Source: K3_MATH §3, §5.7."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, *, eps: float, gate: Tensor | None = None) -> Tensor:
    """``weight * x / sqrt(mean(x^2) + eps)`` over the last dimension, times ``sigmoid(gate)`` where a gate is given.

    Args:
        x: ``[..., D]``, any float type, linear space. Kernels sum squares in float32: to them a row whose root mean
            square is over 1e18 is one of zeros or NaN, where no model's activations are.
        weight: ``[D]``.
        eps: added to the mean of squares, inside the root.
        gate: ``[..., D]`` logits of the output gate (KDA normalises each head's values, then gates).

    Returns:
        ``[..., D]`` in the type of ``x``. Computed in float64.
    """
    wide = x.double()
    result = weight.double() * wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    if gate is not None:
        result = result * gate.double().sigmoid()
    return result.to(x.dtype)
