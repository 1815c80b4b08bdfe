"""From a speed, a frontier and a reference to gain, credit and tier: the part every arithmetic shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.rescore.rules.verdict import BASELINE, NONE, Bound, Step, Term

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.rules.parameters import Credit, Tiers


@dataclass(frozen=True, slots=True)
class Graded:
    """What speed alone earns.

    Attributes:
        bound_by: ``baseline``, ``significance``, or the term the credit came from.
        steps: intermediate values in order of use.
    """

    tier: str
    bound_by: Bound
    credit_bound: Term | None
    gain: Fraction | None
    credit: Fraction | None
    steps: tuple[Step, ...]


def grade(
    tiers: Tiers, credit: Credit, metric: str, *, speed: Fraction, frontier: Fraction, reference: Fraction | None
) -> Graded | None:
    """Grade a speed against a frontier; None when the anchor takes part and there is no reference.

    The reference is only needed once a gain is significant: a run that gained nothing can be graded without it.
    Where two terms are equal the anchor is named, then the cap.
    """
    steps = [Step("speed", speed), Step("frontier", frontier)]
    if frontier <= 0:
        return Graded(BASELINE, "baseline", None, None, None, tuple(steps))
    difference = speed - frontier
    gain = difference / frontier
    steps += [Step("difference", difference), Step("gain", gain), Step("significance", tiers.significance)]
    if gain <= tiers.significance:
        return Graded(NONE, "significance", None, gain, None, tuple(steps))
    terms: dict[Term, Fraction] = {"gain": gain}
    if credit.anchored(metric):
        if reference is None:
            return None
        terms = {"anchor": difference / reference, "cap": credit.cap * gain}
        steps += [Step("reference", reference), *(Step(name, value) for name, value in terms.items())]
    term = min(terms, key=terms.__getitem__)
    value = terms[term]
    steps += [Step("credit", value), Step("bound_by", term)]
    return Graded(tier_of(tiers, value), term, term, gain, value, tuple(steps))


def tier_of(tiers: Tiers, credit: Fraction) -> str:
    """Name of the best step whose bar ``credit`` reaches, or the floor."""
    return next((name for name, bar in tiers.steps if credit >= bar), tiers.floor)
