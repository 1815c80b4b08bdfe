"""Counterexamples to the lint's silence on jitter: what a clock is off by earns no claim a tier, or it was reported.

The program of these tests is exactly as fast as the frontier. It claims more, and the difference of its runs is off by
up to twice the jitter, as a difference of two loads may be. Ten to one admits a fifth of that, and 1 % counts beside.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.inputs import ClockReading
from k3_ledger.rescore.lint.findings import SIGNAL_MULTIPLE, Fault, Settings
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.judging import ALLOWANCE
from k3_ledger.rescore.rules.parameters import Clock
from k3_ledger.rescore.rules.registry import RULES, find_rule
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.verdict import NONE, REJECT, Verdict
from tests.rescore.mutants import changed
from tests.rescore.runs import native
from tests.rescore.test_lint_mutants import MUTANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
TOKENS = 10**6
SAID = {Fault.MARGIN_DROWNS, Fault.MARGIN_WITHOUT_JITTER}
DROWNED = [1, F(5, 2), 4, F(9), F("9.99")]
ROOM = F(3)
"""Bounds of the clock wide enough for half of the jitter: what refuses a claim is then its signal alone."""


def earned(rule: Rule, claim: Fraction, frontier: Fraction, reading: ClockReading) -> Fraction | None:
    """By how much a run counts as faster than the frontier, where that earns a tier."""
    guarded = ClockReading(reading.tokens, F(reading.tokens, 100), F(0), F(0))
    made = native(str(claim), frontier=str(frontier), reference=None, clock=reading, guarded_clock=guarded)
    result = apply_arithmetic(rule, made)
    assert isinstance(result, Verdict)
    return None if result.tier in {NONE, REJECT} else result.gain


def lie(rule: Rule, frontier: Fraction, multiple: Fraction) -> Fraction | None:
    """What the greatest claim gains that a difference off by two jitters bears out, where its signal is so many.

    The claim is the speed that the clock reads, so that its signal is what the difference took.
    """
    clock = rule.clock
    assert clock is not None
    claim = quantize(frontier * (1 + 2 / multiple), 6)
    tokens = TOKENS if clock.margin is None else clock.margin
    seconds = tokens / claim
    jitter = seconds / multiple
    return earned(rule, claim, frontier, ClockReading(tokens, seconds, jitter, jitter))


@st.composite
def jitter_rules(draw: st.DrawFn) -> Rule:
    """The clean rule with any bounds of its clock, any multiple, any floor and any word on jitter, by any name."""
    multiple = draw(st.none() | st.fractions(min_value=F(-1), max_value=30, max_denominator=20))
    bounds = st.fractions(min_value=1, max_value=4, max_denominator=20)
    clock = Clock(
        metrics=("decode", "prefill"),
        reading="claim",
        margin=draw(st.none() | st.integers(min_value=1, max_value=TOKENS)),
        claim_over_clock=draw(bounds),
        clock_over_claim=draw(bounds),
        jitter=draw(st.none() | st.just(F(0)) | st.fractions(min_value=0, max_value=20, max_denominator=10)),
        jitter_multiple=multiple,
    )
    name = draw(st.sampled_from(["house-7.decode", "mine"]))
    return replace(changed(clock=clock, ceiling={"multiple": F(10)}), name=name)


WORTH = st.none() | st.fractions(min_value=F(1, 2), max_value=30, max_denominator=20)
LOADS = st.fractions(min_value=F(-2), max_value=F(2), max_denominator=8) | st.just(F(2))
BESIDE = st.fractions(min_value=F(1, 2), max_value=2, max_denominator=20) | st.just(F(1))


@given(
    jitter_rules(),
    st.tuples(WORTH, LOADS, BESIDE),
    st.fractions(min_value=F(1, 100), max_value=20, max_denominator=100),
    st.sampled_from([F(2), SIGNAL_MULTIPLE, F(40)]),
)
def test_jitter_that_a_rule_admits_earns_no_tier_or_was_reported(
    rule: Rule, run: tuple[Fraction | None, Fraction, Fraction], measured: Fraction, asked: Fraction
) -> None:
    """Whatever the signal is worth, with ``loads`` jitters too little read, and the claim beside what the clock reads.

    The jitter is the rule's own word where it goes by that, else as measured.
    """
    clock = rule.clock
    assert clock is not None
    tokens = clock.margin or TOKENS
    jitter = measured if clock.jitter_multiple is not None else (clock.jitter or measured)
    signal, loads, beside = run
    worth = max(signal or clock.jitter_multiple or F(1), F(1, 2))
    claim = F(tokens * 10**6 // (worth * jitter), 10**6)
    read = beside * worth * jitter
    assume(claim > 0 and read + loads * jitter > 0)
    frontier = tokens / (read + loads * jitter)
    gain = earned(rule, claim, frontier, ClockReading(tokens, read, jitter, jitter))
    if gain is not None and gain > ALLOWANCE + 2 / asked + F(1, 10**6):
        found = lint(rule, Settings(signal_multiple=asked)).findings
        assert [one for one in found if one.fault in SAID and one.region.covers(claim)]


def wide(rule: Rule, **fields: object) -> Rule:
    assert rule.clock is not None
    clock = replace(rule.clock, claim_over_clock=ROOM, clock_over_claim=ROOM, **fields)  # type: ignore[arg-type]
    return replace(rule, clock=clock, name="renamed")


@pytest.mark.parametrize("scale", [F(1, 100), F(1), F(1000)])
@pytest.mark.parametrize("multiple", DROWNED)
@pytest.mark.parametrize("margin", [None, 512])
@pytest.mark.parametrize("jitter", [None, F(0), F(2)])
def test_fewer_jitters_than_ten_are_told_of_however_the_rule_is_called_and_scaled(
    scale: Fraction, multiple: Fraction, margin: int | None, jitter: Fraction | None
) -> None:
    rule = wide(changed(), jitter_multiple=F(multiple), margin=margin, jitter=jitter)
    gain = lie(rule, 60 * scale, F(multiple))
    assert gain is not None
    assert gain > F(2, 10) - F(1, 10**4)
    assert Fault.MARGIN_DROWNS in lint(rule).faults
    enough = wide(changed(), jitter_multiple=SIGNAL_MULTIPLE, margin=margin, jitter=jitter)
    assert lie(enough, 60 * scale, F(multiple)) is None
    assert not SAID & lint(enough).faults


@pytest.mark.parametrize("margin", [1, 512, 2048, TOKENS])
@pytest.mark.parametrize("scale", [F(1, 100), F(1), F(1000)])
def test_a_jitter_of_nothing_is_no_word_on_jitter(margin: int, scale: Fraction) -> None:
    """The rule holds no run's own jitter to anything: what is off by half of its signal earns a tier."""
    rule = wide(changed(), jitter_multiple=None, margin=margin, jitter=F(0))
    assert lie(rule, 60 * scale, F(4)) is not None
    told = {jitter: lint(wide(rule, jitter=jitter)).findings for jitter in (F(0), None)}
    for findings in told.values():
        (found,) = [one for one in findings if one.fault is Fault.MARGIN_WITHOUT_JITTER]
        assert str(found.region) == "any claim"
    assert [one.fault for one in told[F(0)]] == [one.fault for one in told[None]]
    # Who knows how much it is says so, and is told where it drowns.
    assert Fault.MARGIN_DROWNS in {one.fault for one in lint(rule, Settings(jitter=F(2))).findings}


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.clock and rule.clock.margin])
def test_a_historical_rule_that_states_no_jitter_is_told_so_in_either_way(name: str) -> None:
    rule = find_rule(name)
    assert rule.clock is not None
    states = bool(rule.clock.jitter)
    assert (Fault.MARGIN_DROWNS in {one.fault for one in lint(rule).findings}) == states
    assert (Fault.MARGIN_WITHOUT_JITTER in lint(rule).faults) == (not states)
    nothing = replace(rule, clock=replace(rule.clock, jitter=F(0)))
    assert Fault.MARGIN_WITHOUT_JITTER in lint(nothing).faults


