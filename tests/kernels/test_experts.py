from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from k3_ledger.kernels.experts import triton_
from k3_ledger.kernels.experts.triton_ import EXACT, SINGLE, tiles
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

SHAPES = {
    "planned tiles": {"tokens": 30},
    "a tile a slot": {"tokens": 5},
    "one token": {"tokens": 1},
    "more rows than a tile": {"tokens": 63, "experts": 2, "slots": 2},
    "wide": {"tokens": 3, "experts": 5, "slots": 2, "latent": 200, "width": 130},
    "latent width of k3": {"tokens": 1, "experts": 2, "slots": 2, "latent": 3584, "width": 20},
    "896 experts": {"tokens": 2, "experts": 896, "slots": 16, "latent": 20, "width": 12},
}


def inputs(device, dtype, *, tokens, experts=7, slots=3, latent=60, width=36):
    random = draw(tokens + latent)

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64)

    x = normal(tokens, latent)
    ids = torch.stack([torch.randperm(experts, generator=random)[:slots] for _ in range(tokens)])
    weights = torch.rand((tokens, slots), generator=random, dtype=torch.float64)
    gate, up = (normal(experts, width, latent) * 3 / latent**0.5 for _ in range(2))
    down = normal(experts, latent, width) / width**0.5
    x, gate, up, down = (place(value, device, dtype) for value in (x, gate, up, down))
    banks = {"gate": gate, "up": up, "down": down}
    constants = {"beta": 4.0, "linear_beta": 25.0, "first_expert": 0, "expert_count": experts}
    return (x, place(ids, device), place(weights, device, torch.float32)), {**banks, **constants}


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_specification(shape, device, dtype):
    tensors, keywords = inputs(device, dtype, **SHAPES[shape])
    result = kernel("experts", *tensors, **keywords)
    assert result.dtype == torch.float32
    assert distance(result, naive("experts", *tensors, **keywords)) < TOLERANCE[dtype]


@pytest.mark.parametrize("group", [1, 3, 64])
def test_every_tile_and_block_is_taken_once_however_tiles_are_grouped(group, device, monkeypatch):
    """Ten tiles of two or three blocks of columns: whole groups, a rest, and one group that is larger than all."""
    tensors, keywords = inputs(device, torch.float32, tokens=30, latent=70, width=70)
    expected = kernel("experts", *tensors, **keywords)
    monkeypatch.setattr(triton_, "GROUP", group)
    result = kernel("experts", *tensors, **keywords)
    assert torch.equal(result, expected)
    assert distance(result, naive("experts", *tensors, **keywords)) < TOLERANCE[torch.float32]


def test_bits_do_not_depend_on_the_other_tokens_of_the_call(device, dtype):
    (x, ids, weights), keywords = inputs(device, dtype, tokens=33, experts=2, slots=2)
    whole = kernel("experts", x, ids, weights, **keywords)
    for part in (slice(0, 1), slice(1, 18), slice(18, 33)):
        assert torch.equal(kernel("experts", x[part], ids[part], weights[part], **keywords), whole[part])


def band(keywords, begin, end):
    """The experts of one rank."""
    held = {name: keywords[name][begin:end].contiguous() for name in ("gate", "up", "down")}
    return {**keywords, **held, "first_expert": begin}


@pytest.mark.parametrize("tokens", [5, 30])
@pytest.mark.parametrize("cuts", [[0, 3, 7], [0, 1, 2, 7]], ids=str)
def test_bands_of_experts_add_up_to_the_whole(cuts, tokens, device):
    tensors, keywords = inputs(device, torch.float32, tokens=tokens)
    expected = naive("experts", *tensors, **keywords)
    parts = [kernel("experts", *tensors, **band(keywords, begin, end)) for begin, end in pairwise(cuts)]
    assert distance(sum(parts), expected) < TOLERANCE[torch.float32]
    gap = kernel("experts", *tensors, **band(keywords, cuts[0] + 1, cuts[-1]))
    assert distance(gap, expected) > MARGIN * TOLERANCE[torch.float32]
    assert distance(sum(parts) + parts[0], expected) > MARGIN * TOLERANCE[torch.float32]


def test_a_token_with_no_expert_here_gets_exact_zeros(device):
    (x, ids, weights), keywords = inputs(device, torch.float32, tokens=5)
    ids[2], weights[2] = torch.tensor([0, 1, 2]), torch.nan
    result = kernel("experts", x, ids, weights, **band(keywords, 3, 7))
    assert not result[2].any()
    assert result.isfinite().all()


@pytest.mark.parametrize("stray", [-1, 7, 2**31 - 1])
def test_an_expert_that_nobody_owns_is_not_dropped_in_silence(stray, device):
    (x, ids, weights), keywords = inputs(device, torch.float32, tokens=5)
    ids[3, 1] = stray
    result = kernel("experts", x, ids, weights, **keywords)
    assert result[3].isnan().all()
    assert result[[0, 1, 2, 4]].isfinite().all()
    assert distance(result, naive("experts", x, ids, weights, **keywords)) < TOLERANCE[torch.float32]


def test_the_same_expert_in_two_slots_counts_twice(device):
    (x, ids, weights), keywords = inputs(device, torch.float32, tokens=5)
    ids[1] = 4
    result = kernel("experts", x, ids, weights, **keywords)
    assert distance(result, naive("experts", x, ids, weights, **keywords)) < TOLERANCE[torch.float32]


