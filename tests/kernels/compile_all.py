"""Compile every kernel for an H200 on a machine without one, by the launches of the operations themselves.

Run as a program, without ``TRITON_INTERPRET``. A stand-in for the driver names the target, and every launch stops after
compilation; prints the kernels compiled, one a line.
"""

from __future__ import annotations

import sys
from importlib import import_module

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from k3_ledger.kernels.dispatch import OPS


class Target:
    """What compiling asks of a driver."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, _device=None):
        return 0


def values(*shape, dtype=torch.bfloat16):
    return torch.zeros(shape, dtype=dtype)


def wide(*shape):
    return values(*shape, dtype=torch.float32)


def kda(tokens):
    heads = (1, tokens, 8, 128)
    streams = {name: values(*heads) for name in ("q", "k", "v", "f")}
    gates = {"a": wide(8), "dt_bias": wide(8, 128), "state": wide(1, 8, 128, 128), "lower_bound": -5.0, "l2_eps": 1e-5}
    return {**streams, "beta": values(*heads[:3]), **gates}


def experts(tokens, *, by_load=False):
    routing = {"ids": torch.zeros((tokens, 16), dtype=torch.int64), "weights": wide(tokens, 16)}
    weights = {"gate": values(16, 192, 3584), "up": values(16, 192, 3584), "down": values(16, 3584, 192)}
    return {
        "x": values(tokens, 3584),
        **routing,
        **weights,
        "beta": 4.0,
        "linear_beta": 25.0,
        **BAND,
        "by_load": by_load,
    }


BAND = {"first_expert": 0, "expert_count": 16}
MLA = {"cache": values(1, 4096, 576), "lengths": torch.ones((1, 1), dtype=torch.int64)}
SLICES = {"value_dim": 512, "scale": 0.07, "slice_rows": 1024}
PREFILL = {"key": values(1, 300, 96, 128), "key_pe": values(1, 300, 64), "value": values(1, 300, 96, 128)}
CALLS = [
    ("rms_norm", {"x": values(2, 7168), "weight": values(7168), "eps": 1e-5}),
    ("rms_norm", {"x": values(96, 128), "weight": values(128), "eps": 1e-5, "gate": values(96, 128)}),
    ("situ", {"gate": values(2, 3072), "up": values(2, 3072), "beta": 4.0, "linear_beta": 25.0}),
    ("conv", {"x": values(1, 1, 36864), "window": wide(1, 3, 36864), "weight": values(36864, 4)}),
    ("conv", {"x": values(1, 33, 36864), "window": wide(1, 3, 36864), "weight": values(36864, 4)}),
    ("kda_step", kda(1)),
    ("kda_chunk", kda(64)),
    ("kda_chunk", {**kda(64), "lower_bound": None}),
    ("kda_chunk", {**kda(64), **{name: wide(1, 64, 8, 128) for name in ("q", "k", "v", "f")}}),
    ("mla_decode", {"query": values(1, 1, 96, 576), **MLA, **SLICES}),
    ("mla_decode", {"query": values(1, 1, 12, 576), **MLA, **SLICES}),
    ("mla_decode", {"query": values(1, 1, 96, 576), **MLA, **SLICES, "slice_rows": 1000}),
    ("mla_prefill", {"query": values(1, 300, 96, 192), **PREFILL, "start": 0, "scale": 0.07}),
    ("product", {"x": wide(1, 1536), "weight": values(96, 1536)}),
    ("product", {"x": wide(17, 4, 128), "weight": values(4, 512, 128)}),
    ("product", {"x": wide(1, 7168), "weight": values(96, 7168), "by_count": True}),
    *(
        ("product", {"x": wide(tokens, size), "weight": wide(64, size)})
        for tokens in (1, 9)
        for size in (128, 1536, 7168)
    ),
    (
        "router",
        {"logits": wide(2, 896), "bias": wide(896), "top_k": 16, "renormalise": True, "scale": 1.0, "min_sum": 0.0},
    ),
    ("experts", experts(1)),
    ("experts", experts(33)),
    *(("experts", experts(tokens, by_load=True)) for tokens in (10, 52, 53)),
    (
        "residual_mix",
        {"bank": values(8, 2, 7168), "x": values(2, 7168), "score_weight": values(7168), "count": 8, "eps": 1e-5},
    ),
    ("unpack", {"data": values(2, 34, dtype=torch.uint8), "quant": "q8_0", "dtype": torch.bfloat16}),
    ("unpack", {"data": values(2, 17, dtype=torch.uint8), "quant": "mxfp4", "dtype": torch.bfloat16}),
]


def main():
    driver.set_active(Target())
    launch = JITFunction.run

    def compile_only(self, *args, grid, warmup, **keywords):
        kernel = launch(self, *args, grid=grid, warmup=True, **keywords)
        assert kernel.asm["cubin"]
        sys.stdout.write(f"{self.fn.__name__}\n")
        return kernel

    JITFunction.run = compile_only
    for name, arguments in CALLS:
        op = OPS[name]
        op.check(**arguments)
        getattr(import_module(f"{op.package}.triton_"), name)(**arguments)


if __name__ == "__main__":
    main()
