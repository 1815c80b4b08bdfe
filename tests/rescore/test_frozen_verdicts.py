"""A published rule's verdicts never change: what each arithmetic made of runs at every threshold, frozen.

A change that moves a cell, a figure or a gate of a rule that is published is a mistake: write a new version of the
arithmetic instead. A new version joins the table by a column of its own, and every other column stays as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from k3_ledger.rescore.rules.parameters import Arithmetic
from k3_ledger.rescore.rules.registry import find_rule
from tests.rescore.frozen import RULES, cases, cell, digest, judged

TABLE = Path(__file__).with_name("frozen_verdicts.tsv")

FIGURES = {
    "v0.1.0": "5f6759ef2cd4b4540021932830ba2336a11394f08aecffdaa1b8b5acd0553ffc",
    "v0.2.0": "f531c2b84ed4eb26610f21a8a842751a52c06f1de0872f432234a383b1685f5b",
    "v0.2.1": "f04da1938ae796700023733617d776b51ce30f3de6ed01ab0a9b10f5a0a3fe9e",
    "v0.2.2": "410eddfe1fff9b408a469767c94ed393f996353abdb77a7e0e32a764e7d5f7ee",
    "house-1.decode": "08044963ad190dd68806b3c414afe226c1e2a65da5b48fcc75073b7e7cac9e03",
    "house-2.decode": "59a88fe79803d4cfbe53d38a2acdd3ad6ae74518a1ca1e6973f57ce5f4047075",
    "house-3.decode": "34cf141ad5f8eefa6e87feb73a45c4364932eb4afb4b3277ce57da809b29fb13",
    "house-4.decode": "899303cb12316eaab259e1de71c878eaee874b00fc99597101a9aba7a5133431",
    "house-5.decode": "8aa5104cab56a232f30cedd0b2759ac0fbecd10f92f9ce0191709f32ac2e14ff",
    "house-6.decode": "b3438e3da1731e0ec6540e7da8aeb34e8c312cac43ee280617aa82a5b3513424",
    "house-7.decode": "60284c26961447023f8ab8d6c2192c297b03d213f5883f56c19662d1b2fbde82",
}
"""Digest of all that is exact in a rule's verdicts: tiers, what bound them, gains, credits, gates and their steps."""


def columns() -> dict[str, list[str]]:
    rows = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines()]
    return {name: list(column) for name, *column in zip(*rows, strict=True)}


@pytest.mark.parametrize("rule", RULES)
def test_a_published_rule_judges_as_it_did_when_it_was_released(rule: str) -> None:
    found = judged(rule)
    assert dict(zip(columns()["case"], columns()[rule], strict=True)) == {name: cell(one) for name, one in found}
    assert digest(found) == FIGURES[rule]


def test_every_version_of_every_arithmetic_is_in_the_table() -> None:
    assert {find_rule(rule).arithmetic for rule in RULES} == set(get_args(Arithmetic))
    assert set(columns()) == {"case", *RULES} == {"case", *FIGURES}
    names = [name for name, _ in cases()]
    assert len(names) == len(set(names))


def test_each_version_differs_from_every_other_in_some_case() -> None:
    assert len(set(FIGURES.values())) == len(RULES)
    house = [tuple(columns()[rule]) for rule in RULES if rule.startswith("house-")]
    assert len(set(house)) == len(house), "not only in figures"
