"""Rules the lint has never seen: one change to a clean rule gives exactly its fault, and no change gives none."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.lint.findings import MEANINGS, Fault, Reach, Region, Settings
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.lint.search import search
from k3_ledger.rescore.rules.parameters import Ceiling, Credit, Guard, Ratchet
from k3_ledger.rescore.rules.registry import RULES, find_rule
from tests.rescore.mutants import CLEAN, FRONTIER, GUARD, REFERENCE, changed, fixed_clock, only
from tests.rescore.mutants_of_clock import OF_CLOCKS
from tests.rescore.mutants_of_gates import OF_GATES

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
MUTANTS = [*OF_CLOCKS, *OF_GATES]


@pytest.mark.parametrize(("rule", "faults"), [mutant[1:] for mutant in MUTANTS], ids=[mutant[0] for mutant in MUTANTS])
def test_a_mutant_has_its_own_faults_and_no_others(rule: Rule, faults: set[Fault]) -> None:
    assert lint(rule).faults == faults


def test_every_fault_has_a_meaning_and_is_found_in_some_mutant() -> None:
    assert set(MEANINGS) == set(Fault)
    found = {fault for _, rule, _ in MUTANTS for fault in (finding.fault for finding in lint(rule).findings)}
    assert set(Fault) - found == {Fault.COUNTEREXAMPLE}


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
def test_a_renamed_rule_has_the_same_findings(name: str) -> None:
    rule = find_rule(name)
    assert lint(replace(rule, name="something-else")).findings == lint(rule).findings


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
@pytest.mark.parametrize("factor", [F(10), F(1, 7)])
def test_a_rescaled_rule_has_the_same_faults_in_rescaled_regions(name: str, factor: Fraction) -> None:
    """Ten times the speed with a tenth of the jitter is the same situation."""
    rule = find_rule(name)
    before, after = lint(rule).findings, lint(scaled(rule, factor)).findings
    if Fault.ROUNDING_IS_CREDITED not in {found.fault for found in before}:  # a rule's decimals do not scale with it
        after = tuple(found for found in after if found.fault is not Fault.ROUNDING_IS_CREDITED)
    assert [found.fault for found in after] == [found.fault for found in before]
    assert [found.reach for found in after] == [found.reach for found in before]
    for old, new in zip(before, after, strict=True):
        grows = factor if old.region.unit == "tok/s" else F(1)
        if old.fault is Fault.CEILING_EXPIRES:  # from what is scored on, and a rule's decimals do not scale with it
            assert old.region.least is not None
            assert new.region.least is not None
            assert abs(new.region.least - old.region.least * grows) <= F(1, 100) * max(F(1), grows)
            continue
        assert new.region.least == (None if old.region.least is None else old.region.least * grows)
        assert new.region.most == (None if old.region.most is None else old.region.most * grows)


def scaled(rule: Rule, factor: Fraction) -> Rule:
    clock = rule.clock and replace(rule.clock, jitter=rule.clock.jitter and rule.clock.jitter / factor)
    return replace(rule, clock=clock, pins=tuple((slot, value * factor) for slot, value in rule.pins))


@pytest.mark.parametrize("name", [name for name in RULES if not name.startswith("house")])
@pytest.mark.parametrize("factor", [F(1), F(1000), F(1, 1000), F(1, 7), F(1, 100_000)])
def test_what_a_region_says_of_the_frontier_is_what_its_reach_says(name: str, factor: Fraction) -> None:
    """Whoever reads the bounds as they are printed comes to the same: the frontier is in live regions and no others."""
    rule = scaled(find_rule(name), factor)
    frontier = rule.pin(f"frontier:decode@{rule.scope.context}/Kimi-K3/UD-IQ1_S/h200x8")
    if rule.scope.metric != "decode" or frontier is None:
        return
    for found in lint(rule).findings:
        if found.region.variable not in {"frontier", "claim"} or found.region == Region(found.region.variable):
            continue
        least, most = bounds(str(found.region))
        printed = (least is None or frontier >= least) and (most is None or frontier <= most)
        assert printed == found.region.covers(frontier), (str(found.region), frontier)
        if found.region.variable == "frontier" and not found.note:
            assert printed == (found.reach is Reach.LIVE), (str(found.region), frontier)


def bounds(region: str) -> tuple[Fraction | None, Fraction | None]:
    """Bounds as they are printed."""
    least, most = (re.search(rf"{sign} ([0-9./]+)", region) for sign in (">=", "<="))
    return least and F(least[1]), most and F(most[1])


@pytest.mark.parametrize("factor", [F(1, 1000), F(1, 100_000)])
def test_a_grid_that_is_coarse_beside_the_speeds_is_said_to_be(factor: Fraction) -> None:
    for name in ("v0.1.0", "v0.2.0", "v0.2.1", "v0.2.2"):
        before, after = (lint(scaled(find_rule(name), by)).faults for by in (F(1), factor))
        assert Fault.ROUNDING_IS_CREDITED in after - before


def test_each_tier_out_of_reach_is_named_against_the_best_bar_above_it() -> None:
    rule = changed(tiers={"steps": (("XL", F("0.1")), ("L", F("0.18")), ("M", F("0.12")), ("S", F("0.05")))})
    said = [found.message for found in lint(rule).findings if found.fault is Fault.TIER_UNREACHABLE]
    assert [message.split(":")[0] for message in said] == ["no credit ends in L", "no credit ends in M"]


def test_a_discount_is_in_force_only_where_the_frontier_is_known_to_be_below() -> None:
    below = changed(credit=Credit(F(1)), pins=(REFERENCE, (FRONTIER[0], F(10))))
    assert only(changed(credit=Credit(F(1))), Fault.ANCHOR_DISCOUNT).reach is Reach.REACHABLE
    assert only(below, Fault.ANCHOR_DISCOUNT).reach is Reach.LIVE


def test_a_fixed_guard_is_stale_at_twice_the_loss_it_states() -> None:
    rule = changed(guard={"pin": "fixed", "least": F("0.9")}, pins=(GUARD,))
    assert only(rule, Fault.GUARD_PIN_FIXED).region.least == F(90) / F("0.8")


def test_a_pin_at_its_word_is_shown_with_one_of_half_of_what_was_measured() -> None:
    for rule, pinned in ((changed(pins=((GUARD[0], F(70)),)), "70"), (CLEAN, "100")):
        found = only(replace(rule, arithmetic="measured-gain/2"), Fault.GUARD_PIN_UNRECONCILED)
        assert (dict(found.witness)["pin"], F(dict(found.witness)["measured"])) == (pinned, 2 * F(pinned))


def test_a_margin_drowns_where_the_greatest_admitted_claim_of_any_metric_reaches() -> None:
    """10,000 tokens are worth ten seconds of jitter up to 1,000 tok/s; prefill may claim 3,000 and decode 60."""
    pins = (("reference:prefill@32768/m/q/n", F(1000)), REFERENCE)
    ceiling = Ceiling(F(3), ("decode", "prefill"), "own-reference")
    both = changed(ceiling=ceiling, clock=fixed_clock(), pins=pins)
    slow = changed(ceiling=ceiling, clock=fixed_clock(), pins=(("reference:prefill@32768/m/q/n", F(100)), REFERENCE))
    loose = changed(ceiling=replace(ceiling, metrics=("decode",)), clock=fixed_clock(), pins=pins)
    assert [only(rule, Fault.MARGIN_DROWNS).reach for rule in (both, slow, loose)] == [
        Reach.REACHABLE, Reach.BEYOND, Reach.REACHABLE,
    ]  # fmt: skip


def test_a_ceiling_is_told_where_it_leaves_no_room_for_a_significant_gain() -> None:
    rule = changed(ceiling=Ceiling(F(3), ("decode",), "own-reference"), pins=(REFERENCE, FRONTIER))
    assert only(rule, Fault.CEILING_EXPIRES).region.least == F(60) / F("1.02")


def test_the_search_finds_what_the_analysis_was_not_told_of() -> None:
    from k3_ledger.rescore.lint.context import Context

    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, FRONTIER))
    (over,) = search(Context(rule, Settings()), [])
    assert (over.fault, over.shows) == (Fault.COUNTEREXAMPLE, "credit exceeds gain")
    slope = changed(credit=Credit(F(-1)), pins=(REFERENCE, FRONTIER))
    (less,) = search(Context(slope, Settings()), [])
    assert less.shows == "less credit than for a slower run"


def test_a_region_is_shown_on_the_rules_grid() -> None:
    region = Region("frontier", F("36.887"), above=True, most=F("50"), below=True)
    assert str(region) == "frontier >= 36.89 tok/s and <= 49.99 tok/s"
    assert [region.covers(F(value)) for value in ("36.887", "36.8871", "49.9999", "50")] == [False, True, True, False]
    assert str(Region("kl", unit="")) == "any kl"
    assert str(Region("kl", F(1), unit="")) == "kl >= 1"
    assert (Region("kl").first, Region("kl").last) == (None, None)


def test_where_several_nodes_are_pinned_the_least_reference_counts() -> None:
    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, ("reference:decode@131072/m/q/other", F(10))))
    (found,) = [found for found in lint(rule).findings if found.fault is Fault.CAP_OVER_GAIN]
    assert str(found.region) == "frontier >= 20.000001 tok/s"


def test_without_pins_regions_are_multiples_of_the_reference() -> None:
    (found,) = [found for found in lint(changed(credit=Credit(F(2)))).findings if found.fault is Fault.CAP_OVER_GAIN]
    assert str(found.region) == "frontier >= 2.000001 x the reference"
    assert "(taken as 1: none is pinned)" in found.message


def test_a_ceiling_from_a_guarded_metrics_own_reference() -> None:
    pins = (("reference:prefill@32768/m/q/n", F(100)), REFERENCE)
    ceiling = Ceiling(F(3), ("decode", "prefill"), "own-reference")
    rule = changed(ceiling=ceiling, clock=fixed_clock(), pins=pins)
    regions = {str(found.region) for found in lint(rule).findings if found.fault is Fault.CEILING_ABOVE_CROSSOVER}
    assert regions == set()  # 60 and 300 tok/s are below the crossover of 6,667
    short = replace(rule, clock=fixed_clock(margin=300))
    regions = {str(found.region) for found in lint(short).findings if found.fault is Fault.CEILING_ABOVE_CROSSOVER}
    assert regions == {"claim >= 200 tok/s and <= 300 tok/s"}
    unguarded = replace(short, guard=None)
    assert "claim >= 200 tok/s" in {str(found.region) for found in lint(unguarded).findings}


def test_reach_of_a_region_the_frontier_has_left_behind() -> None:
    rule = changed(credit=Credit(F(2)), pins=(REFERENCE, (FRONTIER[0], F(50))))
    found = {each.fault: each.reach for each in lint(rule).findings}
    assert (found[Fault.ANCHOR_OVER_GAIN], found[Fault.CAP_OVER_GAIN]) == (Reach.BEYOND, Reach.LIVE)


def test_guards_and_ratchets_are_built_as_the_mutants_need() -> None:
    assert isinstance(CLEAN.guard, Guard)
    assert isinstance(CLEAN.ratchet, Ratchet)


def test_a_guard_that_admits_no_noise_is_shown_with_the_least_reading_that_it_refuses() -> None:
    found = only(changed(guard={"least": F(1)}), Fault.GUARD_ADMITS_NO_NOISE)
    guarded, pin = (F(dict(found.witness)[name]) for name in ("guarded", "pin"))
    assert (guarded < pin, found.reach, found.shows) == (True, Reach.LIVE, "is refused")
    stale = only(changed(guard={"pin": "fixed", "least": F(1)}, pins=(GUARD,)), Fault.GUARD_PIN_FIXED)
    assert F(dict(stale.witness)["guarded"]) < F(dict(stale.witness)["measured"])


@pytest.mark.parametrize("cap", ["1.00001", "1.0001", "1.0003", "1.001", "1.01"])
def test_a_region_that_the_grid_is_too_coarse_for_is_shown_on_a_finer_one(cap: str) -> None:
    rule = find_rule("v0.2.1")
    found = lint(replace(rule, credit=replace(rule.credit, cap=F(cap)))).findings
    (over,) = [one for one in found if one.fault is Fault.ANCHOR_OVER_GAIN]
    assert not over.region.is_blank
    assert over.region.first is not None
    assert over.region.covers(over.region.first)
