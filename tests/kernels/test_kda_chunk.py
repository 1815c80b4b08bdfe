from __future__ import annotations

import pytest
import torch

from k3_ledger.kernels.dispatch import select
from k3_ledger.kernels.kda_chunk.naive import kda_chunk
from k3_ledger.kernels.kda_step.naive import kda_step, l2_norm, log_decay
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, kernel, naive, place, widen
from tests.kernels.kda_inputs import kda_inputs, tokens

SHAPES = [
    {"tokens": 1},
    {"tokens": 16},
    {"tokens": 17},
    {"batch": 1, "tokens": 63, "values": 60},
    {"batch": 1, "tokens": 20, "width": 128, "values": 128, "heads": 2},
    {"batch": 1, "tokens": 33, "width": 16, "values": 40},
]
GATES = {
    "none": (0.0, -5.0),
    "-3": (-3.0, -5.0),
    "-5": (-5.0, -5.0),
    "-10 of a bound of -10": (-10.0, -10.0),
    "-14 of a bound of -14": (-14.0, -14.0),
    "-20, unbounded": (-20.0, None),
    "tiny growth, unbounded": (1e-4, None),
}
"""Log decay of every token, and the bound that selects the gate's formula."""
HALF_STATE = 1e-3
"""Relative L2 of the state where products take half-precision operands: two roundings at 2^-12, 2^-10 for the sums
behind ``L``; planted faults in the state miss by far more."""


