"""What is timed and what is graded is one code: the same calls, and the same bits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from k3_ledger.engine.model import Model
from k3_ledger.engine.parity.sources import ModelSource
from k3_ledger.engine.runner.flags import resolve_flags
from k3_ledger.engine.runner.serve import Server
from k3_ledger.schemas.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.weights import Weights

PROMPT = [(at * 7919 + 11) % 400 for at in range(75)]
CAPACITY = 200
WAYS = pytest.mark.parametrize("way", ["prefill", "decode"])
PATHS = pytest.mark.parametrize(("deterministic", "chunk"), [("1", "64"), ("0", "64"), ("0", "7"), ("0", "1")])


@pytest.fixture
def served(weights: Callable[..., Weights], deterministic: str, chunk: str) -> Server:
    server = Server(weights("tiny"), resolve_flags({"deterministic": deterministic, "chunk": chunk}, {}).values)
    server.answer({"op": "reset", "capacity": CAPACITY})
    return server


def rows(server: Server, ids: list[int], count: int, way: str, folder: Path) -> torch.Tensor:
    answer = server.answer({"op": "logits", "ids": ids, "count": count, "way": way, "out": str(folder / "rows")})
    assert answer == {"rows": count, "vocabulary": 512, "processing": "raw"}
    return torch.from_numpy(np.fromfile(folder / "rows", dtype="<f4").reshape(count, 512))


def chosen(row: torch.Tensor) -> tuple[int, float]:
    best = int(row.argmax())
    return best, float(row[best] - row.logsumexp(dim=-1))


@pytest.mark.parametrize(("core", "kept"), [("any", []), ("3", [(0, {3})])])
def test_an_engine_keeps_to_the_core_it_is_told(
    core: str, kept: list[tuple[int, set[int]]], weights: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, set[int]]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: asked.append((process, cores)))
    Server(weights("tiny"), resolve_flags({"core": core}, {}).values)
    assert asked == kept


def test_hello_says_what_the_protocol_says_and_no_more(weights: Callable[..., Weights]) -> None:
    hello = Server(weights("tiny"), resolve_flags({}, {}).values).answer({"op": "hello", "protocol": 1})
    assert hello == {"protocol": 1, "name": "k3-ledger/engine", "version": __version__, "vocabulary": 512}


@PATHS
def test_a_graded_row_of_prefill_has_the_bits_of_the_timed_one(served: Server, tmp_path: Path) -> None:
    for length in (75, 74, 64):
        served.answer({"op": "reset", "capacity": CAPACITY})
        timed = served.answer({"op": "prefill", "ids": PROMPT[:length]})
        graded = rows(served, PROMPT[:length], 2, "prefill", tmp_path)[1]
        assert (timed["next"], timed["logprob"]) == chosen(graded)


@PATHS
def test_graded_rows_of_decode_have_the_bits_of_the_timed_ones(served: Server, tmp_path: Path) -> None:
    served.answer({"op": "prefill", "ids": PROMPT})
    timed = served.answer({"op": "decode", "token": 5, "count": 9})
    graded = rows(served, [*PROMPT, 5, *timed["ids"][:-1]], 9, "decode", tmp_path)
    assert list(zip(timed["ids"], timed["logprobs"], strict=True)) == [chosen(row) for row in graded]


@pytest.mark.parametrize(("deterministic", "chunk"), [("0", "16")])
@WAYS
def test_the_model_is_asked_the_same_when_it_is_timed_and_when_it_is_graded(
    served: Server, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunk, room and function: a path that only grading takes, or a chunk of its own, shows here."""
    asked: list[Any] = []

    def noting(name: str) -> Callable[..., Any]:
        function = getattr(Model, name)

        def note(model: Model, first: Any, *given: Any) -> Any:
            asked.append((name, first, *(one.capacity if hasattr(one, "capacity") else one for one in given[:2])))
            return function(model, first, *given)

        return note

    for name in ("prefill", "prefill_rows"):
        monkeypatch.setattr(Model, name, noting(name))
    decode_n = Model.decode_n

    def note_decode(model: Model, token: int, count: int, state: Any, sampler: Any) -> list[int]:
        asked.append(("decode_n", token, count, state.capacity))
        return decode_n(model, token, count, state, sampler)

    monkeypatch.setattr(Model, "decode_n", note_decode)
    served.answer({"op": "prefill", "ids": PROMPT})
    ids = PROMPT
    if way == "decode":
        chosen_ids = served.answer({"op": "decode", "token": 5, "count": 3})["ids"]
        ids = [*PROMPT, 5, *chosen_ids[:-1]]
    timed, asked[:] = list(asked), []
    rows(served, ids, 3 if way == "decode" else 1, way, tmp_path)
    assert asked == timed


@pytest.mark.parametrize(("deterministic", "chunk"), [("0", "16")])
@WAYS
def test_the_command_that_grades_a_file_takes_the_same_rows(served: Server, way: Any, tmp_path: Path) -> None:
    served.answer({"op": "reset", "capacity": 75})
    source = ModelSource(served._model, 16)
    assert np.array_equal(rows(served, PROMPT, 4, way, tmp_path).double().numpy(), source.rows(PROMPT, 4, way).values)


@PATHS
def test_an_engine_of_ours_says_nothing_of_a_row_that_is_not_finite(
    served: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Model, "_head", lambda _, hidden: torch.full((len(hidden), 512), torch.nan))
    for request in ({"op": "prefill", "ids": [1]}, {"op": "decode", "token": 1, "count": 2}):
        with pytest.raises(ValueError, match="not finite"):
            served.answer(request)


@pytest.mark.parametrize(("deterministic", "chunk"), [("1", "64")])
def test_what_is_out_of_order_or_unknown_is_said(served: Server, weights: Callable[..., Weights]) -> None:
    with pytest.raises(ValueError, match="unknown operation"):
        served.answer({"op": "cheat"})
    fresh = Server(weights("tiny"), resolve_flags({}, {}).values)
    with pytest.raises(ValueError, match="reset comes first"):
        fresh.answer({"op": "prefill", "ids": [1]})
