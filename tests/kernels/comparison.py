"""How a kernel is compared with its specification: same stored inputs, naive in float64 on the CPU, relative L2."""

from __future__ import annotations

import torch

from k3_ledger.kernels.dispatch import select

TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 4e-3}
"""Relative L2 by storage type. float32: a few roundings of 6e-8 and the GPU's fast exponential; bfloat16: its half step
is 2e-3, once for the result and once for a value rounded between two products."""
MARGIN = 20
"""A planted fault must miss by this many tolerances."""


def draw(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def widen(value):
    """A float64 copy on the CPU of a floating tensor; anything else as it is, on the CPU."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.to("cpu", torch.float64 if value.dtype.is_floating_point else value.dtype, copy=True)


def place(value, device, dtype=None):
    """A contiguous tensor on the device, in the storage type where one is given and the value is floating."""
    if not isinstance(value, torch.Tensor):
        return value
    if dtype is not None and value.dtype.is_floating_point:
        value = value.to(dtype)
    return value.to(device)


def distance(result: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative L2 distance; NaN or infinity where only one has it is an infinite distance."""
    result, expected = result.detach().cpu().double(), expected.detach().cpu().double()
    if result.shape != expected.shape or not torch.equal(result.isfinite(), expected.isfinite()):
        return float("inf")
    finite = expected.isfinite()
    result, expected = result[finite], expected[finite]
    norm = expected.norm().item()
    return (result - expected).norm().item() / norm if norm else float(result.norm().item() != 0) * float("inf")


def naive(op: str, *args, **kwargs):
    """The specification on float64 copies of these very inputs; the caller's tensors, states too, stay as they are."""
    return select(op, "naive")(*[widen(value) for value in args], **{key: widen(v) for key, v in kwargs.items()})


def kernel(op: str, *args, **kwargs):
    """The kernel on these inputs."""
    return select(op, "triton")(*args, **kwargs)
