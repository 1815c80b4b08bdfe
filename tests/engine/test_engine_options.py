"""Options of the engine's commands with values that are none: one error that names the option, exit code 2."""

from __future__ import annotations

import itertools
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from k3_ledger.cli import app
from k3_ledger.engine import digest, fit
from k3_ledger.engine.gguf import file as files
from k3_ledger.engine.gguf import open_model_file
from k3_ledger.engine.synth import preset, presets
from k3_ledger.engine.synth.write import synthetic_size
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.findings import Code
from tests.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.commands import Done

COMMANDS = {
    "model synth": "model synth there.gguf",
    "model inspect": "model inspect missing.gguf",
    "model check": "model check missing.gguf",
    "model parity": "model parity missing.gguf",
    "generate": "generate missing.gguf text",
    "run": "run --model missing.gguf --out new",
    "bundle from": "bundle from vllm missing.json --out new --node n --ran x --warmup 0",
}
"""Each would end at a file that is missing, or that is there, were its options right."""
NEVER = ("nan", "inf", "-inf", "-1", "", "x", "\u0663", "1_0", "0x10", "1" + 400 * "0", " 5")
WHOLE = ("1e-320", "1.5", "1e3", "1" + 30 * "0")
FITS = {
    ("model synth", "--seed", "0"),
    ("bundle from", "--warmup", "0"),
    *itertools.product(["model check"], ["--memory"], ["0", "1e-320", "1e3"]),
    *itertools.product(["model parity"], ["--bound"], ["0", "1e-320", "1e3", "1" + 30 * "0"]),
    *itertools.product(["generate"], ["--temperature"], ["0", "1e-320", "1e3", "1" + 30 * "0"]),
    *itertools.product(["run"], ["--longest"], ["0", "1e-320", "1e3"]),
    ("run", "--timeout", "1e3"),
}
"""Of the values below those that an option can have."""
BOGUS = {
    ("model synth", "--preset"): ("", "huge", "synth:", "../tiny"),
    ("model synth", "--quant"): ("", "Q4_K", "f32", "F32 "),
    ("model synth", "--expert-quant"): ("", "Q4_K", "IQ1_S"),
    ("model synth", "--experts"): ("3",),
    ("model synth", "--layers"): ("4097",),
    ("model synth", "--hidden"): ("16777217",),
    ("model synth", "--vocabulary"): ("259", "4194305"),
    ("model inspect", "--allow-missing"): ("", "foo", "block_count", "vocab_size,attn_gate"),
    ("model check", "--allow-missing"): ("foo",),
    ("model check", "--dtype"): ("", "float8", "FLOAT32"),
    ("generate", "--dtype"): ("", "int4"),
    ("generate", "--device"): ("", "bogus", "meta", "cuda:9999", "cuda:", "cuda:-1", "cuda:\u0661", "cpu:0"),
    ("run", "--node"): ("", " ", "\u00e9", "x" * 201),
    ("run", "--round"): ("",),
    ("run", "--role"): ("", "winner"),
    ("run", "--engine"): ("", "k4"),
    ("run", "--flag"): ("", "chunk", "chunk=" + "9" * 30, "chunk=0", "threads=1048577", "core=-1", "core=1048577"),
    ("run", "--collateral"): ("nothing.json", "."),
    ("run", "--out"): ("", ".", "there.gguf", "no/where"),
    ("bundle from", "--node"): ("",),
    ("bundle from", "--ran"): ("'",),
    ("bundle from", "--started"): ("", "yesterday"),
    ("bundle from", "--cache"): ("", "hot"),
    ("bundle from", "--inputs"): ("", "stale"),
    ("bundle from", "--role"): ("",),
}