def walked(inputs):
    """Output and final state of the token-by-token recurrence, in float64."""
    inputs = {name: widen(value) for name, value in inputs.items()}
    return kda_step(**inputs), inputs["state"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lower_bound", [-5.0, None])
def test_equals_the_walk_token_by_token(shape, lower_bound, device, dtype):
    inputs = kda_inputs(device, dtype, lower_bound=lower_bound, **shape)
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    assert distance(result, expected) < TOLERANCE[dtype]
    assert distance(inputs["state"], state) < (HALF_STATE if lower_bound and dtype != torch.float32 else 3e-6)


def test_the_chunked_specification_equals_the_recurrence():
    inputs = {name: widen(value) for name, value in kda_inputs("cpu", torch.float64, tokens=63).items()}
    expected, state = walked(inputs)
    assert distance(kda_chunk(**inputs), expected) < 1e-12
    assert distance(inputs["state"], state) < 1e-12


def with_decay(inputs, decay):
    """The inputs with every log decay at one value: saturated or solved gates, slope 1, no bias."""
    inputs["dt_bias"] = torch.zeros_like(inputs["dt_bias"])
    inputs["a"] = -torch.ones_like(inputs["a"])
    if inputs["lower_bound"] is None:
        inputs["a"] *= 1.0 if decay < 0 else -decay
        level = -decay if decay < 0 else torch.log(torch.expm1(torch.ones(()))).item()
    else:
        share = torch.tensor(decay / inputs["lower_bound"])
        level = torch.logit(share).clamp(-200, 200).item()
    inputs["f"] = torch.full_like(inputs["f"], level)
    return inputs


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("length", [17, 63])
def test_strong_weak_and_no_decay_stay_finite_and_right(gate, length, device):
    decay, bound = GATES[gate]
    shape = {"batch": 1, "heads": 2, "width": 16, "values": 20}
    inputs = with_decay(kda_inputs(device, torch.float32, tokens=length, lower_bound=bound, **shape), decay)
    reached = log_decay(*(inputs[name].cpu() for name in ("f", "a", "dt_bias")), bound)
    assert torch.allclose(reached, torch.tensor(decay, dtype=torch.float64), rtol=1e-4, atol=1e-12)
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    assert result.isfinite().all()
    assert distance(result, expected) < 5 * TOLERANCE[torch.float32]
    assert distance(inputs["state"], state) < 5 * TOLERANCE[torch.float32]


@pytest.mark.parametrize(("decay", "wrong"), [(-5.0, "nan"), (-3.0, "nan"), (0.0, "right")])
def test_the_split_exponential_over_a_longer_chunk_is_what_fails(decay, wrong, device):
    shape = {"batch": 1, "heads": 2, "width": 16, "values": 20}
    inputs = with_decay(kda_inputs(device, torch.float32, tokens=64, **shape), decay)
    q, k = (l2_norm(inputs[name].cpu(), 1e-5).float() for name in ("q", "k"))
    total = log_decay(*(inputs[name].cpu() for name in ("f", "a", "dt_bias")), -5.0).float().cumsum(1)
    split = torch.einsum("bthc,bshc->bhts", q * total.exp(), k * (-total).exp()).tril()
    joined = (total[:, :, None] - total[:, None]).double().clamp(max=0).exp()
    right = torch.einsum("bthc,bshc,btshc->bhts", q.double(), k.double(), joined).tril()
    assert split.isnan().any().item() == (wrong == "nan")
    assert (distance(split, right) < TOLERANCE[torch.float32]) == (wrong == "right")


@pytest.mark.parametrize("split", [[33, 30], [16, 16, 31], [1, 62], [40, 23]], ids=str)
def test_chunks_of_any_size_in_a_row_equal_the_walk_and_forget_nothing(split, device):
    inputs = kda_inputs(device, torch.float32, batch=1, heads=2, tokens=63, width=16, values=20)
    expected, state = walked(inputs)
    first = tokens(inputs, split[0], 63)
    lost, _ = walked({**first, "state": torch.zeros_like(inputs["state"])})
    parts, begin = [], 0
    for size in split:
        parts.append(kernel("kda_chunk", **tokens(inputs, begin, begin + size)))
        begin += size
    assert distance(torch.cat(parts, dim=1), expected) < TOLERANCE[torch.float32]
    assert distance(inputs["state"], state) < TOLERANCE[torch.float32]
    assert distance(torch.cat(parts[1:], dim=1)[:, :8], lost[:, :8]) > MARGIN * TOLERANCE[torch.float32]


def test_the_overflow_case_of_the_test_data_is_right(device, test_data):
    numpy = pytest.importorskip("numpy")
    case = numpy.load(test_data("bug-cases", "cases", "56-decay-overflow", "gates.npz"))
    q, k = (torch.from_numpy(case[name])[None, :, None] for name in ("q", "k"))
    assert (torch.from_numpy(case["log_decay"]) == -5).all()
    inputs = kda_inputs(device, torch.float32, batch=1, heads=1, tokens=64, width=4, values=4)
    inputs = with_decay({**inputs, "q": place(q, device), "k": place(k, device)}, -5.0)
    expected, state = walked(inputs)
    assert distance(kernel("kda_chunk", **inputs), expected) < TOLERANCE[torch.float32]
    assert distance(inputs["state"], state) < TOLERANCE[torch.float32]


def test_the_order_of_decay_and_update_is_seen(device):
    inputs = kda_inputs(device, torch.float32, tokens=17)
    shifted = inputs["f"].roll(1, dims=1)
    result = kernel("kda_chunk", **{**inputs, "state": inputs["state"].clone()})
    assert distance(result, naive("kda_step", **{**inputs, "f": shifted})) > MARGIN * TOLERANCE[torch.float32]
    assert distance(result, naive("kda_step", **inputs)) < TOLERANCE[torch.float32]


BF16 = torch.bfloat16


@pytest.mark.parametrize("gate", [gate for gate, (_, bound) in GATES.items() if bound == -5.0])
@pytest.mark.parametrize("length", [17, 63])
def test_halves_stay_finite_and_right_at_any_bounded_decay(gate, length, device):
    decay, bound = GATES[gate]
    shape = {"batch": 2, "heads": 2, "width": 16, "values": 70}
    inputs = with_decay(kda_inputs(device, BF16, tokens=length, lower_bound=bound, **shape), decay)
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    assert distance(result, expected) < TOLERANCE[BF16]
    assert distance(inputs["state"], state) < 2 * HALF_STATE


@pytest.mark.parametrize("size", [2.0**-60, 2.0**60])
def test_halves_hold_values_of_any_size_that_float16_would_not(size, device):
    inputs = kda_inputs(device, BF16, batch=1, heads=2, tokens=40, width=60, values=20)
    inputs["v"], inputs["state"] = inputs["v"] * size, inputs["state"] * size
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    assert distance(result, expected) < TOLERANCE[BF16]
    assert distance(inputs["state"], state) < HALF_STATE


def test_halves_hold_a_column_that_other_columns_dwarf_and_one_that_is_zero(device):
    inputs = kda_inputs(device, BF16, batch=1, heads=1, tokens=40, width=60, values=20)
    scale = torch.logspace(-12, 12, 20, base=2).to(device)
    scale[7] = 0
    inputs["v"], inputs["state"] = (inputs["v"] * scale).to(BF16), inputs["state"] * scale
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    for column in range(20):
        assert distance(result[..., column], expected[..., column]) < 2 * TOLERANCE[BF16] or column == 7
    assert not result[..., 7].any()
    assert not inputs["state"][..., 7].any()
    assert distance(inputs["state"], state) < HALF_STATE


def test_halves_hold_a_state_that_contradictions_make_grow(device):
    """Two keys nearly alike, told values of opposite sign: the delta rule's state grows beyond every value told."""
    inputs = with_decay(kda_inputs(device, BF16, batch=1, heads=1, tokens=96, width=16, values=16), 0.0)
    odd = (torch.arange(96, device=device) % 2)[None, :, None, None]
    inputs["k"] = torch.zeros_like(inputs["k"])
    inputs["k"][..., 0] = 1.0
    inputs["k"][:, 1::2, :, 1] = 0.2
    inputs["v"] = (2.0**14 * (1 - 2 * odd)).expand(1, 96, 1, 16).to(BF16).contiguous()
    inputs["beta"] = torch.full_like(inputs["beta"], 8.0)
    expected, state = walked(inputs)
    result = kernel("kda_chunk", **inputs)
    assert state.abs().max() > 65504
    assert result.isfinite().all()
    assert distance(result, expected) < 5 * TOLERANCE[BF16]


@pytest.mark.parametrize("split", [[16, 16, 31], [1, 62]], ids=str)
def test_halves_of_any_size_in_a_row_equal_the_walk_and_forget_nothing(split, device):
    inputs = kda_inputs(device, BF16, batch=1, heads=2, tokens=63, width=60, values=70)
    expected, state = walked(inputs)
    first = tokens(inputs, split[0], 63)
    lost, _ = walked({**first, "state": torch.zeros_like(inputs["state"])})
    parts, begin = [], 0
    for size in split:
        parts.append(kernel("kda_chunk", **tokens(inputs, begin, begin + size)))
        begin += size
    assert distance(torch.cat(parts, dim=1), expected) < TOLERANCE[BF16]
    assert distance(inputs["state"], state) < HALF_STATE
    assert distance(torch.cat(parts[1:], dim=1)[:, :8], lost[:, :8]) > MARGIN * TOLERANCE[BF16]


@pytest.mark.parametrize("name", ["q", "k", "v", "f", "beta"])
def test_halves_see_what_comes_a_token_late(name, device):
    inputs = kda_inputs(device, BF16, batch=1, heads=1, tokens=18)
    right, _ = walked(inputs)
    late = {**inputs, name: inputs[name].roll(1, dims=1), "state": inputs["state"].clone()}
    assert distance(kernel("kda_chunk", **late), right) > MARGIN * TOLERANCE[BF16]


@pytest.mark.parametrize("way", ["naive", "triton"])
@pytest.mark.parametrize("gate", [20.0, 88.0, 700.0, 709.0, 710.0, 1e4, 1e30])
def test_no_finite_gate_overflows_in_either_form(way, gate, device):
    """The softplus of a large number is that number: its exponential is infinite from 710 on in float64."""
    inputs = kda_inputs(device, torch.float32, lower_bound=None, tokens=20, width=16, values=16)
    inputs["f"].fill_(gate)
    expected, state = walked(inputs)
    assert log_decay(inputs["f"], inputs["a"], inputs["dt_bias"], None).isfinite().all()
    result = select("kda_chunk", way)(**inputs)
    assert result.isfinite().all()
    assert inputs["state"].isfinite().all()
    assert distance(result, expected) < TOLERANCE[torch.float32]
    assert distance(inputs["state"] + 1, state + 1) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("gate", [-1e30, -800.0, -40.0, -1.0, 0.0, 1e-9, 1.0, 20.0, 40.0])
def test_the_softplus_gate_is_the_logarithm_it_says(gate):
    f = torch.full((1, 1), gate, dtype=torch.float64)
    found = log_decay(f, torch.tensor([-1.0]), torch.zeros(1, 1), None)
    assert torch.allclose(found, -torch.nn.functional.softplus(f, threshold=1e9), rtol=1e-15, atol=0)
