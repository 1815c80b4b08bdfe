from __future__ import annotations

import pytest
import torch

from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

SHAPES = {
    "63 tokens": {"tokens": 63, "rows": 63},
    "17 after 23, with spare rows": {"tokens": 17, "start": 23, "rows": 50},
    "one token": {"tokens": 1, "start": 40, "rows": 41, "heads": 5},
    "first token": {"tokens": 1, "rows": 3},
    "width of k3": {"batch": 1, "tokens": 40, "rows": 40, "heads": 2, "widths": (128, 64, 128), "scale": 192**-0.5},
}


def inputs(device, dtype, *, batch=2, tokens, rows, start=0, heads=3, widths=(40, 20, 60), scale=0.15):
    nope, rest, values = widths
    random = draw(tokens + rows)

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64)

    query, key = normal(batch, tokens, heads, nope + rest), normal(batch, rows, heads, nope)
    key_pe, value = normal(batch, rows, rest), normal(batch, rows, heads, values)
    for tensor in (key, key_pe, value):
        tensor[:, start + tokens :] = torch.nan
    placed = [place(tensor, device, dtype) for tensor in (query, key, key_pe, value)]
    return placed, {"start": start, "scale": scale}


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_specification(shape, device, dtype):
    tensors, keywords = inputs(device, dtype, **SHAPES[shape])
    result = kernel("mla_prefill", *tensors, **keywords)
    assert distance(result, naive("mla_prefill", *tensors, **keywords)) < TOLERANCE[dtype]


@pytest.mark.parametrize("split", [[70], [1, 69], [33, 37], [64, 6], [16] * 4 + [6]], ids=str)
def test_bits_do_not_depend_on_how_tokens_are_split_into_calls(split, device, dtype):
    shape = {"batch": 1, "heads": 1, "widths": (16, 16, 16), "rows": 70}
    (query, *rest), keywords = inputs(device, dtype, tokens=70, **shape)
    whole = kernel("mla_prefill", query, *rest, **keywords)
    begin = 0
    for size in split:
        part = query[:, begin : begin + size].contiguous()
        result = kernel("mla_prefill", part, *rest, **{**keywords, "start": begin})
        assert torch.equal(result, whole[:, begin : begin + size])
        begin += size


def test_the_expanded_form_is_the_absorbed_one(device):
    random = draw(3)
    latent, pe, up_key, up_value = (
        torch.randn(shape, generator=random, dtype=torch.float64) * 0.3
        for shape in ((1, 33, 48), (1, 33, 12), (3, 48, 20), (3, 48, 24))
    )
    query = torch.randn((1, 33, 3, 32), generator=random, dtype=torch.float64)
    key, value = torch.einsum("bsl,hln->bshn", latent, up_key), torch.einsum("bsl,hlv->bshv", latent, up_value)
    placed = [place(tensor, device, torch.float32) for tensor in (query, key, pe, value)]
    expanded = kernel("mla_prefill", *placed, start=0, scale=0.2)
    absorbed = torch.cat([torch.einsum("bthn,hln->bthl", query[..., :20], up_key), query[..., 20:]], dim=-1)
    lengths = torch.arange(1, 34)[None]
    mixed = naive("mla_decode", absorbed, torch.cat([latent, pe], -1), lengths, value_dim=48, scale=0.2, slice_rows=8)
    assert distance(expanded, torch.einsum("bthl,hlv->bthv", mixed, up_value)) < TOLERANCE[torch.float32]


def test_common_mistakes_are_seen(device, dtype):
    tensors, keywords = inputs(device, dtype, tokens=17, start=7, rows=24)
    result = kernel("mla_prefill", *tensors, **keywords)
    query, key, key_pe, value = (tensor.cpu().double() for tensor in tensors)
    no_pe = torch.cat([query[..., :40], torch.zeros_like(query[..., 40:])], dim=-1)
    moved = torch.cat([query[..., 20:], query[..., :20]], dim=-1)
    for wrong in (
        naive("mla_prefill", query, key, key_pe, value, **{**keywords, "start": 6}),  # own row not seen
        naive("mla_prefill", query, key, key_pe, value, **{**keywords, "scale": 0.15 * (192 / 128) ** 0.5}),
        naive("mla_prefill", no_pe, key, key_pe, value, **keywords),
        naive("mla_prefill", moved, key, key_pe, value, **keywords),
        naive("mla_prefill", query, key.roll(1, 2), key_pe, value, **keywords),  # another head's keys
    ):
        assert distance(result, wrong) > MARGIN * TOLERANCE[dtype]


@pytest.mark.parametrize("start", [-1, 8])
def test_tokens_that_the_rows_cannot_hold_are_refused(start, device):
    tensors, keywords = inputs(device, torch.float32, tokens=17, start=7, rows=24)
    with pytest.raises(ValueError, match="cannot hold"):
        kernel("mla_prefill", *tensors, **{**keywords, "start": start})
