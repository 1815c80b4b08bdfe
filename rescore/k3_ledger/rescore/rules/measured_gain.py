"""Arithmetics ``measured-gain/1`` to ``/7``: what was measured is what is credited, and every gate grades.

Tier and credit come from the gain over the frontier, with ``anchored-gain/1``'s formulas for what the parameters turn
on. Unlike there, a run that any gate refuses is REJECT, and a run for which the evidence of any gate is absent earns
``none``: leaving evidence out must never pay. The tier its speed alone would have had stays visible in both cases.

A first run, which has no frontier yet, has nothing its divergence or its guarded metric could be compared with, nor
perhaps a value to take a ceiling from; these gates then pass with the reason ``no-frontier``. Its claim is still
held against the clock.

They differ in what the jitter is that the clock's margin is held against: in the first the widest spread among all
runs of equal length, from the second on that of their middle half
(:func:`~k3_ledger.schemas.repetitions.middle_spread`). And in what a reconciled pin is: up to the second any ``pin``
entry, from the third on one that agrees with the newest measurement of its slot. And in what a clock says that is read
over too little: up to the third it refuses, from the fourth on it leaves the gate open unless it contradicts the claim.

In the fifth no claim counts for more than its clock bears out, of the guarded metric neither, which has a gate of its
own for that; and no run of a round is scored whose frontier run fell further below the frontier than drifts may
(:mod:`k3_ledger.rescore.rescore` says which frontier that is).

In the sixth a run is scored only where all that it is held against was measured on its own weights: a name is no
evidence that two files are one. And where a clock timed three lengths or more, no more of the claim counts than the
slowest pair bears out that is long enough to prove it (:mod:`k3_ledger.rescore.rules.judging`).

In the seventh a gain must be more than what the frontier runs of the run's round differ by, four of them or more
(:mod:`k3_ledger.rescore.rules.repeats`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.rules.clock import check_clock, check_clock_or_excuse
from k3_ledger.rescore.rules.guards import DRIFT, check_ceiling, check_guard, check_reconciled_guard
from k3_ledger.rescore.rules.judging import (
    count_claims,
    missing,
    missing_speed,
    pins_used,
    rounded_speed,
    scored_speed,
    show_counted,
)
from k3_ledger.rescore.rules.parity import check_correctness, check_ratchet, check_suite
from k3_ledger.rescore.rules.repeats import check_repeats, show_repeats
from k3_ledger.rescore.rules.tiers import grade
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT, Gate, NotScorable, Scored, Step, Verdict
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import ClockReading, RunInputs
    from k3_ledger.rescore.rules.parameters import Guard, Rule, Sampling

FEW_SAMPLES: Final = "few-samples"
"""Why a gate refuses what was repeated too seldom."""


def judge(rule: Rule, run: RunInputs) -> Scored:
    """Apply the arithmetic to a run of whatever metric and context.

    Returns:
        A verdict, or what is missing for one.
    """
    counted = count_claims(rule, run)
    speed = scored_speed(rule, counted)
    if speed is None:
        return missing_speed(rule, run)
    if run.frontier is None:
        return missing(rule, run, "frontier")
    graded = grade(
        rule.tiers,
        rule.credit,
        run.track.metric,
        speed=rounded_speed(rule, counted, speed),
        frontier=run.frontier.value,
        reference=run.reference.value if run.reference else None,
    )
    if graded is None:
        return missing(rule, run, "reference")
    gates = _gates(rule, run, counted, first=graded.tier == BASELINE)
    steps = graded.steps
    if rule.repeats:
        gates = (*gates, check_repeats(graded.gain, rule.tiers.significance, run.repeats))
        steps += () if graded.gain is None else show_repeats(run.repeats)
    tier, bound_by = graded.tier, graded.bound_by
    for outcome, instead in ((Outcome.FAIL, REJECT), (Outcome.NOT_CHECKED, NONE)):
        stopped = [gate for gate in gates if gate.outcome is outcome]
        if stopped:
            tier, bound_by = instead, stopped[0].name
            break
    return Verdict(
        run=run.run,
        rule=rule.name,
        rule_sha256=rule.sha256,
        metric=run.track.metric,
        tier=tier,
        speed_tier=graded.tier,
        bound_by=bound_by,
        credit_bound=graded.credit_bound,
        gain=graded.gain,
        credit=graded.credit,
        steps=steps,
        pins=pins_used(rule, run),
        gates=gates,
    )


def judge_by_middle(rule: Rule, run: RunInputs) -> Scored:
    """The same with the jitter of the middle half of the repetitions, which one run that was held up does not move."""
    clock = run.clock and replace(run.clock, jitter=run.clock.middle)
    return judge(rule, replace(run, clock=clock))


def judge_borne_out(rule: Rule, run: RunInputs) -> Scored:
    """The same, of a run whose round measured a frontier that can be believed, with the guarded metric's clock."""
    if run.alarm is not None and run.frontier is not None:
        message = (
            f"alarm: the frontier run of its round measured {format_exact(run.alarm.value)}/s, below "
            f"{format_exact(1 - DRIFT)} of the frontier {format_exact(run.frontier.value)}: measure it again"
        )
        return NotScorable(run.run, rule.name, "alarm", message, "frontier")
    clock = run.guarded_clock and replace(run.guarded_clock, jitter=run.guarded_clock.middle)
    return judge_by_middle(rule, replace(run, guarded_clock=clock))


