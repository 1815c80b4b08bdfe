"""Why a number that nobody has judged supports nothing: its own receipt contradicts it, or leaves out what would.

Whoever has his run judged is refused where its clock contradicts his number, or where what it computed is not what
the reference computes; a number that its clock could not prove counts for nothing, and none counts beyond its clock.
Not judging must not pay. So the newest house rule is asked about a candidate that nobody judged, as far as its own
receipt answers: its clock, how its context was filled, its agreement, and how much of the number its clock bears out
(:attr:`k3_ledger.rescore.material.Candidate.counted`). What needs a pin, a round or a guarded metric is a judge's to
ask, and so is how often a run or its frontier was repeated. A published verdict decides what its gates grade, where
there is one, and no more.

Two questions are apart. What supports a claim or leads a frontier is asked of the newest house rule, and gets stricter
with it. What a verdict is *derived* from never does (:func:`is_refuted`): a ledger that verified once verifies always.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.inputs import RunInputs
from k3_ledger.rescore.rules.clock import check_clock_or_excuse
from k3_ledger.rescore.rules.judging import count_claims
from k3_ledger.rescore.rules.parameters import Scope
from k3_ledger.rescore.rules.parity import check_correctness, check_suite
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.rescore.slots import ABSENT, BESIDE, TOKEN, UNITS
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading, Parity
    from k3_ledger.rescore.rules.parameters import Clock, Rule
    from k3_ledger.rescore.rules.verdict import Gate
    from k3_ledger.rescore.slots import Track

REFUTED: Final = "unjudged, and refuted by its own clock"
UNCLOCKED: Final = "unjudged, and seen by no clock"
UNPROVED: Final = "unjudged, and its clock was read over too little to bear it out"
UNFILLED: Final = "unjudged, and its context was not filled with tokens"
DIVERGED: Final = "unjudged, and its agreement is below the bars"
UNGRADED: Final = "unjudged, and its agreement was not graded in full"
"""Why a number that nobody judged supports nothing."""
HOUSE: Final = RULES["house-4.decode"]
"""By whose clock it is asked whether a run is anything that others are held against. Frozen: verdicts rest on it."""
assert HOUSE.clock is not None, "the house rules read one"
HOUSE_CLOCK: Final = HOUSE.clock
BEARING: Final = (RULES["house-5.decode"], RULES["house-6.decode"])
"""One of each way of counting no more of a claim than its clock bears out (the seventh counts as the sixth does); their
clocks read both metrics."""
NEWEST: Final = {"decode": RULES["house-7.decode"], "prefill": RULES["house-7.prefill"]}
"""Who is asked about what nobody judged, by the metric that a number is one of."""
_LETTERS: Final = re.compile("[a-z]+")
_IN_TOKENS: Final = re.compile("tok(en)?s?")


def stem(metric: str) -> str:
    """What kind of metric a name names: ``prefill`` of ``Prefill``, ``prefill.fast`` and ``prefill-behind-64``."""
    found = _LETTERS.match(metric.lower())
    return found[0] if found else ""


def is_of_a_model(track: Track) -> bool:
    """Whether what a track counts is made by a model: tokens, or anything of a receipt that names one.

    That is so whatever the metric is called and whatever it is said to count, but for what is measured beside it: how
    long it took to start, to be asked. Where no model is named, decoding and prefilling is that in any unit, and the
    figures of this program itself, counted as it counts them, are not.
    """
    if track.unit == TOKEN or _IN_TOKENS.fullmatch(track.unit.lower()):
        return True
    if track.model != ABSENT:
        return track.metric not in BESIDE or track.unit != UNITS[track.metric]
    return stem(track.metric) in NEWEST and any(name == "unit" for name, _ in track.conditions)


def newest_rule(track: Track) -> Rule:
    """The newest house rule, as it would be for the metric and context of a track."""
    return _newest_rule(track.metric, track.context)


@lru_cache(maxsize=256)
def _newest_rule(metric: str, context: int | None) -> Rule:
    newest = NEWEST.get(stem(metric), NEWEST["decode"])
    if metric in NEWEST:
        return replace(newest, scope=Scope(metric, context))
    assert newest.clock is not None
    assert newest.ceiling is not None
    return replace(
        newest,
        scope=Scope(metric, context),
        clock=replace(newest.clock, metrics=(metric, *newest.clock.metrics)),
        ceiling=replace(newest.ceiling, metrics=(metric,)),
    )


def doubt(
    track: Track, claim: Fraction | None, reading: ClockReading | None, parity: Parity | None, *, filled: bool | None
) -> str:
    """Why a number that a candidate claims supports nothing while nobody has judged it; empty where it does."""
    return doubt_clock(track, claim, reading) or doubt_work(track, parity, filled=filled)


def doubt_clock(track: Track, claim: Fraction | None, reading: ClockReading | None) -> str:
    """Why nobody may take a program's own word for a speed: only where the gate of the newest house rule passes he may.

    A clock that was read over too little accuses nobody; it proves nothing either.
    """
    if not is_of_a_model(track):
        return ""
    if reading is None:
        return UNCLOCKED
    if claim is None:
        return ""
    outcome = _hold(track, claim, reading).outcome
    if outcome is Outcome.FAIL:
        return REFUTED
    return "" if outcome is Outcome.PASS else UNPROVED


def doubt_work(track: Track, parity: Parity | None, *, filled: bool | None) -> str:
    """Why no speed of a candidate on a track supports anything while nobody has judged it, whoever's clock read it.

    Wrong answers may come fast, and so may those that nobody compared: not every depth of the suite, not on the path
    that was timed, by too few rows, or with the program's own code. And a context that was skipped over is none.
    """
    if not is_of_a_model(track):
        return ""
    if filled is False:
        return UNFILLED
    rule = newest_rule(track)
    if check_correctness(rule.correctness, parity).outcome is Outcome.FAIL:
        return DIVERGED
    graded = parity is not None and parity.independent is not False
    path = stem(track.metric) if stem(track.metric) in NEWEST else track.metric
    suite = check_suite(rule.correctness, parity, path=path).outcome
    return "" if graded and suite is Outcome.PASS else UNGRADED


def contradicts(track: Track, claim: Fraction, reading: ClockReading | None) -> bool:
    """Whether a run's own clock contradicts what the program claims, by the newest house rule.

    Nobody judges a frontier build's run or one of the other engine, so that this is all that is held against them.
    """
    return reading is not None and is_of_a_model(track) and _hold(track, claim, reading).outcome is Outcome.FAIL


def _hold(track: Track, claim: Fraction, reading: ClockReading) -> Gate:
    """The gate of the clock, with the jitter that the newest house rule reads: that of the middle half."""
    clock: Clock | None = newest_rule(track).clock
    assert clock is not None
    return check_clock_or_excuse(clock, track.metric, claim, replace(reading, jitter=reading.middle))


def list_counted(track: Track, claim: Fraction, reading: ClockReading | None) -> list[Fraction]:
    """What counts of a number, by each arithmetic that counts no more than its clock bears out: what may be pinned.

    Frozen as :func:`is_refuted` is: a new arithmetic adds to them.
    """
    run = RunInputs("", track, claim, None, None, None, clock=reading)
    counted = [count_claims(rule, run).speed for rule in BEARING]
    return [speed for speed in counted if speed is not None]


def is_refuted(track: Track, claim: Fraction | None, reading: ClockReading | None) -> bool:
    """Whether verdicts are derived as if a frontier build's run, or one of the other engine, were not there.

    By the bounds of ``house-4`` and the widest jitter, for every arithmetic so far. It may not change: another answer
    would make verdicts false that followed when they were sealed. A stricter one is for a new arithmetic to ask.
    """
    return check_clock_or_excuse(HOUSE_CLOCK, track.metric, claim, reading).outcome is Outcome.FAIL
