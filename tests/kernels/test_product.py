from __future__ import annotations

import pytest
import torch

from k3_ledger.kernels.product.triton_ import COLUMNS, FEW_ROWS, TOKENS
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel, naive, place

SHAPES = {
    "one token": (1, 20, 130),
    "fewer rows than a program takes": (3, 1, 7),
    "rows of a program's width": (2, 9, 512),
    "rows of twice its width": (1, 3, 2048),
    "a rest of it": (1, 5, 1500),
    "more tokens than a program takes": (COLUMNS + 3, 33, 60),
    "one value": (2, 17, 1),
}
HEADS = {"one token of heads": (1, 3, 20, 128), "tokens of heads": (TOKENS + 2, 5, 37, 60)}


def inputs(shape, device, dtype):
    """Vectors that are rounded to the weight's type already, kept as float32, and the weight."""
    *leading, long, wide = shape
    random = draw(sum(shape))
    x = torch.randn((*leading, wide), generator=random, dtype=torch.float64).to(dtype).float()
    weight = torch.randn((*leading[1:], long, wide), generator=random, dtype=torch.float64)
    return x.to(device), place(weight, device, dtype)


@pytest.mark.parametrize("by_count", [False, True], ids=["exact", "by count"])
@pytest.mark.parametrize("shape", [*SHAPES.values(), *HEADS.values()], ids=[*SHAPES, *HEADS])
def test_equals_the_specification(shape, by_count, device, dtype):
    x, weight = inputs(shape, device, dtype)
    result = kernel("product", x, weight, by_count=by_count)
    assert result.dtype == torch.float32
    assert distance(result, naive("product", x, weight)) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("by_count", [False, True], ids=["exact", "by count"])
def test_vectors_are_rounded_to_the_type_of_the_weight(by_count, device):
    x = torch.tensor([[1 + 2**-8, 1 + 2**-8 + 2**-20, -1 - 3 * 2**-8, 3.0, 0.0, 5e-41]], device=device)
    weight = torch.eye(6, dtype=torch.bfloat16, device=device)
    result = kernel("product", x, weight, by_count=by_count)
    assert torch.equal(result[:, :5], x[:, :5].bfloat16().float())
    assert torch.equal(result, kernel("product", x.bfloat16(), weight, by_count=by_count))


@pytest.mark.parametrize("shape", [(2 * COLUMNS + 3, 5, 60), (TOKENS + 1, 3, 2048), (TOKENS + 3, 3, 33, 520)], ids=str)
def test_bits_do_not_depend_on_the_other_tokens_of_the_call(shape, device, dtype):
    x, weight = inputs(shape, device, dtype)
    every = kernel("product", x, weight)
    for token in (0, 1, TOKENS - 1, TOKENS, len(x) - 1):
        assert torch.equal(kernel("product", x[token : token + 1].clone(), weight)[0], every[token])
    assert torch.equal(kernel("product", x[1:].clone(), weight), every[1:])
    others = torch.full_like(x, torch.nan)
    others[2] = x[2]
    result = kernel("product", others, weight)
    assert torch.equal(result[2], every[2])
    assert result[3].isnan().all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a weight of more rows is another kernel's on a GPU alone")
@pytest.mark.parametrize("shape", [(33, FEW_ROWS + 72, 3584), (20, 12_288, 7168), (17, 96, 512, 128)], ids=str)
def test_real_widths_equal_the_specification_with_the_bits_of_one_token(shape, device, dtype):
    x, weight = inputs(shape, device, dtype)
    every = kernel("product", x, weight)
    # Matrix units cut what they add up: 7e-6 at 7,168 values, and no more than float32's share of it elsewhere.
    assert distance(every, naive("product", x, weight)) < (TOLERANCE[dtype] / 100 if dtype.itemsize == 2 else 3e-6)
    for token in (0, 8, 16):
        assert torch.equal(kernel("product", x[token : token + 1].clone(), weight)[0], every[token])


def test_common_mistakes_are_seen(device, dtype):
    x, weight = inputs((3, 4, 20, 60), device, dtype)
    result = kernel("product", x, weight)
    wrong = {
        "the next head's weight": naive("product", x, weight.roll(1, 0)),
        "the last value left out": naive("product", x[..., :-1].contiguous(), weight[..., :-1].contiguous()),
        "rows exchanged": naive("product", x, weight).roll(1, 2),
        "the next token's vector": naive("product", x.roll(1, 0), weight),
    }
    for name, values in wrong.items():
        assert distance(result, values) > MARGIN * TOLERANCE[dtype], name


def test_no_tokens_and_no_rows_are_no_result(device, dtype):
    x, weight = inputs((3, 20, 60), device, dtype)
    assert kernel("product", x[:0], weight).shape == (0, 20)
    assert kernel("product", x, weight[:0]).shape == (3, 0)


@pytest.mark.parametrize(
    ("x", "weight", "error", "match"),
    [
        (torch.ones(2, 60), torch.ones(5, 61), ValueError, "x has shape"),
        (torch.ones(2, 3, 60), torch.ones(5, 60), ValueError, "x has shape"),
        (torch.ones(2, 4, 60), torch.ones(3, 5, 60), ValueError, "x has shape"),
        (torch.ones(60, 2).T, torch.ones(5, 60), ValueError, "x must be contiguous"),
        (torch.ones(2, 60, dtype=torch.bfloat16), torch.ones(5, 60), TypeError, "x has type bfloat16"),
        (torch.ones(2, 0), torch.ones(5, 0), ValueError, "nothing to sum"),
        (torch.ones(2, 60), [1.0], TypeError, "weight is a list"),
    ],
    ids=["width", "heads of none", "heads", "strided", "type", "empty", "no tensor"],
)
def test_arguments_outside_the_contract_are_refused(x, weight, error, match):
    with pytest.raises(error, match=match):
        kernel("product", x, weight)


@pytest.mark.parametrize("by_count", [False, True], ids=["exact", "by count"])
@pytest.mark.parametrize("shape", [(1, 5, 60), (3, 4, 1500), (2, 3, 5, 60)], ids=str)
def test_nothing_behind_a_tensor_is_read(shape, by_count, device, dtype):
    def in_nan(tensor):
        room = torch.full((tensor.numel() + 4096,), torch.nan, dtype=tensor.dtype, device=tensor.device)
        room[: tensor.numel()] = tensor.flatten()
        return room[: tensor.numel()].view(tensor.shape)

    x, weight = inputs(shape, device, dtype)
    expected = kernel("product", x, weight, by_count=by_count)
    assert torch.equal(kernel("product", in_nan(x), in_nan(weight), by_count=by_count), expected)