def test_common_mistakes_are_seen(device, dtype):
    (x, ids, weights), keywords = inputs(device, dtype, tokens=5)
    result = kernel("experts", x, ids, weights, **keywords)
    exchanged = {**keywords, "gate": keywords["up"], "up": keywords["gate"]}
    for wrong in (
        naive("experts", x, ids, weights, **exchanged),
        naive("experts", x, ids, torch.full_like(weights, 1 / 3), **keywords),
        naive("experts", x, ids.flip(1), weights, **keywords),  # weights of other slots
        naive("experts", x, (ids + 1) % 7, weights, **keywords),
        naive("experts", x, ids, weights, **{**keywords, "linear_beta": 0.0, "beta": 1.0}),
        naive("experts", x, ids[:, :2].contiguous(), weights[:, :2].contiguous(), **keywords),  # a dropped slot
    ):
        assert distance(result, wrong) > MARGIN * TOLERANCE[dtype]


@pytest.mark.parametrize(("first", "count"), [(-1, 7), (1, 7), (0, 6)])
def test_a_band_outside_the_experts_is_refused(first, count, device):
    tensors, keywords = inputs(device, torch.float32, tokens=2)
    with pytest.raises(ValueError, match="not a band"):
        kernel("experts", *tensors, **{**keywords, "first_expert": first, "expert_count": count})


def spread(per_expert, experts=7):
    """A call with this many slots an expert, an even number as a token has two; more slots than go without a plan."""
    return {"tokens": per_expert * experts // 2, "experts": experts, "slots": 2, "latent": 44, "width": 20}


BORDERS = {10: 16, 12: 32, 24: 32, 26: 64, 52: 64, 54: 128, 130: 128}
"""Slots per expert, and the rows of the tile that they take."""


@pytest.mark.parametrize("load", BORDERS)
def test_a_tile_by_load_is_right_on_both_sides_of_every_border(load, device):
    tensors, keywords = inputs(device, torch.bfloat16, **spread(load))
    assert tensors[1].numel() == load * 7 > SINGLE
    assert tiles(torch.bfloat16, load)["ROWS"] == BORDERS[load]
    result = kernel("experts", *tensors, **keywords, by_load=True)
    assert distance(result, naive("experts", *tensors, **keywords)) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize("latent", [48, 200])
def test_weights_by_the_copy_engine_give_the_bits_of_loads(latent, device, monkeypatch):
    """Columns past an expert's last are the next one's, and past the last one's nothing: neither is in a result."""
    tensors, keywords = inputs(device, torch.bfloat16, **{**spread(54), "latent": latent, "width": 136})
    result = kernel("experts", *tensors, **keywords, by_load=True)
    assert distance(result, naive("experts", *tensors, **keywords)) < TOLERANCE[torch.bfloat16]
    monkeypatch.setattr(triton_, "BULK", False)
    assert torch.equal(kernel("experts", *tensors, **keywords, by_load=True), result)


@pytest.mark.parametrize(("held", "first"), [(7, 0), (3, 2), (70, 0)])
@pytest.mark.parametrize("rows", [16, 128])
def test_a_plan_has_every_slot_held_here_once_and_in_order(held, first, rows, device):
    experts = max(held, 9)
    ids = torch.randint(-1, experts + 1, (400, 3), generator=draw(held))
    order, expert, begin, used = (
        part.cpu().long() for part in triton_.plan(place(ids, device), first_expert=first, held=held, rows=rows)
    )
    taken = []
    for tile in used.nonzero()[:, 0].tolist():
        slots = order[begin[tile] : begin[tile] + used[tile]]
        assert (ids.flatten()[slots] - first == expert[tile]).all()
        taken += [(int(expert[tile]), slot) for slot in slots.tolist()]
    local = ids.flatten() - first
    assert taken == sorted((one, slot) for slot, one in enumerate(local.tolist()) if 0 <= one < held)
    assert int(used.max()) <= rows


@pytest.mark.parametrize("load", [12, 26, 54])
@pytest.mark.parametrize("crowd", ["one expert has all", "one expert has none", "one rank of seven"])
def test_a_tile_by_load_serves_experts_far_from_the_mean(crowd, load, device):
    (x, ids, weights), keywords = inputs(device, torch.bfloat16, **spread(load))
    if crowd == "one expert has all":
        ids = torch.full_like(ids, 1)
    elif crowd == "one expert has none":
        ids = ids.where(ids != 1, 2)
    else:
        keywords = band(keywords, 1, 2)
    result = kernel("experts", x, ids, weights, **keywords, by_load=True)
    assert distance(result, naive("experts", x, ids, weights, **keywords)) < TOLERANCE[torch.bfloat16]


def test_bits_hold_where_nobody_gave_them_up(device):
    """The tile of a call without ``by_load`` is one, however many slots an expert has."""
    assert {tiles(torch.bfloat16, None)["ROWS"], EXACT["ROWS"]} == {32}
    assert tiles(torch.float32, None) == tiles(torch.float32, 1e6)
    (x, ids, weights), keywords = inputs(device, torch.bfloat16, **spread(130))
    whole = kernel("experts", x, ids, weights, **keywords)
    part = slice(3, 60)
    assert torch.equal(kernel("experts", x[part], ids[part], weights[part], **keywords), whole[part])


def test_load_is_counted_over_the_experts_of_all_ranks(device, monkeypatch):
    """A rank that holds one expert of seven does not get seven times the slots."""
    seen = []
    monkeypatch.setattr(triton_, "tiles", lambda dtype, load: seen.append(load) or tiles(dtype, load))
    tensors, keywords = inputs(device, torch.bfloat16, **spread(18))
    kernel("experts", *tensors, **band(keywords, 1, 2), by_load=True)
    kernel("experts", *tensors, **band(keywords, 1, 2))
    assert seen == [18, None]


def test_what_is_no_truth_value_is_refused(device):
    tensors, keywords = inputs(device, torch.float32, tokens=2)
    with pytest.raises(TypeError, match="by_load"):
        kernel("experts", *tensors, **keywords, by_load=1)
