"""llama.cpp in a process of its own: whatever it does there, the one who grades gets rows or an error with a name."""

from __future__ import annotations

import os
import resource
import sys
import textwrap
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from k3_ledger.cli import model as commands
from k3_ledger.cli import run as run_commands
from k3_ledger.engine import grading
from k3_ledger.engine.grading import grade_file
from k3_ledger.engine.parity.apart import LlamaCppApart
from k3_ledger.engine.runner.outputs import Keeping
from k3_ledger.engine.synth import SynthSpec, preset, write_synthetic
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.errors import ParityError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import FailedMeasurement
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.schemas.validate import parse_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST = """
import json, os, signal, sys
out = sys.stdout.buffer
size = 8 * json.loads(sys.argv[1])["vocabulary"]
def say(data):
    out.write(data)
    out.flush()
def hello():
    say(b'{"version": "fake 1", "address": ""}\\n')
"""
FLOOD = "for _ in range(300): print('#0 a frame of a debugger', file=sys.stderr, flush=True)"
ABORT = f"print('x.cpp:1: GGML_ASSERT(buffer) failed', file=sys.stderr, flush=True)\n{FLOOD}\nos.abort()"
DIES_LOADING: dict[str, tuple[str, str, str | None]] = {
    "aborts": (ABORT, "ended with SIGABRT while it loaded the model", "x.cpp:1: GGML_ASSERT(buffer) failed"),
    "exits": ("sys.exit('no memory')", "ended with status 1 while it loaded the model", "no memory"),
    "ends kindly": ("pass", "ended with status 0 while it loaded the model", None),
    "hangs": ("signal.pause()", "gave no answer within 1 seconds", None),
    "prints": ("say(b'loading\\x1b[2J\\n')", "said something that is no answer", r"loading\x1b[2J"),
    "says a list": ("say(b'[1]\\n')", "said something that is no answer", "[1]"),
    "says deep": ("say(b'[' * 60000 + b'\\n')", "said something that is no answer", "[" * 300),
    "says no version": ("say(b'{}\\n')", "did not say what it is", None),
    "never ends a line": ("say(b'x' * 70000)", "gave an answer that never ends", None),
    "refuses": ("""say(b'{"error": "Out: of\\\\u001b memory"}\\n')""", "refused", r"Out: of\x1b memory"),
}
DIES_LATER: dict[str, tuple[str, str]] = {
    "aborts": ("sys.stdin.buffer.readline()\n" + ABORT, "ended with SIGABRT while it computed a row behind 3 tokens"),
    "closes its ears": ("os.close(0)\nos.abort()", "while it computed a row behind 3 tokens"),
    "leaves its pipe": (
        "os.close(0)\nos.close(1)\nsignal.pause()",
        "ended and left its pipe while it computed a row behind 3 tokens",
    ),
    "aborts in the row": (
        """sys.stdin.buffer.readline(); say(b'{"bytes": %d}\\n' % size + bytes(8)); os.abort()""",
        "ended with SIGABRT while it computed a row behind 3 tokens",
    ),
    "gives a shorter row": (
        """sys.stdin.buffer.readline(); say(b'{"bytes": 8}\\n' + bytes(8)); signal.pause()""",
        "gave an answer that is no row of this model while it computed a row behind 3 tokens",
    ),
    "says a code that is none": (
        """sys.stdin.buffer.readline(); say(b'{"error": "e", "code": "NONE"}\\n'); signal.pause()""",
        "refused while it computed a row behind 3 tokens",
    ),
}


@pytest.fixture
def start(synthetic: Callable[..., Path]) -> Callable[..., LlamaCppApart]:
    """``start(text)`` is a reference whose process runs that text."""
    opened = open_weights(synthetic("tiny"))

    def started(text: str, **how: Any) -> LlamaCppApart:
        return LlamaCppApart(
            synthetic("tiny"), opened.tokenizer(), 512, context=8, command=fake(text), **{"timeout_s": 60, **how}
        )

    return started


def fake(text: str) -> list[str]:
    return [sys.executable, "-c", FIRST + textwrap.dedent(text)]


@pytest.mark.parametrize("name", DIES_LOADING)
def test_a_reference_that_does_not_load_is_one_error(start: Callable[..., LlamaCppApart], name: str) -> None:
    text, message, found = DIES_LOADING[name]
    with pytest.raises(ParityError) as caught:
        start(text, timeout_s=1 if name == "hangs" else 60)
    assert caught.value.code is Code.PARITY_REFERENCE_FAILED
    assert message in caught.value.finding.message
    assert caught.value.finding.found == found


def test_a_reference_writes_no_dump_of_its_memory_and_no_file_without_end(start: Callable[..., LlamaCppApart]) -> None:
    reference = start("hello()\nsignal.pause()")
    for limit, most in ((resource.RLIMIT_FSIZE, 64 << 20), (resource.RLIMIT_CORE, 0)):
        assert resource.prlimit(reference._process.pid, limit) == (most, most)


