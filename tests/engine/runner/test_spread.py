"""A router that sends nearly all tokens to one expert is warned of, and honest ones are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from k3_ledger.engine.gguf import open_model_file
from k3_ledger.engine.gguf.writer import NewTensor, write_gguf
from k3_ledger.engine.machine import Said
from k3_ledger.engine.runner import run as runner
from k3_ledger.engine.runner import session
from k3_ledger.engine.runner.channel import Reply
from k3_ledger.engine.runner.checks import check_spread
from k3_ledger.engine.runner.measure import Plan
from k3_ledger.engine.runner.observations import Observations
from k3_ledger.engine.runner.run import Request
from k3_ledger.engine.spread import measure_spread
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.models import ExpertLoad
from k3_ledger.schemas.outcomes import Severity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.weights import Weights


@pytest.mark.parametrize(
    ("load", "top_k", "warned"),
    [
        ((16, 16, 204, 512), 4, False),
        ((16, 4, 473, 512), 4, False),
        ((16, 4, 474, 512), 4, True),
        ((896, 896, 461, 512), 16, False),
        ((896, 896, 462, 512), 16, True),
        ((8, 8, 505, 512), 7, False),
        ((8, 7, 512, 512), 7, True),
        ((896, 16, 512, 512), 16, True),
        ((4, 4, 512, 512), 4, False),
        ((16, 4, 512, 512), None, False),
        ((16, 4, 64, 64), 4, True),
        ((16, 4, 63, 63), 4, False),
        (None, 4, False),
    ],
)
def test_a_router_that_sends_nearly_all_tokens_to_one_expert_is_warned_of(
    load: tuple[int, int, int, int] | None, top_k: int | None, warned: bool
) -> None:
    """Where there are others to choose from, and enough tokens to tell."""
    names = ("experts", "distinct", "max_load", "tokens")
    counted = None if load is None else ExpertLoad(**dict(zip(names, load, strict=True)))
    found = list(check_spread(counted, top_k))
    assert [(one.code, one.severity) for one in found] == [(Code.RUN_ONE_EXPERT, Severity.WARNING)] * warned


@pytest.mark.parametrize(("top_k", "experts"), [(16, 896), (4, 16), (7, 8), (9, 10), (15, 16), (58, 64)])
def test_routers_that_spread_evenly_are_not_warned_of(top_k: int, experts: int) -> None:
    """However large a part of the experts each token takes: the busiest of 20 layers."""
    generator, tokens = np.random.default_rng(1), 512
    most = 0
    for _ in range(20):
        taken = generator.random((tokens, experts)).argsort(axis=1)[:, :top_k]
        most = max(most, int(np.bincount(taken.ravel()).max()))
    assert list(check_spread(ExpertLoad(experts=experts, distinct=experts, max_load=most, tokens=tokens), top_k)) == []


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, True),
        ({"tokens": 63, "max_load": 63}, False),
        ({"tokens": 64 * 2}, False),
        ({"max_load": 65}, False),
        ({"experts": 17}, False),
        ({"distinct": 17}, False),
    ],
)
@pytest.mark.parametrize("experts", [16, None])
def test_a_count_of_other_tokens_or_experts_than_there_are_is_not_kept(
    changed: dict[str, int], kept: bool, experts: int | None
) -> None:
    """A count of fewer tokens would say too little to warn of."""
    if experts is None and "experts" in changed:
        kept = True
    load = {"experts": 16, "distinct": 16, "max_load": 20, "tokens": 64} | changed

    class Counts:
        def ask(self, _: str, *, ids: list[int]) -> Reply:
            assert len(ids) == 64
            return Reply({"load": load}, 0, 0)

    plan = Plan(context=8, decode_tokens=4, room=64)
    task = session.Task(vocabulary=4, usable=[1, 2, 3], reference=NotImplemented, plan=plan, experts=experts)
    made = session.Session(task, found=Observations(seed=1))
    made._note_spread(Counts())  # type: ignore[arg-type]
    assert (made.load is not None) == kept


@pytest.mark.parametrize("name", ["tiny", "tiny-q8", "tiny-mxfp4", "tiny-iq1", "tiny-bf16", "parity26"])
def test_synthetic_models_spread(name: str, weights: Callable[..., Weights]) -> None:
    opened = weights(name)
    assert list(check_spread(measure_spread(opened), opened.config.top_k)) == []


def test_a_file_whose_routers_choose_nothing_has_the_warning_in_its_bundle(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "check_observations", lambda *_: ())  # whatever a busy machine does to times
    monkeypatch.setattr(runner, "ask_nvidia", lambda *_: Said(b"", "it gave no answer in time"))
    model = tmp_path / "model.gguf"
    plan = Plan(context=8, decode_tokens=4, repetitions=3, most_repetitions=3, shortest_ns=1, most_extra=8, longest_s=0)
    with open_model_file(synthetic("tiny")) as file:
        tensors = []
        for info in file.tensors.values():
            router = info.name.endswith("ffn_gate_inp.weight")
            data = bytes(info.size) if router else file.view(info.name).raw.tobytes()
            tensors.append(NewTensor(info.name, info.shape, info.storage, [data].__iter__))
        write_gguf(model, file.values, tensors)
    outcome = runner.run(Request(model, "m", tmp_path / "b", "here", plan=plan, depths=(4,), own_reference=True))
    assert {Code.RUN_ONE_EXPERT, Code.RUN_MACHINE_UNKNOWN} <= {finding.code for finding in outcome.findings}
    (kept,) = [one for one in outcome.measurement.artifacts if one.name == "findings.json"]
    listed = json.loads((tmp_path / "b" / "blobs" / kept.sha256).read_text())
    assert [one["code"] for one in listed] == [finding.code.id for finding in outcome.findings]
