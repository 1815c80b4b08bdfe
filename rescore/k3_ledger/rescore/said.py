"""What a ``verdict`` entry says: whether another says the same, and whether it gave no tier for want of evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.rules.verdict import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

PIN_FIELDS: Final = ("slot", "value", "source", "entry", "inferred")
"""Fields of a pin that a verdict states."""


PROVING: Final = frozenset({"clock", "correctness", "suite"})
"""Gates that say what a number is worth, as a receipt alone answers; others need a pin, a round or a guarded metric."""


def is_unproved(body: Any) -> bool:
    """Whether a verdict gave no tier for want of evidence, and it was the run's own that was missing.

    Its clock did not bear the number out, or nothing says that the answers were right: who sealed that is told what he
    would be told before (:mod:`k3_ledger.rescore.doubt`).
    """
    return body.tier == NONE and body.bound_by != "significance" and not PROVING.isdisjoint(body.not_checked)


def identify_entry(body: Any) -> tuple[object, ...]:
    """What makes a verdict on a run the one it is: rule, pins, every derived figure."""
    return identify_verdict(
        {
            "rule_sha256": body.rule_sha256,
            "metric": body.metric,
            "tier": body.tier,
            "bound_by": body.bound_by,
            "pins": [{name: getattr(pin, name) for name in PIN_FIELDS} for pin in body.pins],
            "steps": [{"name": step.name, "value": step.value} for step in body.steps],
            "not_checked": body.not_checked,
        }
    )


def identify_verdict(body: Mapping[str, Any]) -> tuple[object, ...]:
    """Identity of a verdict's body beside its run: rule digest, pins in the order of their slots, derived figures."""
    return (
        body["rule_sha256"],
        body["metric"],
        body["tier"],
        body["bound_by"],
        tuple(sorted((tuple(pin[name] for name in PIN_FIELDS) for pin in body["pins"]), key=lambda pin: str(pin[0]))),
        tuple((step["name"], step["value"]) for step in body["steps"]),
        tuple(body["not_checked"]),
    )
