"""Before anything is timed the reference has to show that its answers tell work from none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from k3_ledger.engine.gguf import open_model_file
from k3_ledger.engine.gguf.writer import NewTensor, write_gguf
from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.parity.sources import ReferenceSource
from k3_ledger.engine.reference import Reference
from k3_ledger.engine.runner import session
from k3_ledger.engine.runner.bounds import COARSE, LEAST
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.run import Request, run
from k3_ledger.engine.runner.telling import LEAST_TOLD, LONGEST, PROMPTS, Told, tell
from k3_ledger.schemas.errors import ParityError, RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import FailedMeasurement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.weights import Weights

VOCABULARY = 64


class Made:
    """A model that is a function of its ids."""

    independent = True
    name, version = "made", "1"

    def __init__(self, of: Callable[[Sequence[int]], object]) -> None:
        self._of = of
        self.asked: list[tuple[int, ...]] = []

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        assert (count, path) == (1, "prefill")
        self.asked.append(tuple(ids))
        return Rows(ids_digest([ids]), "raw", np.array([self._of(ids)], dtype=np.float64))


def drawn(*seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(0, 3, VOCABULARY)


MODELS: dict[str, tuple[Callable[[Sequence[int]], object], set[str]]] = {
    "of everything": (lambda ids: drawn(*ids), set()),
    "of everything, coarsely": (lambda ids: drawn(ids[-1]) + 0.4 * drawn(*ids), set()),
    "of its last token": (lambda ids: drawn(ids[-1]), {"the last token alone", "another middle"}),
    "of its last token, and rounding": (
        lambda ids: drawn(ids[-1]) + 1e-3 * drawn(*ids),
        {"the last token alone", "another middle"},
    ),
    "of its ends": (lambda ids: drawn(ids[0], ids[-1]), {"another middle"}),
    "of its first token": (lambda ids: drawn(ids[0]), {"another middle"}),
    "of nothing": (lambda _: drawn(1), {"the last token alone", "another middle", "behind another prompt"}),
    "zeros": (
        lambda _: np.zeros(VOCABULARY),
        {"the last token alone", "another middle", "behind another prompt", "zeros"},
    ),
}


@pytest.mark.parametrize("length", [3, 5, LONGEST])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_told_from_whatever_does_less_than_it(name: str, length: int) -> None:
    of, alike = MODELS[name]
    findings = list(tell(Made(of), range(VOCABULARY), length, 3).findings(0.02))
    assert {finding.code for finding in findings} <= {Code.RUN_DEGENERATE}
    assert len(findings) == len(alike)
    assert all(any(words in finding.message for finding in findings) for words in alike)


def test_a_few_prompts_are_enough_and_fewer_are_not() -> None:
    for told in (LEAST_TOLD - 1, LEAST_TOLD):
        off = (1.0,) * told + (0.0,) * (PROMPTS - told)
        assert bool(list(Told({"nothing": off}).findings(0.02))) == (told < LEAST_TOLD)
    assert list(Told({"nothing": (0.5,) * PROMPTS}).findings(0.5)), "as far as may be missed is no further"


def test_prompts_are_drawn_anew_and_those_of_a_seed_again() -> None:
    asked = []
    for seed in (5, 6, 7, 7):
        made = Made(lambda ids: drawn(*ids))
        tell(made, range(VOCABULARY), 5, seed)
        asked.append(made.asked)
    assert asked[0] != asked[1]
    assert asked[2] == asked[3]
    assert {len(ids) for ids in asked[0]} == {1, 5}


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(ParityError) as refused:
        tell(Made(lambda _: np.full(VOCABULARY, np.nan)), range(VOCABULARY), 3, 1)
    assert refused.value.code is Code.PARITY_NOT_FINITE


PRESETS = ("tiny", "tiny-q8", "tiny-mxfp4", "tiny-iq1", "tiny-bf16", "parity26")


def holds(reference: LogitSource, weights: Weights, seeds: int) -> None:
    """By the widest that any output may miss, so by less too."""
    for seed in range(seeds):
        for length in (3, LONGEST):
            assert list(tell(reference, weights.tokenizer().ordinary(), length, seed).findings(COARSE)) == []


@pytest.mark.parametrize("name", PRESETS)
def test_synthetic_models_are_told_from_no_work(
    name: str, llama: Callable[..., LogitSource], weights: Callable[..., Weights]
) -> None:
    holds(llama(name), weights(name), 3)


@pytest.mark.parametrize("name", ["tiny", "tiny-mxfp4", "tiny-bf16"])
def test_the_specification_tells_as_well(name: str, weights: Callable[..., Weights]) -> None:
    holds(ReferenceSource(Reference(weights(name))), weights(name), 1)


ADDS = ("attn_output.weight", "ffn_down.weight", "ffn_routed_up.weight", "ffn_down_shexp.weight")
"""What every layer adds comes out of one of these."""


def without_layers(model: Path, changed: Path) -> None:
    """The same model, with layers that add nothing to what they take."""
    with open_model_file(model) as file:
        tensors = []
        for info in file.tensors.values():
            data = bytes(info.size) if info.name.endswith(ADDS) else file.view(info.name).raw.tobytes()
            tensors.append(NewTensor(info.name, info.shape, info.storage, [data].__iter__))
        write_gguf(changed, file.values, tensors)


@pytest.mark.parametrize("own", [False, True])
def test_a_file_whose_layers_add_nothing_is_refused_before_an_engine_is_started(
    own: bool, synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    if not own:
        pytest.importorskip("xllamacpp")
    model, plan = tmp_path / "model.gguf", Plan(context=8, decode_tokens=4, repetitions=3, most_repetitions=3)
    without_layers(synthetic("tiny"), model)
    outcome = run(
        Request(model, "m", tmp_path / "b", "here", engine=("/nowhere",), plan=plan, depths=(4,), own_reference=own)
    )
    assert isinstance(outcome.measurement, FailedMeasurement)
    assert outcome.measurement.stage == "telling"
    assert [finding.code for finding in outcome.findings] == [Code.RUN_DEGENERATE]
    assert "what the last token alone gives" in outcome.measurement.reason
    (kept,) = [one for one in outcome.measurement.artifacts if one.name == "telling.json"]
    off = json.loads((tmp_path / "b" / "blobs" / kept.sha256).read_text())
    assert {len(those) for those in off.values()} == {PROMPTS}
    assert max(off["the last token alone"]) < LEAST


@pytest.mark.parametrize("given", [None, 7])
def test_the_seed_of_telling_is_the_runs(given: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is recorded as the run's seed asks the same prompts again."""
    seeds = []

    def told(*asked: object) -> Told:
        seeds.append(asked[-1])
        return Told({})

    monkeypatch.setattr(session, "tell", told)
    task = session.Task(vocabulary=4, usable=[1], reference=lambda _: None, plan=Plan(seed=given))  # type: ignore[arg-type,return-value]
    for _ in range(2):
        made = session.Session(task)
        with pytest.raises(RunError):
            made.measure(["/nowhere"], tmp_path)
        assert made.task.plan.seed == seeds[-1]
    assert (seeds == [given, given]) == (given is not None)
    assert None not in seeds
    assert len(set(seeds)) == (2 if given is None else 1)
