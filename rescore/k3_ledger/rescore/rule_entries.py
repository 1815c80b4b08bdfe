"""``rule`` entries: the rule that one publishes, and which rules verdicts may be by, with where they were published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.material import REGISTERED
from k3_ledger.rescore.rules.reading import parse_parameters
from k3_ledger.rescore.standing import note_rule, read_standing
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Mapping

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.standing import Known
    from k3_ledger.verify.log import VerifiedLog


def read_known(log: VerifiedLog) -> Mapping[str, Known]:
    """The rules that verdicts may be by, by digest: the registered ones, and those that the log published, with where.

    Raises:
        RescoreError: a rule entry that stands is none.
        VerificationError: the bytes changed since they were verified.
    """
    since, known = read_standing(log).since, dict(REGISTERED)
    for entry in log.select(b'"kind":"rule"'):
        if entry.entry.kind != "rule":
            continue
        gone = since.get(entry.identity)
        try:
            rule = read_rule_entry(entry.entry.body, entry.index)
        except RescoreError:
            if gone is None:
                raise
        else:
            note_rule(known, rule.sha256, rule.scope, entry.index, gone)
    return known


def read_rule_entry(body: Any, index: int) -> Rule:
    """The rule that a ``rule`` entry publishes.

    Raises:
        RescoreError: ``K3L-RULE-PARAMETERS``, or ``K3L-RULE-DIGEST`` when it states another digest or arithmetic than
            its parameters have.
    """
    parameters = [(step.name, step.value) for step in body.parameters]
    rule = parse_parameters(body.rule, parameters, position=Position(index=index, field="body.parameters"))
    for field_name, stated, found in (
        ("rule_sha256", body.rule_sha256, rule.sha256),
        ("arithmetic", body.arithmetic, rule.arithmetic),
    ):
        if stated != found:
            raise RescoreError(
                Code.RULE_DIGEST,
                f"the {field_name} of rule {rule.name} is not that of its parameters",
                position=Position(index=index, field=f"body.{field_name}"),
                expected=found,
                found=stated,
            )
    return rule
