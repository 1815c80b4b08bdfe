"""Synthetic models: same arguments, same bytes; a foreign reader agrees; load spreads over the experts."""

from __future__ import annotations

import hashlib
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest

from k3_ledger.engine.synth import PRESETS, SynthSpec, preset, write, write_synthetic
from k3_ledger.engine.synth.write import synthetic_size
from k3_ledger.engine.weights import open_weights

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.weights import Weights


def test_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for number in range(2):
        write_synthetic(preset("tiny-mxfp4", seed=5), tmp_path / f"{number}.gguf")
        digests.add(hashlib.sha256((tmp_path / f"{number}.gguf").read_bytes()).hexdigest())
    assert len(digests) == 1
    write_synthetic(preset("tiny-mxfp4", seed=6), tmp_path / "other.gguf")
    assert hashlib.sha256((tmp_path / "other.gguf").read_bytes()).hexdigest() not in digests


@pytest.mark.parametrize("name", ["tiny", "tiny-bf16", "tiny-q8", "tiny-mxfp4", "tiny-iq1"])
def test_chunks_that_are_drawn_side_by_side_are_those_of_one_stream(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    for chunk, path in ((1 << 20, tmp_path / "whole.gguf"), (1 << 13, tmp_path / "split.gguf")):
        monkeypatch.setattr(write, "_CHUNK", chunk)
        write_synthetic(preset(name, layers=2, dense_width=512), path)
        written.append(path.read_bytes())
    assert written[0] == written[1]


def test_bytes_are_pinned_across_versions_and_machines(tmp_path: Path) -> None:
    write_synthetic(preset("tiny-iq1", layers=2), tmp_path / "m.gguf")
    with open_weights(tmp_path / "m.gguf") as weights:
        pinned = {
            name: hashlib.sha256(weights.view(name).raw.tobytes()).hexdigest()[:16]
            for name in ("blk.1.ffn_up_exps.weight", "blk.0.attn_q.weight", "blk.0.ssm_dt.bias")
        }
    assert pinned == PINNED


PINNED = {
    "blk.1.ffn_up_exps.weight": "1fb32bcd3309f833",
    "blk.0.attn_q.weight": "e63e08b5dba631c9",
    "blk.0.ssm_dt.bias": "cf10f77a3d8cf936",
}


@pytest.mark.parametrize("name", ["tiny", "tiny-q8", "tiny-mxfp4", "tiny-iq1"])
def test_foreign_reader_sees_the_same_values(name: str, synthetic: Callable[..., Path]) -> None:
    path = synthetic(name)
    foreign = gguf.GGUFReader(path)
    with open_weights(path) as weights:
        assert {t.name for t in foreign.tensors} == set(weights.tensors)
        for tensor in foreign.tensors[::7]:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            assert np.array_equal(weights.load(tensor.name), values.reshape(weights.tensors[tensor.name].shape))
        field = foreign.get_field("kimi-k3.attention.head_count_kv")
        assert field is not None
        assert tuple(field.contents()) == tuple(map(int, weights.config.mla))


def test_values_have_the_wished_deviation(weights: Callable[..., Weights]) -> None:
    for name in ("tiny", "tiny-q8", "tiny-mxfp4", "tiny-iq1"):
        opened = weights(name)
        for tensor in ("blk.1.ffn_up_exps.weight", "blk.1.attn_g.weight", "blk.1.ssm_g.weight"):
            if tensor in opened.tensors:
                values = opened.load(tensor)
                assert 0.6 < values.std() * np.sqrt(values.shape[-1]) < 1.7, (name, tensor)


def test_every_preset_can_be_written_and_says_its_size() -> None:
    for name, spec in PRESETS.items():
        assert synthetic_size(spec) > 0, name
    assert synthetic_size(PRESETS["real-period"]) > 60 * 2**30


def test_large_tensors_are_streamed(tmp_path: Path) -> None:
    spec = preset("tiny", layers=1, hidden=1024, dense_width=8192, vocabulary=300)
    tracemalloc.start()
    size = write_synthetic(spec, tmp_path / "m.gguf")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 100e6
    assert peak < 80e6


def test_interrupted_write_leaves_no_file(tmp_path: Path) -> None:
    def stop(_written: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_synthetic(preset("tiny"), tmp_path / "m.gguf", progress=stop)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"storage": "Q4_K"},
        {"storage": "Q8_0", "hidden": 48},
        {"expert_storage": "IQ1_S"},
        {"seed": -1},
        {"expert_storage": "MXFP4", "latent": 40},
    ],
)
def test_spec_that_cannot_be_stored_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"storage|stored|seed"):
        replace(PRESETS["tiny"], **changes)


def test_unknown_preset_is_refused() -> None:
    with pytest.raises(ValueError, match="no preset"):
        preset("huge")


def test_header_carries_the_spec(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny", seed=9)
    assert opened.synthetic
    assert opened.file.values["k3_ledger.synthetic.seed"] == 9
    names = {key.removeprefix("k3_ledger.synthetic.") for key in opened.file.values if "synthetic" in key}
    assert names == set(SynthSpec.__dataclass_fields__)