def judge_on_weights(rule: Rule, run: RunInputs) -> Scored:
    """The same, of a run that is held against nothing that other weights measured, or weights that nobody names."""
    if run.mixed is not None:
        return NotScorable(run.run, rule.name, "weights", run.mixed.describe(run.weights), "weights")
    return judge_borne_out(rule, run)


def _gates(rule: Rule, run: RunInputs, counted: RunInputs, *, first: bool) -> tuple[Gate, ...]:
    """All gates: clocks hold what ``run`` claims, the others what of it was ``counted``."""
    gates = [
        check_correctness(rule.correctness, run.parity),
        check_suite(rule.correctness, run.parity, path=run.track.metric),
    ]
    if rule.sampling:
        gates.append(check_sampling(rule.sampling, run))
    if rule.clock:
        read = check_clock_or_excuse if rule.excuses else check_clock
        gate = read(rule.clock, run.track.metric, run.speed, run.clock)
        gates.append(_with_counted(rule, gate, run.clock, run.speed))
    if rule.ceiling:
        ceiling = check_ceiling(rule.ceiling, counted, rule.guard.metric if rule.guard else None)
        unbased = first and ceiling.outcome is Outcome.NOT_CHECKED
        gates.append(Gate("ceiling", Outcome.PASS, "no-frontier") if unbased else ceiling)
    if rule.ratchet:
        ratchet = check_ratchet(rule.ratchet, run.parity, run.frontier_parity)
        gates.append(Gate("ratchet", Outcome.PASS, "no-frontier") if first else ratchet)
    if rule.guard:
        if rule.bears_out and rule.clock:
            held = check_clock_or_excuse(rule.clock, rule.guard.metric, run.guarded, run.guarded_clock)
            held = _with_counted(rule, held, run.guarded_clock, run.guarded)
            held = Gate("guard-clock", Outcome.PASS, "no-frontier") if first else replace(held, name="guard-clock")
            gates.append(held)
        guard = _guard(rule, rule.guard, run, counted)
        gates.append(Gate("guard", Outcome.PASS, "no-frontier") if first else guard)
    return tuple(gates)


def _with_counted(rule: Rule, gate: Gate, reading: ClockReading | None, claim: Fraction | None) -> Gate:
    """The gate of a clock that is read, with what counts of the claim where that is less, and by which lengths."""
    return (
        gate if gate.reason == "not-read" else replace(gate, steps=(*gate.steps, *show_counted(rule, reading, claim)))
    )


def _guard(rule: Rule, guard: Guard, run: RunInputs, counted: RunInputs) -> Gate:
    """The guard on what counted; where the claim itself would pass nothing fell, it was only not borne out."""
    found = _guard_of(rule, guard, counted)
    if found.outcome is not Outcome.FAIL or _guard_of(rule, guard, run).outcome is Outcome.FAIL:
        return found
    return replace(found, outcome=Outcome.NOT_CHECKED, reason="not-borne-out", detail=f"{found.detail}, by its clock")


def _guard_of(rule: Rule, guard: Guard, run: RunInputs) -> Gate:
    if rule.reconciles:
        return check_reconciled_guard(guard, run.guarded, run.guard_pin, run.guard_measured)
    return check_guard(guard, run.guarded, run.guard_pin)


def check_sampling(rule: Sampling, run: RunInputs) -> Gate:
    """Whether enough was timed, over real context, and graded by somebody else."""
    steps = (Step("samples", "unknown" if run.samples is None else str(run.samples)),)
    independent = run.parity.independent if run.parity else None
    if run.samples is not None and run.samples < rule.repetitions:
        detail = f"{run.samples} repetitions of a length, the rule asks for {rule.repetitions}"
        return Gate("sampling", Outcome.FAIL, FEW_SAMPLES, detail, steps)
    if rule.filled and run.filled is False:
        return Gate("sampling", Outcome.FAIL, "seeked", "the context was skipped over, not filled with tokens", steps)
    if rule.independent and independent is False:
        return Gate("sampling", Outcome.FAIL, "self-graded", "the reference is the project's own code", steps)
    unknown = [
        name
        for name, absent in (
            ("repetitions", run.samples is None),
            ("how the context was filled", rule.filled and run.filled is None),
            ("whose code the reference is", rule.independent and independent is None),
        )
        if absent
    ]
    if unknown:
        return Gate("sampling", Outcome.NOT_CHECKED, "no-evidence", f"no record of {', '.join(unknown)}", steps)
    return Gate("sampling", Outcome.PASS, steps=steps)
