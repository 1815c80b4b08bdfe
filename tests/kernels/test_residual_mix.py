from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place


def inputs(device, dtype, *, count=8, capacity=8, tokens=3, width=60, scale=1.0):
    random = draw(count + width)
    bank = torch.randn((capacity, tokens, width), generator=random, dtype=torch.float64) * scale
    x = torch.randn((tokens, width), generator=random, dtype=torch.float64) * scale
    weight = torch.randn(width, generator=random, dtype=torch.float64) * 2 / width**0.5
    bank[count:] = torch.nan
    placed = [place(value, device, dtype) for value in (bank, x, weight)]
    return placed, {"count": count, "eps": 1e-5}


@pytest.mark.parametrize("count", range(9))
def test_equals_the_specification_for_every_count(count, device, dtype):
    tensors, keywords = inputs(device, dtype, count=count)
    result = kernel("residual_mix", *tensors, **keywords)
    assert distance(result, naive("residual_mix", *tensors, **keywords)) < TOLERANCE[dtype]
    if count == 0:
        assert torch.equal(result, tensors[1]), "an empty bank changes nothing"


@pytest.mark.parametrize(
    "shape",
    [{"capacity": 9, "tokens": 2, "width": 7168}, {"count": 15, "capacity": 15, "tokens": 17, "width": 20}],
    ids=str,
)
def test_equals_the_specification_at_other_sizes(shape, device, dtype):
    tensors, keywords = inputs(device, dtype, **shape)
    result = kernel("residual_mix", *tensors, **keywords)
    assert distance(result, naive("residual_mix", *tensors, **keywords)) < TOLERANCE[dtype]


def test_both_orders_of_the_bank_give_the_same_bits_and_exchanging_them_is_seen(device, dtype):
    """With one banked vector or one token the two orders are the same memory: hence four and three."""
    (bank, x, weight), keywords = inputs(device, dtype, count=4, capacity=4)
    token_major = bank.transpose(0, 1).contiguous()
    result = kernel("residual_mix", bank, x, weight, **keywords)
    assert torch.equal(kernel("residual_mix", token_major.transpose(0, 1), x, weight, **keywords), result)
    exchanged = token_major.reshape(4, 3, 60)
    assert distance(result, naive("residual_mix", exchanged, x, weight, **keywords)) > MARGIN * TOLERANCE[dtype]
    hidden = naive("residual_mix", bank[:1], x, weight, **{**keywords, "count": 1})
    swapped = naive("residual_mix", token_major[:, :1].reshape(1, 3, 60), x, weight, **{**keywords, "count": 1})
    assert distance(hidden, swapped) < 1e-12, "what one banked vector cannot show"


def test_bits_do_not_depend_on_the_other_tokens_of_the_call(device, dtype):
    (bank, x, weight), keywords = inputs(device, dtype)
    whole = kernel("residual_mix", bank, x, weight, **keywords)
    for token in range(3):
        one = slice(token, token + 1)
        assert torch.equal(kernel("residual_mix", bank[:, one], x[one], weight, **keywords), whole[one])


def test_common_mistakes_are_seen(device, dtype):
    (bank, x, weight), keywords = inputs(device, dtype, count=4, capacity=4)
    result = kernel("residual_mix", bank, x, weight, **keywords)
    candidates = torch.cat([bank, x[None]]).cpu().double()
    normed = candidates / (candidates.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    share = (normed * weight.cpu().double()).sum(-1).softmax(0)[..., None]
    for wrong in (
        (share * normed).sum(0),  # normalised values in the sum
        candidates.mean(0),
        candidates.sum(0),
        naive("residual_mix", bank, x, weight, **{**keywords, "count": 3}),
        naive("residual_mix", bank.roll(1, 1), x, weight, **keywords),  # another row's bank
        naive("residual_mix", bank, x, -weight, **keywords),
        naive("residual_mix", bank, torch.zeros_like(x), weight, **keywords),
    ):
        assert distance(result, wrong) > 5 * TOLERANCE[dtype]


def test_epsilon_counts_at_small_activations(device):
    tensors, keywords = inputs(device, torch.float32, scale=1e-3)
    result = kernel("residual_mix", *tensors, **keywords)
    assert distance(result, naive("residual_mix", *tensors, **keywords)) < TOLERANCE[torch.float32]
    other = naive("residual_mix", *tensors, **{**keywords, "eps": 1e-6})
    assert distance(result, other) > MARGIN * TOLERANCE[torch.float32]


@pytest.mark.parametrize("count", [-1, 9])
def test_more_than_the_bank_holds_is_refused(count, device):
    tensors, keywords = inputs(device, torch.float32)
    with pytest.raises(ValueError, match="count is"):
        kernel("residual_mix", *tensors, **{**keywords, "count": count})
