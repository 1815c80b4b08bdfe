"""A verdict that follows from how runs were read when it was sealed is not false; one that follows from neither is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.admission import admit_verdict
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.material import Candidate, Material
from k3_ledger.rescore.older import read_older
from k3_ledger.rescore.replay import Gathering, gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome, Severity
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, Key, key_body
from tests.rescore.receipts import house_ledger, parity, receipt, timed, verified
from tests.rescore.test_contested import elsewhere, liar
from tests.rescore.test_pairs import body as timed_by
from tests.rescore.test_pairs import padded
from tests.rescore.test_unjudged import THREE

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.rescore.rules.parameters import Rule

FIRST = replace(THREE, name="first", arithmetic="measured-gain/1")
OTHER = {"name": "another-b2", "version": "1", "independent": True}


def other_ground() -> list[dict[str, Any]]:
    return [receipt(60.0, 500.0, parity=parity(reference=OTHER))]


def another_metric() -> list[dict[str, Any]]:
    """The round's newest divergence is of a run that timed prefill alone."""
    return [elsewhere("metric") | {"parity": parity("0.001")}, receipt(60.0, 500.0, parity=parity("0.004"))]


def refuted_frontier() -> list[dict[str, Any]]:
    return [liar(59.0, 10.0, role="frontier"), receipt(60.0, 500.0)]


def of_three_lengths() -> list[dict[str, Any]]:
    return [timed_by(80.0, padded(80.0, 50.0, (32, 2080)))]


def named_alike() -> list[dict[str, Any]]:
    subject = {**receipt()["subject"], "name": "llama.cpp"}
    return [receipt(60.0, 500.0, subject=subject)]


CASES = [other_ground, another_metric, refuted_frontier, of_three_lengths, named_alike]
cases = pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])


def ledger(case: Callable[[], list[dict[str, Any]]], rule: Rule) -> Builder:
    builder, _ = house_ledger()
    builder.lines.pop()
    builder.add("rule", rule_body(rule), JUDGE)
    for body in case():
        builder.add("run", body, RUNNER)
    return builder


def as_before(builder: Builder) -> list[Candidate]:
    gathering = Gathering(Material("as it was read before"))
    gathering.older = True
    for entry in verified(builder):
        gathering.take(entry)
    return gathering.material.candidates


def bodies(builder: Builder, rule: Rule) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of the candidate by today's reading and by that of before."""
    (today,) = new_verdicts(rescore(gather(verified(builder)).candidates, rule))
    (before,) = new_verdicts(rescore(as_before(builder), rule))
    return today, before


@cases
@pytest.mark.parametrize("rule", [FIRST, THREE], ids=["measured-gain/1", "measured-gain/6"])
def test_what_followed_when_it_was_sealed_is_left_open(case: Any, rule: Rule) -> None:
    builder = ledger(case, rule)
    today, before = bodies(builder, rule)
    assert today != before
    builder.add("verdict", before, JUDGE)
    report = settle_judgements(verified(builder))
    assert [finding.code for finding in report.findings] == [Code.VERDICT_OLDER_READING]
    assert Code.VERDICT_OLDER_READING.info.severity is Severity.WARNING
    assert report.exit_code is ExitCode.VERIFIED
    (step,) = [step for step in report.steps if step.name == "verdicts"]
    assert (step.outcome, step.not_checked) == (Outcome.NOT_CHECKED, 1)


@cases
@pytest.mark.parametrize("rule", [FIRST, THREE], ids=["measured-gain/1", "measured-gain/6"])
def test_what_followed_from_neither_reading_is_false(case: Any, rule: Rule) -> None:
    builder = ledger(case, rule)
    _, before = bodies(builder, rule)
    builder.add("verdict", {**before, "tier": "L"}, JUDGE)
    report = settle_judgements(verified(builder))
    assert [finding.code for finding in report.findings] == [Code.VERDICT_MISMATCH]
    assert report.exit_code is ExitCode.FALSE


@cases
def test_no_verdict_by_a_younger_rule_was_ever_sealed_by_the_older_reading(case: Any) -> None:
    rule = replace(THREE, name="younger", arithmetic="measured-gain/7")
    builder = ledger(case, rule)
    today, before = bodies(builder, rule)
    assert today != before
    builder.add("verdict", before, JUDGE)
    report = settle_judgements(verified(builder))
    assert [finding.code for finding in report.findings] == [Code.VERDICT_MISMATCH]
    assert report.exit_code is ExitCode.FALSE


@cases
def test_the_control_what_follows_today_is_derived_again(case: Any) -> None:
    builder = ledger(case, THREE)
    today, _ = bodies(builder, THREE)
    builder.add("verdict", today, JUDGE)
    assert settle_judgements(verified(builder)).findings == ()


def test_both_may_have_changed_since() -> None:
    """A second runner's frontier build was taken back, and the candidate was graded on another ground than that."""
    second = Key("second")
    builder = ledger(list, THREE)
    builder.add("key", key_body(second, "runner", "enrol"), ROOT)
    since = len(builder.lines)
    timing = timed("decode", 49.0, context=131_072)
    builder.add("run", receipt(49.0, role="frontier", timing=timing, round_="r2"), second)
    builder.add("run", receipt(70.0, 500.0, round_="r2", parity=parity(reference=OTHER)), RUNNER)
    _, before = bodies(builder, THREE)
    assert before["tier"] == "XL", "it names nothing of the second runner's"
    builder.add("verdict", before, JUDGE)
    builder.add("key", key_body(second, "runner", "revoke", revoked_from=since, reason="stolen"), ROOT)
    report = settle_judgements(verified(builder))
    (found,) = [finding for finding in report.findings if finding.code is Code.JUDGEMENT_DISOWNED]
    assert found.message.startswith(f"the verdict follows from what stood there: entry {since}, ")
    assert report.exit_code is ExitCode.VERIFIED


def test_what_was_taken_back_elsewhere_is_not_what_it_follows_from() -> None:
    builder = ledger(other_ground, THREE)
    _, before = bodies(builder, THREE)
    builder.add("verdict", before, JUDGE)
    at = len(builder.lines) - 1
    other = Key("other")
    builder.add("key", key_body(other, "runner", "enrol"), ROOT)
    builder.add("run", receipt(60.0, 500.0, round_="r9"), other)
    builder.add("key", key_body(other, "runner", "revoke", revoked_from=at + 2, reason="stolen"), ROOT)
    found = settle_judgements(verified(builder)).findings
    assert [one.code for one in found if one.position.index == at] == [Code.VERDICT_OLDER_READING]


def test_what_is_appended_by_the_older_reading_is_refused() -> None:
    builder = ledger(other_ground, THREE)
    today, before = bodies(builder, THREE)
    for body, expected in ((today, []), (before, [Code.VERDICT_MISMATCH])):
        other = Builder(lines=[*builder.lines])
        other.add("verdict", body, JUDGE)
        (entry,) = [one.entry for one in verified(other) if one.entry.kind == "verdict"]
        assert [found.code for found in admit_verdict(entry, verified(builder))] == expected


def test_a_run_without_grading_or_clock_is_read_alike() -> None:
    assert read_older(None, None, []) == (None, [])