PLAIN = (("--temperature", "nan", "such as 0.8"), ("--seed", "1.5", "whole"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Done]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.gguf").write_text("precious")
    return runner(monkeypatch, capsys)


def _numbers() -> Iterator[tuple[str, str, str]]:
    """Every number that an engine's command takes, from the commands themselves."""
    group: Any = typer.main.get_command(app)
    for name in COMMANDS:
        command = group
        for word in name.split():
            command = command.commands[word]
        for param in command.params:
            kind = param.type.name.removesuffix(" range")
            if kind in {"int", "float"}:
                yield name, next(option for option in param.opts if option.startswith("--")), kind


NUMBERS = sorted(_numbers())


def _refused(done: Done, option: str, value: str) -> None:
    assert (done.code, done.out) == (2, ""), (value, done.err)
    assert option in done.err, (value, done.err)
    assert "Traceback" not in done.err
    assert sum(line.lower().startswith(("error", "invalid")) for line in done.err.splitlines()) == 1, done.err


@pytest.mark.parametrize(("command", "option", "kind"), NUMBERS)
def test_a_number_that_is_none_is_one_error(run: Callable[..., Done], command: str, option: str, kind: str) -> None:
    values = (*NEVER, "0", *(WHOLE if kind == "int" else (*WHOLE[:1], *WHOLE[2:])))
    for value in values:
        done = run(*COMMANDS[command].split(), f"{option}={value}")
        if (command, option, value) in FITS:
            assert (option, f"'{option}'" in done.err) == (option, False), done.err
            assert "missing" in done.err or "there.gguf exists already" in done.err
        else:
            _refused(done, option, value)


def test_every_number_is_held_here() -> None:
    assert len(NUMBERS) >= 25
    assert {(command, option) for command, option, _ in FITS} <= {(command, option) for command, option, _ in NUMBERS}


@pytest.mark.parametrize(("command", "option"), BOGUS)
def test_a_word_that_is_none_is_one_error(run: Callable[..., Done], command: str, option: str, tmp_path: Path) -> None:
    words = [word.replace("there.gguf", "new.gguf") for word in COMMANDS[command].split()]
    for value in BOGUS[command, option]:
        given = [f"{option}={value}"]
        if (command, option) == ("run", "--out"):
            given = [f"--out={value}"]
        if (command, option, value) == ("model synth", "--expert-quant", "IQ1_S"):
            given += ["--preset=tiny"]
        _refused(run(*words, *given), "" if option == "--flag" else option, value)
    assert [path.name for path in tmp_path.iterdir()] == ["there.gguf"]
    assert (tmp_path / "there.gguf").read_text() == "precious"


def test_synth_writes_over_a_file_only_when_told(run: Callable[..., Done], tmp_path: Path) -> None:
    done = run("model", "synth", "there.gguf", "--layers", "2", "--no-measure")
    _refused(done, "OUT", "there.gguf")
    assert "--replace" in done.err
    assert (tmp_path / "there.gguf").read_text() == "precious"
    assert run("model", "synth", "there.gguf", "--layers", "2", "--no-measure", "--replace").code == 0
    assert (tmp_path / "there.gguf").read_bytes().startswith(b"GGUF")
    _refused(run("model", "synth", ".", "--layers", "2", "--replace"), "OUT", ".")


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "behind a link"])
def test_synth_replaces_regular_files_alone(run: Callable[..., Done], tmp_path: Path, *, linked: bool) -> None:
    """Never tried on a real device: what this writes over is gone."""
    there = tmp_path / "pipe"
    os.mkfifo(there)
    target = there
    if linked:
        target = tmp_path / "link"
        target.symlink_to(there)
    for asked in ((), ("--replace",)):
        _refused(run("model", "synth", target.name, "--layers", "2", "--no-measure", *asked), "OUT", target.name)
        assert there.is_fifo()
    assert target.is_symlink() == linked


def test_synth_writes_through_no_name_beside_the_file(run: Callable[..., Done], tmp_path: Path) -> None:
    """A link at the name of an unfinished file had another file written over; a pipe there was waited for."""
    (tmp_path / "new.gguf.partial").symlink_to(tmp_path / "there.gguf")
    (tmp_path / "other.gguf.partial").write_text("mine")
    for name in ("new.gguf", "other.gguf"):
        assert run("model", "synth", name, "--layers", "2", "--no-measure").code == 0
    assert (tmp_path / "there.gguf").read_text() == "precious"
    assert (tmp_path / "other.gguf.partial").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 5


def test_synth_names_the_option_that_does_not_go_with_the_others(run: Callable[..., Done]) -> None:
    for words, option, said in (
        ("--experts 3", "--experts", "3 experts are fewer than the 4 that a token takes"),
        ("--hidden 100 --quant Q8_0", "--quant", "hidden: rows of 100 values cannot be stored as Q8_0: blocks of 32"),
        ("--preset tiny-q8 --hidden 100", "--hidden", "hidden: rows of 100 values cannot be stored"),
        ("--expert-quant IQ1_S", "--expert-quant", "expert_width: rows of 32 values cannot be stored as IQ1_S"),
        ("--hidden 4194304 --layers 4096 --vocabulary 1048576", "OUT", "more than are free there"),
    ):
        done = run("model", "synth", "new.gguf", *words.split())
        _refused(done, option, words)
        assert said in " ".join(done.err.split())
        assert "kimi-k3." not in done.err
    assert run("model", "synth", "new.gguf", "--preset", "tiny-q8", "--hidden", "96", "--quant", "F32").code == 0


