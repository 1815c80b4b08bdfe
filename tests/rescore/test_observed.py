"""What ``house-7`` makes of work that grows faster than its length: what the clock saw of the claimed length counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.doubt import is_refuted
from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.native import read_run
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.judging import ALLOWANCE, count_claims
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.schemas.outcomes import Outcome
from tests.ledgers import RUNNER
from tests.rescore.receipts import house_ledger, receipt, series, verified
from tests.rescore.runs import clock, gate, native, verdict
from tests.rescore.test_native import decoded
from tests.rescore.test_sweep import same

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

LENGTH = 32_768
SEVENTH = find_rule("house-7.prefill")
THREE = replace(SEVENTH, name="three", sampling=replace(SEVENTH.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
OLDER = tuple(replace(THREE, name=f"older-{number}", arithmetic=f"measured-gain/{number}") for number in range(1, 7))


def prefill(claim: float, *, took: float, longer: float, jitter: float = 0.05) -> dict[str, Any]:
    """A run whose prefill is claimed at one speed, took so many seconds by the clock, and 2,048 tokens more so many."""
    own = receipt(50.0, claim)
    outside = [(LENGTH, took + jitter * share) for share in (0, 0.5, 1)]
    outside += [(LENGTH + 2048, took + longer + jitter * share) for share in (0, 0.5, 1)]
    own["timing"][2:] = [
        series("prefill", "subject", [(LENGTH, LENGTH / claim)] * 3, context=0),
        series("prefill", "controller", outside, context=0),
    ]
    return own


def judged(body: dict[str, Any], rule: Rule = THREE) -> Verdict:
    """What a rule says of it; the sweep says the same."""
    builder, _ = house_ledger()
    builder.lines.pop()
    builder.add("run", body, RUNNER)
    same(builder, rule)
    (row,) = [row for row in rescore(gather(verified(builder)).candidates, rule).rows if row.change != "not-scorable"]
    assert isinstance(row.result, Verdict), row.result
    return row.result


def speed_of(found: Verdict) -> str:
    return {step.name: step.text for step in found.steps}["speed"]


# ------------------------------------------------------------------------------------------------------ both ways


@pytest.mark.parametrize("longer", [5.2, 6.4, 8.0])
def test_an_honest_claim_is_not_refuted_by_prompts_that_cost_more(longer: float) -> None:
    """500 tokens a second, seen whole; 2,048 more behind them cost 1.3 to twice as much each, as attention does."""
    honest = prefill(500.0, took=LENGTH / 500, longer=longer)
    found = judged(honest)
    assert (found.tier, found.refused_by, speed_of(found)) == ("L", (), "500")
    for rule in OLDER:
        assert judged(honest, rule).refused_by == ("clock",), rule.arithmetic


@pytest.mark.parametrize(("claim", "tier", "counted"), [(504.0, "L", "504"), (520.0, "L", "505"), (624.0, "L", "505")])
def test_no_more_of_a_claim_counts_than_the_claimed_length_bears_out(claim: float, tier: str, counted: str) -> None:
    found = judged(prefill(claim, took=LENGTH / 500, longer=8.0, jitter=0.0))
    assert (found.tier, speed_of(found).split(".")[0]) == (tier, counted)


def test_a_claim_beyond_what_both_show_is_refused() -> None:
    """Control: 626 where the whole length took as long as 500 do, and the rest longer."""
    found = judged(prefill(626.0, took=LENGTH / 500, longer=8.0))
    assert (found.tier, found.refused_by) == ("REJECT", ("clock",))
    assert " more than 1.25x what the clock allows" in next(one.detail for one in found.gates if one.name == "clock")


def test_where_the_claimed_length_holds_more_than_its_work_the_difference_counts() -> None:
    """Twenty seconds of loading before each run: what two lengths differ in is the speed, as ever."""
    for rule in (THREE, OLDER[-1]):
        found = judged(prefill(500.0, took=20 + LENGTH / 500, longer=2048 / 500), rule)
        assert (found.tier, found.refused_by, speed_of(found)) == ("L", (), "500")


def test_work_that_longer_runs_do_not_do_is_refused_whatever_the_claimed_length_took() -> None:
    found = judged(prefill(500.0, took=LENGTH / 500, longer=2048 / 630))
    assert found.refused_by == ("clock",)


def test_a_short_reading_refutes_no_claim_that_was_seen_whole() -> None:
    """Too little to prove anything, and beyond the bound whatever the jitter: 8 s where 4 are claimed, half of one."""
    honest = prefill(500.0, took=LENGTH / 500, longer=8.0, jitter=0.6)
    assert judged(honest, OLDER[-1]).refused_by == ("clock",)
    found = judged(honest)
    assert (found.tier, found.bound_by, found.refused_by) == ("none", "clock", ())
    assert judged(prefill(630.0, took=LENGTH / 500, longer=8.0, jitter=0.4)).refused_by == ("clock",)


def test_the_guarded_metric_is_seen_whole_too() -> None:
    """Decode is scored, and prefill, which it must not slow, costs more a token behind 32,768."""
    for number, refused in ((7, ()), (6, ("guard-clock",))):
        house = find_rule(f"house-{number}.decode")
        rule = replace(house, sampling=replace(house.sampling, repetitions=3))  # type: ignore[type-var]
        body = prefill(500.0, took=LENGTH / 500, longer=8.0)
        body["timing"][:2] = receipt(60.0)["timing"][:2]
        assert judged(body, rule).refused_by == refused


def test_a_number_that_was_seen_whole_is_refuted_for_nobody() -> None:
    for claim, found in ((500.0, False), (626.0, True)):
        (one,) = [
            one
            for one in read_run(decoded(prefill(claim, took=LENGTH / 500, longer=8.0)))
            if one.track.metric == "prefill"
        ]
        assert is_refuted(one.track, one.speed, one.clock) is found


# ----------------------------------------------------------------------------------------------------- what is read


def test_the_claimed_length_of_prefill_is_read_whole_and_decode_has_none() -> None:
    found = {one.track.metric: one.clock for one in read_run(decoded(prefill(500.0, took=65.0, longer=8.0)))}
    assert found["prefill"].whole == (65 + Fraction(25, 1000)) / LENGTH  # type: ignore[union-attr]
    assert found["decode"].whole is None  # type: ignore[union-attr]
    lengths = [(LENGTH, 65), (LENGTH + 10, 66), (LENGTH + 2048, 74)]
    body = prefill(500.0, took=1, longer=1)
    body["timing"][3] = series("prefill", "controller", lengths * 2, context=0)
    reading = next(one.clock for one in read_run(decoded(body)) if one.track.metric == "prefill")
    assert {reading.of(pair).whole for pair in reading.pairs} == {Fraction(65, LENGTH)}  # type: ignore[union-attr]


@given(
    seen=st.fractions(min_value=Fraction(1, 4), max_value=4, max_denominator=1000),
    whole=st.fractions(min_value=Fraction(1, 4), max_value=4, max_denominator=1000),
    number=st.sampled_from(range(1, 8)),
)
def test_only_the_newest_reads_it_and_it_takes_nothing_from_anybody(
    seen: Fraction, whole: Fraction, number: int
) -> None:
    """``seen`` and ``whole``: seconds that a token took by the difference and in all, for each that is claimed."""
    name = f"house-{number}.prefill"
    bare = clock(2048, format_exact(2048 * seen), "0")
    plain = native("1", metric="prefill", frontier="1", clock=bare)
    beside = replace(plain, clock=replace(bare, whole=whole))
    least = min(seen, whole) if number == 7 else seen
    assert count_claims(find_rule(name), beside).speed == (
        round_half_even(min(Fraction(1), (1 + ALLOWANCE) / least)) if number >= 5 else 1
    )
    before, found = gate(name, plain, "clock").outcome, gate(name, beside, "clock").outcome
    if number < 7:
        assert verdict(name, beside) == verdict(name, plain)
    elif seen > Fraction(5, 4) >= whole:
        assert (before, found) == (Outcome.FAIL, Outcome.PASS)
    else:
        assert before is found


def round_half_even(value: Fraction) -> Fraction:
    return Fraction(round(value * 10**6), 10**6)
