"""A name belongs to the rule that had it first: what a later release ships takes it from nobody."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.admission import admit, admit_verdict
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules import registry
from k3_ledger.rescore.rules.registry import ALIASES, RULES, SHIPPED_LATER, find_namesake, find_rule
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, Builder
from tests.rescore.receipts import house_ledger, verified
from tests.rescore.test_claims_state import rule_of
from tests.rescore.test_standing import seal, settled

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

SIXTH = find_rule("house-6.decode")
NAME = "house-77.decode"
OWN = replace(SIXTH, name=NAME, sampling=replace(SIXTH.sampling, repetitions=3))  # type: ignore[type-var]
SHIPPED = replace(SIXTH, name=NAME)


def published(rule: Rule) -> Builder:
    builder, _ = house_ledger()
    builder.add("rule", rule_of(rule), JUDGE)
    return builder


def ship(monkeypatch: pytest.MonkeyPatch, *, later: bool) -> None:
    """A release that registers a rule under the name."""
    monkeypatch.setitem(RULES, NAME, SHIPPED)
    monkeypatch.setattr(registry, "SHIPPED_LATER", frozenset({NAME} if later else ()))


def refused(name: str, rule: Rule = OWN) -> list[Code]:
    """What is said of a rule of this name when it is appended."""
    builder, _ = house_ledger()
    before = list(verified(builder))
    builder.add("rule", rule_of(replace(rule, name=name)), JUDGE)
    *_, last = verified(builder)
    return [finding.code for finding in admit(last.entry, before)]


@pytest.mark.parametrize(
    "name",
    [
        "house-7.decode",
        "house-12.prefill",
        "house-99",
        "house-1.verify",
        "v1",
        "v0.3.0",
        "v0.2.1@0123abc",
        "v0.9+prefill",
    ],
)
def test_a_name_like_those_that_releases_give_is_given_to_no_other_rule(name: str) -> None:
    assert refused(name) == [Code.RULE_NAME_TAKEN]
    assert refused(name, SIXTH) == [Code.RULE_NAME_TAKEN], "what is registered has a name"
    assert settled(published(replace(OWN, name=name))).findings == (), "where it was, the ledger stays true"


@pytest.mark.parametrize("name", ["house-6.decode", "v0.2.1", *ALIASES])
def test_a_name_that_is_registered_is_refused_once(name: str) -> None:
    assert refused(name) == [Code.RULE_NAME_TAKEN]


@pytest.mark.parametrize("name", ["house-near", "house-7x", "my-house-7.decode", "vanilla", "v", "V1x", "mine"])
def test_any_other_name_is_free(name: str) -> None:
    """The control; and so is a registered one for the rule that has it."""
    assert refused(name) == []
    assert refused("house-6.decode", SIXTH) == []


@pytest.mark.parametrize("withdrawn", [False, True])
def test_a_ledger_whose_own_rule_had_a_name_before_it_was_shipped_stays_true(
    withdrawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = published(OWN)
    seal(builder, OWN)
    if withdrawn:
        taken = {"target": rule_identity(builder), "reason": "another one is better", "replacement": None}
        builder.add("supersede", taken, JUDGE)
    assert settled(builder).findings == ()
    ship(monkeypatch, later=True)
    report = settled(builder)
    assert (report.findings, report.exit_code) == ((), 0)
    (judged,) = [step for step in report.steps if step.name == "verdicts"]
    assert judged.detail.startswith("1 derived again")
    ship(monkeypatch, later=False)
    assert Code.RULE_NAME_TAKEN in {finding.code for finding in settled(builder).findings}, (
        "a name from the start is not"
    )


def test_a_rule_that_is_superseded_and_its_name_given_to_another_still_judges_its_verdicts() -> None:
    """Or whoever sealed a false one need only do that, and it would be by a rule that nobody knows."""
    for change, expected in (({}, []), ({"tier": "XXL"}, [Code.VERDICT_MISMATCH])):
        builder = published(OWN)
        (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, OWN))
        builder.add("verdict", {**body, **change}, JUDGE)
        builder.add("supersede", {"target": rule_identity(builder), "reason": "old", "replacement": None}, JUDGE)
        assert [finding.code for finding in settled(builder).findings] == expected
        builder.add("rule", rule_of(replace(SIXTH, name=NAME)), JUDGE)
        assert [finding.code for finding in settled(builder).findings] == expected


def rule_identity(builder: Builder) -> str:
    return next(entry.identity for entry in verified(builder) if entry.entry.kind == "rule")


def test_a_name_that_was_shipped_later_is_one_rules_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, later=True)
    builder = published(OWN)
    builder.add("rule", rule_of(SHIPPED), JUDGE)
    assert [finding.code for finding in settled(builder).findings] == [Code.RULE_NAME_TAKEN], "the second that has it"
    assert find_namesake(NAME, SHIPPED.sha256, [OWN]) is OWN
    assert find_namesake(NAME, OWN.sha256, []) is SHIPPED
    assert refused(NAME) == [Code.RULE_NAME_TAKEN]
    builder, _ = house_ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, OWN))
    builder.add("verdict", body, JUDGE)
    (found,) = settled(builder).findings
    assert found.code is Code.RULE_NAME_TAKEN, "a verdict under the name of a rule that it is not by"


def test_who_registers_a_name_says_that_it_was_shipped_later() -> None:
    """The names of the start; whoever makes this fail adds the new name to ``SHIPPED_LATER`` and leaves these alone."""
    start: Any = sorted({*RULES, *ALIASES} - SHIPPED_LATER)
    assert (len(start), hashlib.sha256("\n".join(start).encode()).hexdigest()[:16]) == (39, "dc02ef17e5662da6")


COPY = replace(SIXTH, name="mine")


@pytest.mark.parametrize("published_first", [False, True])
@pytest.mark.parametrize("by", [SIXTH, COPY], ids=lambda rule: rule.name)
def test_a_rule_that_is_published_under_a_second_name_is_one_rule(published_first: bool, by: Rule) -> None:
    builder, _ = house_ledger()
    if published_first:
        builder.add("rule", rule_of(COPY), JUDGE)
    seal(builder, by)
    if not published_first:
        builder.add("rule", rule_of(COPY), JUDGE)
    assert (settled(builder).findings, settled(builder).exit_code) == ((), 0)


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.sha256 == find_rule("v0.2.1").sha256])
def test_a_registered_rule_seals_under_each_name_that_it_has(name: str) -> None:
    builder, _ = house_ledger()
    seal(builder, find_rule(name))
    report = settled(builder)
    assert (report.findings, report.exit_code) == ((), 0)
    assert [step.checked for step in report.steps if step.name == "verdicts"] == [1]


def test_a_name_that_no_rule_of_the_digest_has_is_still_none() -> None:
    """The control."""
    builder, _ = house_ledger()
    seal(builder, COPY)
    (found,) = settled(builder).findings
    assert (found.code, found.position.field) == (Code.VERDICT_MISMATCH, "body.rule")


@pytest.mark.parametrize(("name", "code"), [(NAME, Code.RULE_NAME_TAKEN), ("near", None)])
def test_no_verdict_by_a_rule_of_nobody_is_given_a_kept_name(name: str, code: Code | None) -> None:
    builder, _ = house_ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, replace(OWN, name=name)))
    before = verified(builder)
    builder.add("verdict", body, JUDGE)
    *_, last = verified(builder)
    assert [finding.code for finding in admit_verdict(last.entry, before)] == ([code] if code else [])
    builder = published(replace(OWN, name=name))
    before = verified(builder)
    builder.add("verdict", body, JUDGE)
    *_, last = verified(builder)
    assert list(admit_verdict(last.entry, before)) == [], "a ledger of before, whose rule had it"
