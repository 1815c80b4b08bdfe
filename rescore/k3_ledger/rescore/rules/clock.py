"""The gate of the wall clock: a program's own number is believed only between two bounds seen from outside.

A binary that prints a number is caught above (claim/clock); one that ignores the token count and does the same
work twice is caught below (clock/claim); neither is caught when the difference of two runs drowns in the jitter of
loading, which is why a margin must be worth a stated multiple of the measured jitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_rounded
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading
    from k3_ledger.rescore.rules.parameters import Clock


def check_clock(  # noqa: PLR0911 - one return for each thing the clock can say
    rule: Clock, metric: str, claim: Fraction | None, reading: ClockReading | None
) -> Gate:
    """Hold a claim in units per second against the clock; equality passes on every bound.

    A reading that says nothing (no time passed, or less than none) refuses before the claim is looked at.
    """
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
        detail = (
            f"{reading.tokens} tokens are {format_rounded(signal, 3)} s of signal against "
            f"{format_rounded(reading.jitter, 3)} s of jitter: less than {format_exact(multiple)}x"
        )
        return Gate("clock", Outcome.FAIL, "drowned", detail, tuple(steps))
    return Gate("clock", Outcome.PASS, steps=tuple(steps))
