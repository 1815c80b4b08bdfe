"""Apply a rule to a run. :func:`score` is what commands use; :func:`apply_arithmetic` is the bare function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.rules import anchored_gain, measured_gain
from k3_ledger.rescore.rules.verdict import NotScorable

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.rescore.inputs import RunInputs
    from k3_ledger.rescore.rules.parameters import Arithmetic, Rule
    from k3_ledger.rescore.rules.verdict import Scored
    from k3_ledger.rescore.slots import Track


def score(rule: Rule, run: RunInputs) -> Scored:
    """Judge a run under a rule that scores its metric and context.

    A run of another metric or context is not scorable: it is never scored in the wrong one. Neither is a rate of
    several sequences at once, or in anything but tokens.
    """
    if not run.track.spellable:
        message = "not scorable: the names of its model and machine are too long for a slot"
        return NotScorable(run.run, rule.name, "scope", message)
    if not in_scope(rule, run.track):
        scope = rule.scope.metric if rule.scope.context is None else f"{rule.scope.metric}@{rule.scope.context}"
        message = f"not scorable: the rule scores {scope}, the run measured {run.track.short}"
        return NotScorable(run.run, rule.name, "scope", message)
    return apply_arithmetic(rule, run)


def in_scope(rule: Rule, track: Track) -> bool:
    """Whether a rule scores what was measured on a track: its metric and context, in tokens, of one sequence."""
    return (track.metric, track.context) == (rule.scope.metric, rule.scope.context) and track.scorable


def apply_arithmetic(rule: Rule, run: RunInputs) -> Scored:
    """Judge a run by a rule's arithmetic whatever its metric and context; the result is not a verdict to publish."""
    return _ARITHMETICS[rule.arithmetic](rule, run)


_ARITHMETICS: dict[Arithmetic, Callable[[Rule, RunInputs], Scored]] = {
    "anchored-gain/1": anchored_gain.judge,
    "measured-gain/1": measured_gain.judge,
    "measured-gain/2": measured_gain.judge_by_middle,
    "measured-gain/3": measured_gain.judge_by_middle,
    "measured-gain/4": measured_gain.judge_by_middle,
    "measured-gain/5": measured_gain.judge_borne_out,
    "measured-gain/6": measured_gain.judge_on_weights,
    "measured-gain/7": measured_gain.judge_on_weights,
}
