from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

K3 = {"beta": 4.0, "linear_beta": 25.0}


def inputs(shape, device, dtype, scale):
    random = draw(7)
    gate = torch.randn(shape, generator=random, dtype=torch.float64) * scale
    up = torch.randn(shape, generator=random, dtype=torch.float64) * 5 * scale
    return place(gate, device, dtype), place(up, device, dtype)


@pytest.mark.parametrize("shape", [(1, 3072), (63, 60), (17,), (3, 5, 1000)], ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_equals_the_specification(shape, scale, device, dtype):
    gate, up = inputs(shape, device, dtype, scale)
    result = kernel("situ", gate, up, **K3)
    assert result.dtype == dtype
    assert distance(result, naive("situ", gate, up, **K3)) < TOLERANCE[dtype]
    assert result.float().abs().max() <= 100 * (1 + TOLERANCE[dtype])


def test_without_a_linear_bound_the_second_factor_is_plain(device, dtype):
    gate, up = inputs((17, 60), device, dtype, 3.0)
    result = kernel("situ", gate, up, beta=4.0, linear_beta=0.0)
    assert distance(result, naive("situ", gate, up, beta=4.0, linear_beta=0.0)) < TOLERANCE[dtype]
    assert distance(result, naive("situ", gate, up, **K3)) > MARGIN * TOLERANCE[dtype]


def test_common_mistakes_are_seen(device, dtype):
    gate, up = inputs((17, 60), device, dtype, 3.0)
    result = kernel("situ", gate, up, **K3)
    g, u = gate.cpu().double(), up.cpu().double()
    linear = 25 * (u / 25).tanh()
    for wrong in (
        4 * (g / 4).tanh() * g.sigmoid() * linear * u.sigmoid(),  # symmetric
        g.tanh() * g.sigmoid() * linear,  # tanh without beta
        g * g.sigmoid() * u,  # silu
        naive("situ", up, gate, **K3),  # branches exchanged
    ):
        assert distance(result, wrong) > MARGIN * TOLERANCE[dtype]


def test_a_tanh_that_cancels_would_be_seen_at_small_activations(device):
    gate, up = inputs((17, 60), device, torch.float32, 1e-3)
    result = kernel("situ", gate, up, **K3)
    g, u = gate.cpu(), up.cpu()
    cancelling = 4 * (2 * (g / 2).sigmoid() - 1) * g.sigmoid() * 25 * (2 * (u * 2 / 25).sigmoid() - 1)
    assert distance(result, naive("situ", gate, up, **K3)) < TOLERANCE[torch.float32]
    assert distance(cancelling, naive("situ", gate, up, **K3)) > MARGIN * TOLERANCE[torch.float32]


@pytest.mark.parametrize(("beta", "linear_beta"), [(0.0, 25.0), (-1.0, 25.0), (4.0, -1.0), (float("nan"), 25.0)])
def test_constants_that_cannot_divide_are_refused(beta, linear_beta, device):
    x = torch.zeros(4, device=device)
    with pytest.raises(ValueError, match="beta"):
        kernel("situ", x, x, beta=beta, linear_beta=linear_beta)
