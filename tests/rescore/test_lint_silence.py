"""Counterexamples to the lint's silence: for random rules and inputs, what goes wrong must have been reported."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.inputs import ClockReading, Figure, RunInputs
from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.clock import check_clock
from k3_ledger.rescore.rules.guards import check_ceiling, check_guard
from k3_ledger.rescore.rules.parameters import Ceiling, Clock, Correctness, Credit, Guard, Ratchet, Tiers
from k3_ledger.rescore.rules.parity import check_correctness, check_ratchet
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.tiers import grade
from k3_ledger.rescore.slots import Track
from k3_ledger.schemas.outcomes import Outcome
from tests.rescore.runs import parity

if TYPE_CHECKING:
    from k3_ledger.rescore.lint.findings import LintFinding
    from k3_ledger.rescore.rules.parameters import Rule

CLEAN = find_rule("house-7.decode")
TRACK = Track("decode", 131_072, "m", "q", "n")
OTHER = Track("prefill", 32_768, "m", "q", "n")

shares = st.fractions(min_value=0, max_value=1, max_denominator=200)
factors = st.fractions(min_value=Fraction(1, 10), max_value=8, max_denominator=40)
speeds = st.fractions(min_value=Fraction(1, 10), max_value=500, max_denominator=100)


@st.composite
def credit_rules(draw: st.DrawFn) -> Rule:
    bars = sorted(draw(st.lists(shares, min_size=1, max_size=4, unique=True)), reverse=True)
    if draw(st.booleans()):
        bars = draw(st.permutations(bars))
    names = ("best", "good", "fair", "poor")
    return replace(
        CLEAN,
        tiers=Tiers(draw(shares), tuple(zip(names, bars, strict=False)), "least"),
        credit=Credit(draw(factors), anchor=draw(st.booleans())),
        ceiling=None,
        pins=((TRACK.slot("frontier"), draw(speeds)), (TRACK.slot("reference"), draw(speeds))),
    )


def covering(rule: Rule, faults: set[Fault], value: Fraction) -> list[LintFinding]:
    return [found for found in lint(rule).findings if found.fault in faults and found.region.covers(value)]


OVER = {Fault.ANCHOR_OVER_GAIN, Fault.CAP_OVER_GAIN}
UNDER = {Fault.ANCHOR_DISCOUNT}


@given(credit_rules(), speeds, st.fractions(min_value=0, max_value=3, max_denominator=50))
def test_credit_above_gain_is_always_reported_and_never_without_cause(
    rule: Rule, frontier: Fraction, beyond: Fraction
) -> None:
    speed = frontier * (1 + rule.tiers.significance + beyond) + Fraction(1, 1000)
    reference = rule.pin(TRACK.slot("reference"))
    graded = grade(rule.tiers, rule.credit, "decode", speed=speed, frontier=frontier, reference=reference)
    assert graded is not None
    assert graded.credit is not None
    assert graded.gain is not None
    assert (graded.credit > graded.gain) == bool(covering(rule, OVER, frontier))
    pinned = rule.pin(TRACK.slot("frontier"))
    assert pinned is not None
    if graded.credit < graded.gain and frontier >= pinned:  # a frontier only rises
        assert covering(rule, UNDER, frontier)
    assert Fault.COUNTEREXAMPLE not in lint(rule).faults


@given(credit_rules(), speeds)
def test_a_tier_is_reported_unreachable_exactly_where_no_gain_ends_in_it(rule: Rule, frontier: Fraction) -> None:
    reference = rule.pin(TRACK.slot("reference"))
    assert reference is not None
    ratio = min(frontier / reference, rule.credit.cap) if rule.credit.anchor else Fraction(1)
    # Gains just past significance and at every bar, from below and above: tiers turn nowhere else.
    least = rule.tiers.significance
    gains = {least, *(bar / ratio for _, bar in rule.tiers.steps)}
    tiny = Fraction(1, 10**12)
    reached = set()
    for gain in sorted(gains | {value + tiny for value in gains} | {value - tiny for value in gains}):
        if gain <= least:
            continue
        graded = grade(
            rule.tiers, rule.credit, "decode", speed=frontier * (1 + gain), frontier=frontier, reference=reference
        )
        assert graded is not None
        reached.add(graded.tier)
    names = [*(name for name, _ in rule.tiers.steps), rule.tiers.floor]
    reported = {
        name
        for name in names
        for found in covering(rule, {Fault.TIER_UNREACHABLE}, frontier)
        if f"ends in {name}" in found.message
    }
    assert set(names) - reached == reported


@st.composite
def clock_rules(draw: st.DrawFn) -> Rule:
    """A margin in tokens, in jitters, in both or in neither, with any word on jitter or none."""
    clock = Clock(
        metrics=draw(st.sampled_from([("decode",), ("prefill",), ("decode", "prefill")])),
        reading="claim",
        margin=draw(st.none() | st.integers(min_value=1, max_value=5000)),
        claim_over_clock=draw(factors),
        clock_over_claim=draw(st.none() | factors),
        jitter=draw(st.none() | st.fractions(min_value=0, max_value=20, max_denominator=10)),
        jitter_multiple=draw(st.none() | factors.map(lambda value: value * 2)),
    )
    basis = draw(st.sampled_from(["scored-reference", "own-reference", "own-best"]))
    ceiling = draw(st.none() | st.builds(Ceiling, factors, st.just(("decode",)), st.just(basis)))
    pins = ((TRACK.slot("frontier"), draw(speeds)), (TRACK.slot("reference"), draw(speeds)))
    return replace(CLEAN, clock=clock, ceiling=ceiling, pins=pins)


def admitted(rule: Rule, claim: Fraction) -> bool:
    reference = rule.pin(TRACK.slot("reference"))
    frontier = rule.pin(TRACK.slot("frontier"))
    assert reference
    assert frontier
    run = RunInputs("r", TRACK, claim, Figure(frontier, "rule"), Figure(reference, "rule"), None)
    return rule.ceiling is None or check_ceiling(rule.ceiling, run, None).outcome is Outcome.PASS


BLIND = {Fault.NO_CLOCK, Fault.ONE_SIDED_CLOCK, Fault.CEILING_ABOVE_CROSSOVER, Fault.MARGIN_WITHOUT_JITTER}


def admitted_jitter(clock: Clock, measured: Fraction) -> Fraction:
    """The rule's own word where it goes by that, else what a clock measured: two loads never take the same time."""
    return measured if clock.jitter_multiple is not None else (clock.jitter or measured)


