"""Random inputs of the two KDA operations, in float64 and in storage."""

from __future__ import annotations

import torch

from tests.kernels.comparison import draw, place

ARGUMENTS = ("q", "k", "v", "f", "beta")
SIZES = {"batch": 2, "tokens": 17, "heads": 3, "width": 60, "values": 20}


def kda_inputs(device, dtype, *, scale=1.0, lower_bound=-5.0, **changes):
    """Keyword arguments of kda_step and kda_chunk: a non-zero state, two sequences, sizes that are no powers of two."""
    size = {**SIZES, **changes}
    random = draw(size["tokens"] + size["width"])

    def normal(*shape):
        return torch.randn(shape, generator=random, dtype=torch.float64)

    keys = (size["batch"], size["tokens"], size["heads"], size["width"])
    inputs = {
        "q": normal(*keys) * scale,
        "k": normal(*keys) * scale,
        "v": normal(*keys[:3], size["values"]),
        "f": normal(*keys) * 2,
        "beta": normal(*keys[:3]),
        "a": -torch.rand(size["heads"], generator=random, dtype=torch.float64) * 2 - 0.1,
        "dt_bias": normal(size["heads"], size["width"]),
    }
    inputs = {
        name: place(value, device, dtype if name in ARGUMENTS else torch.float32) for name, value in inputs.items()
    }
    state = normal(size["batch"], size["heads"], size["width"], size["values"])
    inputs["state"] = place(state, device, torch.float32)
    return {**inputs, "lower_bound": lower_bound, "l2_eps": 1e-5}


def tokens(inputs, begin, end):
    """The same call on tokens [begin, end) only, sharing the state."""
    return {name: value[:, begin:end].contiguous() if name in ARGUMENTS else value for name, value in inputs.items()}
