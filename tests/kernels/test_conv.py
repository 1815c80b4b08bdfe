from __future__ import annotations

import pytest
import torch

from k3_ledger.kernels.conv.naive import conv
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, place, widen


def inputs(shape, device, dtype, past=3):
    batch, tokens, channels = shape
    random = draw(tokens)
    x = torch.randn((batch, tokens, channels), generator=random, dtype=torch.float64)
    window = torch.randn((batch, past, channels), generator=random, dtype=torch.float64)
    weight = torch.randn((channels, past + 1), generator=random, dtype=torch.float64)
    return [place(value, device, dtype) for value in (x, window, weight)]


def specified(x, window, weight):
    """Output and final window of the specification."""
    after = widen(window)
    return conv(widen(x), after, widen(weight)), after


@pytest.mark.parametrize(
    ("shape", "past"),
    [((2, 1, 60), 3), ((2, 2, 60), 3), ((1, 17, 300), 3), ((1, 63, 60), 3), ((1, 3, 257), 1)],
    ids=str,
)
def test_equals_the_specification_and_leaves_the_window(shape, past, device, dtype):
    x, window, weight = inputs(shape, device, dtype, past)
    expected, after = specified(x, window, weight)
    result = kernel("conv", x, window, weight)
    assert distance(result, expected) < TOLERANCE[dtype]
    assert torch.equal(window.cpu().double(), after)


@pytest.mark.parametrize("split", [[17], [1] * 17, [2, 3, 12], [16, 1]], ids=str)
def test_bits_do_not_depend_on_how_tokens_are_split_into_calls(split, device, dtype):
    x, window, weight = inputs((2, 17, 60), device, dtype)
    whole, whole_window = window.clone(), window.clone()
    expected = kernel("conv", x, whole, weight)
    parts = [kernel("conv", part.contiguous(), whole_window, weight) for part in x.split(split, dim=1)]
    assert torch.equal(torch.cat(parts, dim=1), expected)
    assert torch.equal(whole_window, whole)


def test_common_mistakes_are_seen(device, dtype):
    x, window, weight = inputs((2, 17, 60), device, dtype)
    expected, _ = specified(x, window, weight)
    backwards, _ = specified(x, window, weight.flip(1))
    reversed_window, _ = specified(x, window.flip(1), weight)
    forgotten, _ = specified(x, torch.zeros_like(window), weight)
    silu_first, _ = specified(torch.nn.functional.silu(x), window, weight)
    taps = torch.cat([window, x], dim=1).cpu().double().unfold(1, 4, 1)
    no_silu = (taps * weight.cpu().double()).sum(-1)
    result = kernel("conv", x, window, weight)
    assert distance(result, expected) < TOLERANCE[dtype]
    for wrong in (backwards, reversed_window, forgotten, silu_first, no_silu):
        assert distance(result, wrong) > MARGIN * TOLERANCE[dtype]


def test_a_window_of_another_length_than_the_taps_is_refused(device):
    x, window, _ = inputs((1, 2, 60), device, torch.float32)
    with pytest.raises(ValueError, match="weight has shape"):
        kernel("conv", x, window, torch.zeros((60, 3), device=device))
