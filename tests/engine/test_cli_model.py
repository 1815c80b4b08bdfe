"""The commands around model files: what they print, and the exit codes of what they refuse."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from k3_ledger.cli import generate, model
from k3_ledger.engine.fit import needs
from k3_ledger.engine.model import Model
from k3_ledger.engine.tokenizer import Tokenizer
from k3_ledger.schemas.errors import ModelError, ParityError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.weights import Weights


@pytest.fixture(scope="module")
def run() -> Callable[..., Any]:
    app = typer.Typer(rich_markup_mode=None)
    model.register(app)
    generate.register(app)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_synth_writes_measures_and_repeats(run: Callable[..., Any], tmp_path: Path) -> None:
    answers = []
    for name in ("a.gguf", "b.gguf"):
        result = run("model", "synth", tmp_path / name, "--preset", "tiny", "--layers", 3, "--seed", 4, "--json")
        assert result.exit_code == 0, result.output
        answers.append(json.loads(result.stdout))
    assert answers[0]["sha256"] == answers[1]["sha256"]
    assert answers[0]["expert_load"]["distinct"] == 16
    assert answers[0]["expert_load"]["tokens"] == 512


def test_synth_takes_sizes_and_storage(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run(
        *("model", "synth", tmp_path / "m.gguf", "--experts", 24, "--hidden", 96, "--vocabulary", 300),
        *("--quant", "Q8_0", "--expert-quant", "MXFP4", "--no-measure"),
    )
    assert result.exit_code == 0, result.output
    described = json.loads(run("model", "inspect", tmp_path / "m.gguf", "--json", "--digest").stdout)
    assert described["quant"] == "MXFP4+Q8_0"
    assert described["sizes"]["experts"] == 24
    assert described["sizes"]["hidden"] == 96
    assert len(described["sha256"]) == 64


def test_synth_refuses_what_cannot_be_stored(run: Callable[..., Any], tmp_path: Path) -> None:
    for words in (["--quant", "Q4_K"], ["--preset", "huge"], ["--quant", "Q8_0", "--hidden", "100"]):
        result = run("model", "synth", tmp_path / "m.gguf", *words)
        assert result.exit_code == 2, words
    assert list(tmp_path.iterdir()) == []


def test_inspect_describes_the_layer_map(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    described = json.loads(run("model", "inspect", synthetic("tiny"), "--json").stdout)
    assert described["layer_map"] == "KKKMKM"
    assert (described["kda_layers"], described["mla_layers"], described["banks"]) == (4, 2, 3)
    assert described["synthetic"] is True
    assert described["active_parameters"] < described["parameters"]
    assert "layer_map" in run("model", "inspect", synthetic("tiny")).stdout


def test_check_says_what_is_needed_and_refuses_what_does_not_fit(
    run: Callable[..., Any], synthetic: Callable[..., Path]
) -> None:
    result = run("model", "check", synthetic("tiny"), "--context", 1000, "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["outcome"] == "fits"
    parts = answer["needs_bytes"]
    assert parts["total"] == sum(size for part, size in parts.items() if part != "total")
    assert parts["cache"] == 2 * 1000 * 48 * 4
    small = run("model", "check", synthetic("tiny"), "--memory", 0.001)
    assert isinstance(small.exception, ModelError)
    assert small.exception.code is Code.MODEL_DOES_NOT_FIT
    long = run("model", "check", synthetic("tiny"), "--context", 200_000)
    assert isinstance(long.exception, ModelError)
    assert long.exception.code is Code.MODEL_DOES_NOT_FIT
    assert run("model", "check", synthetic("tiny"), "--dtype", "float8").exit_code == 2


def test_check_finds_a_weight_that_is_no_number(
    run: Callable[..., Any], synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    data = bytearray(synthetic("tiny").read_bytes())
    data[-4:] = b"\x00\x00\xc0\x7f"
    (tmp_path / "nan.gguf").write_bytes(data)
    result = run("model", "check", tmp_path / "nan.gguf")
    assert isinstance(result.exception, ModelError)
    assert result.exception.code is Code.MODEL_WEIGHT_VALUE
    assert run("model", "check", tmp_path / "nan.gguf", "--no-weights").exit_code == 0


def test_packed_experts_and_narrow_types_need_less(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny-mxfp4")
    wide = needs(opened, context=100)
    assert needs(opened, context=100, dtype="bfloat16").weights < wide.weights
    assert needs(opened, context=100, packed=True).weights < wide.weights
    assert needs(opened, context=200).cache == 2 * wide.cache


def test_k3s_own_sizes_give_its_published_counts() -> None:
    """2,779.5 B parameters in 2,573 tensors, and 553 GiB in the 1.6-bit file."""
    from dataclasses import replace

    from k3_ledger.engine.synth.presets import PRESETS
    from k3_ledger.engine.synth.write import synthetic_size
    from k3_ledger.engine.tensors import expected_tensors

    whole = replace(PRESETS["real-two-banks"], layers=93)
    roles = list(expected_tensors(whole.config()))
    assert len(roles) == 2573
    assert sum(math.prod(role.shape) for role in roles) / 1e9 == pytest.approx(2779.5, abs=0.1)
    assert synthetic_size(whole) / 2**30 == pytest.approx(553, abs=0.5)


def test_parity_prints_a_record_and_holds_a_bound(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    result = run("model", "parity", synthetic("tiny"), "--own", "--depth", 2, "--depth", 5, "--bound", "2e-3")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["reference"]["independent"] is False
    assert [depth["depth"] for depth in record["depths"]] == [2, 5]
    assert "K3L-PARITY-SELF-GRADED" in result.stderr
    tight = run("model", "parity", synthetic("tiny"), "--own", "--depth", 2, "--bound", "1e-12")
    assert isinstance(tight.exception, ParityError)


def test_parity_without_a_bound_says_that_it_judges_nothing(
    run: Callable[..., Any], synthetic: Callable[..., Path]
) -> None:
    """Exit code 0 alone would pass for a verdict."""
    words = ("model", "parity", synthetic("tiny"), "--own", "--depth", 2)
    open_ended = run(*words)
    assert open_ended.exit_code == 0, open_ended.output
    (said,) = [line for line in open_ended.stderr.splitlines() if line.startswith("not judged: no --bound was given")]
    worst = json.loads(open_ended.stdout)["depths"][0]
    assert f"{float(worst['max_abs_logprob_difference']):.3g} nats" in said
    assert f"KL {float(worst['kl_max']):.3g} nats at depth 2" in said
    assert "not judged" not in run(*words, "--bound", "2e-3").stderr
    assert "not judged" not in run(*words, "--bound", "1e-12").stderr


def test_generate_streams_the_same_text_again(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    greedy = [run("generate", synthetic("tiny"), "The ledger", "--tokens", 8).stdout for _ in range(2)]
    assert greedy[0] == greedy[1]
    assert greedy[0].strip()
    drawn = [
        run("generate", synthetic("tiny"), "The ledger", "--tokens", 8, "--temperature", 1, "--seed", seed)
        for seed in (1, 1, 2)
    ]
    assert drawn[0].stdout == drawn[1].stdout
    assert drawn[0].stdout != drawn[2].stdout
    assert drawn[0].stderr == "seed 1\n"


def test_a_seed_of_a_text_that_is_not_drawn_is_refused(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    refused = run("generate", synthetic("tiny"), "The ledger", "--seed", 4)
    assert refused.exit_code == 2
    assert "--seed" in refused.stderr
    assert "--temperature above 0" in refused.stderr


def test_generate_knows_synthetic_models_by_name(run: Callable[..., Any]) -> None:
    assert run("generate", "synth:tiny", "a", "--tokens", 2).exit_code == 0
    assert run("generate", "synth:huge", "a").exit_code == 2
    assert run("generate", "synth:tiny", "a", "--dtype", "int4").exit_code == 2


def test_generate_takes_an_empty_prompt(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    assert run("generate", synthetic("tiny"), "", "--tokens", 2, "--fast").exit_code == 0


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_split(
    run: Callable[..., Any], synthetic: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tokenizer, "encode", None)
    result = run("generate", synthetic("tiny", context=64), "the" * 50_000)
    assert isinstance(result.exception, ModelError)
    assert result.exception.code is Code.MODEL_DOES_NOT_FIT


@pytest.mark.parametrize("where", ["loading", "walking"])
@pytest.mark.parametrize(
    "said",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes."),
    ],
    ids=["accelerator", "host"],
)
def test_memory_that_runs_out_is_called_that(
    run: Callable[..., Any],
    synthetic: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    said: RuntimeError,
    where: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise said

    monkeypatch.setattr(Model, "__init__" if where == "loading" else "prefill", fail)
    failed = run("generate", synthetic("tiny"), "The ledger", "--tokens", 2)
    assert isinstance(failed.exception, MemoryError), failed.exception  # which `main` has words and exit code 3 for


def test_another_fault_of_torch_stays_one(
    run: Callable[..., Any], synthetic: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shapes cannot be multiplied")

    monkeypatch.setattr(Model, "prefill", fail)
    assert isinstance(run("generate", synthetic("tiny"), "a", "--tokens", 2).exception, RuntimeError)


def test_check_names_no_type_that_nothing_runs_in(run: Callable[..., Any], synthetic: Callable[..., Path]) -> None:
    assert run("model", "check", synthetic("tiny"), "--dtype", "bfloat16").exit_code == 0
    assert run("model", "check", synthetic("tiny"), "--dtype", "float16").exit_code == 2
