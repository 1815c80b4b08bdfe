"""What the arithmetics share when they turn a run into a verdict."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.native import DECIMALS
from k3_ledger.rescore.rules.clock import proves
from k3_ledger.rescore.rules.verdict import NotScorable, Pin, Step

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import ClockReading, Pair, RunInputs
    from k3_ledger.rescore.rules.parameters import Rule


ALLOWANCE: Final = Fraction(1, 100)
"""Share by which a claim may exceed its clock and count, in ``measured-gain/5``: half of the house rules' significance,
as the runner allows an engine's own times. Frozen here: a rule never changes."""


def count_claims(rule: Rule, run: RunInputs) -> RunInputs:
    """The run with its claims as far as they count: no further than the clock bears them out, where it is read."""
    if rule.clock is None or not rule.bears_out:
        return run
    if run.track.metric in rule.clock.metrics and run.speed is not None:
        most = _most(rule, run.clock, run.speed)
        if most is not None and most < run.speed:
            run = replace(run, speed=quantize(most, DECIMALS), exact=most)
    if rule.guard and rule.guard.metric in rule.clock.metrics and run.guarded is not None:
        most = _most(rule, run.guarded_clock, run.guarded)
        if most is not None and most < run.guarded:
            run = replace(run, guarded=quantize(most, DECIMALS))
    return run


def _most(rule: Rule, reading: ClockReading | None, claim: Fraction) -> Fraction | None:
    """The most that counts of a claim beside this reading; None where it shows no speed, which its gate says.

    Where the rule reads all pairs of lengths, the slowest of those that are long enough to prove the claim.
    """
    if reading is None or reading.seconds <= 0:
        return None
    slowest, _ = _slowest(rule, reading, claim)
    return (1 + ALLOWANCE) / slowest


def _slowest(rule: Rule, reading: ClockReading, claim: Fraction) -> tuple[Fraction, Pair | None]:
    """Seconds a token by which a claim counts, and the pair that says so; None for the shortest and the longest."""
    slowest, by = reading.seconds / reading.tokens, None
    if rule.weighs and rule.clock is not None:
        steady = replace(reading, jitter=reading.middle)
        for pair in reading.pairs:
            if pair.seconds / pair.tokens > slowest and proves(rule.clock, claim, steady.of(pair)):
                slowest, by = pair.seconds / pair.tokens, pair
    return slowest, by


def show_counted(rule: Rule, reading: ClockReading | None, claim: Fraction | None) -> tuple[Step, ...]:
    """By what less of a claim counts than all of it: figures of the clock's gate that decide what the others see."""
    most = None if claim is None or not rule.bears_out else _most(rule, reading, claim)
    if reading is None or claim is None or most is None or most >= claim:
        return ()
    _, by = _slowest(rule, reading, claim)
    between = () if by is None else (Step("counted_between", f"{by.lengths[0]} and {by.lengths[1]}"),)
    return (Step("counted", most), *between)


def scored_speed(rule: Rule, run: RunInputs) -> Fraction | None:
    """The number that is scored: the program's own, or the clock's where the rule reads the clock."""
    if rule.clock and rule.clock.reading == "clock":
        return run.clock.tokens / run.clock.seconds if run.clock and run.clock.seconds > 0 else None
    return run.speed


def rounded_speed(rule: Rule, run: RunInputs, speed: Fraction) -> Fraction:
    """The scored speed in the rule's decimals, rounded once.

    A native claim is known in six decimals everywhere; a rule that scores fewer rounds what that was rounded from, or
    21.03499999 would become 21.035 and then 21.04.
    """
    places = rule.precision.speed
    read = rule.clock is not None and rule.clock.reading == "clock"
    once = run.exact if run.exact is not None and not read and places < DECIMALS else speed
    return quantize(once, places)


def pins_used(rule: Rule, run: RunInputs) -> tuple[Pin, ...]:
    """The pins a run was held against, and the measurement that a pin was, with their slots."""
    pins = [Pin(run.track.slot("frontier"), run.frontier)] if run.frontier else []
    if run.reference:
        pins.append(Pin(run.track.slot("reference"), run.reference))
    if rule.guard and run.guard_pin:
        pins.append(Pin(run.track.at(rule.guard.metric, rule.guard.context).slot("guard"), run.guard_pin))
    if rule.guard and rule.reconciles and run.guard_measured:
        pins.append(Pin(run.track.at(rule.guard.metric, rule.guard.context).slot("frontier"), run.guard_measured))
    return tuple(pins)


def missing(rule: Rule, run: RunInputs, field: str) -> NotScorable:
    """A run that lacks a field the arithmetic cannot do without."""
    return NotScorable(run.run, rule.name, "missing", f"cannot re-score: field {field} is missing", field)


def missing_speed(rule: Rule, run: RunInputs) -> NotScorable:
    """A run whose scored number is absent: the clock's where the rule reads the clock, else its own."""
    return missing(rule, run, "clock" if rule.clock and rule.clock.reading == "clock" else "speed")
