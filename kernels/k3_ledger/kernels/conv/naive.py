"""Short causal convolution of the KDA streams, the specification. Source: K3_MATH §5.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def conv(x: Tensor, window: Tensor, weight: Tensor) -> Tensor:
    """Depthwise causal convolution over time, then silu; one token is the case ``T = 1``.

    ``y[b, t, c] = silu(sum_i weight[c, i] * s[b, t + i, c])`` where ``s`` is ``window`` followed by ``x``: the last
    tap multiplies the current sample. Afterwards ``window`` holds the last ``P`` samples of ``s``, so any split of a
    sequence into calls gives the same outputs and the same final window.

    Args:
        x: ``[B, T, C]``, projections before the convolution; streams may be laid side by side in ``C``.
        window: ``[B, P, C]`` the ``P`` samples before ``x``, oldest first, zero at position 0. Updated in place.
        weight: ``[C, P + 1]``.

    Returns:
        ``[B, T, C]`` in the type of ``x``. Computed in float64.
    """
    tokens, taps = x.shape[1], weight.shape[1]
    samples = torch.cat([window.double(), x.double()], dim=1)
    total = sum(weight[:, tap].double() * samples[:, tap : tap + tokens] for tap in range(taps))
    assert isinstance(total, torch.Tensor)
    window.copy_(samples[:, tokens:])
    return (total * total.sigmoid()).to(x.dtype)
