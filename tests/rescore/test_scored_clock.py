"""A rule that scores the clock against frontiers that are claims: who claims too little gains, and lint says so."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.lint.findings import Fault
from k3_ledger.rescore.lint.rule import lint
from k3_ledger.rescore.rules.reading import format_rule_file
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.score import score
from k3_ledger.rescore.rules.verdict import Verdict
from tests.ledgers import RUNNER
from tests.rescore.receipts import house_ledger
from tests.rescore.runs import clock, native
from tests.rescore.test_unjudged import claims_more

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule
    from tests.commands import Done

LEAST = Fraction(1, 10**6)


def rule(reading: str = "clock", bound: Fraction | None = Fraction(5, 4), name: str = "house-6.decode") -> Rule:
    known = find_rule(name)
    assert known.clock is not None
    return replace(known, name="own", clock=replace(known.clock, reading=reading, clock_over_claim=bound))  # type: ignore[arg-type]


SIGNIFICANT = 1 + find_rule("house-6.decode").tiers.significance


@pytest.mark.parametrize("name", ["house-1.decode", "house-4.decode", "house-6.decode", "house-6.prefill"])
@pytest.mark.parametrize(
    ("bound", "faulty"), [(Fraction(5, 4), True), (None, True), (SIGNIFICANT + LEAST, True), (SIGNIFICANT, False)]
)
def test_a_clock_that_may_be_above_its_claim_by_a_tier_is_a_fault(
    name: str, bound: Fraction | None, faulty: bool
) -> None:
    found = [one for one in lint(rule(bound=bound, name=name)).findings if one.fault is Fault.CLOCK_AGAINST_CLAIMS]
    assert bool(found) is faulty
    assert Fault.CLOCK_AGAINST_CLAIMS not in lint(rule("claim", bound, name)).faults, "the control"
    if not faulty:
        return
    given = {key: Fraction(text) for key, text in found[0].witness}
    scaled = {key: 100 * value for key, value in given.items()}
    inputs = native(
        str(scaled["claim"]),
        frontier=str(scaled["frontier"]),
        clock=clock(100_000, str(100_000 / scaled["clock"]), "0"),
        metric=rule(name=name).scope.metric,
    )
    said = score(replace(rule(bound=bound, name=name), guard=None, precision=WHOLE), inputs)
    assert isinstance(said, Verdict)
    assert said.tier not in {"none", "REJECT"}, "the witness shows it"
    assert not isinstance(said := score(replace(rule("claim", bound, name), guard=None), inputs), Verdict) or (
        said.tier in {"none", "REJECT"}
    )


WHOLE = replace(find_rule("house-6.decode").precision, speed=6)


def test_the_table_shows_the_number_that_was_scored(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    builder.add("run", claims_more(50.0, 60.0, round_="r2"), RUNNER)
    (tmp_path / "log").mkdir()
    builder.write(tmp_path / "log")
    (tmp_path / "own.toml").write_text(format_rule_file(rule()))
    done = command("rescore", "log", "--rule", "own.toml", "--all")
    assert "50.00 (60.00)" in done.out
    assert "(…) behind a speed: what its clock read, which the rule scores in its place" in done.out
    assert "how much of it counts" not in done.out
    plain = command("rescore", "log", "--rule", "house-6.decode", "--all").out
    assert "(60.00)" not in plain
    assert "behind a speed" not in plain, "the control: nothing is below its claim"
