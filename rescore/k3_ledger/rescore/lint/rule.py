"""Lint one rule: all checks, then the search for what they missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.lint.bounds import check_bounds
from k3_ledger.rescore.lint.clock import check_clock_and_ceiling
from k3_ledger.rescore.lint.context import Context
from k3_ledger.rescore.lint.credit import check_credit
from k3_ledger.rescore.lint.findings import LintFinding, LintReport, Reach, Settings
from k3_ledger.rescore.lint.gates import (
    check_agreement,
    check_frontier,
    check_guard,
    check_ratchet,
    check_repeats,
    check_weights,
)
from k3_ledger.rescore.lint.receipts import check_receipt
from k3_ledger.rescore.lint.search import search

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

_ORDER = list(Reach)


def lint(rule: Rule, settings: Settings | None = None) -> LintReport:
    """Report every fault of a rule, live ones first.

    Args:
        rule: any rule, registered or not.
        settings: what is known beyond the rule: measured jitter, newest values.
    """
    context = Context(rule, settings or Settings())
    findings: list[LintFinding] = [
        *check_credit(context),
        *check_clock_and_ceiling(context),
        *check_agreement(context),
        *check_ratchet(context),
        *check_guard(context),
        *check_frontier(context),
        *check_weights(context),
        *check_repeats(context),
        *check_bounds(context),
        *check_receipt(context),
    ]
    findings += search(context, findings)
    return LintReport(rule, tuple(sorted(findings, key=lambda finding: (finding.note, _ORDER.index(finding.reach)))))