def sized() -> Iterator[tuple[str, Rule]]:
    for name, rule in [*RULES.items(), *((name, rule) for name, rule, _ in MUTANTS)]:
        if rule.clock and rule.clock.jitter_multiple is not None:
            yield name, rule


@pytest.mark.parametrize("rule", [rule for _, rule in sized()], ids=[name for name, _ in sized()])
def test_how_many_jitters_a_signal_should_be_is_whoever_asks_to_say(rule: Rule) -> None:
    assert rule.clock is not None
    multiple = rule.clock.jitter_multiple
    assert multiple is not None
    for asked in (F(1, 100), F(2), multiple, multiple + F(1, 10**6), F(1000), F(10**11)):
        found = lint(rule, Settings(signal_multiple=asked)).faults
        assert (Fault.MARGIN_DROWNS in found) == (multiple < asked), asked


@pytest.mark.parametrize("multiple", ["0", "-1", "0.5", "1", "3", "4", "9.5", "10"])
def test_the_witness_of_too_few_jitters_earns_a_tier_by_them(multiple: str) -> None:
    rule = wide(changed(ceiling={"multiple": F(10)}), jitter_multiple=F(multiple))
    asked = Settings(signal_multiple=F(11))
    (found,) = [one for one in lint(rule, asked).findings if one.fault is Fault.MARGIN_DROWNS]
    given = {name: F(text) for name, text in found.witness}
    seconds, jitter = 1000 * given["signal_seconds"], 1000 * given["jitter_seconds"]
    seconds, jitter = 1000 * seconds, 1000 * jitter
    tokens = seconds * given["clock"]
    assert tokens.denominator == 1
    true = tokens / (seconds + 2 * jitter)
    assert given["frontier"] - F(1, 10**6) < true <= given["frontier"], "its true speed is that of the frontier"
    reading = ClockReading(int(tokens), seconds, jitter, jitter)
    gain = earned(rule, given["claim"], given["frontier"], reading)
    assert gain is not None
    assert gain > F(15, 100)
    assert earned(wide(rule, jitter_multiple=F(11)), given["claim"], given["frontier"], reading) is None
