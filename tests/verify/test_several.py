"""One report about several proofs: counts add up, and the policy is held against the sum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.proof import format_proof
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.proof import check_proof
from k3_ledger.verify.prove import prove_entry
from k3_ledger.verify.several import join_reports
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ROOT, RUNNER, Builder, run_body, small_ledger

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

ARTIFACT = {"name": "raw", "sha256": "ab" * 32, "size": 3, "media_type": "text/plain"}


def reports(ledger: Builder, *indexes: int) -> list[Report]:
    source = MemorySource(ledger.data, checkpoint=ledger.head())
    policy = TrustPolicy(ROOT.public)
    return [check_proof(format_proof(prove_entry(source, index)), "p", policy, artifacts=source) for index in indexes]


def test_counts_and_findings_add_up() -> None:
    ledger = small_ledger(2)
    for number in range(2):
        ledger.add("run", run_body(number, artifacts=[ARTIFACT]), RUNNER)
    joined = join_reports("three", reports(ledger, 5, 6, 7), TrustPolicy(ROOT.public, require=frozenset({"artifacts"})))
    assert joined.counts == {Code.ARTIFACT_MISSING: 2, Code.REQUIRED_NOT_CHECKED: 1}
    assert (joined.exit_code, joined.authenticated, joined.subject) == (4, True, "three")
    step = joined.steps[8]
    assert (step.checked, step.not_checked, step.detail) == (
        0,
        2,
        "no entry that verified names an artifact, and alike",
    )
    assert joined.steps[0].detail == ""


def test_what_was_taken_back_adds_up_and_keeps_no_step_from_passing() -> None:
    lost = [
        replace(one, steps=tuple(replace(step, disowned=step.name == "keys") for step in one.steps))
        for one in reports(small_ledger(2), 4, 5)
    ]
    joined = join_reports("two", lost, TrustPolicy(ROOT.public, require=frozenset({"keys"})))
    assert joined.exit_code == 0
    assert [(step.outcome, step.disowned) for step in joined.steps if step.disowned] == [(Outcome.PASS, 2)]


def test_no_report_is_no_verdict() -> None:
    with pytest.raises(ValueError, match="no report"):
        join_reports("none", [], None)


def test_without_a_policy_nothing_is_required() -> None:
    one = reports(small_ledger(2), 5)
    joined = join_reports("one", one, None)
    assert (joined.exit_code, joined.steps, joined.policy) == (0, one[0].steps, one[0].policy)