@given(clock_rules(), speeds, st.fractions(min_value=Fraction(1, 10), max_value=20, max_denominator=10))
def test_an_idle_program_that_passes_was_reported(rule: Rule, claim: Fraction, measured: Fraction) -> None:
    """It does none of the additional work; the difference of its two runs is jitter alone."""
    assert rule.clock is not None
    assume(admitted(rule, claim))
    jitter = admitted_jitter(rule.clock, measured)
    tokens = rule.clock.margin or 1000
    gate = check_clock(rule.clock, "decode", claim, ClockReading(tokens, jitter, jitter))
    if gate.outcome is not Outcome.FAIL:
        assert covering(rule, BLIND, claim)


@given(clock_rules(), speeds, st.fractions(min_value=-2, max_value=2, max_denominator=20))
def test_an_honest_run_that_is_refused_within_the_rules_own_jitter_was_reported(
    rule: Rule, claim: Fraction, loads: Fraction
) -> None:
    assert rule.clock is not None
    assume("decode" in rule.clock.metrics)
    tokens = rule.clock.margin or 1000
    signal = tokens / claim
    jitter = Fraction(0)
    if rule.clock.jitter_multiple is not None:
        jitter = signal / rule.clock.jitter_multiple
    gate = check_clock(rule.clock, "decode", claim, ClockReading(tokens, signal + loads * jitter, jitter))
    if gate.outcome is Outcome.FAIL:
        assert Fault.CLOCK_REFUSES_HONEST in lint(rule).faults


