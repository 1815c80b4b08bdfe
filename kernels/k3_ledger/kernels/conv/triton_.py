"""Short causal convolution kernel: one program a run of tokens and block of channels, taps added oldest first in
float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor

TILE: Final = {"RUN": 16, "BLOCK": 128, "num_warps": 4}
"""Tokens (of a longer call) and channels a program takes: a run's samples stay in the first cache between taps."""


@triton.jit
def _samples(x, window, position, sequence, channel, T, C, PAST: tl.constexpr):
    """Samples at ``position`` of the window (the first ``PAST``) followed by the tokens, ``[run, channels]``."""
    inside = (position < PAST + T)[:, None] & (channel < C)[None, :]
    early = (position < PAST)[:, None]
    line = window + (sequence * PAST + position)[:, None] * C + channel[None, :]
    old = tl.load(line, mask=inside & early, other=0.0).to(tl.float32)
    line = x + (sequence * T + position - PAST)[:, None] * C + channel[None, :]
    new = tl.load(line, mask=inside & (position >= PAST)[:, None], other=0.0).to(tl.float32)
    return tl.where(early, old, new)


@triton.jit
def _conv(
    x, window, weight, out, T, C, blocks, runs,
    PAST: tl.constexpr, SHIFT: tl.constexpr, RUN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    program = program_id(0)
    channel = program % blocks * BLOCK + tl.arange(0, BLOCK)
    token = program // blocks % runs * RUN + tl.arange(0, RUN)
    sequence = program // blocks // runs
    mask = (token < T)[:, None] & (channel < C)[None, :]
    total = tl.zeros([RUN, BLOCK], dtype=tl.float32)
    for tap in tl.static_range(PAST + 1):
        sample = _samples(x, window, token + tap, sequence, channel, T, C, PAST)
        scale = tl.load(weight + channel * (PAST + 1) + tap, mask=channel < C, other=0.0).to(tl.float32)
        total += sample * scale[None, :]
        if SHIFT and tap > 0:
            # The only token of the call: nobody else reads the slot that this overwrites.
            place = window + (sequence * PAST + tap - 1 + token)[:, None] * C + channel[None, :]
            tl.store(place, narrow(sample, window.dtype.element_ty), mask=mask)
    result = narrow(total * sigmoid(total), out.dtype.element_ty)
    tl.store(out + (sequence * T + token)[:, None] * C + channel[None, :], result, mask=mask)


@triton.jit
def _shift(x, window, T, C, blocks, PAST: tl.constexpr, BLOCK: tl.constexpr):
    program = program_id(0)
    channel = program % blocks * BLOCK + tl.arange(0, BLOCK)
    sequence = program // blocks
    one = tl.arange(0, 1)
    # In rising order: slot i takes sample T + i, which no earlier slot has overwritten, for T >= 1.
    for slot in tl.static_range(PAST):
        sample = _samples(x, window, T + slot + one, sequence, channel, T, C, PAST)
        place = window + (sequence * PAST + slot + one)[:, None] * C + channel[None, :]
        tl.store(place, narrow(sample, window.dtype.element_ty), mask=(channel < C)[None, :])


def conv(x: Tensor, window: Tensor, weight: Tensor) -> Tensor:
    """As :func:`.naive.conv`, in float32. One launch for a token, two for more."""
    batch, tokens, channels = x.shape
    past = window.shape[1]
    out = torch.empty_like(x)
    tile = {**TILE, "RUN": 1} if tokens == 1 else TILE
    blocks, runs = triton.cdiv(channels, tile["BLOCK"]), triton.cdiv(tokens, tile["RUN"])
    if out.numel():
        _conv[(batch * runs * blocks,)](
            x, window, weight, out, tokens, channels, blocks, runs, PAST=past, SHIFT=tokens == 1, **tile
        )
        if tokens > 1:
            _shift[(batch * blocks,)](x, window, tokens, channels, blocks, PAST=past, BLOCK=tile["BLOCK"])
    return out
