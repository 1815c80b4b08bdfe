"""Arithmetic ``anchored-gain/1``: that of every release of the rules this project re-plays.

With ``t`` the scored speed rounded to the rule's decimals, ``F`` the frontier, ``L`` the reference, ``d = t - F`` and
``g = d/F``: no frontier is BASELINE; ``g`` not above the significance bar is ``none``; otherwise the tier of the
credit, which is the least of ``d/L`` and ``cap * g``, or ``g`` where the anchor is off. Failed correctness is REJECT
and keeps the tier it would have had.

Its other gates *admit* a measurement and never grade one: a run they refuse got no receipt. Re-scoring a receipt
therefore shows what they say beside the tier, and the tier stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.rules.clock import check_clock
from k3_ledger.rescore.rules.guards import check_ceiling, check_guard
from k3_ledger.rescore.rules.judging import missing, missing_speed, pins_used, rounded_speed, scored_speed
from k3_ledger.rescore.rules.parity import check_correctness, check_ratchet, check_suite
from k3_ledger.rescore.rules.tiers import grade
from k3_ledger.rescore.rules.verdict import REJECT, Gate, Scored, Verdict
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import RunInputs
    from k3_ledger.rescore.rules.parameters import Rule


def judge(rule: Rule, run: RunInputs) -> Scored:
    """Apply the arithmetic to a run of whatever metric and context.

    Returns:
        A verdict, or what is missing for one. Gates whose evidence is absent are NOT_CHECKED in the verdict.
    """
    speed = scored_speed(rule, run)
    if speed is None:
        return missing_speed(rule, run)
    if run.frontier is None:
        return missing(rule, run, "frontier")
    graded = grade(
        rule.tiers,
        rule.credit,
        run.track.metric,
        speed=rounded_speed(rule, run, speed),
        frontier=run.frontier.value,
        reference=run.reference.value if run.reference else None,
    )
    if graded is None:
        return missing(rule, run, "reference")
    correctness = check_correctness(rule.correctness, run.parity)
    refused = correctness.outcome is Outcome.FAIL
    return Verdict(
        run=run.run,
        rule=rule.name,
        rule_sha256=rule.sha256,
        metric=run.track.metric,
        tier=REJECT if refused else graded.tier,
        speed_tier=graded.tier,
        bound_by="correctness" if refused else graded.bound_by,
        credit_bound=graded.credit_bound,
        gain=graded.gain,
        credit=graded.credit,
        steps=graded.steps,
        pins=pins_used(rule, run),
        gates=(correctness, *_admission(rule, run)),
    )


def _admission(rule: Rule, run: RunInputs) -> tuple[Gate, ...]:
    """The gates that decide whether a measurement is admitted at all."""
    gates = [check_suite(rule.correctness, run.parity)]
    if rule.ratchet:
        gates.append(check_ratchet(rule.ratchet, run.parity, run.frontier_parity))
    if rule.clock:
        gates.append(check_clock(rule.clock, run.track.metric, run.speed, run.clock))
    if rule.ceiling:
        gates.append(check_ceiling(rule.ceiling, run, rule.guard.metric if rule.guard else None))
    if rule.guard:
        gates.append(check_guard(rule.guard, run.guarded, run.guard_pin))
    return tuple(gates)
