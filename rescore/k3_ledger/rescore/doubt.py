"""Why a number that nobody has judged supports nothing: its own clock contradicts it, or there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.rules.clock import check_clock_or_excuse
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading
    from k3_ledger.rescore.native import ActorSpeed
    from k3_ledger.rescore.slots import Track

REFUTED: Final = "unjudged, and refuted by its own clock"
UNCLOCKED: Final = "unjudged, and seen by no clock"
"""Why a number that nobody judged supports nothing."""
HOUSE: Final = RULES["house-4.decode"]
"""By whose clock it is asked whether a number that nobody judges is one."""
assert HOUSE.clock is not None, "the house rules read one"
HOUSE_CLOCK: Final = HOUSE.clock


def doubt(track: Track, claim: Fraction | None, reading: ClockReading | None) -> str:
    """Why a number that a program claims supports nothing while nobody has judged it; empty where it does.

    Its own clock contradicts it, or there is none. A reading over too little is one: what it leaves open is not held
    against the number. Metrics that no house rule reads a clock for are not asked for one.
    """
    if is_refuted(track, claim, reading):
        return REFUTED
    return UNCLOCKED if reading is None and track.metric in HOUSE_CLOCK.metrics else ""


def doubt_unless_judged(body: Any, one: ActorSpeed, reading: ClockReading | None) -> str:
    """Why what a program claims of itself supports nothing unless it is judged.

    Nobody judges a frontier build's run or one of the other engine, so that what contradicts them is all that is held
    against them.
    """
    found = doubt(one.track, one.speed, reading)
    return found if body.role == "candidate" or found == REFUTED else ""


def is_refuted(track: Track, claim: Fraction | None, reading: ClockReading | None) -> bool:
    """Whether a run's own clock contradicts what the program claims, by the bounds of the house rules.

    A reading over too little excuses a claim as :func:`~k3_ledger.rescore.rules.clock.check_clock_or_excuse` has it.
    """
    return check_clock_or_excuse(HOUSE_CLOCK, track.metric, claim, reading).outcome is Outcome.FAIL
