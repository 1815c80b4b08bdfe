"""The gate of the wall clock: a program's own number is believed only between two bounds seen from outside.

A binary that prints a number is caught above (claim/clock); one that ignores the token count and does the same
work twice is caught below (clock/claim); neither is caught when the difference of two runs drowns in the jitter of
loading, which is why a margin must be worth a stated multiple of the measured jitter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_rounded
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading
    from k3_ledger.rescore.rules.parameters import Clock


def check_clock(rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None) -> Gate:
    """Hold a claim in units per second against the clock; equality passes on every bound.

    A reading that says nothing (no time passed, or less than none) refuses before the claim is looked at. Where runs of
    three lengths or more were timed, no other pair of them may contradict the claim either.
    """
    return _hold_pairs(rule, metric, claim, reading, _check_clock(rule, metric, claim, reading))


def _hold_pairs(rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None, gate: Gate) -> Gate:
    """What the shortest and the longest runs say, unless another pair contradicts the claim whatever the jitter."""
    if reading is None or gate.outcome is Outcome.FAIL:
        return gate
    for pair in reading.pairs:
        found = _check_or_excuse(rule, metric, claim, reading.of(pair))
        if found.outcome is Outcome.FAIL:
            return replace(found, detail=f"{found.detail}, between runs of {pair.lengths[0]} and {pair.lengths[1]}")
    return gate


def _check_clock(  # noqa: PLR0911 - one return for each thing the clock can say
    rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None
) -> Gate:
    if metric not in rule.metrics:
        return Gate("clock", Outcome.NOT_CHECKED, "not-read", f"the rule reads no clock for {metric}")
    if reading is None:
        return Gate("clock", Outcome.NOT_CHECKED, "no-evidence", "the run records no reading of the wall clock")
    steps = [Step("clock_tokens", str(reading.tokens)), Step("clock_seconds", reading.seconds)]
    if reading.seconds <= 0:
        detail = f"{reading.tokens} more tokens took {format_rounded(reading.seconds, 3)} s longer"
        return Gate("clock", Outcome.FAIL, "non-positive", detail, tuple(steps))
    if claim is None:
        return Gate("clock", Outcome.NOT_CHECKED, "no-claim", "the run records no claim", tuple(steps))
    if rule.margin is not None and reading.tokens < rule.margin:
        detail = f"read over {reading.tokens} tokens, the rule asks for {rule.margin}"
        return Gate("clock", Outcome.FAIL, "short-margin", detail, tuple(steps))
    clock = reading.tokens / reading.seconds
    steps += [Step("clock_speed", clock), Step("claim", claim)]
    shown = f"claim {format_rounded(claim, 2)}/s, clock {format_rounded(clock, 2)}/s"
    if claim > rule.claim_over_clock * clock:
        detail = f"{shown}: more than {format_exact(rule.claim_over_clock)}x what the clock allows"
        return Gate("clock", Outcome.FAIL, "faster-than-clock", detail, tuple(steps))
    if rule.clock_over_claim is not None and clock > rule.clock_over_claim * claim:
        detail = f"{shown}: the additional work took under 1/{format_exact(rule.clock_over_claim)} of its time"
        return Gate("clock", Outcome.FAIL, "work-not-done", detail, tuple(steps))
    if rule.jitter_multiple is not None:
        return _check_signal(rule.jitter_multiple, claim, reading, steps)
    return Gate("clock", Outcome.PASS, steps=tuple(steps))


def _check_signal(multiple: Fraction, claim: Fraction, reading: ClockReading, steps: list[Step]) -> Gate:
    """Whether the margin is long enough at this speed to be seen above the measured jitter."""
    if reading.jitter is None:
        return Gate("clock", Outcome.NOT_CHECKED, "no-jitter", "no two runs of equal length were timed", tuple(steps))
    signal = reading.tokens / claim
    steps += [Step("signal_seconds", signal), Step("jitter_seconds", reading.jitter)]
    if signal < multiple * reading.jitter:
        detail = _drowned(multiple, claim, reading.tokens, reading.jitter)
        return Gate("clock", Outcome.FAIL, "drowned", detail, tuple(steps))
    return Gate("clock", Outcome.PASS, steps=tuple(steps))


def check_clock_or_excuse(rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None) -> Gate:
    """As :func:`check_clock`, but a reading over too little refuses only a claim that it contradicts.

    Too little is a margin of fewer tokens than the rule asks for, or one that is worth less than its multiple of the
    jitter: what such a reading cannot bear out it cannot refute either. An honest difference of two medians is off by
    no more than the jitter of each, so a claim is contradicted when it is beyond a bound for every difference within
    twice the jitter of the one that was read. All else is left open, with the reason. Where no jitter was measured
    nothing excuses a reading, and its bounds are those of the rule. Every pair of lengths is read like this.
    """
    return _hold_pairs(rule, metric, claim, reading, _check_or_excuse(rule, metric, claim, reading))


def _check_or_excuse(rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None) -> Gate:
    if reading is None or claim is None or metric not in rule.metrics:
        return _check_clock(rule, metric, claim, reading)
    jitter = reading.jitter or 0
    shortfall = _shortfall(rule, claim, reading)
    if shortfall is None:
        return _check_clock(rule, metric, claim, reading)
    least, most = reading.seconds - 2 * jitter, reading.seconds + 2 * jitter
    steps = [Step("clock_tokens", str(reading.tokens)), Step("clock_seconds", reading.seconds), Step("claim", claim)]
    if reading.jitter is not None:
        steps.append(Step("jitter_seconds", reading.jitter))
    shown = f"claim {format_rounded(claim, 2)}/s, {reading.tokens} more tokens took"
    if most <= 0:
        detail = f"{shown} {format_rounded(reading.seconds, 3)} s longer, less than none whatever the jitter"
        return Gate("clock", Outcome.FAIL, "non-positive", detail, tuple(steps))
    if claim * least > rule.claim_over_clock * reading.tokens:
        detail = (
            f"{shown} at least {format_rounded(least, 3)} s whatever the jitter: more than "
            f"{format_exact(rule.claim_over_clock)}x what the clock allows"
        )
        return Gate("clock", Outcome.FAIL, "faster-than-clock", detail, tuple(steps))
    if rule.clock_over_claim is not None and reading.tokens > rule.clock_over_claim * claim * most:
        detail = (
            f"{shown} at most {format_rounded(most, 3)} s whatever the jitter: under "
            f"1/{format_exact(rule.clock_over_claim)} of the time of the work"
        )
        return Gate("clock", Outcome.FAIL, "work-not-done", detail, tuple(steps))
    return Gate("clock", Outcome.NOT_CHECKED, *shortfall, tuple(steps))


def proves(rule: Clock, claim: Fraction, reading: ClockReading) -> bool:
    """Whether a reading is over enough to prove a claim, or to count for less of it."""
    return _shortfall(rule, claim, reading) is None


def _shortfall(rule: Clock, claim: Fraction, reading: ClockReading) -> tuple[str, str] | None:
    """Why a reading is over too little to prove a claim, as (reason, detail); None where it is not."""
    if rule.margin is not None and reading.tokens < rule.margin:
        return "short-margin", f"read over {reading.tokens} tokens, the rule asks for {rule.margin}"
    if rule.jitter_multiple is None or reading.jitter is None:
        return None
    if reading.tokens >= rule.jitter_multiple * reading.jitter * claim:
        return None
    return "drowned", _drowned(rule.jitter_multiple, claim, reading.tokens, reading.jitter)


def _drowned(multiple: Fraction, claim: Fraction, tokens: int, jitter: Fraction) -> str:
    return (
        f"{tokens} tokens are {format_rounded(tokens / claim, 3)} s of signal against "
        f"{format_rounded(jitter, 3)} s of jitter: less than {format_exact(multiple)}x"
    )
