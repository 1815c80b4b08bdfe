"""What a model is said to need is what a run of it takes, and what does not fit is refused before it is loaded."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import weakref
from typing import TYPE_CHECKING, Any, Final

import pytest
import torch

from k3_ledger.engine import linear, machine
from k3_ledger.engine.fit import BESIDE, check_accelerator, needs, states_served
from k3_ledger.engine.machine import Said
from k3_ledger.engine.model import Model
from k3_ledger.engine.runner import serve
from k3_ledger.engine.runner.flags import resolve_flags
from k3_ledger.engine.weights import open_weights
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from tests.commands import runner

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.state import State
    from k3_ledger.engine.weights import Weights

MIB: Final = 1 << 20
WIDE: Final = {"hidden": 256, "dense_width": 1 << 16, "layers": 2, "storage": "F32", "expert_storage": "F32"}
"""Three matrices of 64 MiB in float32 are nearly all of it."""
GREW: Final = f"""
import sys
from pathlib import Path
import torch
from k3_ledger.engine.linear import Numerics
from k3_ledger.engine.model import Model, Options
from k3_ledger.engine.weights import open_weights
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
def now():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * {os.sysconf("SC_PAGE_SIZE")}
torch.set_num_threads(1)
torch.ones(64, 64) @ torch.ones(64, 64)
weights = open_weights(Path(sys.argv[1]))
before = now()
with torch.inference_mode():
    model = Model(weights, Options(numerics=Numerics(getattr(torch, sys.argv[2]))))
    state = model.new_state(32)
    model.prefill(list(range(8)), state, 8)
    model.decode_n(1, 4, state)
print(peak() - before)
"""
"""Prints by how many bytes the peak of a process is above what it held before the model was loaded."""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_said_to_be_needed_is_what_a_run_takes(dtype: str, synthetic: Callable[..., Path]) -> None:
    """Counted as often as it is held: a float32 tensor once, of which twice was said before, and was refused for."""
    path = synthetic("tiny", **WIDE)
    with open_weights(path) as weights:
        total = needs(weights, context=32, dtype=dtype, chunk=8).total
    done = subprocess.run([sys.executable, "-c", GREW, str(path), dtype], capture_output=True, text=True, check=True)
    grew = int(done.stdout)
    # What torch and the allocator keep for themselves, and what is kept in blocks that are no longer needed.
    assert grew - 24 * MIB < total < grew + 40 * MIB


def test_a_float32_tensor_is_counted_once_and_any_other_is_made_from_one(weights: Callable[..., Weights]) -> None:
    wide = weights("tiny", **WIDE)
    largest = 4 * max(math.prod(info.shape) for info in wide.tensors.values())
    once = needs(wide, context=1, chunk=1)
    assert once.weights == 4 * sum(math.prod(info.shape) for info in wide.tensors.values())
    assert once.buffers < largest / 2
    assert largest < needs(wide, context=1, chunk=1, dtype="bfloat16").buffers < largest * 1.5


def flags(**given: str) -> dict[str, Any]:
    return dict(resolve_flags({"device": "cuda", **given}, {}).values)


def asked_of_an_accelerator(opened: Weights, values: dict[str, Any], context: int = 32) -> int:
    """Every part once, what libraries take, and each further sequence that the engine's process holds."""
    sizes = {name: values[name] for name in ("dtype", "packed")}
    need = needs(opened, context=context, chunk=min(context, values["chunk"]), **sizes)
    return need.total + BESIDE + (1 + values["graph"]) * (need.cache + need.state)


GIVEN: Final = pytest.mark.parametrize(
    "given", [{}, {"dtype": "bfloat16"}, {"packed": "1"}, {"chunk": "8"}, {"graph": "1"}]
)


class Loaded(Exception):  # noqa: N818 (not an error: it was let through)
    """The model is being loaded."""


@pytest.fixture
def no_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: object) -> None:
        raise Loaded

    monkeypatch.setattr(serve, "Model", load)
    monkeypatch.setattr("k3_ledger.engine.model.Model", load)


@pytest.mark.usefixtures("no_loading")
@GIVEN
def test_an_accelerator_without_room_is_refused_before_anything_is_loaded(
    given: dict[str, str], weights: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, values = weights("tiny"), flags(**given)
    total = asked_of_an_accelerator(opened, values)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (total - 1, 1 << 40))
    with pytest.raises(ModelError, match=f"needs {total} bytes, 1 more than the accelerator has free") as caught:
        serve.Server(opened, values, 32)
    assert caught.value.code is Code.MODEL_DOES_NOT_FIT
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (total, 1 << 40))
    with pytest.raises(Loaded):
        serve.Server(opened, values, 32)
    sizes, states = {name: values[name] for name in ("dtype", "packed", "chunk")}, states_served(graph=values["graph"])
    check_accelerator(opened, total, context=32, states=states, **sizes)