def test_what_is_longer_than_the_file_announces_starts_no_engine(
    run: Callable[..., Done], synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    model = synthetic("tiny", layers=2, context=100)
    engine = ("--engine", "command", "--", "touch", str(tmp_path / "started"))
    at = ("run", "--model", model, "--out", "new", "--depth", "4")
    # Decode takes 16 tokens and 16 more at least, and llama.cpp needs room for the one that it answers.
    for words in (("--context", "999999999"), ("--context", "68"), ("--depth", "100"), ("--decode-tokens", "18")):
        done = run(*at, *words, *engine)
        assert (done.code, done.out) == (1, ""), done.err
        assert f"[{Code.MODEL_DOES_NOT_FIT.id}]" in done.err
        assert "at most 99" in done.err
        assert not (tmp_path / "started").exists()
        assert not (tmp_path / "new").exists()
    done = run(*at, "--context", "67", *engine)
    assert (done.code, (tmp_path / "started").exists(), (tmp_path / "new").exists()) == (1, True, True)
    for words in (
        ("model", "parity", model, "--own", "--depth", "101"),
        ("model", "check", model, "--context", "101"),
        ("generate", model, "text", "--tokens", "99999999999"),
    ):
        done = run(*words)
        assert (done.code, done.out) == (1, "")
        assert f"[{Code.MODEL_DOES_NOT_FIT.id}]" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("generate", "{model}", "text", "--tokens", "4"),
        ("model", "parity", "{model}", "--own", "--depth", "4"),
        ("run", "--model", "{model}", "--out", "new", "--own-reference", "--depth", "4"),
        ("run", "--model", "synth:tiny", "--out", "new", "--own-reference", "--depth", "4"),
        ("generate", "synth:tiny", "text", "--tokens", "4"),
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_what_the_machine_has_no_memory_for_is_refused_before_it_is_loaded(
    run: Callable[..., Done], synthetic: Callable[..., Path], tmp_path: Path, words: tuple[str, ...], monkeypatch: Any
) -> None:
    """In the words of `model check`; one byte more and it is loaded."""
    model = synthetic("tiny")
    loaded: list[str] = []

    def load(*_: object, **__: object) -> Any:
        loaded.append("model")
        raise typer.Exit(7)

    for place in (
        "k3_ledger.engine.model.Model",
        "k3_ledger.engine.grading.Model",
        "k3_ledger.engine.runner.run._Started",
    ):
        monkeypatch.setattr(place, load)
    asked: list[int] = []
    needed = fit.needs

    def counts(*given: Any, **how: Any) -> Any:
        asked.append(needed(*given, **how).total)
        return needed(*given, **how)

    monkeypatch.setattr(fit, "needs", counts)
    monkeypatch.setattr(fit, "host_memory", lambda: 0)
    at = [word.format(model=model) for word in words]
    done = run(*at)
    (total,) = asked
    assert (done.code, done.out, loaded) == (1, "", [])
    said = " ".join(done.err.split())
    assert f"the model needs {total} bytes, {total} more than there are [{Code.MODEL_DOES_NOT_FIT.id}]" in said
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(fit, "host_memory", lambda: total - 1)
    assert (run(*at).code, loaded) == (1, [])
    monkeypatch.setattr(fit, "host_memory", lambda: total)
    run(*at)
    assert loaded == ["model"]


@pytest.mark.parametrize(
    "words", [("generate", "synth:tiny", "text"), ("run", "--model", "synth:tiny", "--out", "new")]
)
def test_a_preset_that_the_disk_has_no_room_for_is_not_begun(
    run: Callable[..., Done], tmp_path: Path, words: tuple[str, ...], monkeypatch: Any
) -> None:
    total = synthetic_size(preset("tiny"))
    begun: list[object] = []
    monkeypatch.setattr(presets, "write_synthetic", lambda *given: begun.append(given))
    monkeypatch.setattr(presets.shutil, "disk_usage", lambda _: SimpleNamespace(free=total - 1))
    done = run(*words)
    assert (done.code, done.out, begun) == (2, "", [])
    assert f"synth:tiny would take {total} bytes, more than are free" in " ".join(done.err.split())
    assert not (tmp_path / "new").exists()
    monkeypatch.setattr(presets.shutil, "disk_usage", lambda _: SimpleNamespace(free=total))
    run(*words)
    assert len(begun) == 1


def test_a_chunk_is_no_wider_than_what_there_is_to_take(synthetic: Callable[..., Path], monkeypatch: Any) -> None:
    with open_weights(synthetic("tiny")) as weights:
        total = fit.needs(weights, context=8, chunk=8).total
        monkeypatch.setattr(fit, "host_memory", lambda: total)
        fit.check_host(weights, context=8, chunk=1 << 16)


def test_another_engine_is_asked_nothing(
    run: Callable[..., Done], synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    """What they load, and where, is theirs."""
    monkeypatch.setattr(fit, "host_memory", lambda: 0)
    engine = ("--engine", "command", "--", "touch", str(tmp_path / "started"))
    run("run", "--model", synthetic("tiny"), "--out", "new", "--depth", "4", "--own-reference", *engine)
    assert (tmp_path / "started").exists()


def test_next_to_no_temperature_is_greedy(run: Callable[..., Done], synthetic: Callable[..., Path]) -> None:
    words = ("generate", synthetic("tiny"), "The ledger", "--tokens", "4")
    cold = run(*words, "--temperature", "1e-320", "--seed", "1")
    assert (cold.code, cold.out) == (0, run(*words).out)


def test_depths_are_taken_in_any_order_and_once(run: Callable[..., Done], synthetic: Callable[..., Path]) -> None:
    done = run("model", "parity", synthetic("tiny"), "--own", "--depth", "4", "--depth", "2", "--depth", "4")
    assert [depth["depth"] for depth in done.json["depths"]] == [2, 4]


def test_a_program_that_is_not_there_is_said_with_what_to_do(
    run: Callable[..., Done], synthetic: Callable[..., Path]
) -> None:
    done = run("run", "--model", synthetic("tiny"), "--out", "new", "--engine", "command", "--", "/nonexistent/prog")
    assert done.code == 1
    assert "hint: give a program that is there and may be executed" in done.err


def test_a_model_whose_name_no_receipt_can_say_is_asked_for_another(
    run: Callable[..., Done], synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "a model.gguf").write_bytes(synthetic("tiny").read_bytes())
    _refused(run("run", "--model", "a model.gguf", "--out", "new"), "--model", "a model.gguf")


READERS: dict[str, tuple[int, tuple[str, ...]]] = {
    "check": (3, ("model", "check", "m.gguf")),
    "inspect": (3, ("model", "inspect", "m.gguf", "--digest")),
    "parity": (3, ("model", "parity", "m.gguf", "--own", "--depth", "2")),
    "generate": (3, ("generate", "m.gguf", "text", "--tokens", "1")),
    "packed": (3, ("generate", "m.gguf", "text", "--tokens", "1", "--packed")),
    "run": (1, ("run", "--model", "m.gguf", "--out", "b", "--engine", "command", "--", "false")),
}


@pytest.mark.parametrize("command", READERS)
def test_a_model_file_that_becomes_shorter_ends_every_command_in_words(
    command: str, run: Callable[..., Done], synthetic: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cut where its first tensor, or its first block, has been read. SIGBUS said nothing, with exit code 135."""
    code, words = READERS[command]
    path = Path("m.gguf").absolute()
    path.write_bytes(synthetic("tiny").read_bytes())
    real, leaf, reads = files.os.preadv, digest._leaf, iter(range(10**9))

    def cut(*given: Any) -> int:
        count = real(*given)
        if next(reads) == 1:
            os.truncate(path, 50_000)
        return count

    def cut_block(block: bytes) -> bytes:
        os.truncate(path, 50_000)
        return leaf(block)

    monkeypatch.setattr(files.os, "preadv", cut)
    if command in {"inspect", "run"}:
        monkeypatch.setattr(digest, "_leaf", cut_block)
    done = run(*words)
    assert done.code == code, done.err
    assert "m.gguf" in done.err
    assert "became shorter while it was read" in done.err or "changed its length while it was read" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("words", [(), ("--temperature", "1", "--seed", "1"), ("--fast",)])
def test_a_model_whose_logits_overflow_generates_an_error_in_words(
    words: tuple[str, ...], dtype: str, run: Callable[..., Done], synthetic: Callable[..., Path]
) -> None:
    """Every weight is finite, so the file is whole; the control is the same file as it was written."""
    whole = synthetic("tiny")
    with open_model_file(whole) as file:
        view = file.view("output.weight")
        begin = view.shard.header.data_offset + view.info.offset
    data = bytearray(whole.read_bytes())
    data[begin : begin + view.info.size] = struct.pack("<f", 3e38) * (view.info.size // 4)
    Path("m.gguf").write_bytes(data)
    assert run("model", "check", "m.gguf").code == 0
    done = run("generate", "m.gguf", "The ledger", "--tokens", "4", "--dtype", dtype, *words)
    assert done.code == 1, done.err
    assert done.err.count("error:") == 1
    assert f"[{Code.MODEL_LOGIT_VALUE.id}]" in done.err
    assert run("generate", whole, "The ledger", "--tokens", "4", "--dtype", dtype, *words).code == 0


@pytest.mark.parametrize(("option", "value", "said"), PLAIN)
def test_what_is_no_number_is_told_how_one_is_spelled(
    option: str, value: str, said: str, run: Callable[..., Done]
) -> None:
    done = run("generate", "missing.gguf", "text", option, value)
    assert done.code == 2
    assert said in done.err
