from __future__ import annotations

import os
import subprocess
import sys

KERNELS = {
    "_rms_norm", "_situ", "_conv", "_shift", "_kda_step", "_prepare", "_scan",
    "prepare_half", "scan_half", "_mla_slices", "_mla_powers", "_mla_values", "_mla_merge",
    "_mla_prefill", "_lanes", "_units", "_router", "_group", "_cut", "_up", "_down", "_combine",
    "_scores", "_mix", "_unpack",
}  # fmt: skip


def test_every_kernel_compiles_for_an_h200_without_one(tmp_path):
    """The interpreter accepts what the compiler refuses: a name of two types, a tile that is no power of two."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TRITON_CACHE_DIR": str(tmp_path)}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_all"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(done.stdout.split()) == KERNELS
