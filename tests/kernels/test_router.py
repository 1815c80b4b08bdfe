from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

K3 = {"top_k": 16, "renormalise": True, "scale": 1.0, "min_sum": 2.0**-14}


def inputs(device, tokens=5, experts=896):
    random = draw(experts)
    logits = torch.randn((tokens, experts), generator=random, dtype=torch.float64) * 2
    bias = torch.randn(experts, generator=random, dtype=torch.float64) * 0.3
    return place(logits, device, torch.float32), place(bias, device, torch.float32)


@pytest.mark.parametrize(
    ("tokens", "experts", "top_k"), [(5, 896, 16), (17, 13, 4), (1, 60, 60), (3, 1, 1), (2, 1000, 3)], ids=str
)
@pytest.mark.parametrize("renormalise", [True, False])
def test_equals_the_specification(tokens, experts, top_k, renormalise, device):
    logits, bias = inputs(device, tokens, experts)
    keywords = {**K3, "top_k": top_k, "renormalise": renormalise, "scale": 2.5}
    ids, weights = kernel("router", logits, bias, **keywords)
    expected_ids, expected = naive("router", logits, bias, **keywords)
    assert ids.dtype == torch.int64
    assert torch.equal(ids.cpu(), expected_ids)
    assert distance(weights, expected) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_ties_go_to_the_lower_index(levels, device):
    """Few distinct values make exact ties in any arithmetic."""
    choice = torch.randint(0, levels, (6, 896), generator=draw(levels))
    logits, bias = place(choice.float() - 1, device), torch.full((896,), 0.25, device=device)
    ids, _ = kernel("router", logits, bias, **K3)
    expected = torch.stack([torch.argsort(-row, stable=True)[:16] for row in choice])
    assert torch.equal(ids.cpu(), expected)
    higher = torch.stack([895 - torch.argsort(-row.flip(0), stable=True)[:16] for row in choice])
    assert (ids.cpu() != higher).float().mean() > 0.5


def test_common_mistakes_are_seen(device):
    logits, bias = inputs(device)
    ids, weights = kernel("router", logits, bias, **K3)
    score = logits.cpu().double().sigmoid() + bias.cpu().double()
    biased = score.gather(1, ids.cpu())
    unbiased_ids, _ = naive("router", logits, torch.zeros_like(bias), **K3)
    softmax = logits.cpu().double().gather(1, ids.cpu()).softmax(-1)
    _, plain = naive("router", logits, bias, **{**K3, "renormalise": False})
    for wrong in (biased / biased.sum(-1, keepdim=True), softmax, plain):
        assert distance(weights, wrong) > MARGIN * TOLERANCE[torch.float32]
    assert (ids.cpu() != unbiased_ids).float().mean() > 0.5


def test_the_least_divisor_bounds_the_weights(device):
    logits, bias = torch.full((2, 60), -20.0, device=device), torch.zeros(60, device=device)
    keywords = {**K3, "top_k": 3}
    _, weights = kernel("router", logits, bias, **keywords)
    _, expected = naive("router", logits, bias, **keywords)
    assert distance(weights, expected) < TOLERANCE[torch.float32]
    assert expected.sum() < 1e-3
    _, unbounded = kernel("router", logits, bias, **{**keywords, "min_sum": 0.0})
    assert torch.allclose(unbounded.sum(-1).cpu(), torch.ones(2))


def test_a_broken_token_is_marked_and_its_neighbours_are_not(device):
    logits, bias = inputs(device, tokens=3, experts=60)
    logits[1, 7] = torch.nan
    ids, weights = kernel("router", logits, bias, **{**K3, "top_k": 4})
    expected_ids, expected = naive("router", logits, bias, **{**K3, "top_k": 4})
    assert weights[1].isnan().all()
    assert weights[[0, 2]].isfinite().all()
    assert distance(weights, expected) < TOLERANCE[torch.float32]
    assert torch.equal(ids.cpu(), expected_ids)
    assert 7 not in ids[1].tolist()


def test_no_expert_is_chosen_twice_even_when_none_is_likely(device):
    logits, bias = torch.full((1, 60), -torch.inf, device=device), torch.full((60,), -torch.inf, device=device)
    ids, _ = kernel("router", logits, bias, **K3)
    assert ids[0].tolist() == list(range(16))


@pytest.mark.parametrize("top_k", [0, 61])
def test_more_choices_than_experts_are_refused(top_k, device):
    logits, bias = inputs(device, 2, 60)
    with pytest.raises(ValueError, match="top_k"):
        kernel("router", logits, bias, **{**K3, "top_k": top_k})


@pytest.mark.parametrize("centre", [-20.0, 0.0, 8.0, 16.0, 20.0, 40.0])
@pytest.mark.parametrize("step", [1e-3, 1e-6])
def test_where_float32_cannot_tell_scores_apart_the_choice_is_as_good_to_its_rounding(centre, step, device):
    """Sigmoids near 1 lie closer together than float32 resolves: another choice, but no worse one."""
    logits = place(centre + torch.arange(64.0)[None] * step, device)
    bias = torch.zeros(64, device=device)
    keywords = {**K3, "top_k": 4}
    ids, weights = kernel("router", logits, bias, **keywords)
    expected_ids, expected = naive("router", logits, bias, **keywords)
    score = logits.cpu().double().sigmoid()
    least = score.gather(1, expected_ids).amin()
    assert (least - score.gather(1, ids.cpu())).amax() < 2.0**-22
    assert distance(weights, expected) < 10 * TOLERANCE[torch.float32]
    far = 63 - expected_ids  # the control: of the worst four, where there is a difference to see
    if centre == 0 and step == 1e-3:
        assert (least - score.gather(1, far)).amax() > 2.0**-22
