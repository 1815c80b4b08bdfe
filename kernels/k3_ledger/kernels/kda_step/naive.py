"""Kimi delta attention token by token, the specification. Source: K3_MATH §5.3-5.6, ε of §11."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def log_decay(f: Tensor, a: Tensor, dt_bias: Tensor, lower_bound: float | None) -> Tensor:
    """Natural logarithm of the decay, per head and key channel, in float64: ``[..., H, K]``, at most 0.

    ``a`` already holds ``-exp(A_log)``: no second exponential and no second sign.
    """
    pre = f.double() + dt_bias.double()
    slope = -a.double()[:, None]
    if lower_bound is None:
        # Not log(1 + e^x), which is infinite from 710 on.
        return -slope * (pre.clamp(min=0) + torch.log1p((-pre.abs()).exp()))
    return lower_bound * (slope * pre).sigmoid()


def l2_norm(x: Tensor, eps: float) -> Tensor:
    """``x / sqrt(sum(x^2) + eps)`` over the last dimension, in float64; eps sits on the sum, not on the mean."""
    wide = x.double()
    return wide / (wide.square().sum(-1, keepdim=True) + eps).sqrt()


def kda_step(
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
    """Gate, l2 norms, beta and delta rule for ``T`` tokens in order; decode is the case ``T = 1``.

    Per token and head: ``q = l2(q) / sqrt(K)``, ``k = l2(k)``, ``g`` of :func:`log_decay`; then
    ``S <- diag(e^g) S`` (rows are key channels), ``S <- S + k (sigmoid(beta) (v - k^T S))^T``, ``o = q^T S``.
    S is rounded to its type once a token, so splitting the tokens into calls changes no bit of the result in either
    implementation.

    Args:
        q: ``[B, T, H, K]`` after convolution and silu, not normalised, not scaled.
        k: ``[B, T, H, K]`` likewise.
        v: ``[B, T, H, V]`` likewise (never normalised).
        f: ``[B, T, H, K]`` pre-activation of the decay gate (``W_fb W_fa z``), without ``dt_bias``.
        beta: ``[B, T, H]`` logits of the write strength.
        a: ``[H]`` the stored ``-exp(A_log)``.
        dt_bias: ``[H, K]``.
        state: ``[B, H, K, V]`` S, float32 (float64 in naive checks), zero at position 0. Updated in place.
        lower_bound: K3's -5: ``g = lower_bound * sigmoid(exp(A_log) (f + dt_bias))``; None (Kimi-Linear):
            ``g = -exp(A_log) softplus(f + dt_bias)``.
        l2_eps: epsilon on the sum of squares (llama.cpp 1e-5, HF 1e-6).

    Returns:
        ``[B, T, H, V]`` in the type of ``v``. Computed in float64.
    """
    query = l2_norm(q, l2_eps) / q.shape[-1] ** 0.5
    key = l2_norm(k, l2_eps)
    decay = log_decay(f, a, dt_bias, lower_bound).exp()
    write = beta.double().sigmoid()
    outputs = []
    for t in range(q.shape[1]):
        current = state.double() * decay[:, t, :, :, None]
        read = torch.einsum("bhk,bhkv->bhv", key[:, t], current)
        delta = write[:, t, :, None] * (v[:, t].double() - read)
        current = current + key[:, t, :, :, None] * delta[:, :, None, :]
        outputs.append(torch.einsum("bhk,bhkv->bhv", query[:, t], current))
        state.copy_(current)
    return torch.stack(outputs, dim=1).to(v.dtype)