@pytest.mark.parametrize("name", DIES_LATER)
def test_a_reference_that_dies_later_is_one_error(start: Callable[..., LlamaCppApart], name: str) -> None:
    text, message = DIES_LATER[name]
    reference = start("hello()\n" + text)
    with pytest.raises(ParityError) as caught:
        reference.row([1, 2, 3])
    assert caught.value.code is Code.PARITY_REFERENCE_FAILED
    assert message in caught.value.finding.message
    assert reference._process.poll() is not None


def test_a_reference_that_hangs_on_a_row_is_ended(start: Callable[..., LlamaCppApart]) -> None:
    reference = start("hello()\nsignal.pause()")
    reference.timeout_s = 0.01
    with pytest.raises(ParityError, match=r"gave no answer within 0.01 seconds while it computed a row behind 1 tok"):
        reference.row([1])
    assert reference._process.returncode == -9


def test_a_request_that_nobody_reads_is_waited_for_no_longer(start: Callable[..., LlamaCppApart]) -> None:
    reference = start("hello()\nsignal.pause()")
    reference.timeout_s = 0.01
    with pytest.raises(ParityError, match="gave no answer"):
        reference.row(range(100_000))


ROWS = """
hello()
import array
for line in sys.stdin.buffer:
    say(b'{"bytes": %d}\\n' % size + array.array("d", [len(json.loads(line)["ids"])] * (size // 8)).tobytes())
"""


def test_one_process_gives_every_row(start: Callable[..., LlamaCppApart]) -> None:
    reference = start(ROWS)
    rows = reference.rows([7, 8, 9, 10], 3, "prefill")
    assert rows.values.tolist() == [[2.0] * 512, [3.0] * 512, [4.0] * 512]
    assert (reference.name, reference.version, reference.independent) == ("llama.cpp", "fake 1", True)
    assert reference._process.poll() is None
    process, fresh = reference._process, reference.afresh()
    del reference
    assert fresh.row([1]).tolist() == [1.0] * 512
    del fresh
    assert process.returncode == -9


TOPS: dict[str, tuple[str, bool]] = {
    "as asked": ("[5, 7, -0.5, -2]", True),
    "a token twice": ("[5, 5, -0.5, -2]", False),
    "a token that does not exist": ("[5, 512, -0.5, -2]", False),
    "no token": ("[5, 6.5, -0.5, -2]", False),
    "no number": ("[5, 7, -0.5, float('nan')]", False),
    "infinite": ("[5, 7, -0.5, float('-inf')]", False),
    "fewer": ("[5, -0.5]", False),
}


@pytest.mark.parametrize("name", TOPS)
def test_a_top_is_of_so_many_tokens_that_exist(start: Callable[..., LlamaCppApart], name: str) -> None:
    values, taken = TOPS[name]
    text = f"""
    hello()
    import array
    assert json.loads(sys.stdin.buffer.readline())["top"] == 2
    say(b'{{"bytes": %d}}\\n' % (8 * len({values})) + array.array("d", {values}).tobytes())
    signal.pause()
    """
    if taken:
        assert start(text).top([1, 2], 2) == {5: -0.5, 7: -2.0}
    else:
        with pytest.raises(ParityError, match="gave an answer that is no row of this model"):
            start(text).top([1, 2], 2)


def test_what_the_process_raised_is_raised_here(start: Callable[..., LlamaCppApart]) -> None:
    text = """
    hello()
    sys.stdin.buffer.readline()
    say(b'{"error": "no row", "code": "PARITY_TRUNCATED"}\\n')
    signal.pause()
    """
    with pytest.raises(ParityError, match=r"^no row$") as caught:
        start(text).row([1])
    assert caught.value.code is Code.PARITY_TRUNCATED


