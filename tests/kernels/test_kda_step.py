from __future__ import annotations

import pytest
import torch

from k3_ledger.kernels.dispatch import select
from k3_ledger.kernels.kda_step.naive import kda_step, l2_norm, log_decay
from tests.kernels.comparison import MARGIN, TOLERANCE, distance, kernel, naive, widen
from tests.kernels.kda_inputs import kda_inputs, tokens

SHAPES = [
    {"tokens": 1},
    {"tokens": 17},
    {"batch": 1, "tokens": 63, "heads": 1},
    {"batch": 1, "tokens": 3, "values": 60},
    {"batch": 1, "tokens": 2, "heads": 2, "width": 128, "values": 128},
    {"batch": 1, "tokens": 2, "width": 16, "values": 40},
]


def specified(inputs):
    """Output and final state of the specification."""
    inputs = {name: widen(value) for name, value in inputs.items()}
    return kda_step(**inputs), inputs["state"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("lower_bound", [-5.0, None])
def test_equals_the_specification_and_leaves_the_state(shape, lower_bound, device, dtype):
    inputs = kda_inputs(device, dtype, lower_bound=lower_bound, **shape)
    expected, state = specified(inputs)
    result = kernel("kda_step", **inputs)
    assert distance(result, expected) < TOLERANCE[dtype]
    assert distance(inputs["state"], state) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("shape", [{"heads": 2, "width": 20}, {"heads": 1, "width": 128, "values": 128}], ids=str)
@pytest.mark.parametrize("split", [[1] * 17, [5, 12], [16, 1]], ids=str)
@pytest.mark.parametrize("backend", ["triton", "naive"])
def test_bits_do_not_depend_on_how_tokens_are_split_into_calls(backend, split, shape, device, dtype):
    inputs = kda_inputs(device, dtype, **shape)
    whole = {**inputs, "state": inputs["state"].clone()}
    step = select("kda_step", backend)
    expected = step(**whole)
    parts, begin = [], 0
    for size in split:
        parts.append(step(**tokens(inputs, begin, begin + size)))
        begin += size
    assert torch.equal(torch.cat(parts, dim=1), expected)
    assert torch.equal(inputs["state"], whole["state"])


def faulty(fault, inputs):
    """The specification with one planted fault."""
    x = {name: widen(value) for name, value in inputs.items()}
    q, k = l2_norm(x["q"], x["l2_eps"]) / x["q"].shape[-1] ** 0.5, l2_norm(x["k"], x["l2_eps"])
    if fault == "q unscaled":
        q = l2_norm(x["q"], x["l2_eps"])
    if fault == "q scaled twice":
        q = q / x["q"].shape[-1] ** 0.5
    if fault == "k not normalised":
        k = x["k"]
    if fault == "epsilon on the mean":
        k = x["k"] / (x["k"].square().mean(-1, keepdim=True) + x["l2_eps"]).sqrt()
    a = -x["a"].exp() if fault == "a second exponential" else -x["a"] if fault == "sign of ssm_a" else x["a"]
    lower_bound = None if fault == "softplus gate" else x["lower_bound"]
    g = log_decay(x["f"], a, x["dt_bias"], lower_bound)
    if fault == "one decay a head":
        g = g.mean(-1, keepdim=True).expand_as(g)
    beta = x["beta"].sigmoid() if fault != "beta without sigmoid" else x["beta"]
    state, outputs = x["state"], []
    for t in range(q.shape[1]):
        decay = g[:, t].exp()[..., :, None]
        if fault == "decay on the value axis":
            decay = g[:, t].exp()[..., None, :]
        before = state
        if fault != "decay after the update":
            state = state * decay
        read = torch.einsum("bhk,bhkv->bhv", k[:, t], before if fault == "read before the decay" else state)
        state = state + k[:, t, :, :, None] * (beta[:, t, :, None] * (x["v"][:, t] - read))[:, :, None]
        if fault == "decay after the update":
            state = state * decay
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], before if fault == "output of the old state" else state))
    return torch.stack(outputs, 1)


FAULTS = [
    "decay after the update", "read before the decay", "decay on the value axis", "output of the old state",
    "q unscaled", "q scaled twice", "k not normalised", "epsilon on the mean", "a second exponential", "sign of ssm_a",
    "softplus gate", "one decay a head", "beta without sigmoid",
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_common_mistakes_are_seen(fault, device, dtype):
    inputs = kda_inputs(device, dtype, tokens=5, heads=2, values=60)
    unplanted, planted = faulty("none", inputs), faulty(fault, inputs)
    result = kernel("kda_step", **inputs)
    assert distance(result, unplanted) < TOLERANCE[dtype]
    assert distance(result, planted) > MARGIN * TOLERANCE[dtype]


def test_the_epsilon_of_the_norms_counts_at_small_activations(device):
    inputs = kda_inputs(device, torch.float32, tokens=5, scale=1e-3)
    expected = naive("kda_step", **inputs)
    other = naive("kda_step", **{**inputs, "l2_eps": 1e-6})
    result = kernel("kda_step", **inputs)
    assert distance(result, expected) < TOLERANCE[torch.float32]
    assert distance(result, other) > MARGIN * TOLERANCE[torch.float32]


@pytest.mark.parametrize(
    ("name", "match"), [("q", "contiguous"), ("state", "contiguous"), ("f", "f has shape"), ("beta", "beta has shape")]
)
def test_a_wrong_layout_is_refused(name, match, device):
    inputs = kda_inputs(device, torch.float32, tokens=2, heads=2, width=16, values=16)
    inputs[name] = inputs[name].transpose(-1, -2) if match == "contiguous" else inputs[name][:1]
    if name == "q":
        inputs["q"] = inputs["k"].repeat(1, 1, 1, 2)[..., ::2]
    with pytest.raises(ValueError, match=match):
        kernel("kda_step", **inputs)


@pytest.mark.parametrize("lower_bound", [0.0, 5.0])
def test_a_bound_that_is_no_decay_is_refused(lower_bound, device):
    with pytest.raises(ValueError, match="lower_bound"):
        kernel("kda_step", **kda_inputs(device, torch.float32, tokens=1, lower_bound=lower_bound))