@given(
    st.fractions(min_value=0, max_value=Fraction(11, 10), max_denominator=60), st.integers(min_value=1, max_value=60)
)
def test_an_inert_agreement_bar_is_reported_exactly_when_no_input_tells_it_from_one(bar: Fraction, rows: int) -> None:
    rule = replace(CLEAN, correctness=replace(CLEAN.correctness, top1=bar, rows=rows))
    possible = [Fraction(agreeing, rows) for agreeing in range(rows + 1)]
    passes = [value >= bar for value in possible]
    faults = lint(rule).faults
    assert (Fault.BAR_REFUSES_ALL in faults) == (not any(passes))
    same_as_one = bar < 1 and passes == [value >= 1 for value in possible]
    assert (Fault.TOP1_BAR_INERT in faults) == (same_as_one or all(passes))


bars = st.fractions(min_value=0, max_value=Fraction(1, 5), max_denominator=10_000)


@given(
    bars,
    st.fractions(min_value=Fraction(1, 2), max_value=3, max_denominator=10),
    st.fractions(min_value=Fraction(1, 2), max_value=3, max_denominator=10),
    bars,
    bars,
)
def test_an_inert_ratchet_is_reported_exactly_when_it_refuses_nothing_by_itself(
    bar: Fraction, warn: Fraction, block: Fraction, floor: Fraction, block_from: Fraction
) -> None:
    correctness = Correctness(Fraction(0), bar, Fraction(0), (4, 128), 1)
    ratchet = Ratchet(warn, block, floor, block_from)
    rule = replace(CLEAN, correctness=correctness, ratchet=ratchet)
    # The divergence just beneath the bar against a frontier without any: the easiest thing to block.
    inside = bar - Fraction(1, 10**9)
    mine, main = parity(str(inside), depths=(4,)), parity("0", depths=(4,))
    refuses = (
        inside > 0
        and check_correctness(correctness, mine).outcome is Outcome.PASS
        and check_ratchet(ratchet, mine, main).outcome is Outcome.FAIL
    )
    faults = lint(rule).faults
    assert refuses == (Fault.RATCHET_INERT not in faults)
    equal = parity("0.3", depths=(4,))
    fussy = check_ratchet(replace(ratchet, floor=Fraction(0), block_from=Fraction(0)), equal, equal)
    assert (fussy.outcome is Outcome.FAIL or fussy.warning) == (Fault.RATCHET_REFUSES_EQUAL in faults)


@given(
    st.fractions(min_value=Fraction(1, 2), max_value=Fraction(11, 10), max_denominator=100),
    speeds,
    st.fractions(min_value=1, max_value=3, max_denominator=100),
)
def test_a_guard_that_admits_twice_the_loss_it_states_was_reported(
    least: Fraction, pin: Fraction, growth: Fraction
) -> None:
    guard = Guard("prefill", 32_768, least, "fixed")
    rule = replace(CLEAN, guard=guard, pins=((OTHER.slot("guard"), pin),))
    now = pin * growth
    allowed = 2 * (1 - least)
    assume(0 < allowed < 1)
    # The guarded metric loses just twice what the guard states, from where it really is.
    fallen = now * (1 - allowed)
    passes = check_guard(guard, fallen, Figure(pin, "rule")).outcome is Outcome.PASS
    assert passes == bool(covering(rule, {Fault.GUARD_PIN_FIXED}, now))


@given(clock_rules(), speeds)
def test_a_ceiling_under_which_nothing_can_gain_enough_was_reported(rule: Rule, frontier: Fraction) -> None:
    assume(rule.ceiling is not None)
    assert rule.ceiling is not None
    reference = rule.pin(TRACK.slot("reference"))
    assert reference
    best = max(frontier, reference) if rule.ceiling.basis == "own-best" else reference
    significant = frontier * (1 + rule.tiers.significance)
    highest = rule.ceiling.multiple * best
    if rule.ceiling.basis != "own-best":
        highest = quantize(highest, rule.precision.speed)  # the greatest that is scored of what is admitted
    possible = significant < highest
    reported = covering(rule, {Fault.CEILING_EXPIRES}, frontier)
    if rule.ceiling.basis == "own-best" and frontier < reference:
        return  # the lint speaks of the frontier once it leads
    assert possible == (not reported)
