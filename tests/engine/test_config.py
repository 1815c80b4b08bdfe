"""Every key and tensor that the forward pass needs is refused when missing, in words."""

from __future__ import annotations

import math
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from k3_ledger.engine.config import OPTIONAL_KEYS, Epsilons, read_config
from k3_ledger.engine.gguf import write_gguf
from k3_ledger.engine.gguf.arrays import Numbers, Texts
from k3_ledger.engine.gguf.types import F16, F32
from k3_ledger.engine.gguf.writer import NewTensor
from k3_ledger.engine.synth import preset, write_synthetic
from k3_ledger.engine.tensors import OPTIONAL_TENSORS, expected_tensors
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from pathlib import Path

HEADER = preset("tiny").header()
PREFIX = "kimi-k3."
KEYS = sorted(key.removeprefix(PREFIX) for key in HEADER if key.startswith(PREFIX))


def _read(header: dict[str, Any], **options: Any) -> Any:
    return read_config(header, embedding_rows=512, **options)


@pytest.mark.parametrize("name", KEYS)
def test_missing_key_is_refused_by_name(name: str) -> None:
    header = {key: value for key, value in HEADER.items() if key != PREFIX + name}
    with pytest.raises(ModelError) as caught:
        _read(header)
    assert caught.value.code is Code.MODEL_KEY_MISSING
    assert caught.value.finding.position.field == PREFIX + name


