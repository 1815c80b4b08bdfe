"""Kernels are compiled where there is a GPU and interpreted elsewhere; fresh memory is NaN in both."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

collect_ignore_glob = []
if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    collect_ignore_glob.append("test_*.py")
elif not Path("/dev/nvidiactl").exists():
    # Read by triton when it is first imported, hence before any test module is.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def device():
    """The GPU where there is one."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def poisoned_memory(monkeypatch):
    """What nobody wrote reads as NaN (integers: the greatest value), so that an unwritten output or scratch shows."""
    import torch

    def poison(allocate):
        def poisoned(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            if tensor.dtype.is_floating_point:
                return tensor.fill_(torch.nan)
            return tensor.fill_(torch.iinfo(tensor.dtype).max)

        return poisoned

    monkeypatch.setattr(torch, "empty", poison(torch.empty))
    monkeypatch.setattr(torch, "empty_like", poison(torch.empty_like))


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request):
    """Storage type of activations and weights."""
    import torch

    return getattr(torch, request.param)
