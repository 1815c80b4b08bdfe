"""Exact search beside the analysis: tries the rule's own arithmetic at the grid's neighbours of every breakpoint.

The analysis in the other modules is derived from the formulas; this one knows none of them. It looks for inputs that
break what any rule must hold: credit never exceeds gain, and more speed never earns less. What it finds outside the
regions already reported is a counterexample to the analysis and reported as such.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.lint.findings import Fault, LintFinding, Reach
from k3_ledger.rescore.rules.tiers import Graded, grade

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from fractions import Fraction

    from k3_ledger.rescore.lint.context import Context

_OVER = frozenset({Fault.ANCHOR_OVER_GAIN, Fault.CAP_OVER_GAIN})
_SLOPE = frozenset({Fault.CREDIT_NOT_MONOTONE})


def search(context: Context, found: Iterable[LintFinding]) -> Iterator[LintFinding]:
    """Counterexamples that ``found`` does not account for."""
    known, reference = list(found), context.reference
    for frontier in frontiers(context):
        grades = [
            (speed, graded)
            for speed in speeds(context, frontier)
            if (graded := _grade(context, speed, frontier, reference or frontier))
        ]
        for speed, graded in grades:
            if over_credited(graded) and not _accounted(known, _OVER, frontier):
                yield _counterexample(context, frontier, speed, "credit exceeds gain")
                return
        for (_, slower), (speed, faster) in itertools.pairwise(grades):
            if less_for_more(slower, faster) and not _accounted(known, _SLOPE, frontier):
                yield _counterexample(context, frontier, speed, "less credit than for a slower run")
                return


def over_credited(graded: Graded) -> bool:
    """Whether more was credited than gained."""
    return graded.credit is not None and graded.gain is not None and graded.credit > graded.gain


def less_for_more(slower: Graded, faster: Graded) -> bool:
    """Whether the faster of two runs has less credit."""
    return slower.credit is not None and faster.credit is not None and faster.credit < slower.credit


def frontiers(context: Context) -> list[Fraction]:
    """Values on the grid just before and just after every frontier at which anything can turn, ascending."""
    rule, reference = context.rule, context.reference
    turns = {value for value in (reference, context.frontier, context.ceiling(context.metric)) if value}
    if reference:
        bars = [bar for _, bar in rule.tiers.steps]
        turns |= {rule.credit.cap * reference, 2 * rule.credit.cap * reference}
        if rule.tiers.significance:
            turns |= {bar / rule.tiers.significance * reference for bar in bars}
    return _around(context, turns or {context.step * 5000})


def speeds(context: Context, frontier: Fraction) -> list[Fraction]:
    """Values on the grid just before and just after every speed at which a tier can turn, ascending."""
    rule, reference = context.rule, context.reference or frontier
    shares = [rule.tiers.significance, *(bar for _, bar in rule.tiers.steps)]
    turns = {frontier * (1 + share) for share in shares} | {frontier + share * reference for share in shares}
    if rule.credit.cap:
        turns |= {frontier * (1 + share / rule.credit.cap) for share in shares}
    return _around(context, turns)


def _around(context: Context, turns: set[Fraction]) -> list[Fraction]:
    step = context.step
    grid = {(turn // step + offset) * step for turn in turns for offset in (0, 1)}
    return sorted(value for value in grid if value > 0)


def _grade(context: Context, speed: Fraction, frontier: Fraction, reference: Fraction) -> Graded | None:
    rule = context.rule
    return grade(rule.tiers, rule.credit, context.metric, speed=speed, frontier=frontier, reference=reference)


def _accounted(found: list[LintFinding], faults: frozenset[Fault], frontier: Fraction) -> bool:
    return any(finding.fault in faults and finding.region.covers(frontier) for finding in found)


def _counterexample(context: Context, frontier: Fraction, speed: Fraction, what: str) -> LintFinding:
    witness = (("speed", format_exact(speed)), ("frontier", format_exact(frontier)))
    region = context.region("frontier", frontier, most=frontier)
    return LintFinding(Fault.COUNTEREXAMPLE, Reach.REACHABLE, region, what, witness, what)
