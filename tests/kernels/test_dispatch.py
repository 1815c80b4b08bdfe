from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib import import_module

import pytest
import torch

from k3_ledger.kernels.dispatch import OPS, BackendError, Runs, select, source_digest
from k3_ledger.kernels.language import INTERPRETED


@pytest.mark.parametrize("name", OPS)
def test_a_kernel_has_the_signature_of_its_specification(name):
    op = OPS[name]
    function = getattr(import_module(f"{op.package}.triton_"), name)
    expected = inspect.signature(op.naive)
    assert inspect.signature(function) == expected
    assert inspect.signature(op.check).parameters == expected.parameters


@pytest.mark.parametrize("backend", ["naive", "triton", "auto"])
def test_what_ran_is_recorded_with_its_executor(backend, device):
    runs = Runs()
    rms_norm = select("rms_norm", backend, runs=runs)
    x, weight = torch.randn((2, 60), device=device), torch.ones(60, device=device)
    rms_norm(x, weight, eps=1e-5)
    rms_norm(x, weight, eps=1e-5)
    used = {"naive": "naive", "triton": "triton", "auto": "triton" if device.type == "cuda" else "naive"}[backend]
    executor = "torch" if used == "naive" else "interpreter" if INTERPRETED else "compiled"
    expected = {"op": "rms_norm", "backend": used, "executor": executor, "device": device.type, "calls": 2}
    assert runs.records() == [{**expected, "source": source_digest()}]
    assert len(source_digest()) == 64


def test_a_call_that_was_refused_is_not_recorded(device):
    runs = Runs()
    with pytest.raises(ValueError, match="weight has shape"):
        select("rms_norm", "naive", runs=runs)(torch.ones((2, 60)), torch.ones(61), eps=1e-5)
    assert runs.records() == []


@pytest.mark.parametrize("backend", ["naive", "triton"])
@pytest.mark.parametrize(
    ("x", "weight", "error", "match"),
    [
        (torch.ones((2, 120))[:, ::2], torch.ones(60), ValueError, "x must be contiguous"),
        (torch.ones((60, 2)).T, torch.ones(60), ValueError, "x must be contiguous"),
        (torch.ones((2, 60)), torch.ones((1, 60)), ValueError, "weight has shape"),
        (torch.ones((2, 60)), torch.ones(60, device="meta"), ValueError, "weight is on meta"),
        (torch.ones((2, 60), dtype=torch.int32), torch.ones(60), TypeError, "x has type int32"),
        ([1.0], torch.ones(60), TypeError, "x is a list"),
    ],
    ids=["strided", "transposed", "shape", "device", "type", "no tensor"],
)
def test_arguments_outside_the_contract_are_refused_by_every_backend(backend, x, weight, error, match):
    with pytest.raises(error, match=match):
        select("rms_norm", backend)(x, weight, eps=1e-5)


def test_float64_is_for_the_specification_alone(device):
    x = torch.ones((2, 60), dtype=torch.float64, device=device)
    with pytest.raises(BackendError, match="float64"):
        select("rms_norm", "triton")(x, x[0], eps=1e-5)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="unknown operation 'softmax'"):
        select("softmax")
    with pytest.raises(ValueError, match="unknown backend 'cuda'"):
        select("rms_norm", "cuda")


WITHOUT_INTERPRETER = """
import torch
from k3_ledger.kernels.dispatch import BackendError, Runs, select
x, runs = torch.ones(2, 60), Runs()
try:
    select("rms_norm", "triton", runs=runs)(x, x[0].contiguous(), eps=1e-5)
except BackendError as error:
    print(error)
select("rms_norm", "auto", runs=runs)(x, x[0].contiguous(), eps=1e-5)
print(*(record["executor"] for record in runs.records()))
"""


def test_compiled_kernels_do_not_fall_back_in_silence():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-c", WITHOUT_INTERPRETER]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    refusal, executors = done.stdout.splitlines()
    assert "compiled kernels need CUDA tensors" in refusal
    assert executors == "torch"


WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None
import torch
from k3_ledger.kernels.dispatch import BackendError, select
x = torch.ones(2, 60)
print(select("rms_norm", "auto")(x, x[0].contiguous(), eps=1e-5).shape)
try:
    select("rms_norm", "triton")(x, x[0].contiguous(), eps=1e-5)
except BackendError as error:
    print(error)
"""


def test_the_specification_runs_where_triton_is_not_installed():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRITON], env=environment, capture_output=True, text=True, check=True
    )
    assert "torch.Size([2, 60])" in done.stdout
    assert "triton is not installed" in done.stdout
