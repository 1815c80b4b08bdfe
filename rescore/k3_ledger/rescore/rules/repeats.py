"""The gate of repetition: a gain must be more than what the frontier's own runs differ by.

Two runs of one build on a shared machine differ by more than any significance that is worth a tier, and the jitter
inside a run does not show it: what held up one run from its start to its end is the same in all of its repetitions.
The frontier runs of a run's round do show it, for they are of one build. Of a run that gained nothing, measured in
turns with four of them, the chance to be faster than all by more than they differ is one in thirty under normal noise,
however wide, and never more than one in five (ADR 0060). In which order they were measured no rule can see.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_percent, format_rounded
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

REPEATS: Final = 4
"""Frontier runs of its round that a gain is held against, in ``measured-gain/7``. Frozen here: a rule never changes."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What the frontier runs of one round measured on one track, on one file of weights.

    Attributes:
        bundles: digests of the bundles of the first of them, each once and at most :data:`REPEATS`: whoever seals one
            bundle twice measured it once.
        least: slowest of all of them.
        greatest: fastest of all of them, in the same unit.
    """

    bundles: tuple[str, ...]
    least: Fraction | int
    greatest: Fraction | int

    def joined(self, other: Repeats) -> Repeats:
        """These and other runs of the same round, in the same unit."""
        return Repeats(
            _first((*self.bundles, *other.bundles)),
            min(self.least, other.least),
            max(self.greatest, other.greatest),
        )

    def scaled(self, factor: Fraction | int) -> Repeats:
        """The same in another unit."""
        return Repeats(self.bundles, self.least * factor, self.greatest * factor)

    def prove(self, numerator: int, denominator: int) -> bool:
        """Whether a gain of ``numerator / denominator`` is more than they differ by, and there are enough of them.

        They differ by ``(greatest - least) / least``; equality proves nothing.
        """
        return len(self.bundles) >= REPEATS and self.least * numerator > (self.greatest - self.least) * denominator


def _first(bundles: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(bundles))[:REPEATS]


def show_repeats(repeats: Repeats | None) -> tuple[Step, ...]:
    """What a gain is held against, as a verdict states it: how many runs, up to what is asked, and their extremes."""
    if repeats is None:
        return (Step("repeats", "0"),)
    return (
        Step("repeats", str(len(repeats.bundles))),
        Step("spread_least", Fraction(repeats.least)),
        Step("spread_greatest", Fraction(repeats.greatest)),
    )


def check_repeats(gain: Fraction | None, significance: Fraction, repeats: Repeats | None) -> Gate:
    """Hold a gain against what the frontier runs of the run's round differ by; equality leaves it open.

    It is never refused: noise accuses nobody. What is not significant has nothing that would have to be proved.

    Args:
        gain: over whatever frontier the run is held against; None where there is none.
        significance: of the rule.
        repeats: the frontier runs of its round on its track and weights that stood in front of it; None without any.
    """
    if gain is None:
        return Gate("repeats", Outcome.PASS, "no-frontier")
    steps = show_repeats(repeats)
    if gain <= significance:
        return Gate("repeats", Outcome.PASS, "no-gain", "no gain that would have to be proved", steps)
    count = 0 if repeats is None else len(repeats.bundles)
    if repeats is None or count < REPEATS:
        runs = "1 frontier run" if count == 1 else f"{count} frontier runs"
        detail = f"{runs} of its round on its weights, the rule asks for {REPEATS}"
        return Gate("repeats", Outcome.NOT_CHECKED, "few-repeats", detail, steps)
    if repeats.prove(gain.numerator, gain.denominator):
        return Gate("repeats", Outcome.PASS, steps=steps)
    by = ""
    if repeats.least > 0:
        by = f" by {format_percent(Fraction(repeats.greatest - repeats.least) / repeats.least, 2)} %"
    least, greatest = (format_rounded(Fraction(value), 2) for value in (repeats.least, repeats.greatest))
    differ = f"the frontier runs of its round differ{by}, {least}/s to {greatest}/s"
    detail = f"a gain of {format_percent(gain, 2)} %, and {differ}"
    return Gate("repeats", Outcome.NOT_CHECKED, "within-spread", detail, steps)
