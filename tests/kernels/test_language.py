from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from k3_ledger.kernels import language
from k3_ledger.kernels.language import dot, narrow, program_id
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, draw, kernel


@triton.jit
def probe_offset(out, stride):
    """The last program writes the offset of its row, as kernels form it and as 32 bits would."""
    if tl.program_id(0) == tl.num_programs(0) - 1:
        tl.store(out, program_id(0) * stride)
        tl.store(out + 1, (tl.program_id(0) * stride).to(tl.int64))


@pytest.mark.parametrize(
    ("programs", "stride"),
    [(3, 2**30 - 1), (2, 2**31 - 1), (3, 2**30), (4, 2**30)],
    ids=["limit - 1", "limit", "limit + 1", "beyond"],
)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # the interpreter notices the planted one
def test_row_offsets_pass_the_range_of_32_bits(programs, stride, device):
    """One element, no gigabytes: the largest 32-bit offset is 2^31 - 1."""
    out = torch.zeros(2, dtype=torch.int64, device=device)
    probe_offset[(programs,)](out, stride)
    right = (programs - 1) * stride
    wrapped = (right + 2**31) % 2**32 - 2**31
    assert out.tolist() == [right, wrapped]
    assert (right == wrapped) == (right < 2**31)


@pytest.mark.parametrize("over", [-2, 0, 2])
def test_a_bank_whose_strides_pass_32_bits_is_read_where_it_lies(over, device):
    """Vector 1 begins ``over`` elements from 2^31: only the pages that are touched are real."""
    begin, width = 2**31 + over, 20
    storage = torch.UntypedStorage(2 * (begin + width), device=device)
    bank = torch.tensor([], dtype=torch.bfloat16, device=device).set_(storage, 0, (2, 1, width), (begin, width, 1))
    values = torch.randn((2, 1, width), generator=draw(over + 9)).to(torch.bfloat16)
    bank.copy_(values)
    x, weight = torch.ones((1, width), dtype=torch.bfloat16, device=device), torch.ones(width, device=device)
    result = kernel("residual_mix", bank, x, weight, count=2, eps=1e-5)
    assert torch.equal(result, kernel("residual_mix", values.to(device), x, weight, count=2, eps=1e-5))


@triton.jit
def multiply(a, b, out, size: tl.constexpr):
    i = tl.arange(0, size)
    place = i[:, None] * size + i[None, :]
    tl.store(out + place, dot(tl.load(a + place), tl.load(b + place), tl.zeros([size, size], dtype=tl.float32)))


def test_float32_products_are_not_rounded_to_tf32(device):
    a, b = (torch.randn((128, 128), generator=draw(seed)) for seed in (1, 2))
    out = torch.empty((128, 128), device=device)
    multiply[(1,)](a.to(device), b.to(device), out, size=128)
    right = a.double() @ b.double()

    def tf32(x):
        return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32).double()

    assert distance(out, right) < TOLERANCE[torch.float32]
    assert distance(tf32(a) @ tf32(b), right) > MARGIN * TOLERANCE[torch.float32]


def test_bfloat16_products_are_exact_before_they_are_added(device):
    a, b = (torch.randn((32, 32), generator=draw(seed)).to(torch.bfloat16) for seed in (1, 2))
    out = torch.empty((32, 32), device=device)
    multiply[(1,)](a.to(device), b.to(device), out, size=32)
    assert distance(out, a.double() @ b.double()) < TOLERANCE[torch.float32]


@triton.jit
def multiply_tf32(a, b, out, size: tl.constexpr):
    i = tl.arange(0, size)
    place = i[:, None] * size + i[None, :]
    zero = tl.zeros([size, size], dtype=tl.float32)
    tl.store(out + place, language.dot_tf32(tl.load(a + place), tl.load(b + place), zero))


def test_tf32_products_lose_what_they_say_and_no_more_on_either_executor(device):
    a, b = (torch.randn((64, 64), generator=draw(seed)) for seed in (1, 2))
    out = torch.empty((64, 64), device=device)
    multiply_tf32[(1,)](a.to(device), b.to(device), out, size=64)
    assert MARGIN * TOLERANCE[torch.float32] < distance(out, a.double() @ b.double()) < 2**-10


@triton.jit
def round_to(x, out, size: tl.constexpr):
    i = tl.arange(0, size)
    tl.store(out + i, narrow(tl.load(x + i), out.dtype.element_ty))


@pytest.mark.parametrize("target", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_stored_values_are_rounded_to_nearest_even(target, device):
    x = torch.randn(256, generator=draw(4))
    x[:7] = torch.tensor([0.0, -0.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 - 2**-10, torch.inf, torch.nan])
    out = torch.empty(256, dtype=target, device=device)
    round_to[(1,)](x.to(device), out, size=256)
    assert torch.equal(out.cpu().nan_to_num(nan=7.0), x.to(target).nan_to_num(nan=7.0))


@triton.jit
def apply(x, out, size: tl.constexpr, name: tl.constexpr):
    i = tl.arange(0, size)
    value = tl.load(x + i)
    tl.store(out + i, language.tanh(value) if name == "tanh" else language.sigmoid(value))


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 0.25, 1.0, 80.0])
def test_saturating_functions_keep_their_relative_error_at_any_size(name, scale, device):
    x = torch.randn(256, generator=draw(5)) * scale
    out = torch.empty(256, device=device)
    apply[(1,)](x.to(device), out, size=256, name=name)
    right = getattr(x.double(), name)()
    normal = right.abs() > 1e-37
    error = ((out.cpu().double() - right) / right)[normal].abs().max()
    assert error < (2e-5 if name == "sigmoid" and scale == 80.0 else 1e-6)
