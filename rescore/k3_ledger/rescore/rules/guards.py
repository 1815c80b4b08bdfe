"""Gates that hold a claim under a plausible ceiling and a second metric above a floor."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.rescore.exact import format_exact, format_percent, format_rounded
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Figure, RunInputs
    from k3_ledger.rescore.rules.parameters import Ceiling, Guard

DRIFT: Final = Fraction(1, 10)
"""Share of a pin that the newest measurement of its slot may be off, in ``measured-gain/3``; equality agrees. It is
what `reconcile` calls stale or alarming unless it is told otherwise, and is frozen here: a rule never changes."""


def check_ceiling(rule: Ceiling, run: RunInputs, guarded_metric: str | None) -> Gate:
    """Hold the claim of each checked metric under its ceiling; equality passes.

    Args:
        rule: names the metrics that are checked and what the ceiling is a multiple of.
        run: carries the claims: its scored speed, and the guarded value where there is one.
        guarded_metric: metric of ``run.guarded``.
    """
    steps: list[Step] = []
    for metric in rule.metrics:
        claim = run.speed if metric == run.track.metric else run.guarded if metric == guarded_metric else None
        base = _basis(rule, run, metric)
        if claim is None or base is None:
            what = "claim" if claim is None else "value to take the ceiling from"
            return Gate("ceiling", Outcome.NOT_CHECKED, "no-evidence", f"the run has no {metric} {what}", tuple(steps))
        ceiling = rule.multiple * base
        steps += [Step(f"{metric}_claim", claim), Step(f"{metric}_ceiling", ceiling)]
        if claim > ceiling:
            detail = (
                f"{metric} {format_rounded(claim, 2)}/s is above {format_rounded(ceiling, 2)}/s, "
                f"{format_exact(rule.multiple)}x {format_exact(base)}"
            )
            return Gate("ceiling", Outcome.FAIL, "over-ceiling", detail, tuple(steps))
    return Gate("ceiling", Outcome.PASS, steps=tuple(steps))


def _basis(rule: Ceiling, run: RunInputs, metric: str) -> Fraction | None:
    """Value that the ceiling of ``metric`` multiplies; None where the run holds none for that metric."""
    reference = run.reference.value if run.reference else None
    if rule.basis == "scored-reference":
        return reference
    if metric != run.track.metric:
        return None
    if rule.basis == "own-reference":
        return reference
    known = [value for value in (reference, run.frontier.value if run.frontier else None) if value]
    return max(known, default=None)


def check_guard(rule: Guard, measured: Fraction | None, pin: Figure | None) -> Gate:
    """Hold the guarded metric above its share of the pin; equality passes.

    Where the rule asks for a reconciled pin, one that is no ``pin`` entry leaves the gate undecided. Whether that
    entry is stale is not asked here, which is why no new rule uses this one: see :func:`check_reconciled_guard`.
    """
    if measured is None:
        return Gate("guard", Outcome.NOT_CHECKED, "no-evidence", f"the run does not record {rule.metric}")
    if pin is None:
        return Gate("guard", Outcome.NOT_CHECKED, "no-pin", f"no pin for {rule.metric}")
    steps = (Step("guarded", measured), Step("guard_pin", pin.value), Step("guard_floor", rule.least * pin.value))
    if rule.pin == "reconciled" and pin.origin != "pin":
        return Gate("guard", Outcome.NOT_CHECKED, "not-reconciled", "the pin is not a reconciled one", steps)
    if measured < rule.least * pin.value:
        detail = (
            f"{rule.metric} {format_rounded(measured, 2)}/s is below {format_exact(rule.least)} of the pinned "
            f"{format_exact(pin.value)}"
        )
        return Gate("guard", Outcome.FAIL, "guarded-metric-fell", detail, steps)
    return Gate("guard", Outcome.PASS, steps=steps)


def check_reconciled_guard(rule: Guard, measured: Fraction | None, pin: Figure | None, newest: Figure | None) -> Gate:
    """Hold the guarded metric above its share of the greater of a pin and the newest measurement of its slot.

    A pin counts when it is a ``pin`` entry and the frontier build's newest measurement is within :data:`DRIFT` of it;
    otherwise the gate is undecided and names both figures: a stale pin would let the guarded metric fall by all that
    it rose since. Where they agree the greater one counts, so that the rule admits the loss it states and not the
    drift besides; where the newest is the lesser, pins only ever rise.

    Args:
        rule: names the metric and the share; equality passes.
        measured: the guarded value of the run.
        pin: what is pinned.
        newest: what the frontier build measured last, in the run's own round where that has one.
    """
    if measured is None or pin is None or newest is None or pin.origin != "pin":
        return _unreconciled(rule, measured, pin)
    steps: tuple[Step, ...]
    steps = (Step("guarded", measured), Step("guard_pin", pin.value), Step("guard_measured", newest.value))
    drift = (newest.value - pin.value) / pin.value
    if abs(drift) > DRIFT:
        detail = (
            f"{rule.metric} is pinned at {format_exact(pin.value)}, and the newest frontier run measured "
            f"{format_exact(newest.value)} ({'+' if drift > 0 else ''}{format_percent(drift)} %)"
        )
        return Gate("guard", Outcome.NOT_CHECKED, "not-reconciled", detail, steps)
    held = max(pin.value, newest.value)
    steps = (*steps, Step("guard_floor", rule.least * held))
    if measured < rule.least * held:
        detail = (
            f"{rule.metric} {format_rounded(measured, 2)}/s is below {format_exact(rule.least)} of the "
            f"{'measured' if newest.value > pin.value else 'pinned'} {format_exact(held)}"
        )
        return Gate("guard", Outcome.FAIL, "guarded-metric-fell", detail, steps)
    return Gate("guard", Outcome.PASS, steps=steps)


def _unreconciled(rule: Guard, measured: Fraction | None, pin: Figure | None) -> Gate:
    """What is missing for a guard with a reconciled pin."""
    if measured is None:
        reason, detail = "no-evidence", f"the run does not record {rule.metric}"
    elif pin is None:
        reason, detail = "no-pin", f"no pin for {rule.metric}"
    elif pin.origin != "pin":
        reason, detail = "not-reconciled", "the pin is not a pin entry"
    else:
        reason = "no-measurement"
        detail = f"{rule.metric} is pinned at {format_exact(pin.value)}, and no frontier run measured it"
    return Gate("guard", Outcome.NOT_CHECKED, reason, detail)
