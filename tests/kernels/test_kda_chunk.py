from __future__ import annotations

import pytest
import torch

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
    assert distance(inputs["state"], state) < TOLERANCE[torch.float32]


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
