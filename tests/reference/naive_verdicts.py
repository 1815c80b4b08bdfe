"""Second way to derive verdicts again: for each, everything in front of it is gathered anew, as it stood by then.

As slow as it is plain: a log with ``n`` verdicts is read ``n`` times, and all of it is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.rescore.comparing import compare_verdict
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import Judge
from k3_ledger.rescore.rules.registry import names_by_digest
from k3_ledger.rescore.rules.score import in_scope

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedLog


def derive(log: VerifiedLog, rules: dict[str, Rule]) -> dict[int, Finding | str | None]:
    """What becomes of each verdict by one of ``rules``: None when it follows, else the finding or ``no such run``."""
    found: dict[int, Finding | str | None] = {}
    for index, body in gather(log).verdicts:
        if body.rule_sha256 not in rules:
            continue
        rule = rules[body.rule_sha256]
        judge = Judge(rule, "own")
        found[index] = "no such run"
        candidates = gather(log, at=index).candidates
        mine = [one for one in candidates if (one.identity, one.run.track.metric) == (body.target, body.metric)]
        mine = [one for one in mine if in_scope(rule, one.run.track)] or mine
        for candidate in candidates:
            if mine and candidate is mine[0]:
                found[index] = compare_verdict(
                    rule, judge, candidate, index, body, names=names_by_digest(rules.values())
                )
            judge(candidate)
    return found
