from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive

EMPTY = {"none": [], "first": [0], "middle": [1, 2], "last": [3], "all but one": [0, 1, 3], "all": [0, 1, 2, 3]}


def slices(device, *, slices=4, width=60, shape=(2, 1, 3)):
    random = draw(width)
    peak = torch.randn((slices, *shape), generator=random) * 30
    total = torch.rand((slices, *shape), generator=random) * 50 + 1
    latent = torch.randn((slices, *shape, width), generator=random) * total[..., None]
    return peak.to(device), total.to(device), latent.to(device)


@pytest.mark.parametrize("empty", EMPTY)
def test_an_empty_slice_weighs_exactly_nothing_and_is_never_read(empty, device):
    peak, total, latent = slices(device)
    for j in EMPTY[empty]:
        peak[j], total[j], latent[j] = -torch.inf, torch.nan, torch.nan
    result = kernel("mla_merge", peak, total, latent)
    present = [j for j in range(4) if j not in EMPTY[empty]]
    if not present:
        assert torch.equal(result, torch.zeros_like(result))
        return
    without = [part[present].contiguous() for part in (peak, total, latent)]
    assert torch.equal(result, kernel("mla_merge", *without))
    assert distance(result, naive("mla_merge", *without)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("count", [1, 2, 257])
def test_equals_the_specification_for_any_number_of_slices(count, device):
    parts = slices(device, slices=count, width=20, shape=(1, 1, 2))
    assert distance(kernel("mla_merge", *parts), naive("mla_merge", *parts)) < TOLERANCE[torch.float32]


def test_merging_in_two_stages_is_merging_once(device):
    """Ranks merge their own slices first; theirs are merged again."""
    peak, total, latent = slices(device)
    stages = []
    for part in (slice(0, 2), slice(2, 4)):
        top = peak[part].amax(0)
        weight = (peak[part] - top).exp()
        stages.append((top, (weight * total[part]).sum(0), (weight[..., None] * latent[part]).sum(0)))
    twice = kernel("mla_merge", *(torch.stack(values) for values in zip(*stages, strict=True)))
    assert distance(twice, naive("mla_merge", peak, total, latent)) < TOLERANCE[torch.float32]


def test_common_mistakes_are_seen(device):
    peak, total, latent = slices(device)
    peak[0], total[0], latent[0] = -torch.inf, 0, 0
    peak[:, 0, 0, 0] = -torch.inf
    total[:, 0, 0, 0], latent[:, 0, 0, 0] = 0, 0
    result = kernel("mla_merge", peak, total, latent)
    p, t, x = peak.cpu().double(), total.cpu().double(), latent.cpu().double()
    unguarded = ((p - p.amax(0)).exp()[..., None] * x).sum(0)
    assert unguarded.isnan().any(), "e^(-inf + inf) is what the guard is for"
    assert not result.isnan().any()
    plain = torch.where(t.sum(0)[..., None] > 0, x.sum(0) / t.sum(0)[..., None], 0.0)  # no rescaling
    means = torch.where(t[..., None] > 0, x / t[..., None], 0.0)
    averaged = (p.softmax(0).nan_to_num()[..., None] * means).sum(0)  # totals left out
    for wrong in (plain, averaged):
        assert distance(result, wrong) > MARGIN * TOLERANCE[torch.float32]


def test_a_broken_slice_is_not_merged_away(device):
    peak, total, latent = slices(device)
    peak[2, 1, 0, 2] = torch.nan
    result = kernel("mla_merge", peak, total, latent)
    assert result[1, 0, 2].isnan().all()
    assert result.isnan().sum() == result.shape[-1]
