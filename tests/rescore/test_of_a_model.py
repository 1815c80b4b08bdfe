"""Whatever a figure of a model is called and whatever it counts, a receipt that bears nothing out supports none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.doubt import UNCLOCKED, is_of_a_model
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.slots import BESIDE, UNITS, Track, conditions
from tests.ledgers import RUNNER, Builder
from tests.rescore.receipts import receipt, series, verified
from tests.rescore.test_claims import speed
from tests.rescore.test_claims_state import of, why

NAMES = (
    "decode", "Decode", "decoding", "gen", "throughput", "tokens-per-second", "prefill", "prefilling", "speed",
    "verify", "append", "rescore", "group", "start-up", "load", "ping",
)  # fmt: skip
COUNTED = ("token", "Tokens", "tok", "step", "t", "word", "entry", "receipt", "start", "request")


def track(metric: str, unit: str, *, model: bool = True) -> Track:
    usual = conditions(metric, unit=unit, batch=1, processes=1, cache="none", inputs="fresh")
    names = ("k3-slice", "bf16") if model else ("-", "-")
    return Track(metric, 131_072, *names, "node", usual)


def body(metric: str, unit: str, **more: Any) -> dict[str, Any]:
    """A receipt that names a model, with its own word for a speed and nothing beside it."""
    samples = [(600, 10.0)] * 3
    timing = [{**series(metric, "subject", samples, context=131_072), "unit": unit, "inputs": "fresh"}]
    return receipt(parity=None, timing=timing, **more)


@pytest.mark.parametrize("unit", COUNTED)
@pytest.mark.parametrize("metric", NAMES)
def test_what_a_receipt_of_a_model_claims_alone_supports_nothing_whatever_it_is_called(metric: str, unit: str) -> None:
    builder = Builder().open()
    builder.add("run", body(metric, unit), RUNNER)
    beside = metric in BESIDE and UNITS[metric] == unit
    assert is_of_a_model(track(metric, unit)) is not beside
    if metric in BESIDE:
        return  # is no metric of the program, and leads no frontier
    material = gather(verified(builder))
    assert derive_climbs(material) == []
    (candidate,) = material.candidates
    assert candidate.voided == UNCLOCKED
    if metric == "Decode":
        return  # a misspelt metric, which no claim may name
    claim = speed("60.0").replace("decode@131072/k3-slice/bf16/node", str(candidate.run.track))
    found = of(builder, claim)
    assert found.status is Status.CONTRADICTED
    assert UNCLOCKED in why(found)


@pytest.mark.parametrize("metric", [name for name in UNITS if name not in BESIDE])
def test_the_figures_of_this_program_itself_are_of_no_model(metric: str) -> None:
    """The control."""
    assert not is_of_a_model(track(metric, UNITS[metric], model=False))
    builder = Builder().open()
    builder.add("run", body(metric, UNITS[metric], model=None), RUNNER)
    (climb,) = derive_climbs(gather(verified(builder)))
    assert climb.value == Fraction(60)


@pytest.mark.parametrize("metric", ["decode", "Prefill.fast"])
@pytest.mark.parametrize("unit", ["step", "token"])
def test_decoding_is_of_a_model_also_where_none_is_named(metric: str, unit: str) -> None:
    assert is_of_a_model(track(metric, unit, model=False))
    assert not is_of_a_model(track("steps", "step", model=False))