def test_the_process_inherits_next_to_nothing(
    start: Callable[..., LlamaCppApart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_TEMP", "0.5")
    text = """say(json.dumps({"version": ",".join(sorted(os.environ)), "address": ""}).encode() + b"\\n")"""
    names = set(start(text).version.split(","))
    assert "GGML_NO_BACKTRACE" in names
    assert "LLAMA_ARG_TEMP" not in names
    assert names <= {
        *("GGML_NO_BACKTRACE", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "HOME", "TMPDIR", "LC_CTYPE"),
    }


MADE_UP = """
import math, os, types
def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return types.SimpleNamespace(LLAMA_FLASH_ATTN_TYPE_DISABLED=0, GGML_TYPE_F32=0)
class CommonParams:
    def __init__(self):
        self.model = types.SimpleNamespace()
        self.cpuparams, self.cpuparams_batch = types.SimpleNamespace(), types.SimpleNamespace()
class Server:
    listening_address = "nowhere"
    def __init__(self, params):
        os.write(1, b'{"version": "a lie", "address": ""}\\n')
    def handle_completions(self, request):
        os.write(1, b"chatter\\n")
        if len(request["prompt"]) == 3:
            return {"error": "no slot"}
        if len(request["prompt"]) == 4:
            raise OSError("a fault of its own")
        first = -1.0 if request["cache_prompt"] else -6.238324625039508
        rest = math.log((1 - math.exp(first)) / 511)
        top = [{"id": i, "logprob": rest if i else first} for i in range(512)]
        usage = {"prompt_tokens": len(request["prompt"])}
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}], "usage": usage}
"""


def test_what_llama_cpp_prints_is_no_answer(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xllamacpp.py").write_text(MADE_UP)
    (tmp_path / "xllamacpp-7.dist-info").mkdir()
    (tmp_path / "xllamacpp-7.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: xllamacpp\nVersion: 7\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(os.path.isdir, sys.path)]))
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = open_weights(synthetic("tiny"))
    reference = LlamaCppApart(synthetic("tiny"), opened.tokenizer(), 512, context=8)
    assert (reference.version, reference.address) == ("xllamacpp 7", "nowhere")
    assert isinstance(reference, Keeping)
    assert [one.row([1, 2])[0] for one in (reference, reference.afresh(), reference)] == [-1, -6.238324625039508, -1]
    with pytest.raises(ParityError, match="no slot") as caught:
        reference.row([1, 2, 3])
    assert caught.value.code is Code.PARITY_REFERENCE_FAILED
    with pytest.raises(ParityError, match="refused while") as caught:
        reference.row([1, 2, 3, 4])
    assert caught.value.finding.found == "OSError: a fault of its own"


def test_without_llama_cpp_the_extra_is_named(synthetic: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        grade_file(synthetic("tiny"), depths=(2,), rows=1, chunk=4)
    assert caught.value.name == "xllamacpp"


class OnlyKda(SynthSpec):
    """Without an MLA layer, which every model that `model synth` writes has."""

    layer_map = property(lambda self: (0,) * self.layers)


@pytest.mark.parametrize("kind", [SynthSpec, OnlyKda])
def test_a_model_of_one_kind_of_layers_is_one_error_of_model_parity(kind: type[SynthSpec], tmp_path: Path) -> None:
    """llama.cpp keeps a cache of each kind, and asserts that neither is empty."""
    pytest.importorskip("xllamacpp")
    write_synthetic(kind(**asdict(preset("tiny", layers=2, mla_period=1))), tmp_path / "m.gguf")
    with open_weights(tmp_path / "m.gguf") as weights:
        assert weights.config.mla == (kind is SynthSpec,) * 2
    app = typer.Typer(rich_markup_mode=None)
    commands.register(app)
    result = CliRunner().invoke(app, ["model", "parity", str(tmp_path / "m.gguf"), "--depth", "2"])
    assert isinstance(result.exception, ParityError)
    assert result.exception.code is Code.PARITY_REFERENCE_FAILED
    assert result.exception.exit_code is ExitCode.NOT_CHECKED
    assert "GGML_ASSERT" in str(result.exception.finding.found)
    assert result.output == ""


def test_a_run_whose_reference_dies_leaves_a_failed_bundle(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = partial(LlamaCppApart, command=fake("hello()\nsys.stdin.buffer.readline()\n" + ABORT))
    monkeypatch.setattr(grading, "LlamaCppApart", dying)
    app = typer.Typer(rich_markup_mode=None)
    run_commands.register(app)
    words = ["--repetitions", "3", "--longest", "0", "--context", "4", "--decode-tokens", "2", "--depth", "2"]
    result = CliRunner().invoke(app, ["run", "--model", str(synthetic("tiny")), "--out", str(tmp_path / "b"), *words])
    assert result.exit_code == 1, result.output
    bundle = parse_bundle((tmp_path / "b" / "bundle.json").read_bytes())
    assert isinstance(bundle.body, FailedMeasurement)
    assert (bundle.kind, bundle.body.stage) == ("failed", "telling")
    assert "K3L-PARITY-REFERENCE-FAILED: the reference llama.cpp ended with SIGABRT" in bundle.body.reason
    assert "GGML_ASSERT(buffer) failed" in result.output
    assert "a frame of a debugger" not in result.output


def test_rows_of_the_process_are_those_of_the_library(
    llama: Callable[..., Any], synthetic: Callable[..., Path]
) -> None:
    from k3_ledger.engine.parity.llamacpp import LlamaCpp

    opened = open_weights(synthetic("tiny"))
    forced = opened.tokenizer().encode("A")[0]
    library = LlamaCpp(synthetic("tiny"), forced, 512, context=16, threads=1)
    assert np.array_equal(llama("tiny").row([300, 301, 302]), library.row([300, 301, 302]))
