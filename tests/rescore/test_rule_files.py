"""Rules as text: published, edited, read back; and every way a file can fall short of a rule."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.rules.parameters import Credit, Tiers
from k3_ledger.rescore.rules.reading import MAX_BYTES, format_rule_file, parse_parameters, read_rule_file
from k3_ledger.rescore.rules.registry import RULES, find_rule
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code

TEXT = format_rule_file(find_rule("v0.2.2"))


@pytest.mark.parametrize("rule", RULES.values(), ids=str)
def test_what_a_rule_publishes_reads_back_as_the_same_rule(rule: object) -> None:
    from k3_ledger.rescore.rules.parameters import Rule

    assert isinstance(rule, Rule)
    again = parse_parameters(rule.name, rule.parameters())
    assert again == rule
    assert again.sha256 == rule.sha256
    assert read_rule_file(format_rule_file(rule).encode(), source="rule.toml") == rule


numbers = st.fractions(min_value=-(10**9), max_value=10**9, max_denominator=10**9)


@given(numbers, numbers, st.lists(numbers, max_size=4))
def test_any_numbers_read_back_exactly(cap: Fraction, significance: Fraction, bars: list[Fraction]) -> None:
    steps = tuple((f"t{i}", bar) for i, bar in enumerate(bars))
    rule = replace(find_rule("v0.2.1"), credit=Credit(cap), tiers=Tiers(significance, steps, "floor"))
    assert parse_parameters(rule.name, rule.parameters()) == rule


def test_numbers_may_stand_bare() -> None:
    bare = TEXT.replace('credit.cap = "1"', "credit.cap = 1").replace(
        'tiers.significance = "0.02"', "tiers.significance = 0.02"
    )
    assert read_rule_file(bare.encode(), source="rule.toml") == find_rule("v0.2.2")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "v0.2.2"\n', "", "name must be a short name in quotes"),
        ('name = "v0.2.2"', 'name = "in-force"', "in-force is no name for a rule: options take it for"),
        ('name = "v0.2.2"', 'name = "published"', "published is no name for a rule: options take it for"),
        ('name = "v0.2.2"', 'name = "a b"', "name must be a short name in quotes"),
        ('credit.cap = "1"\n', "", "credit.cap is missing"),
        ('credit.cap = "1"', 'credit.cap = "1x"', "credit.cap must be an exact number"),
        ('credit.cap = "1"', 'credit.cap = "1/0"', "credit.cap must be an exact number"),
        ('credit.cap = "1"', "credit.cap = nan", "credit.cap must be an exact number"),
        ('credit.cap = "1"', "credit.cap = true", "credit.cap must be text in quotes or a number"),
        (
            'credit.cap = "1"',
            'credit.cap = "1"\ncredit.cup = "2"',
            "credit.cup is no parameter; did you mean credit.cap?",
        ),
        ('credit.cap = "1"', 'credit.cap = "1"\nzzz = "2"', "zzz is no parameter"),
        ('credit.anchor = "on"', 'credit.anchor = "yes"', "credit.anchor must be on or off"),
        ('clock.margin = "2048"', 'clock.margin = "many"', "clock.margin must be a whole number"),
        ('clock.margin = "2048"', 'clock.margin = "007"', "clock.margin must be a whole number"),
        ('clock.reading = "claim"', 'clock.reading = "both"', "clock.reading must be one of claim, clock"),
        ('clock.jitter = "2"', 'clock.jitter = "-2"', "clock is not possible: jitter is a span of time"),
        ('tiers.floor = "XS"', 'tiers.floor = "X S"', "tiers.floor must be a short name"),
        ('correctness.rows = "1"', 'correctness.rows = "0"', "correctness is not possible: at least one row"),
        ('precision.speed = "2"', 'precision.speed = "41"', "precision is not possible: decimals must be within 0"),
        ('ratchet.warn = "1.25"\n', "", "ratchet.warn is missing"),
        ('arithmetic = "anchored-gain/1"', 'arithmetic = "magic/1"', "arithmetic must be one of"),
        ('"frontier:decode@64/', '"best:decode@64/', "does not name a slot"),
        ('h200x8" = "10.34"', 'h200x8" = "0"', "must be above zero"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(RescoreError) as caught:
        read_rule_file(TEXT.replace(old, new, 1).encode(), source="rule.toml")
    assert caught.value.code is Code.RULE_PARAMETERS
    assert says in str(caught.value)
    assert caught.value.finding.position.source == "rule.toml"


@pytest.mark.parametrize("data", [b"\xff", b"name = ", b"a = " + b"[" * 4000, b"#" * (MAX_BYTES + 1)])
def test_what_is_not_toml_is_refused(data: bytes) -> None:
    with pytest.raises(RescoreError) as caught:
        read_rule_file(data, source="rule.toml")
    assert caught.value.code is Code.TOML_SYNTAX


def test_a_parameter_given_twice_is_refused() -> None:
    parameters = find_rule("v0.2.2").parameters()
    with pytest.raises(RescoreError, match=r"credit\.cap is given twice"):
        parse_parameters("x", [*parameters, ("credit.cap", "2")])


@pytest.mark.parametrize("lost", ["tiers.steps.", "pins."])
def test_steps_and_pins_may_be_none_but_not_absent(lost: str) -> None:
    key = lost.rstrip(".")
    kept = [(name, text) for name, text in find_rule("v0.2.2").parameters() if not name.startswith(lost)]
    with pytest.raises(RescoreError, match=f"{key} is missing"):
        parse_parameters("x", kept)
    assert parse_parameters("x", [*kept, (key, "none")])


def test_a_whole_part_may_be_none() -> None:
    kept = [(name, text) for name, text in find_rule("v0.2.2").parameters() if not name.startswith("guard.")]
    assert parse_parameters("x", [*kept, ("guard", "none")]).guard is None
    with pytest.raises(RescoreError, match=r"guard\.metric is missing"):
        parse_parameters("x", [*kept, ("guard", "off")])


def test_a_name_that_toml_must_quote_is_quoted() -> None:
    rule = replace(find_rule("v0.2.1"), tiers=Tiers(Fraction("0.02"), (("A+", Fraction("0.1")),), "B"))
    assert 'tiers.steps."A+" = "0.1"' in format_rule_file(rule)
    assert read_rule_file(format_rule_file(rule).encode(), source="x") == rule
