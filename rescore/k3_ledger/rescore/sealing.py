"""Verdicts as bodies of ``verdict`` entries: everything that anyone needs to derive them again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.said import identify_verdict
from k3_ledger.rescore.standing import publishes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.rescore.inputs import Figure
    from k3_ledger.rescore.rescore import RescoreReport
    from k3_ledger.rescore.rules.parameters import Rule

_IDENTITY: Final = re.compile(r"[0-9a-f]{64}")


def rule_body(rule: Rule) -> dict[str, object]:
    """Body of the ``rule`` entry that publishes a rule."""
    return {
        "rule": rule.name,
        "rule_sha256": rule.sha256,
        "arithmetic": rule.arithmetic,
        "parameters": [{"name": name, "value": text} for name, text in rule.parameters()],
    }


def verdict_body(target: str, verdict: Verdict) -> dict[str, Any]:
    """The body of a ``verdict`` entry about the entry with identity ``target``."""
    return {
        "target": target,
        "rule": verdict.rule,
        "rule_sha256": verdict.rule_sha256,
        "pins": [
            {
                "slot": pin.slot,
                "value": format_exact(pin.figure.value),
                "source": pin.origin,
                "entry": name_entry(pin.figure),
                "inferred": pin.figure.inferred,
            }
            for pin in verdict.pins
        ],
        "metric": verdict.metric,
        "tier": verdict.tier,
        "bound_by": verdict.bound_by,
        "steps": [{"name": step.name, "value": step.text} for step in verdict.steps],
        "not_checked": list(verdict.not_checked),
    }


def new_verdicts(report: RescoreReport) -> Iterator[dict[str, Any]]:
    """Bodies of the verdicts of a report that the ledger does not hold yet, in order.

    A verdict is held when one anywhere in the log, on the same run and metric, was derived by the same rule from the
    same pins and came to the same figures; unless that one publishes nothing, for its rule was published behind it, and
    this one would.
    """
    for row in report.rows:
        if not isinstance(row.result, Verdict):
            continue
        body, known = verdict_body(row.candidate.identity, row.result), row.candidate.known
        same = [judged for judged in row.candidate.verdicts if judged.said == identify_verdict(body)]
        counts = [publishes(one.rule_sha256, known, supposed=one.supposed, at=one.index) for one in same]
        if not same or (not any(counts) and publishes(same[0].rule_sha256, known, supposed=same[0].supposed)):
            yield body


def name_entry(figure: Figure) -> str | None:
    """Identity of the entry that a figure is of; None where it is of none."""
    return figure.source if _IDENTITY.fullmatch(figure.source) else None
