from __future__ import annotations

import pytest
import torch

from k3_ledger.kernels.dispatch import select
from k3_ledger.kernels.language import INTERPRETED
from k3_ledger.kernels.mla_decode import triton_
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

SMALL = {"value_dim": 48, "scale": 0.2, "slice_rows": 16}
K3 = {"value_dim": 512, "scale": 192**-0.5, "slice_rows": 32}


def inputs(device, dtype, *, heads=3, width=60, rows=63, lengths=((0, 1, 17), (16, 33, 63))):
    """Queries, a cache that is NaN past every sequence's last visible row, and lengths."""
    random = draw(rows)
    lengths = torch.tensor(lengths)
    query = torch.randn((*lengths.shape, heads, width), generator=random, dtype=torch.float64)
    cache = torch.randn((len(lengths), rows, width), generator=random, dtype=torch.float64)
    for sequence, last in enumerate(lengths.amax(1).tolist()):
        cache[sequence, last:] = torch.nan
    return place(query, device, dtype), place(cache, device, dtype), place(lengths, device)


@pytest.mark.parametrize("slice_rows", [1, 16, 17, 64, 1000])
def test_equals_the_specification_for_every_split(slice_rows, device, dtype):
    query, cache, lengths = inputs(device, dtype)
    result = kernel("mla_decode", query, cache, lengths, **{**SMALL, "slice_rows": slice_rows})
    expected = naive("mla_decode", query, cache, lengths, **SMALL)
    assert result.isfinite().all()
    assert distance(result, expected) < TOLERANCE[dtype]
    assert not result[0, 0].any(), "a token that sees nothing is exact zeros"


@pytest.mark.parametrize(("heads", "lengths"), [(96, ((20,),)), (12, ((70,), (1,))), (17, ((33,),))], ids=str)
def test_equals_the_specification_at_the_widths_of_k3(heads, lengths, device, dtype):
    query, cache, lengths = inputs(device, dtype, heads=heads, width=576, rows=70, lengths=lengths)
    result = kernel("mla_decode", query, cache, lengths, **K3)
    assert distance(result, naive("mla_decode", query, cache, lengths, **K3)) < TOLERANCE[dtype]


def test_a_long_context_is_read_to_its_end(device, dtype):
    query, cache, lengths = inputs(device, dtype, heads=1, width=20, rows=12_300, lengths=((12_289,),))
    cache[:, 11_767:, :16] += 4  # so that the end weighs more than a bfloat16 rounding
    shape = {"value_dim": 16, "scale": 0.5, "slice_rows": 4096}
    result = kernel("mla_decode", query, cache, lengths, **shape)
    expected = naive("mla_decode", query, cache, lengths, **shape)
    assert distance(result, expected) < TOLERANCE[dtype]
    short = naive("mla_decode", query, cache, torch.full_like(lengths, 11_767), **shape)
    assert distance(result, short) > MARGIN * TOLERANCE[dtype]


def test_bits_do_not_depend_on_the_other_tokens_of_the_call(device, dtype):
    query, cache, lengths = inputs(device, dtype)
    whole = kernel("mla_decode", query, cache, lengths, **SMALL)
    for token in range(3):
        one = slice(token, token + 1)
        alone = kernel("mla_decode", query[:, one].contiguous(), cache, lengths[:, one].contiguous(), **SMALL)
        assert torch.equal(alone, whole[:, one])


def test_bits_do_not_depend_on_the_capacity_of_the_cache(device, dtype):
    query, cache, lengths = inputs(device, dtype)
    whole = kernel("mla_decode", query, cache, lengths, **SMALL)
    larger = torch.full((2, 200, 60), torch.nan, dtype=dtype, device=device)
    larger[:, :63] = cache
    assert torch.equal(kernel("mla_decode", query, larger, lengths, **SMALL), whole)


def test_rows_of_the_cache_may_be_strided(device, dtype):
    query, cache, lengths = inputs(device, dtype)
    wide = torch.full((2, 63, 80), torch.nan, dtype=dtype, device=device)
    wide[..., :60] = cache
    assert torch.equal(
        kernel("mla_decode", query, wide[..., :60], lengths, **SMALL),
        kernel("mla_decode", query, cache, lengths, **SMALL),
    )


def test_slices_and_their_merge_are_the_whole(device, dtype):
    query, cache, lengths = inputs(device, dtype)
    parts = kernel("mla_slices", query, cache, lengths, **SMALL)
    expected = naive("mla_slices", query, cache, lengths, **SMALL)
    assert parts.peak.shape == (4, 2, 3, 3)
    empty = expected.peak.isneginf()
    assert torch.equal(parts.peak.cpu().isneginf(), empty)
    assert empty.any()
    assert not parts.total.cpu()[empty].any()
    assert parts.latent.cpu()[empty].isnan().all(), "nobody writes the sum of an empty slice"
    for mine, theirs in zip(parts, expected, strict=True):
        assert distance(mine.cpu()[~empty], theirs[~empty]) < TOLERANCE[dtype]
    merged = kernel("mla_merge", *parts)
    assert distance(merged, naive("mla_decode", query, cache, lengths, **SMALL)) < TOLERANCE[dtype]