@pytest.mark.parametrize("name", KEYS)
def test_key_of_another_type_is_refused_by_name(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        _read(HEADER | {PREFIX + name: "7"})
    assert caught.value.code is Code.MODEL_KEY_VALUE
    assert caught.value.finding.position.field == PREFIX + name


@pytest.mark.parametrize("name", KEYS)
def test_no_value_of_any_type_ends_in_a_traceback(name: str) -> None:
    values = (math.nan, math.inf, -1, 0, 2**63, 1e300, 1e-45, True, "", "x" * 10_000, (), (1, 2), (math.nan,), (True,))
    arrays = (Numbers(np.full(6, value, dtype=kind)) for value in (0, 1, 7) for kind in ("?", "<i8", "<f4"))
    for value in (*values, *arrays, Texts(b"", array("Q"))):
        try:
            _read(HEADER | {PREFIX + name: value})
        except ModelError as error:
            assert error.code in {Code.MODEL_KEY_VALUE, Code.MODEL_KEY_MISSING}  # noqa: PT017
            assert max(map(len, (error.finding.message, error.finding.found or ""))) < 300  # noqa: PT017


LAYERS = (0, 0, 0, 1, 0, 1)


@pytest.mark.parametrize("kind", ["<u1", "<i8", "<f4", "<f8", "?"])
def test_the_layer_map_is_of_integers(kind: str) -> None:
    header = HEADER | {PREFIX + "attention.head_count_kv": Numbers(np.array(LAYERS, dtype=kind))}
    if kind in {"<u1", "<i8"}:
        assert _read(header).mla == tuple(map(bool, LAYERS))
        return
    with pytest.raises(ModelError, match="is no array of 6 zeros"):
        _read(header)


def test_a_rate_of_decay_above_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write_synthetic(preset("tiny"), path)
    with open_weights(path) as weights:
        assert weights.load("blk.0.ssm_a").max() < 0
        info, file = weights.tensors["blk.0.ssm_a"], weights.file
        where = path.read_bytes().find(file.view("blk.0.ssm_a").raw.tobytes())
        assert info.storage is F32
    with path.open("r+b") as out:
        out.seek(where)
        out.write(np.float32(5).tobytes())
    with open_weights(path) as weights, pytest.raises(ModelError, match="a rate of decay above 0") as caught:
        weights.load("blk.0.ssm_a")
    assert caught.value.code is Code.MODEL_WEIGHT_VALUE


def test_silently_optional_keys_are_optional_when_named() -> None:
    header = {key: value for key, value in HEADER.items() if key.removeprefix(PREFIX) not in OPTIONAL_KEYS}
    config = _read(header, allow_missing=OPTIONAL_KEYS)
    assert config == replace(_read(HEADER), gate_bound=None)


def test_other_keys_are_never_optional() -> None:
    with pytest.raises(ValueError, match="never optional: block_count"):
        _read(HEADER, allow_missing=frozenset({"block_count"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expert_gating_func", 1),
        ("attention.key_length", 577),
        ("attention.value_length", 33),
        ("attention.key_length_mla", 16),
        ("expert_used_count", 17),
        ("vocab_size", 511),
        ("kda.gate_lower_bound", 1.0),
        ("attention.layer_norm_rms_epsilon", float("nan")),
        ("attention.head_count_kv", (0, 1, 2, 0, 0, 1)),
        ("attention.head_count_kv", (0, 1)),
        ("leading_dense_block_count", 7),
    ],
)
def test_contradiction_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ModelError) as caught:
        _read(HEADER | {PREFIX + name: value})
    assert caught.value.code is Code.MODEL_KEY_VALUE
    assert caught.value.finding.position.field == PREFIX + name


def test_other_architecture_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        _read(HEADER | {"general.architecture": "kimi-linear"})
    assert caught.value.code is Code.MODEL_ARCHITECTURE


def test_k3_layer_map_has_24_mla_layers_the_last_two_among_them() -> None:
    mla = preset("deep").config().mla
    assert [layer for layer, is_mla in enumerate(mla) if is_mla] == [*range(3, 92, 4), 92]
    assert sum(mla) == 24


def test_epsilon_presets() -> None:
    assert Epsilons.preset("gguf", 1e-5) == Epsilons(1e-5, 1e-5, 1e-5)
    assert Epsilons.preset("hf", 1e-5) == Epsilons(1e-5, 1e-6, 1e-6)
    with pytest.raises(ValueError, match="no epsilon preset"):
        Epsilons.preset("mlx", 1e-5)


def _write(path: Path, *, drop: str | tuple[str, ...] = "", shape: str = "", half: str = "", extra: str = "") -> Path:
    tensors = []
    for role in expected_tensors(preset("tiny").config()):
        if role.name == drop or (isinstance(drop, tuple) and role.name in drop):
            continue
        size = (*role.shape[:-1], role.shape[-1] * 2) if role.name == shape else role.shape
        storage = F16 if role.name == half else F32
        tensors.append(_zeros(role.name, size, storage))
    if extra:
        tensors.append(_zeros(extra, (4,), F32))
    write_gguf(path, HEADER, tensors)
    return path


def _zeros(name: str, shape: tuple[int, ...], storage: Any) -> NewTensor:
    tensor = NewTensor(name, shape, storage, list)
    return replace(tensor, chunks=lambda: [bytes(tensor.size)])


NEEDED = [
    "output_norm.weight",
    "blk.0.ffn_gate.weight",
    "blk.0.ssm_a",
    "blk.1.exp_probs_b.bias",
    "blk.2.ssm_dt.bias",
    "blk.3.attn_kv_a_norm.weight",
    "blk.3.attn_k_b.weight",
    "blk.5.attn_res_score.weight",
    *(f"blk.3.{stem}.weight" for stem in sorted(OPTIONAL_TENSORS)),
]


@pytest.mark.parametrize("name", NEEDED)
def test_missing_tensor_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_weights(_write(tmp_path / "m.gguf", drop=name))
    assert caught.value.code is Code.MODEL_TENSOR_MISSING
    assert caught.value.finding.position.field == name


def test_silently_optional_tensor_is_optional_when_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.gguf", drop="blk.3.attn_gate.weight")
    with open_weights(path, allow_missing=frozenset({"attn_gate"})) as weights:
        assert "blk.3.attn_gate.weight" not in weights.tensors
    with pytest.raises(ValueError, match="never optional"):
        open_weights(path, allow_missing=frozenset({"output_norm"}))


SHARED = ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")


@pytest.mark.parametrize("there", range(8))
def test_a_shared_expert_is_there_or_not_and_never_in_part(tmp_path: Path, there: int) -> None:
    gone = [stem for at, stem in enumerate(SHARED) if not there >> at & 1]
    path = _write(tmp_path / "m.gguf", drop=tuple(f"blk.3.{stem}.weight" for stem in gone))
    if there in {0, 7}:
        open_weights(path, allow_missing=frozenset(SHARED)).close()
    else:
        with pytest.raises(ModelError, match="other parts of that shared expert are there") as caught:
            open_weights(path, allow_missing=frozenset(SHARED))
        assert (caught.value.code, caught.value.finding.position.field) == (
            Code.MODEL_TENSOR_MISSING, f"blk.3.{gone[0]}.weight",
        )  # fmt: skip


def test_tensor_of_another_shape_or_storage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"shape \[64, 128\]"):
        open_weights(_write(tmp_path / "m.gguf", shape="blk.2.attn_q.weight"))
    with pytest.raises(ModelError, match="stored as F16"):
        open_weights(_write(tmp_path / "m.gguf", half="blk.2.ffn_norm.weight"))


def test_tensor_without_a_role_is_refused_unless_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "m.gguf", extra="blk.2.surprise.weight")
    with pytest.raises(ModelError) as caught:
        open_weights(path)
    assert caught.value.code is Code.MODEL_TENSOR_UNKNOWN
    open_weights(path, allow_unknown=frozenset({"blk.2.surprise.weight"})).close()


def test_embedding_is_needed_to_say_anything(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        open_weights(_write(tmp_path / "m.gguf", drop="token_embd.weight"))
    assert caught.value.code is Code.MODEL_TENSOR_MISSING
