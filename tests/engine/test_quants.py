"""Dequantisation equals PyPI gguf's bit for bit, and rounding of activations equals its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from k3_ledger.engine.gguf import open_model_file, write_gguf
from k3_ledger.engine.gguf.quants import decode_rows, dequantise, iq1_s_grid, round_activations
from k3_ledger.engine.gguf.types import BF16, BY_NAME, F16, F32, IQ1_S, MXFP4, Q8_0
from k3_ledger.engine.gguf.writer import NewTensor
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(20261129)


def _random_rows(name: str, rows: int = 64) -> np.ndarray:
    storage = BY_NAME[name]
    raw = RNG.integers(0, 256, (rows, 2, storage.block_bytes), dtype=np.uint8)
    if name in {"Q8_0", "IQ1_S"}:
        raw[:, :, :2] = RNG.uniform(-2, 2, (rows, 2, 1)).astype("<f2").view(np.uint8)
    if name == "MXFP4":
        raw[:, :, 0] = RNG.integers(0, 253, (rows, 2))
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("name", ["F16", "BF16", "Q8_0", "MXFP4", "IQ1_S"])
def test_random_bits_decode_as_the_reference_decodes_them(name: str) -> None:
    raw = _random_rows(name, 512 if name.endswith("16") else 64)
    ours = decode_rows(raw, BY_NAME[name])
    theirs = dequantize(raw, GGMLQuantizationType[name]).astype(np.float32)
    assert np.array_equal(ours, theirs, equal_nan=True)


def test_swapped_nibbles_do_not_decode_as_the_reference_decodes_them() -> None:
    raw = _random_rows("MXFP4")
    swapped = raw.reshape(64, 2, 17).copy()
    swapped[:, :, 1:] = (swapped[:, :, 1:] << 4) | (swapped[:, :, 1:] >> 4)
    ours = decode_rows(swapped.reshape(64, -1), MXFP4)
    assert not np.allclose(ours, dequantize(raw, GGMLQuantizationType.MXFP4))


def test_smallest_mxfp4_scales_are_not_flushed() -> None:
    block = np.full((1, 17), 0x77, dtype=np.uint8)
    for exponent in (0, 1, 2, 252):
        block[0, 0] = exponent
        assert decode_rows(block, MXFP4)[0, 0] == np.float32(12 * 2.0 ** (exponent - 128))


def test_grid_has_2048_words_over_minus_one_to_one() -> None:
    grid = iq1_s_grid()
    assert grid.shape == (2048, 8)
    assert set(np.unique(grid)) == {-1, 0, 1}
    assert len(np.unique(grid, axis=0)) == 2048


def _file_with(tmp_path: Path, raw: bytes, shape: tuple[int, ...], name: str) -> Path:
    path = tmp_path / "one.gguf"
    write_gguf(path, {"general.architecture": "x"}, [NewTensor("t", shape, BY_NAME[name], lambda: [raw])])
    return path


@pytest.mark.parametrize(
    ("name", "raw", "columns"),
    [
        ("MXFP4", b"\x80" * 17 + b"\xff" + b"\x11" * 16, 64),
        ("Q8_0", np.float16(1).tobytes() + b"\1" * 32 + np.float16(np.inf).tobytes() + b"\1" * 32, 64),
        ("F32", np.array([1, 2, np.nan, 4], "<f4").tobytes(), 4),
        ("F16", np.array([1, 2, np.inf, 4], "<f2").tobytes(), 4),
    ],
)
def test_weight_that_is_no_number_is_refused_with_its_place(
    name: str, raw: bytes, columns: int, tmp_path: Path
) -> None:
    with (
        open_model_file(_file_with(tmp_path, raw, (columns,), name)) as file,
        pytest.raises(ModelError, match=r"row 0, column (32|2)$") as caught,
    ):
        dequantise(file.view("t"))
    assert caught.value.code is Code.MODEL_WEIGHT_VALUE


def test_rounding_depends_on_the_weight_it_meets() -> None:
    x = RNG.standard_normal((3, 512)).astype(np.float32)
    assert np.array_equal(round_activations(x, F32), x)
    assert np.array_equal(round_activations(x, F16), x.astype(np.float16).astype(np.float32))
    assert np.abs(round_activations(x, BF16) - x).max() <= np.abs(x).max() * 2**-8
    eight = round_activations(x, Q8_0).reshape(-1, 32)
    step = np.abs(x.reshape(-1, 32)).max(axis=1) / 127
    assert (np.abs(eight - x.reshape(-1, 32)).max(axis=1) <= step * 0.57).all()
    assert np.array_equal(round_activations(x, MXFP4), round_activations(x, Q8_0))
    wide = round_activations(x, IQ1_S).reshape(-1, 256)
    peak = np.abs(x.reshape(-1, 256)).max(axis=1)
    assert np.allclose(np.abs(wide).max(axis=1), peak, rtol=1e-6)
    assert not np.array_equal(round_activations(x, IQ1_S), round_activations(x, Q8_0))


@pytest.mark.parametrize("name", ["Q8_0", "IQ1_S"])
def test_zero_activations_stay_zero(name: str) -> None:
    assert not round_activations(np.zeros((1, 256), np.float32), BY_NAME[name]).any()
