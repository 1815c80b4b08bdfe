"""Gates that hold a claim under a plausible ceiling and a second metric above a floor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.exact import format_exact, format_rounded
from k3_ledger.rescore.rules.verdict import Gate, Step
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.inputs import Figure, RunInputs
    from k3_ledger.rescore.rules.parameters import Ceiling, Guard


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

    Where the rule asks for a reconciled pin, one that nobody reconciled leaves the gate undecided: a stale pin would
    let the guarded metric fall by all that it rose since.
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
