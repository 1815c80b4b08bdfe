"""A rule that leaves its pins out is no better for it: what the lint finds with them it finds without them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.lint.findings import Fault, Reach, Settings
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.parameters import Ceiling, Credit
from k3_ledger.rescore.rules.registry import RULES, find_rule
from tests.rescore.mutants import CLEAN, FRONTIER, REFERENCE, changed, fixed_clock, only
from tests.rescore.runs import clock, native
from tests.rescore.test_lint_mutants import MUTANTS
from tests.rescore.test_lint_silence import clock_rules, credit_rules, shares, speeds
from tests.rescore.test_lint_witness import tier, timed

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
OF_THE_PIN = {Fault.GUARD_PIN_FIXED}
"""What is wrong with a number that is written down; where none is, the guard is inert instead."""


def loose(rule: Rule, kept: tuple[int, ...] = ()) -> Rule:
    return replace(rule, pins=tuple(rule.pins[i] for i in kept))


def check_nothing_is_silenced(rule: Rule, kept: tuple[int, ...]) -> None:
    before, after = lint(rule).faults, lint(loose(rule, kept)).faults
    assert before - OF_THE_PIN <= after
    if before & OF_THE_PIN:
        assert after & {*OF_THE_PIN, Fault.GUARD_INERT}


ALL: dict[str, Rule] = {**RULES, **{name: rule for name, rule, _ in MUTANTS}}
PINNED = {name: rule for name, rule in ALL.items() if rule.pins}


@pytest.mark.parametrize("name", PINNED)
def test_leaving_pins_out_silences_nothing(name: str) -> None:
    rule = PINNED[name]
    everything = range(len(rule.pins))
    for kept in [(), *((i,) for i in everything), *(tuple(set(everything) - {i}) for i in everything)]:
        check_nothing_is_silenced(rule, kept)


@given(credit_rules() | clock_rules(), st.sampled_from([(), (0,), (1,)]))
def test_leaving_pins_out_of_any_rule_silences_nothing(rule: Rule, kept: tuple[int, ...]) -> None:
    check_nothing_is_silenced(rule, kept)


STILL = Ceiling(F(3), ("decode",), "own-reference")


@pytest.mark.parametrize("basis", ["own-reference", "scored-reference"])
@pytest.mark.parametrize("pins", [(), (FRONTIER,)])
def test_a_ceiling_that_stands_still_is_told_in_multiples_of_a_reference_that_nobody_pinned(
    basis: str, pins: tuple[tuple[str, Fraction], ...]
) -> None:
    rule = changed(ceiling={"multiple": F(3), "basis": basis}, pins=pins)
    found = only(rule, Fault.CEILING_EXPIRES)
    assert (found.reach, str(found.region)) == (Reach.REACHABLE, "frontier >= 2.941177 x the reference")
    assert "XL is out of reach from 2.54x" in found.message
    # A frontier in tok/s is on neither side of it, whether it is pinned or given.
    told = lint(rule, Settings(measured={"decode@131072": F(1000)}))
    assert [each.reach for each in told.findings if each.fault is Fault.CEILING_EXPIRES] == [Reach.REACHABLE]


@pytest.mark.parametrize("pins", [(), (FRONTIER,), (REFERENCE,), (FRONTIER, REFERENCE)])
def test_a_ceiling_that_rises_is_none_of_that_whatever_is_pinned(pins: tuple[tuple[str, Fraction], ...]) -> None:
    assert lint(replace(CLEAN, pins=pins)).faults == set()


def test_at_the_frontier_that_is_named_nothing_significant_is_admitted() -> None:
    rule = changed(ceiling=STILL)
    given = {name: F(text) for name, text in only(rule, Fault.CEILING_EXPIRES).witness}
    reference = Figure(given["reference"], "receipt")
    highest, past = given["ceiling"], given["ceiling"] + F(1, 10**6)
    tiers = [
        tier(rule, replace(timed(speed, frontier), reference=reference))
        for speed, frontier in ((highest, given["frontier"]), (past, given["frontier"]), (highest, F("2.9")))
    ]
    assert tiers == ["none", "REJECT", "XS"]


@given(
    clock_rules().filter(lambda rule: rule.ceiling is not None and rule.ceiling.basis != "own-best"),
    speeds,
    speeds,
)
def test_a_ceiling_that_leaves_no_gain_beside_any_reference_was_reported(
    rule: Rule, reference: Fraction, frontier: Fraction
) -> None:
    assert rule.ceiling is not None
    possible = frontier * (1 + rule.tiers.significance) < rule.ceiling.multiple * reference
    found = only(loose(rule), Fault.CEILING_EXPIRES)
    assert possible == (not found.region.covers(frontier / reference))


def test_a_guarded_metric_and_a_ceiling_that_nobody_pinned_are_told_where_either_is_unknown() -> None:
    ceiling = Ceiling(F(3), ("prefill",), "own-reference")
    here, top = ("frontier:prefill@32768/m/q/n", F(98)), ("reference:prefill@32768/m/q/n", F(33))
    for pins, region in (
        ((), "guarded >= 3.000001 x the reference"),
        ((here,), "guarded >= 3.000001 x the reference"),
        ((top,), "guarded >= 99.000001 tok/s"),
    ):
        found = only(changed(ceiling=ceiling, pins=pins), Fault.CEILING_BELOW_GUARDED)
        assert (found.reach, str(found.region)) == (Reach.REACHABLE, region)
    assert Fault.CEILING_BELOW_GUARDED not in lint(changed(ceiling=ceiling, pins=(here, top))).faults
    assert Fault.CEILING_BELOW_GUARDED not in lint(changed(ceiling=replace(ceiling, basis="own-best"))).faults


def test_an_anchor_whose_reference_nobody_pinned_is_not_taken_to_be_behind() -> None:
    rule = changed(credit=Credit(F(1)), pins=(FRONTIER,))
    assert only(rule, Fault.ANCHOR_DISCOUNT).reach is Reach.REACHABLE
    assert Fault.ANCHOR_INERT not in {found.fault for found in lint(rule).findings}


def test_a_ceiling_that_is_not_pinned_is_not_called_none() -> None:
    for ceiling, said in (
        (STILL, "3x a reference that is not pinned"),
        (replace(STILL, basis="own-best"), "3x the best"),
    ):
        found = only(changed(ceiling=ceiling, clock=fixed_clock(metrics=("decode",))), Fault.CEILING_ABOVE_CROSSOVER)
        assert f"to the ceiling of {said}" in found.message
        found = only(changed(ceiling=ceiling, clock={"metrics": ("prefill",)}), Fault.NO_CLOCK)
        assert f"up to the ceiling of {said}" in found.message
    assert "and no ceiling either" in only(changed(ceiling=None, clock=None), Fault.NO_CLOCK).message


# What any gain earns.


def rounding(places: int, least: Fraction, frontier: Fraction | None) -> Rule:
    steps = tuple((name, bar) for name, bar in CLEAN.tiers.steps if bar > least)
    rule = changed(precision={"speed": places}, tiers={"significance": least, "steps": steps}, guard=None)
    return replace(rule, pins=() if frontier is None else ((FRONTIER[0], frontier),))


@given(st.integers(min_value=0, max_value=5), st.none() | speeds)
def test_where_any_gain_is_significant_rounding_is_credited_at_every_frontier(
    places: int, pinned: Fraction | None
) -> None:
    found = only(rounding(places, F(0), pinned), Fault.ROUNDING_IS_CREDITED)
    assert (found.reach, str(found.region)) == (Reach.LIVE, "any frontier")
    given = {name: F(text) for name, text in found.witness}
    assert given["speed"] == given["frontier"] < quantize(given["speed"], places)


@given(shares, st.integers(min_value=0, max_value=5), speeds)
def test_no_significance_down_to_none_at_all_is_passed_over(least: Fraction, places: int, frontier: Fraction) -> None:
    """A run as fast as the frontier, both anywhere on the grid of claims: what rounding alone makes of it."""
    at = quantize(frontier, 6)
    gain = quantize(at, places) / at - 1
    reported = any(
        found.region.covers(at)
        for found in lint(rounding(places, least, at)).findings
        if found.fault is Fault.ROUNDING_IS_CREDITED
    )
    assert reported or gain <= least


def test_as_many_decimals_as_claims_have_round_nothing_whatever_is_significant() -> None:
    assert Fault.ROUNDING_IS_CREDITED not in lint(rounding(6, F(0), None)).faults


# A clock that admits and does not grade.


ADMITTING = [
    name
    for name, rule in RULES.items()
    if rule.arithmetic == "anchored-gain/1"
    and rule.clock is not None
    and rule.clock.reading == "claim"
    and rule.scope.metric in rule.clock.metrics
]


@pytest.mark.parametrize("name", ADMITTING)
def test_a_claim_that_the_clock_saw_none_of_is_admitted_and_earns_a_tier(name: str) -> None:
    rule = find_rule(name)
    given = {key: 100 * F(text) for key, text in only(rule, Fault.CLOCK_WIDER_THAN_TIERS).witness}
    reading = clock(100_000, str(100_000 / given["clock"]))
    made = native(str(given["claim"]), frontier=str(given["frontier"]), reference=str(given["frontier"]), clock=reading)
    assert tier(rule, made) == "XL"
    assert rule.clock is not None
    bound = 1 + rule.tiers.significance
    narrow = replace(rule, clock=replace(rule.clock, claim_over_clock=bound))
    assert Fault.CLOCK_WIDER_THAN_TIERS not in lint(narrow).faults
    wider = replace(rule, clock=replace(rule.clock, claim_over_clock=bound + F(1, 10**6)))
    assert Fault.CLOCK_WIDER_THAN_TIERS in lint(wider).faults


def test_six_releases_and_interim_rules_at_least_have_such_a_clock() -> None:
    assert {"v0.1.0", "v0.2.0", "v0.2.1"} <= set(ADMITTING)
