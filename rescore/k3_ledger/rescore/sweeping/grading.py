"""A rule's numbers as whole numbers: a tier from a speed and the figures that it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from k3_ledger.rescore.native import DECIMALS
from k3_ledger.rescore.rules.guards import DRIFT
from k3_ledger.rescore.rules.parameters import GRADING
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT
from k3_ledger.rescore.sweeping.numbers import SCALE, pair, round_half_even

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Figure
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.repeats import Repeats
    from k3_ledger.rescore.sweeping.items import Scored

NOT_SCORABLE = "not scorable"
Known: TypeAlias = "int | Figure | None"
"""What is known of a slot: a measured speed in ``10**-6`` units per second, any other figure, or nothing."""


@dataclass(slots=True)
class Held:
    """What a run is held against, and what follows from it for every speed.

    Attributes:
        figures: frontier, reference, pin of the guard, newest measurement of the guarded metric.
        base: numerator and denominator of the frontier; (0, 1) when there is none.
        anchor: likewise of the reference; None when there is none.
        still: the most, in the rule's own decimals, that is no significant gain.
        most: the most that the ceiling lets through, in ``10**-6`` units per second; None when it has no base.
        least: the least that the guard lets through, likewise; None when there is no pin, or none that counts.
    """

    figures: tuple[Known, Known, Known, Known]
    base: tuple[int, int]
    anchor: tuple[int, int] | None
    still: int
    most: int | None
    least: int | None


class Grading:
    """A rule's numbers, and what of it needs a figure."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.grades = rule.arithmetic in GRADING
        self.steps = [(name, *pair(bar)) for name, bar in rule.tiers.steps]
        self.significance = pair(rule.tiers.significance)
        self.cap = pair(rule.credit.cap)
        self.anchored = rule.credit.anchored(rule.scope.metric)
        self.unit = 10**rule.precision.speed
        self.coarser = 10 ** max(0, DECIMALS - rule.precision.speed)
        if rule.precision.speed > DECIMALS:
            self.unit = SCALE
        self.has_ceiling, self.has_ratchet = rule.ceiling is not None, rule.ratchet is not None
        self.has_guard, self.repeats = rule.guard is not None, rule.repeats
        self.multiple = pair(rule.ceiling.multiple) if rule.ceiling else (0, 1)
        self.least = pair(rule.guard.least) if rule.guard else (0, 1)

    def hold(self, figures: tuple[Known, Known, Known, Known]) -> Held:
        """What follows from the figures that a run is held against."""
        frontier, reference, guard, newest = (None if figure is None else _pair(figure) for figure in figures)
        base = numerator, denominator = frontier or (0, 1)
        share, whole = self.significance
        return Held(
            figures,
            base,
            reference,
            (share + whole) * numerator * self.unit // (denominator * whole),
            self._most(base, reference),
            self._floor(guard, newest),
        )

    def tier(
        self, item: Scored, held: Held, *, ratchet: bool | None, repeats: Repeats | None
    ) -> tuple[str, bool | None] | None:
        """(tier, what all gates come to, None where one is open); ``not scorable`` where a reference is missing.

        None when the claim stands on a tie of the rule's decimals: what it was rounded from may not.

        Args:
            item: the run.
            held: what it is held against.
            ratchet: what the ratchet says of it, for a run that has a frontier.
            repeats: what the frontier runs of its round measured, where the rule asks.
        """
        speed = item.speed
        if self.coarser > 1 and speed % self.coarser * 2 == self.coarser:
            return None
        graded = self._grade(speed, held)
        if graded is None:
            return NOT_SCORABLE, None
        outcome = item.gates
        if outcome is not False:
            found = self._held_to(item, held, ratchet, first=graded == BASELINE and self.grades)
            outcome = False if found is False else None if found is None else outcome
        if self.repeats and outcome is True and not self._is_proved(speed, held, repeats):
            outcome = None
        if not self.grades:
            return (REJECT if item.correct is False else graded), outcome
        if outcome is False:
            return REJECT, False
        return (graded if outcome else NONE), outcome

    def _held_to(  # noqa: PLR0911 - one return for each thing that can refuse or be missing
        self, item: Scored, held: Held, ratchet: bool | None, *, first: bool
    ) -> bool | None:
        """All gates that need a figure, in one word; a first run is held to the ceiling alone, where it has a base."""
        outcome: bool | None = True
        if self.has_ceiling:
            if held.most is None:
                outcome = True if first else None
            elif item.speed > held.most:
                return False
        if first:
            return outcome
        if self.has_ratchet and ratchet is not True:
            if ratchet is False:
                return False
            outcome = None
        if self.has_guard:
            if item.guard_clock is False:
                return False
            if item.guarded is None or item.counted is None or held.least is None:
                return None
            if item.guarded < held.least:
                return False
            if item.guard_clock is None or item.counted < held.least:
                return None
        return outcome

    def _is_proved(self, speed: int, held: Held, repeats: Repeats | None) -> bool:
        """Whether a gain is more than what the frontier runs of its round differ by, where there is one to prove."""
        numerator, denominator = held.base
        scaled = round_half_even(speed, self.coarser) if self.coarser > 1 else speed
        if numerator <= 0 or scaled <= held.still:
            return True
        base = numerator * self.unit
        return repeats is not None and repeats.prove(scaled * denominator - base, base)

    def _grade(self, speed: int, held: Held) -> str | None:
        """What speed alone earns; None where a reference is missing."""
        numerator, denominator = held.base
        if numerator <= 0:
            return BASELINE
        scaled = round_half_even(speed, self.coarser) if self.coarser > 1 else speed
        if scaled <= held.still:
            return NONE
        unit = self.unit
        base = numerator * unit
        difference = scaled * denominator - base
        if not self.anchored:
            return self._name(difference, base)
        if held.anchor is None:
            return None
        anchor, over = held.anchor
        # d/L and cap*g with one denominator each: the lesser is the credit.
        by_anchor = (difference * over, denominator * unit * anchor)
        by_cap = (difference * self.cap[0], base * self.cap[1])
        return self._name(*(by_anchor if by_anchor[0] * by_cap[1] <= by_cap[0] * by_anchor[1] else by_cap))

    def _name(self, numerator: int, denominator: int) -> str:
        for name, bar, whole in self.steps:
            if numerator * whole >= bar * denominator:
                return name
        return self.rule.tiers.floor

    def _most(self, mine: tuple[int, int], base: tuple[int, int] | None) -> int | None:
        if self.rule.ceiling is None:
            return None
        if self.rule.ceiling.basis == "own-best":
            if mine[0] and (base is None or mine[0] * base[1] > base[0] * mine[1]):
                base = mine
            base = base if base and base[0] else None
        if base is None:
            return None
        multiple, whole = self.multiple
        return multiple * base[0] * SCALE // (base[1] * whole)

    def _floor(self, held: tuple[int, int] | None, newest: tuple[int, int] | None) -> int | None:
        """The least that the guard lets through: of the pin, or where pins are reconciled of the greater of two."""
        if held is None:
            return None
        if self.rule.reconciles:
            if newest is None:
                return None
            mine, theirs = held[0] * newest[1], newest[0] * held[1]
            if abs(theirs - mine) * DRIFT.denominator > DRIFT.numerator * mine:
                return None
            held = newest if theirs > mine else held
        least, of = self.least
        return -(-least * held[0] * SCALE // (of * held[1]))


def _pair(figure: int | Figure) -> tuple[int, int]:
    return (figure, SCALE) if isinstance(figure, int) else pair(figure.value)
