"""Kimi delta attention in chunks, the specification of the chunked algebra. Source: K3_MATH §5, "Chunked form"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from k3_ledger.kernels.kda_step.naive import l2_norm, log_decay

if TYPE_CHECKING:
    from torch import Tensor

CHUNK: Final = 16
"""Tokens a chunk."""


def kda_chunk(
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
) -> Tensor:
    """The function of :func:`k3_ledger.kernels.kda_step.naive.kda_step`, 16 tokens at a time (prefill).

    Same arguments, same result up to re-association (tolerance contract, not bit-identity). With ``G_t`` the sum of
    log decays in the chunk up to and with ``t``: ``L_ts = beta_t sum_c k_tc k_sc e^(G_tc - G_sc)`` for ``s < t``,
    ``M_ts = sum_c q_tc k_sc e^(G_tc - G_sc)`` for ``s <= t``, ``U = (I + L)^-1 [beta (v - k e^G S)]``,
    ``O = q e^G S + M U``, ``S <- diag(e^G_last) S + (k e^(G_last - G))^T U``. Every exponent is a difference of two
    sums in the order of time, hence at most 0 for any decay: nothing overflows at any gate, where the usual split
    into ``e^G`` and ``e^-G`` overflows float32 after 17 tokens at -5.

    Returns:
        ``[B, T, H, V]`` in the type of ``v``; ``state`` is updated in place. Computed in float64.
    """
    query = (l2_norm(q, l2_eps) / q.shape[-1] ** 0.5).transpose(1, 2)
    key = l2_norm(k, l2_eps).transpose(1, 2)
    decay = log_decay(f, a, dt_bias, lower_bound).transpose(1, 2)
    write = beta.double().sigmoid().transpose(1, 2)[..., None]
    value = v.double().transpose(1, 2)
    current = state.double()
    outputs = []
    for begin in range(0, q.shape[1], CHUNK):
        part = slice(begin, begin + CHUNK)
        total = decay[:, :, part].cumsum(2)
        q_c, k_c, w_c = query[:, :, part], key[:, :, part], write[:, :, part]
        size = total.shape[2]
        visible = torch.ones(size, size, dtype=torch.bool, device=q.device).tril()
        gap = total[:, :, :, None] - total[:, :, None]
        pair = gap.masked_fill(~visible[:, :, None], -torch.inf).exp() * k_c[:, :, None]
        mixed = torch.einsum("bhtc,bhtsc->bhts", q_c, pair)
        lower = (w_c * torch.einsum("bhtc,bhtsc->bhts", k_c, pair)).tril(-1)
        right = w_c * (value[:, :, part] - (k_c * total.exp()) @ current)
        unit = torch.eye(size, dtype=torch.float64, device=q.device) + lower
        update = torch.linalg.solve_triangular(unit, right, upper=False, unitriangular=True)
        outputs.append((q_c * total.exp()) @ current + mixed @ update)
        last = total[:, :, -1:]
        current = last.exp().transpose(2, 3) * current + (k_c * (last - total).exp()).transpose(2, 3) @ update
    state.copy_(current)
    return torch.cat(outputs, dim=2).transpose(1, 2).to(v.dtype).contiguous()