def test_the_engines_process_holds_as_many_states_as_it_asked_room_for(
    weights: Callable[..., Weights], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One was asked for: a cache of a million tokens was there three times on an H200."""
    seen, most, make = list[Any](), [0], Model.new_state

    def made(model: Model, capacity: int) -> State:
        state = make(model, capacity)
        seen.append(weakref.ref(state))
        most.append(sum(one() is not None for one in seen))
        return state

    monkeypatch.setattr(Model, "new_state", made)
    server = serve.Server(weights("tiny"), resolve_flags({}, {}).values)
    graded = {"op": "logits", "ids": [300, 301, 302], "count": 1, "out": str(tmp_path / "rows")}
    asked: list[dict[str, Any]] = [
        {"op": "reset", "capacity": 16},
        {"op": "prefill", "ids": [300, 301]},
        {"op": "decode", "token": 300, "count": 2},
        {"op": "reset", "capacity": 16},
        {**graded, "way": "prefill"},
        {**graded, "way": "decode"},
        {"op": "spread", "ids": [300, 301]},
    ]
    for request in asked:
        server.answer(request)
    assert max(most) == states_served(graph=False) == 2


SERVED: Final = """
import sys, torch
torch.cuda.mem_get_info = lambda _: (1000, 1 << 40)
from k3_ledger.engine.runner.serve import main
main()
"""
"""The engine process, on an accelerator that is nearly full."""


def test_the_engine_says_so_in_its_first_answer(synthetic: Callable[..., Path]) -> None:
    """The controller ends the run with these words; a process that ended would have left a traceback alone."""
    words = [sys.executable, "-c", SERVED, "--model", str(synthetic("tiny")), "--context", "32", "device=cuda"]
    asked = '{"op": "hello", "id": 7, "protocol": 1}\n'
    done = subprocess.run(words, input=asked, capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["id"] == 7
    assert "more than the accelerator has free" in answer["error"]


@pytest.mark.usefixtures("no_loading")
def test_generate_asks_the_accelerator_too(
    synthetic: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, asked = runner(monkeypatch, capsys), list[str]()

    def free(device: str) -> tuple[int, int]:
        asked.append(device)
        return 1000, 1 << 40

    monkeypatch.setattr(torch.cuda, "mem_get_info", free)
    monkeypatch.setattr(linear, "check_device", lambda _: None)
    done = run("generate", synthetic("tiny"), "a", "--device", "cuda:1")
    assert (done.out, asked) == ("", ["cuda:1"])
    assert "more than the accelerator has free" in done.err
    assert f"[{Code.MODEL_DOES_NOT_FIT.id}]" in done.err


@pytest.fixture
def run_on(
    synthetic: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Callable[..., tuple[Any, bool]]:
    """``run --flag device=cuda`` where NVIDIA's tool says so: what came of it, and whether anything was begun."""
    begun, invoke = list[object](), runner(monkeypatch, capsys)
    monkeypatch.chdir(tmp_path)

    def begin(*given: object) -> None:
        begun.append(given)
        raise ModelError(Code.MODEL_ARCHITECTURE, "begun")

    def on(said: Said | None, *words: str) -> tuple[Any, bool]:
        begun.clear()
        monkeypatch.setattr(machine, "ask_nvidia", lambda *_: said)
        model = ("--model", synthetic("tiny", **WIDE), "--context", "8", "--decode-tokens", "12", "--depth", "4")
        done = invoke("run", *model, "--out", "new", "--own-reference", "--flag", "device=cuda", *words)
        assert not (tmp_path / "new").exists()
        return done, bool(begun)

    monkeypatch.setattr("k3_ledger.engine.runner.run._Started", begin)
    return on


@GIVEN
def test_run_refuses_before_it_hashes_what_no_accelerator_has_room_for(
    given: dict[str, str], weights: Callable[..., Weights], run_on: Callable[..., tuple[Any, bool]]
) -> None:
    """Hashing half a terabyte takes minutes, and the engine's own refusal came only behind it."""
    values, words = flags(**given), [f"{name}={value}" for name, value in given.items()]
    need = asked_of_an_accelerator(weights("tiny", **WIDE), values)
    words, less = [part for word in words for part in ("--flag", word)], need >> 20
    done, begun = run_on(Said(f"{less}\n3\n".encode()), *words)
    assert (done.out, begun) == ("", False)
    assert f"needs {need} bytes, {need - (less << 20)} more than the accelerator has free" in " ".join(done.err.split())
    assert f"[{Code.MODEL_DOES_NOT_FIT.id}]" in done.err
    assert not run_on(Said(b"0\n"), *words)[1]
    for said in (f"3\n{less + 1}\n", f"{less + 1}"):  # whichever GPU it will be
        assert run_on(Said(said.encode()), *words)[1]


@pytest.mark.parametrize(
    "said",
    [None, Said(b"", "it hangs"), Said(b"[N/A]\n"), Said(b"1\n[N/A]\n"), Said(b"No devices were found\n"), Said(b"")],
)
def test_a_tool_that_does_not_say_leaves_it_to_the_engine(
    said: Said | None, run_on: Callable[..., tuple[Any, bool]]
) -> None:
    assert run_on(said)[1]
