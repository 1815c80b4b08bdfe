"""Short causal convolution kernel: one program a token and block of channels, taps added oldest first in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
import triton
import triton.language as tl

from k3_ledger.kernels.language import narrow, program_id, sigmoid

if TYPE_CHECKING:
    from torch import Tensor

BLOCK: Final = 256


@triton.jit
def _sample(x, window, position, sequence, channel, mask, T, C, PAST: tl.constexpr):
    """Sample at ``position`` of the window (the first ``PAST``) followed by the tokens."""
    old = tl.load(window + (sequence * PAST + position) * C + channel, mask=mask & (position < PAST), other=0.0)
    new = tl.load(x + (sequence * T + position - PAST) * C + channel, mask=mask & (position >= PAST), other=0.0)
    return tl.where(position < PAST, old.to(tl.float32), new.to(tl.float32))


@triton.jit
def _conv(x, window, weight, out, T, C, blocks, PAST: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    program = program_id(0)
    channel = program % blocks * BLOCK + tl.arange(0, BLOCK)
    token = program // blocks % T
    sequence = program // blocks // T
    mask = channel < C
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tap in tl.static_range(PAST + 1):
        sample = _sample(x, window, token + tap, sequence, channel, mask, T, C, PAST)
        total += sample * tl.load(weight + channel * (PAST + 1) + tap, mask=mask, other=0.0).to(tl.float32)
        if SHIFT and tap > 0:
            # The only token of the call: nobody else reads the slot that this overwrites.
            place = window + (sequence * PAST + tap - 1) * C + channel
            tl.store(place, narrow(sample, window.dtype.element_ty), mask=mask)
    result = total * sigmoid(total)
    tl.store(out + ((sequence * T + token) * C + channel), narrow(result, out.dtype.element_ty), mask=mask)


@triton.jit
def _shift(x, window, T, C, blocks, PAST: tl.constexpr, BLOCK: tl.constexpr):
    program = program_id(0)
    channel = program % blocks * BLOCK + tl.arange(0, BLOCK)
    sequence = program // blocks
    mask = channel < C
    # In rising order: slot i takes sample T + i, which no earlier slot has overwritten, for T >= 1.
    for slot in tl.static_range(PAST):
        sample = _sample(x, window, T + slot, sequence, channel, mask, T, C, PAST)
        tl.store(window + (sequence * PAST + slot) * C + channel, narrow(sample, window.dtype.element_ty), mask=mask)


def conv(x: Tensor, window: Tensor, weight: Tensor) -> Tensor:
    """As :func:`.naive.conv`, in float32. One launch for a token, two for more."""
    batch, tokens, channels = x.shape
    past = window.shape[1]
    out = torch.empty_like(x)
    blocks = triton.cdiv(channels, BLOCK)
    if out.numel():
        _conv[(batch * tokens * blocks,)](
            x, window, weight, out, tokens, channels, blocks, PAST=past, SHIFT=tokens == 1, BLOCK=BLOCK
        )
        if tokens > 1:
            _shift[(batch * blocks,)](x, window, tokens, channels, blocks, PAST=past, BLOCK=BLOCK)
    return out
