"""Tensors past 2^31 values, on a GPU only: 4 GiB of bfloat16 each way."""

from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import TOLERANCE, distance, kernel, naive

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs the memory of a GPU")
LIMIT = 2**31


def test_the_last_row_of_a_norm_past_the_limit_is_right(device):
    rows = LIMIT // 7168 + 2
    x = torch.empty((rows, 7168), dtype=torch.bfloat16, device=device).normal_()
    weight = torch.ones(7168, dtype=torch.bfloat16, device=device)
    assert x.numel() > LIMIT
    result = kernel("rms_norm", x, weight, eps=1e-5)
    for part in (slice(0, 1), slice(-2, None)):
        assert distance(result[part], naive("rms_norm", x[part], weight, eps=1e-5)) < TOLERANCE[torch.bfloat16]


def test_the_last_token_of_a_convolution_past_the_limit_is_right(device):
    """Three streams of 12,288 channels pass 2^31 at 58,255 tokens."""
    tokens, channels = 58_260, 3 * 12_288
    x = torch.empty((1, tokens, channels), dtype=torch.bfloat16, device=device).normal_()
    weight = torch.ones((channels, 4), dtype=torch.bfloat16, device=device)
    window = torch.zeros((1, 3, channels), device=device)
    assert x.numel() > LIMIT
    result = kernel("conv", x, window, weight)
    end = naive("conv", x[:, -4:].contiguous(), x[:, -7:-4].float().contiguous(), weight)
    assert distance(result[:, -4:], end) < TOLERANCE[torch.bfloat16]
    assert torch.equal(window, x[:, -3:].float())
