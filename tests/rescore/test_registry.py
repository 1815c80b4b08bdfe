"""Names, moments and digests of rules."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from k3_ledger.rescore.history.pins import moment, pin_at, pins_at
from k3_ledger.rescore.history.rules import CHANGES, RELEASES
from k3_ledger.rescore.rules.registry import ALIASES, RULES, find_rule, in_force
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode


def test_only_changes_of_arithmetic_make_rules() -> None:
    assert {change.kind for change in CHANGES} == {"arithmetic", "pins", "process"}
    assert all((change.rule is not None) == (change.kind == "arithmetic") for change in CHANGES)


def test_the_table_is_in_order_and_no_commit_stands_twice() -> None:
    moments = [change.since for change in CHANGES]
    assert moments == sorted(moments)
    assert len({change.commit for change in CHANGES}) == len(CHANGES)


def test_every_change_of_arithmetic_changes_the_digest() -> None:
    rules = [change.rule for change in CHANGES if change.rule]
    assert all(before.policy_sha256 != after.policy_sha256 for before, after in itertools.pairwise(rules))


def test_a_rule_is_found_by_tag_interim_id_and_alias() -> None:
    assert find_rule("v0.2.1").credit.cap == 1
    assert find_rule("v0.2.1@2fc6cb9").ceiling.multiple == 3  # type: ignore[union-attr]
    assert find_rule("pre-0.1.0") is find_rule("v0.1.0@fb8e012")
    assert find_rule("v0.2.0@be3c818") is find_rule("v0.2.0")
    assert all(target in RULES and name not in RULES for name, target in ALIASES.items())


@pytest.mark.parametrize(("name", "hint"), [("v0.2.3", "did you mean v0.2."), ("", "registered: v0.1.0@fb8e012")])
def test_an_unknown_rule_lists_those_that_exist(name: str, hint: str) -> None:
    with pytest.raises(RescoreError) as caught:
        find_rule(name)
    finding = caught.value.finding
    assert finding.code is Code.RULE_UNKNOWN
    assert finding.code.info.exit is ExitCode.USAGE
    assert finding.advice.startswith(hint)
    assert all(rule in finding.advice for rule in RULES)


def test_a_renamed_rule_keeps_its_digest_and_other_pins_change_it() -> None:
    rule = find_rule("v0.2.1")
    assert replace(rule, name="mine").sha256 == rule.sha256
    repinned = replace(rule, pins=(("reference:x", Fraction(1)),))
    assert repinned.sha256 != rule.sha256
    assert repinned.policy_sha256 == rule.policy_sha256


def test_digests_are_pinned_so_that_a_frozen_rule_stays_frozen() -> None:
    assert {release.tag: find_rule(release.tag).sha256[:10] for release in RELEASES} == {
        "v0.1.0": "2a6fefeacc",
        "v0.2.0": "4a1d11493a",
        "v0.2.1": "696a81f443",
        "v0.2.2": "f27cdab6c6",
    }


@pytest.mark.parametrize(
    ("at", "rule"),
    [
        ("07-31T02:28:06", "v0.1.0@fb8e012"),
        ("08-04T14:51:23", "v0.2.1@cee15a2"),
        ("08-04T14:51:24", "v0.2.1@2fc6cb9"),
        ("08-04T14:51:45", "v0.2.1@0bedd6f"),
        ("08-05T09:19:06", "v0.2.2@f561299"),
        ("12-31T00:00", "v0.2.2@e199927"),
    ],
)
def test_the_rule_in_force_follows_merge_times_to_the_second(at: str, rule: str) -> None:
    assert in_force(moment(at)).name == rule


def test_a_commit_the_table_knows_wins_over_the_clock() -> None:
    late = moment("08-06T00:00")
    assert in_force(late, "2fc6cb9af3").name == "v0.2.1@2fc6cb9"
    assert in_force(late, "b615cd9").name == "v0.2.2@f561299"
    assert in_force(late, "0000000").name == "v0.2.2@5adb692"


def test_no_rule_was_in_force_before_the_first() -> None:
    with pytest.raises(RescoreError) as caught:
        in_force(datetime(2026, 7, 30, tzinfo=UTC))
    assert caught.value.code is Code.RULE_MOMENT
    with pytest.raises(ValueError, match="time zone"):
        in_force(datetime(2026, 8, 1))  # noqa: DTZ001 - the mistake under test


def test_pins_are_dated() -> None:
    slot = "reference:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
    before, after = moment("08-03T09:16:58"), moment("08-03T09:16:59")
    assert pin_at(slot, moment("08-01T00:00")) is None
    assert [pin_at(slot, at).value for at in (before, after)] == [Fraction("16.7026"), Fraction("18.4435")]  # type: ignore[union-attr]
    assert dict(pins_at(after))[slot] == Fraction("18.4435")


def test_parameters_are_exact_text() -> None:
    shown = dict(find_rule("v0.2.1").parameters())
    assert shown["tiers.steps.XL"] == "0.18"
    assert shown["credit.anchor"] == "on"
    assert shown["guard"] == "none"
    assert shown["correctness.depths"] == "4, 128, 256, 512, 1024, 2048, 4096"
    assert shown["credit.anchor_off"] == "none"
    assert shown["pins.reference:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"] == "18.4435"