def test_common_mistakes_are_seen(device, dtype):
    query, cache, lengths = inputs(device, dtype, lengths=((5, 9, 17), (16, 33, 63)))
    result = kernel("mla_decode", query, cache, lengths, **SMALL)
    q, c = query.cpu().double(), cache.cpu().double()
    swapped = torch.cat([q[..., -12:], q[..., :-12]], dim=-1)
    turned = torch.cat([c[..., 12:], c[..., :12]], dim=-1)
    ignored = torch.cat([q[..., :48], torch.zeros_like(q[..., 48:])], dim=-1)
    for wrong in (
        naive("mla_decode", q, c, lengths, **{**SMALL, "scale": 0.2 * (192 / 576) ** 0.5}),
        naive("mla_decode", q, c, lengths - 1, **SMALL),  # the current row is not seen
        naive("mla_decode", q, c, lengths[:, :1].repeat(1, 3), **SMALL),  # one position for the chunk
        naive("mla_decode", swapped, c, lengths, **SMALL),
        naive("mla_decode", q, turned, lengths, **SMALL),  # values taken from other columns
        naive("mla_decode", ignored, c, lengths, **SMALL),  # no positional part
    ):
        assert distance(result, wrong) > MARGIN * TOLERANCE[dtype]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"value_dim": 60}, ValueError),
        ({"value_dim": 0}, ValueError),
        ({"scale": 0.0}, ValueError),
        ({"slice_rows": 0}, ValueError),
    ],
    ids=str,
)
def test_meaningless_sizes_are_refused(change, error, device):
    query, cache, lengths = inputs(device, torch.float32)
    with pytest.raises(error):
        kernel("mla_decode", query, cache, lengths, **{**SMALL, **change})


def test_lengths_that_are_no_integers_are_refused(device):
    query, cache, lengths = inputs(device, torch.float32)
    with pytest.raises(TypeError, match="lengths has type float32"):
        kernel("mla_decode", query, cache, lengths.float(), **SMALL)


@pytest.mark.parametrize("name", ["mla_decode", "mla_slices"])
@pytest.mark.parametrize("backend", ["naive", "triton"])
@pytest.mark.parametrize("wrong", [5, 100, 2**31, -1])
def test_lengths_beyond_the_cache_are_refused_with_one_error_where_they_can_be_seen(name, backend, wrong):
    if backend == "triton" and not INTERPRETED:
        pytest.skip("compiled kernels take no tensors of the CPU, where alone lengths can be seen")
    query, cache = torch.randn(1, 2, 1, 20), torch.randn(1, 4, 20)
    keywords = {"value_dim": 16, "scale": 0.1, "slice_rows": 16}
    run = select(name, backend=backend)
    run(query, cache, torch.tensor([[0, 4]]), **keywords)
    with pytest.raises(ValueError, match=f"lengths from {min(wrong, 4)} to {max(wrong, 4)} of a cache of 4 rows"):
        run(query, cache, torch.tensor([[4, wrong]]), **keywords)


@pytest.mark.parametrize("length", [63, 64, 1000, 2**40])
def test_a_kernel_reads_no_row_past_the_cache_whatever_a_length_says(length, device, dtype):
    """On an accelerator nothing is looked at before: rows of the next sequence, and beyond the last, are poison."""
    query, cache, _ = inputs(device, dtype, lengths=((63,),))
    store = torch.full((2, 200, cache.shape[-1]), torch.nan, device=cache.device, dtype=cache.dtype)
    store[:1, :63] = cache
    within = store[:1, :63]
    result = triton_.mla_decode(query, within, torch.full((1, 1), length, device=query.device), **SMALL)
    assert distance(result, naive("mla_decode", query, cache, torch.full((1, 1), 63), **SMALL)) < TOLERANCE[dtype]


MANY = {"value_dim": 48, "scale": 0.2, "slice_rows": 256}
"""Heads of 16 bits by the score take two passes where a slice is whole tiles of rows."""


def many(device, *, heads=40, rows=300, lengths=((0, 1, 129), (128, 257, 300))):
    return inputs(device, torch.bfloat16, heads=heads, rows=rows, lengths=lengths)


@pytest.fixture
def passes(monkeypatch):
    """How often the two passes were taken."""
    taken = []
    whole = triton_.slices_into
    monkeypatch.setattr(triton_, "slices_into", lambda *given, **named: taken.append(1) or whole(*given, **named))
    return taken


