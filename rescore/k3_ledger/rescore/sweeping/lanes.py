"""Everything that a candidate is held against, looked up once for as long as it does not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from k3_ledger.rescore.sweeping.numbers import SCALE
from k3_ledger.rescore.sweeping.rounds import digest_of

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Figure
    from k3_ledger.rescore.rescore import Judge
    from k3_ledger.rescore.rules.repeats import Repeats
    from k3_ledger.rescore.sweeping.grading import Held
    from k3_ledger.rescore.sweeping.rounds import Measured, Round

Asked: TypeAlias = "tuple[int, str | None, bool]"
"""Place and round of a run, and whether it timed what is guarded: what it is held against follows from them."""


class Lane:
    """One track on one file of weights, with everything about it that is looked up for each of its runs.

    Under a rule that does not ask for weights they are all one.
    """

    __slots__ = (
        "best", "frontier_slot", "guard", "guard_slots", "held", "own", "reference_slot", "speed", "track", "weights",
    )  # fmt: skip

    def __init__(self, own: Measured, guard: Measured | None, weights: str) -> None:
        self.own, self.guard, self.weights = own, guard, weights
        self.track = own.track
        self.frontier_slot, self.reference_slot = self.track.slot("frontier"), self.track.slot("reference")
        self.guard_slots = (guard.track.slot("guard"), guard.track.slot("frontier")) if guard else ("", "")
        self.best: Figure | None = None
        self.speed = 0
        self.held: Held | None = None

    def take(self, judge: Judge) -> None:
        """The frontier as it has climbed, and in ``10**-6`` units per second: measured speeds have no more decimals."""
        if self.weights:
            self.best = judge.best_alike.get((self.track, digest_of(self.weights)))
        else:
            self.best = judge.best.get(self.track)
        self.speed = 0 if self.best is None else int(self.best.value * SCALE)


@dataclass(slots=True)
class Found:
    """What a run is held against, until anything else than a candidate follows or one of them moves the frontier.

    Attributes:
        lane: its track, on its weights.
        round: what was measured in its round.
        repeats: what the frontier runs of it measured, where the rule asks.
        held: the figures; None where it is not scorable.
    """

    lane: Lane
    round: Round
    repeats: Repeats | None
    held: Held | None
