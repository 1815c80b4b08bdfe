"""How rules that the lint has never seen are made: a clean one, and one change to it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.parameters import Clock
from k3_ledger.rescore.rules.registry import find_rule

if TYPE_CHECKING:
    from k3_ledger.rescore.lint.findings import LintFinding
    from k3_ledger.rescore.rules.parameters import Rule

F = Fraction
CLEAN = find_rule("house-7.decode")
REFERENCE = ("reference:decode@131072/m/q/n", F(20))
FRONTIER = ("frontier:decode@131072/m/q/n", F(30))
GUARD = ("guard:prefill@32768/m/q/n", F(100))


def changed(**parts: Any) -> Rule:
    """The clean rule with parts replaced; a dict replaces fields of a part."""
    fields = {
        name: replace(getattr(CLEAN, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return replace(CLEAN, **fields)


def fixed_clock(**fields: Any) -> Clock:
    return replace(Clock(("decode", "prefill"), "claim", 10_000, F("1.5"), F("1.5"), F(1)), **fields)


NARROW = {"claim_over_clock": F("1.02"), "jitter_multiple": F(200)}
"""A clock so fine that bounds as narrow as the significance leave room for its jitter."""


def roomy(multiple: str) -> dict[str, Fraction]:
    """So many jitters, and bounds that what those move an honest run by is within."""
    jitters = F(multiple)
    return {
        "jitter_multiple": jitters,
        "claim_over_clock": max(F("1.25"), 1 + 2 / jitters),
        "clock_over_claim": max(F("1.25"), jitters / (jitters - 2)),
    }


EARLIER = {
    Fault.CLOCK_WIDER_THAN_TIERS, Fault.GUARD_WITHOUT_CLOCK, Fault.FRONTIER_FALLS, Fault.WEIGHTS_BY_NAME,
    Fault.FRONTIER_MEASURED_ONCE,
}  # fmt: skip
"""What every arithmetic before the newest has."""

UNTIMED = {Fault.NOTHING_EARNS, Fault.NO_CLOCK, Fault.NO_CEILING, Fault.NO_GUARD}
UNHELD = {Fault.NOTHING_EARNS, Fault.GUARD_WITHOUT_CLOCK}
UNSCORED = {Fault.NOTHING_EARNS, Fault.NO_CEILING}
"""A ceiling of its own on what is not scored: no run has what it is taken from, and the scored metric has none."""


def at(frontier: str | int) -> tuple[str, Fraction]:
    return FRONTIER[0], F(frontier)


def only(rule: Rule, fault: Fault) -> LintFinding:
    (found,) = [found for found in lint(rule).findings if found.fault is fault]
    return found