@pytest.mark.parametrize(("heads", "slice_rows"), [(17, 128), (40, 256), (64, 384)])
def test_two_passes_equal_the_specification(heads, slice_rows, device, passes):
    query, cache, lengths = many(device, heads=heads)
    result = kernel("mla_decode", query, cache, lengths, **{**MANY, "slice_rows": slice_rows})
    assert passes
    assert result.isfinite().all()
    assert distance(result, naive("mla_decode", query, cache, lengths, **MANY)) < TOLERANCE[torch.bfloat16]
    assert not result[0, 0].any(), "a token that sees nothing is exact zeros"


def test_two_passes_equal_the_specification_at_the_widths_of_k3(device, passes):
    query, cache, lengths = inputs(device, torch.bfloat16, heads=96, width=576, rows=140, lengths=((130,),))
    result = kernel("mla_decode", query, cache, lengths, **{**K3, "slice_rows": 128})
    assert passes
    assert distance(result, naive("mla_decode", query, cache, lengths, **K3)) < TOLERANCE[torch.bfloat16]


@pytest.mark.parametrize(
    ("kind", "heads", "slice_rows"), [(torch.float32, 40, 128), (torch.bfloat16, 16, 128), (torch.bfloat16, 40, 100)]
)
def test_two_passes_are_taken_for_many_heads_and_whole_tiles_alone(kind, heads, slice_rows, device, passes):
    query, cache, lengths = inputs(device, kind, heads=heads, rows=140, lengths=((140,),))
    result = kernel("mla_decode", query, cache, lengths, **{**MANY, "slice_rows": slice_rows})
    assert not passes
    assert distance(result, naive("mla_decode", query, cache, lengths, **MANY)) < TOLERANCE[kind]


def test_bits_of_two_passes_depend_on_no_other_token_no_capacity_and_no_room(device, monkeypatch, passes):
    query, cache, lengths = many(device, heads=17)
    whole = kernel("mla_decode", query, cache, lengths, **MANY)
    for token in range(3):
        one = slice(token, token + 1)
        alone = kernel("mla_decode", query[:, one].contiguous(), cache, lengths[:, one].contiguous(), **MANY)
        assert torch.equal(alone, whole[:, one])
    wide = torch.full((2, 700, 80), torch.nan, dtype=torch.bfloat16, device=device)
    wide[:, :300, :60] = cache
    assert torch.equal(kernel("mla_decode", query, wide[..., :60], lengths, **MANY), whole)
    for room in (1, 5 * 384 * 17):  # one query at a time; five and then one
        monkeypatch.setattr(triton_, "ROOM", room)
        assert torch.equal(kernel("mla_decode", query, cache, lengths, **MANY), whole)
    assert len(passes) == 7


def test_slices_of_two_passes_and_their_merge_are_the_whole(device, passes):
    query, cache, lengths = many(device)
    parts = kernel("mla_slices", query, cache, lengths, **MANY)
    expected = naive("mla_slices", query, cache, lengths, **MANY)
    empty = expected.peak.isneginf()
    assert passes
    assert torch.equal(parts.peak.cpu().isneginf(), empty)
    assert empty.any()
    assert not parts.total.cpu()[empty].any()
    assert parts.latent.cpu()[empty].isnan().all(), "nobody writes the sum of an empty slice"
    for mine, theirs in zip(parts, expected, strict=True):
        assert distance(mine.cpu()[~empty], theirs[~empty]) < TOLERANCE[torch.bfloat16]
    merged = kernel("mla_merge", *parts)
    assert distance(merged, naive("mla_decode", query, cache, lengths, **MANY)) < TOLERANCE[torch.bfloat16]


def test_two_passes_keep_what_is_far_below_the_first_tiles_scores(device, passes):
    """Scores that climb and fall from tile to tile: powers are relative to a tile's own greatest score."""
    query, cache, lengths = many(device, lengths=((300,), (300,)))
    steep = torch.linspace(-40, 40, 300, dtype=torch.float64)
    query[..., 0], cache[0, :, 0], cache[1, :, 0] = 5, place(steep, device, torch.bfloat16), 0
    cache[1, :, 0] = place(steep.flip(0), device, torch.bfloat16)
    result = kernel("mla_decode", query, cache, lengths, **MANY)
    assert passes
    assert distance(result, naive("mla_decode", query, cache, lengths, **MANY)) < TOLERANCE[torch.bfloat16]


def test_a_row_that_is_not_a_number_shows_behind_two_passes(device, passes):
    query, cache, lengths = many(device, lengths=((300,), (300,)))
    cache[0, 200, 5] = torch.nan
    result = kernel("mla_decode", query, cache, lengths, **MANY)
    assert passes
    assert result[0].isnan().all()
    assert result[1].isfinite().all()
