"""What a witness of a bound that bounds nothing comes to: a tier under the rule that has the fault, none without it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.tiers import grade
from k3_ledger.rescore.rules.verdict import Verdict
from tests.rescore.mutants import CLEAN, FRONTIER, changed, roomy
from tests.rescore.runs import clock, native, parity

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import RunInputs
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
Given = dict[str, Fraction]


def timed(
    claim: Fraction,
    frontier: Fraction | int,
    seen: Fraction | int | None = None,
    *,
    jitter: Fraction | int = 0,
    **more: Any,
) -> RunInputs:
    """A run whose clock saw that speed, or what is claimed, beside so much jitter of what it took."""
    took = 2048 / F(seen or claim)
    reading = clock(2048, str(took), str(jitter * took))
    return native(str(claim), frontier=str(frontier), reference=None, clock=reading, **more)


def graded(kl: Fraction, frontier: Fraction | None = None) -> RunInputs:
    beside = parity(str(kl if frontier is None else frontier), rows=32)
    return native(parity=parity(str(kl), rows=32), frontier_parity=beside)


def unbounded(given: Given) -> RunInputs:
    return timed(given["claim"], given["frontier"], given.get("clock"))


EARNS: list[tuple[Fault, Rule, Any]] = [
    (Fault.ROUNDING_IS_CREDITED, changed(precision={"speed": 0}), lambda v: timed(v["speed"], v["frontier"])),
    (Fault.CEILING_LAX, changed(ceiling={"multiple": F(1000)}), lambda v: timed(v["claim"], v["best"])),
    (Fault.NO_CEILING, changed(ceiling=None), unbounded),
    (Fault.NO_GUARD, changed(guard=None), lambda v: timed(v["claim"], v["frontier"], guarded=v["guarded"])),
    (
        Fault.GUARD_ADMITS_TRADE,
        changed(guard={"least": F("0.9")}),
        lambda v: timed(
            v["claim"],
            v["frontier"],
            guarded=v["guarded"],
            guard_pin=Figure(v["pin"], "pin"),
            guarded_clock=clock(2048, str(2048 / v["guarded_clock"]), "0"),
        ),
    ),
    (Fault.KL_BAR_LAX, changed(correctness={"kl": F("0.2")}, ratchet={"floor": F("0.002")}), lambda v: graded(v["kl"])),
    (
        Fault.TOP1_BAR_LAX,
        changed(correctness={"top1": F("0.9")}),
        lambda v: native(parity=parity(top1=str(v["top1"]), rows=32)),
    ),
    (
        Fault.SUITE_SHALLOW,
        changed(correctness={"depths": (4, 128)}),
        lambda _: native(parity=parity(depths=(4, 128), rows=32)),
    ),
    (Fault.RATCHET_LAX, changed(ratchet={"block": F(11)}), lambda v: graded(v["kl"], v["frontier_kl"])),
    (
        Fault.MARGIN_DROWNS,
        changed(clock=roomy("4")),
        lambda v: timed(v["claim"], v["frontier"], v["clock"], jitter=v["jitter_seconds"] / v["signal_seconds"]),
    ),
    (Fault.CONTEXT_NOT_FILLED, changed(sampling={"filled": False}), lambda _: native(filled=False)),
    (
        Fault.SELF_GRADED,
        changed(sampling={"independent": False}),
        lambda _: native(parity=replace(parity("0", rows=32), independent=False)),
    ),
]
REFUSES: list[tuple[Fault, Rule]] = [
    (Fault.CEILING_BELOW_TIER, changed(ceiling={"multiple": F("1.15")})),
    (Fault.NOTHING_EARNS, changed(ceiling={"metrics": ("prefill",)})),
]


def tier(rule: Rule, inputs: RunInputs) -> str:
    result = apply_arithmetic(rule, inputs)
    assert isinstance(result, Verdict), result
    return result.tier


def witness(rule: Rule, fault: Fault) -> Given:
    (found,) = [found for found in lint(rule).findings if found.fault is fault]
    assert found.witness
    assert found.shows
    return {name: F(text) for name, text in found.witness if text[0].isdigit()}


@pytest.mark.parametrize(("fault", "rule", "inputs"), EARNS, ids=[str(row[0]) for row in EARNS])
def test_what_should_earn_nothing_earns_a_tier(fault: Fault, rule: Rule, inputs: Any) -> None:
    made = inputs(witness(rule, fault))
    assert tier(rule, made) not in {"none", "REJECT", "BASELINE"}
    if fault is not Fault.GUARD_ADMITS_TRADE:
        assert tier(CLEAN, made) in {"none", "REJECT"}
        return
    assert tier(CLEAN, made) == "REJECT"


@pytest.mark.parametrize(("fault", "rule"), REFUSES, ids=[str(row[0]) for row in REFUSES])
def test_what_should_earn_a_tier_earns_none(fault: Fault, rule: Rule) -> None:
    made = unbounded(witness(rule, fault))
    assert tier(rule, made) in {"none", "REJECT"}
    assert tier(CLEAN, made) == "XL"


@pytest.mark.parametrize("side", ["claim_over_clock", "clock_over_claim"])
def test_less_than_half_of_the_work_passes_a_wide_clock(side: str) -> None:
    rule = changed(clock={side: F(3)})
    given = witness(rule, Fault.CLOCK_LAX)
    made = timed(100 * given["claim"], 1000, 100 * given["clock"])
    said = []
    for each in (rule, CLEAN):
        result = apply_arithmetic(each, made)
        assert isinstance(result, Verdict)
        said.append(next(gate.outcome.value for gate in result.gates if gate.name == "clock"))
    assert said[0] != said[1]


@given(
    st.integers(min_value=0, max_value=5),
    st.fractions(min_value=0, max_value=F(9, 10), max_denominator=1000),
    st.fractions(min_value=F(1, 10**6), max_value=60, max_denominator=10**6),
    st.fractions(min_value=0, max_value=1, max_denominator=50),
)
def test_a_speed_that_earns_by_rounding_was_reported(
    places: int, least: Fraction, frontier: Fraction, below: Fraction
) -> None:
    """A run no faster than the frontier earns nothing, or the lint has said that it may."""
    steps = tuple((name, bar) for name, bar in CLEAN.tiers.steps if bar > least)
    rule = replace(
        changed(precision={"speed": places}, tiers={"significance": least, "steps": steps}, guard=None),
        pins=((FRONTIER[0], frontier),),
    )
    reported = [found for found in lint(rule).findings if found.fault is Fault.ROUNDING_IS_CREDITED]
    # The greatest speed that is no faster, and one somewhere below.
    for speed in (frontier, frontier * below):
        scored = quantize(speed, places)
        result = grade(rule.tiers, rule.credit, "decode", speed=scored, frontier=frontier, reference=None)
        assert result is not None
        assert reported or result.tier == "none"
    assert bool(reported) == (not least or frontier < F(1, 10**places) / (2 * least))


@pytest.mark.parametrize(
    ("tiers", "fault"),
    [
        ({"significance": Fraction(-1)}, Fault.LOSS_IS_CREDITED),
        ({"steps": (("XL", Fraction(-1)),)}, Fault.CEILING_EXPIRES),
    ],
)
def test_a_bar_that_everything_passes_is_no_bar_to_divide_by(tiers: dict[str, Any], fault: Fault) -> None:
    """What such a bar leaves of a ceiling is a quotient by zero."""
    rule = find_rule("v0.2.1")
    assert fault in {finding.fault for finding in lint(replace(rule, tiers=replace(rule.tiers, **tiers))).findings}


@given(
    st.fractions(min_value=F(51, 100), max_value=F(11, 10), max_denominator=1000),
    st.fractions(min_value=F(-1, 50), max_value=F(1, 50), max_denominator=1000),
    st.fractions(min_value=F(9, 10), max_value=F(11, 10), max_denominator=1000) | st.just(F("1.01")),
)
def test_a_guard_that_gives_more_than_a_tier_asks_for_was_reported(
    least: Fraction, beside: Fraction, past: Fraction
) -> None:
    """The guarded metric is as fast as its clock says, whatever it claims: what it lost is held against the gain."""
    significance = max(1 - least + beside, F(0))
    rule = changed(
        guard={"least": least}, tiers={"significance": significance, "steps": ()}, ceiling={"multiple": F(9)}
    )
    claimed = 100 * least
    seen = claimed / past
    made = timed(
        100 * (1 + significance) + 1, 100, guarded=claimed, guard_pin=Figure(F(100), "pin"),
        guarded_clock=clock(2048, str(2048 / seen), "0"),
    )  # fmt: skip
    result = apply_arithmetic(rule, made)
    assert isinstance(result, Verdict)
    lost = 1 - seen / 100
    if result.tier == rule.tiers.floor and lost > significance:
        assert Fault.GUARD_ADMITS_TRADE in lint(rule).faults
    # Never without cause: the most that may be lost is lost where the claim is 1.01 times its clock.
    if Fault.GUARD_ADMITS_TRADE in lint(rule).faults:
        assert 1 - least / F("1.01") > significance
