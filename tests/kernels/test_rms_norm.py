from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

SHAPES = [(1, 7168), (63, 60), (17, 3, 128), (2, 192), (5, 3584), (1, 1), (3, 1000)]


def inputs(shape, device, dtype, *, scale=1.0):
    random = draw(sum(shape))
    x = torch.randn(shape, generator=random, dtype=torch.float64) * scale
    weight = 1 + 0.3 * torch.randn(shape[-1], generator=random, dtype=torch.float64)
    gate = torch.randn(shape, generator=random, dtype=torch.float64)
    return [place(value, device, dtype) for value in (x, weight, gate)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_equals_the_specification(shape, gated, device, dtype):
    x, weight, gate = inputs(shape, device, dtype)
    gate = gate if gated else None
    result = kernel("rms_norm", x, weight, eps=1e-5, gate=gate)
    assert result.dtype == dtype
    assert distance(result, naive("rms_norm", x, weight, eps=1e-5, gate=gate)) < TOLERANCE[dtype]


def test_epsilon_counts_at_small_activations(device):
    x, weight, _ = inputs((5, 3584), device, torch.float32, scale=1e-3)
    result = kernel("rms_norm", x, weight, eps=1e-5)
    assert distance(result, naive("rms_norm", x, weight, eps=1e-5)) < TOLERANCE[torch.float32]
    assert distance(result, naive("rms_norm", x, weight, eps=1e-6)) > MARGIN * TOLERANCE[torch.float32]


def test_a_gate_before_the_norm_and_a_norm_over_all_heads_are_seen(device, dtype):
    x, weight, gate = inputs((17, 3, 128), device, dtype)
    result = kernel("rms_norm", x, weight, eps=1e-5, gate=gate)
    gated_first = naive("rms_norm", x.cpu().double() * gate.cpu().double().sigmoid(), weight, eps=1e-5)
    wide = x.cpu().double().reshape(17, 384)
    over_all = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    over_all = over_all.reshape(17, 3, 128) * weight.cpu().double() * gate.cpu().double().sigmoid()
    assert distance(result, gated_first) > MARGIN * TOLERANCE[dtype]
    assert distance(result, over_all) > 5 * TOLERANCE[dtype]


def test_no_rows_is_no_result(device):
    x = torch.zeros((0, 60), device=device)
    assert kernel("rms_norm", x, torch.ones(60, device=device), eps=1e-5).shape == (0, 60)


def test_rows_wider_than_a_program_holds_are_refused(device):
    x = torch.zeros((1, 16385), device=device)
    with pytest.raises(ValueError, match="1 to 16384"):
        kernel("rms_norm", x, torch.ones(16385, device=device), eps=1e-5)


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e9, 1e18])
def test_rows_of_any_size_that_float32_can_square_are_normed(size, device):
    x, weight, _ = inputs((5, 60), device, torch.float32)
    x = x / x.square().mean(-1, keepdim=True).sqrt() * size
    assert distance(kernel("rms_norm", x, weight, eps=1e-38), naive("rms_norm", x, weight, eps=1e-38)) < 2e-5
