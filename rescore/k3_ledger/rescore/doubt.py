"""Why a number that nobody has judged supports nothing: its own receipt contradicts it, or leaves out what would.

Whoever has his run judged is refused where its clock contradicts its number, or where what it computed is not what
the reference computes; and beyond its clock nothing counts. Not judging must not pay. So the same is asked of a
candidate that nobody judged, as far as its own receipt answers: its clock, its agreement, and how much of the number
its clock bears out (:attr:`k3_ledger.rescore.material.Candidate.counted`). What needs a pin, a round or a guarded
metric is a judge's to ask, and so is how often a run was repeated.

A published verdict decides all of this instead, where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.rules.clock import check_clock_or_excuse
from k3_ledger.rescore.rules.parity import check_correctness, check_suite
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading, Parity
    from k3_ledger.rescore.slots import Track

REFUTED: Final = "unjudged, and refuted by its own clock"
UNCLOCKED: Final = "unjudged, and seen by no clock"
DIVERGED: Final = "unjudged, and its agreement is below the bars"
UNGRADED: Final = "unjudged, and its agreement was not graded in full"
"""Why a number that nobody judged supports nothing."""
HOUSE: Final = RULES["house-4.decode"]
"""By whose clock it is asked whether a number that nobody judges is one."""
NEWEST: Final = RULES["house-6.decode"]
"""By whose bars its agreement is asked, and how much of a number counts that nobody judged."""
assert HOUSE.clock is not None, "the house rules read one"
HOUSE_CLOCK: Final = HOUSE.clock


def doubt(track: Track, claim: Fraction | None, reading: ClockReading | None, parity: Parity | None) -> str:
    """Why a number that a candidate claims supports nothing while nobody has judged it; empty where it does.

    Its own clock contradicts it, or there is none; or the run's agreement is doubted (:func:`doubt_agreement`). A
    reading over too little is one: what it leaves open is not held against the number. Metrics that no house rule reads
    a clock for are asked for neither.
    """
    if is_refuted(track, claim, reading):
        return REFUTED
    if reading is None and track.metric in HOUSE_CLOCK.metrics:
        return UNCLOCKED
    return doubt_agreement(track, parity)


def doubt_agreement(track: Track, parity: Parity | None) -> str:
    """Why no speed of a candidate on a track supports anything while nobody has judged it, whoever's clock read it.

    Wrong answers may come fast, and so may those that nobody compared: not every depth of the suite, not on the path
    that was timed, by too few rows, or with the program's own code.
    """
    if track.metric not in HOUSE_CLOCK.metrics:
        return ""
    if check_correctness(NEWEST.correctness, parity).outcome is Outcome.FAIL:
        return DIVERGED
    graded = parity is not None and parity.independent is not False
    suite = check_suite(NEWEST.correctness, parity, path=track.metric).outcome
    return "" if graded and suite is Outcome.PASS else UNGRADED


def is_refuted(track: Track, claim: Fraction | None, reading: ClockReading | None) -> bool:
    """Whether a run's own clock contradicts what the program claims, by the bounds of the house rules.

    Nobody judges a frontier build's run or one of the other engine, so that this is all that is held against them. A
    reading over too little excuses a claim as :func:`~k3_ledger.rescore.rules.clock.check_clock_or_excuse` has it.
    """
    return check_clock_or_excuse(HOUSE_CLOCK, track.metric, claim, reading).outcome is Outcome.FAIL
