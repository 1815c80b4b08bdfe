"""The whole model on Triton kernels, interpreted: near the naive backend, and bit-identical over chunk widths."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROGRAM = """
import json, sys, pathlib, torch
from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import Options, load_model
torch.set_num_threads(1)
path, ids = pathlib.Path(sys.argv[1]), [300, 301, 302, 303]
rows = {}
for backend, chunk in (("naive", 4), ("triton", 4), ("triton", 1)):
    model = load_model(path, Options(backend=backend, packed=True, numerics=Numerics(torch.float32)))
    rows[backend, chunk] = model.prefill_rows(ids, model.new_state(4), chunk)
ran = model.runs.records()
print(json.dumps({
    "difference": float((rows["naive", 4] - rows["triton", 4]).abs().max()),
    "same_bits": torch.equal(rows["triton", 4], rows["triton", 1]),
    "finite": bool(torch.isfinite(rows["triton", 4]).all()),
    "executors": sorted({record["executor"] for record in ran}),
}))
"""


def test_interpreted_kernels_give_the_naive_result(synthetic: Callable[..., Path]) -> None:
    pytest.importorskip("triton")
    paths = [str(ROOT / room) for room in ("schemas", "engine", "kernels")] + [os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(synthetic("tiny-mxfp4", layers=4))],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["finite"]
    assert answer["executors"] == ["interpreter"]
    assert 0 < answer["difference"] < 1e-4
    assert answer["same_bits"]
