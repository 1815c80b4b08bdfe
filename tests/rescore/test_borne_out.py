"""What counts under ``house-5``: no claim beyond its clock, the guarded metric's neither, and no frontier that fell."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.judging import ALLOWANCE, count_claims
from k3_ledger.rescore.rules.parameters import GRADING, Precision
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.verdict import NotScorable, Verdict
from k3_ledger.rescore.sealing import rule_body, verdict_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, pin_body, receipt, timed, verified
from tests.rescore.runs import clock, figure, gate, native, verdict
from tests.rescore.test_standing import take_back
from tests.rescore.test_sweep import same

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.verdict import Scored

HOUSE = find_rule("house-5.decode")
THREE = replace(HOUSE, name="three", sampling=replace(HOUSE.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
FOURTH = replace(THREE, name="fourth", arithmetic="measured-gain/4")
both_metrics = pytest.mark.parametrize("metric", ["decode", "prefill"])
measured = st.fractions(min_value=1, max_value=2000, max_denominator=100)


def last(builder: Builder, rule: Any = THREE) -> Scored:
    """What a rule says of the newest decode run; the sweep says the same of all."""
    same(builder, rule)
    rows = rescore(gather(verified(builder)).candidates, rule).rows
    return [row.result for row in rows if row.candidate.run.track.metric == "decode"][-1]


def tier(builder: Builder, rule: Any = THREE) -> str:
    found = last(builder, rule)
    return found.tier if isinstance(found, Verdict) else found.reason


def held(builder: Builder) -> tuple[str, str]:
    """The frontier that the newest decode run was held against, and where it came from."""
    found = last(builder)
    assert isinstance(found, Verdict)
    (pin,) = [pin for pin in found.pins if pin.slot == f"frontier:{DECODE}"]
    return format_exact(pin.figure.value), pin.origin


def beside_clock(decode: float = 60.0, *, claim: float, seen: float | None, **more: Any) -> dict[str, Any]:
    """A run whose prefill is claimed at one speed, and at another by the clock; None for no clock at all."""
    body = receipt(decode, claim, **more)
    own, _ = timed("prefill", claim, context=32_768, jitter=0.05)
    outside = [] if seen is None else timed("prefill", seen, context=32_768, jitter=0.05)[1:]
    return {**body, "timing": [*body["timing"][:2], own, *outside]}


# -------------------------------------------------------------------------------------------- what a claim counts for


@both_metrics
def test_a_claim_counts_to_one_percent_beyond_its_clock(metric: str) -> None:
    """The clock saw the frontier's own speed: what is claimed beyond earns nothing, up to the bound and beyond."""
    for claim, found in (("50.5", "none"), ("51.01", "none"), ("61.5", "none"), ("62.5", "none"), ("62.51", "REJECT")):
        liar = native(claim, metric=metric, clock=clock(2048, "40.96", "0.5"))
        assert verdict(f"house-5.{metric}", liar).tier == found
    assert verdict(f"house-4.{metric}", native("61.5", metric=metric, clock=clock(2048, "40.96", "0.5"))).tier == "XL"


@both_metrics
def test_a_verdict_says_how_much_counted(metric: str) -> None:
    found = verdict(f"house-5.{metric}", native("66", metric=metric, clock=clock(2048, "36", "0.5")))
    assert {step.name: step.text for step in found.steps}["speed"] == "57.457778"  # 1.01 * 2048/36
    (seen,) = [each for each in found.gates if each.name == "clock"]
    assert {step.name: step.text for step in seen.steps}["claim"] == "66"
    assert (found.tier, seen.outcome) == ("L", Outcome.PASS)


@given(measured, st.fractions(min_value=Fraction(4, 5), max_value=Fraction(5, 4), max_denominator=1000))
def test_nothing_counts_beyond_the_clock_and_nothing_within_it_is_lost(seen: Fraction, times: Fraction) -> None:
    run = replace(native(), speed=times * seen, clock=clock(2048, format_exact(2048 / seen), "0"))
    counted = count_claims(HOUSE, run).speed
    assert counted is not None
    if times <= 1 + ALLOWANCE:
        assert counted == run.speed
    else:
        assert abs(counted - (1 + ALLOWANCE) * seen) <= Fraction(1, 2 * 10**6)
    assert count_claims(find_rule("house-4.decode"), run) is run


def test_a_rule_of_fewer_decimals_rounds_what_counted_once() -> None:
    coarse = replace(HOUSE, precision=Precision(2, 1, 9))
    run = replace(native(), speed=Fraction(60), exact=Fraction(60), clock=clock(2048, "40", "0.5"))
    counted = count_claims(coarse, run)
    assert (counted.speed, counted.exact) == (Fraction("51.712"), Fraction("51.712"))


@both_metrics
def test_the_allowance_is_less_than_any_gain_that_counts(metric: str) -> None:
    rule = find_rule(f"house-5.{metric}")
    assert min(rule.tiers.significance, *(bar for _, bar in rule.tiers.steps)) > ALLOWANCE
    assert rule.arithmetic in GRADING


def test_an_accepted_run_moves_the_frontier_by_what_counted() -> None:
    """No frontier build was ever measured: the best run is what the next one is held against."""
    rule = replace(THREE, guard=None, ratchet=None)
    builder = Builder().open()
    body = receipt(50.0, 450.0, round_=None)
    builder.add("run", {**body, "timing": [*timed("decode", 60.0, context=131_072)[:1], *body["timing"][1:]]}, RUNNER)
    builder.add("run", receipt(60.0, 450.0, round_=None), RUNNER)
    found = last(builder, rule)
    assert isinstance(found, Verdict)
    assert {step.name: step.text for step in found.steps}["frontier"] == "50.5"
    assert found.tier == "XL"
    builder.add("run", receipt(55.0, 450.0, round_=None), RUNNER)
    assert {step.name: step.text for step in last(builder, rule).steps}["frontier"] == "60"  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------- the guarded metric


def test_a_guarded_metric_that_collapsed_is_not_believed() -> None:
    for seen, found, before in ((100.0, "REJECT", "XL"), (None, "none", "XL"), (450.0, "XL", "XL")):
        builder, _ = house_ledger()
        builder.add("run", beside_clock(claim=450.0, seen=seen), RUNNER)
        assert tier(builder) == found
        assert tier(builder, FOURTH) == before
        result = last(builder)
        assert isinstance(result, Verdict)
        assert result.bound_by == ("gain" if found == "XL" else "guard-clock")


@pytest.mark.parametrize(
    ("seen", "outcome", "reason"),
    [
        ("100", Outcome.PASS, ""),
        ("98.02", Outcome.PASS, ""),  # and one percent is 99.0002
        ("98.01", Outcome.NOT_CHECKED, "not-borne-out"),
        ("80", Outcome.NOT_CHECKED, "not-borne-out"),
        ("125", Outcome.PASS, ""),
    ],
)
def test_a_guarded_metric_counts_as_far_as_its_clock_bears_it_out(seen: str, outcome: Outcome, reason: str) -> None:
    inputs = native(guarded_clock=clock(2048, format_exact(2048 / Fraction(seen)), "0.05"))
    found = gate("house-5.decode", inputs, "guard")
    assert (found.outcome, found.reason) == (outcome, reason)
    assert verdict("house-5.decode", inputs).tier == ("XL" if outcome is Outcome.PASS else "none")
    assert gate("house-5.decode", inputs, "guard-clock").outcome is Outcome.PASS
    fell = replace(inputs, guarded=Fraction("98.9"))
    assert gate("house-5.decode", fell, "guard").outcome is Outcome.FAIL


def test_the_guarded_clock_is_held_like_that_of_the_scored_metric() -> None:
    for reading, reason, outcome in (
        (clock(2048, "25.6", "0.05"), "", Outcome.PASS),
        (clock(2048, "25.601", "0.05"), "faster-than-clock", Outcome.FAIL),
        (clock(2048, "16.383", "0.05"), "work-not-done", Outcome.FAIL),
        (clock(2048, "20.48", "2.1"), "drowned", Outcome.NOT_CHECKED),
        (clock(2048, "20.48"), "no-jitter", Outcome.NOT_CHECKED),
        (clock(2048, "0", "0.05"), "non-positive", Outcome.FAIL),
        (None, "no-evidence", Outcome.NOT_CHECKED),
    ):
        found = gate("house-5.decode", native(guarded_clock=reading), "guard-clock")
        assert (found.reason, found.outcome) == (reason, outcome)
    middle = replace(clock(2048, "20.48", "2.1"), middle=Fraction("0.05"))
    assert gate("house-5.decode", native(guarded_clock=middle), "guard-clock").outcome is Outcome.PASS


def test_a_first_run_has_no_guarded_metric_to_be_held_against() -> None:
    found = verdict("house-5.decode", native(frontier="0", guarded_clock=None))
    assert (found.tier, found.not_checked) == ("BASELINE", ())


def test_a_guarded_metric_whose_clock_is_open_leaves_the_scored_number_a_number() -> None:
    builder, _ = house_ledger()
    run = builder.add("run", beside_clock(claim=450.0, seen=None), RUNNER)
    builder.add("rule", rule_body(THREE), JUDGE)
    result = last(builder)
    assert isinstance(result, Verdict)
    builder.add("verdict", verdict_body(run, result), JUDGE)
    (one,) = [
        one for one in gather(verified(builder)).candidates
        if one.identity == run and one.run.track.metric == "decode"
    ]  # fmt: skip
    assert (one.published, one.voided) == ("none", "")


# ------------------------------------------------------------------------------------------------------ the frontier


def slow_round(frontier: float, candidate: float, *, pin: bool = True) -> Builder:
    """A frontier build of 50, its pin, and a round whose own frontier run is slower."""
    builder, _ = house_ledger()
    if not pin:
        builder = Builder().open()
        builder.add("run", receipt(40.0, 300.0, role="reference"), RUNNER)
        source = builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
        builder.add("pin", pin_body(f"frontier:{PREFILL_SLOT}", "450", source), JUDGE)
    builder.add("run", receipt(frontier, 450.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(candidate, 450.0, round_="r2"), RUNNER)
    return builder


PREFILL_SLOT = DECODE.replace("decode@131072", "prefill@32768")


@pytest.mark.parametrize("pin", [True, False])
def test_a_slow_frontier_run_of_the_round_is_an_alarm(pin: bool) -> None:
    builder = slow_round(30.0, 36.0, pin=pin)
    found = last(builder)
    assert isinstance(found, NotScorable)
    assert (found.reason, found.field) == ("alarm", "frontier")
    assert found.message == (
        "alarm: the frontier run of its round measured 30/s, below 0.9 of the frontier 50: measure it again"
    )
    assert tier(builder, FOURTH) == "XL"
    builder.add("run", receipt(50.5, 450.0, role="frontier", round_="r3"), RUNNER)
    assert tier(builder) == "alarm", "what comes later changes nothing"
    builder.add("run", receipt(50.0, 450.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(60.0, 450.0, round_="r2"), RUNNER)
    assert tier(builder) == "XL", "measured again"


@pytest.mark.parametrize("pin", [True, False])
@pytest.mark.parametrize(
    ("frontier", "candidate", "found"),
    [
        (45.0, 51.0, "none"),  # exactly a tenth below is no alarm, and the frontier stays where it was
        (45.0, 59.0, "XL"),
        (44.999, 59.0, "alarm"),
        (50.0, 51.5, "XS"),
        (55.0, 56.0, "none"),  # it only rises
        (55.0, 64.9, "XL"),
    ],
)
def test_a_frontier_only_rises(frontier: float, candidate: float, found: str, pin: bool) -> None:
    builder = slow_round(frontier, candidate, pin=pin)
    assert tier(builder) == found
    if found != "alarm":
        expected = ("50", "pin" if pin else "receipt") if frontier < 50 else (f"{frontier:g}", "receipt")
        assert held(builder) == expected


@pytest.mark.parametrize("round_", ["r9", None])
def test_a_round_without_a_frontier_run_is_held_against_the_one_before(round_: str | None) -> None:
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", receipt(30.0, 450.0, round_=round_), RUNNER)
    assert tier(builder, replace(FOURTH, guard=None)) == "BASELINE"
    found = last(builder)
    assert isinstance(found, Verdict)
    assert (found.speed_tier, held(builder)) == ("none", ("50", "receipt"))
    builder.add("run", receipt(60.0, 450.0, round_=round_), RUNNER)
    assert {step.name: step.text for step in last(builder).steps}["gain"] == "0.2"  # type: ignore[union-attr]


def test_a_first_run_is_still_the_first() -> None:
    builder = Builder().open()
    builder.add("run", receipt(30.0, 450.0, round_=None), RUNNER)
    assert tier(builder) == "BASELINE"


def test_candidates_of_a_round_are_not_held_against_one_another() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(59.0, 500.0), RUNNER)
    assert (tier(builder), held(builder)) == ("XL", ("50", "receipt"))


def test_a_frontier_run_that_was_taken_back_holds_nothing_up() -> None:
    builder, _ = house_ledger()
    fast = builder.add("run", receipt(80.0, 450.0, role="frontier", round_="r0"), RUNNER)
    builder.add("run", receipt(60.0, 450.0, round_="r1"), RUNNER)
    assert tier(builder) == "alarm"
    take_back(builder, fast)
    assert (tier(builder), held(builder)) == ("XL", ("50", "receipt"))


@pytest.mark.parametrize(("order", "expected"), [("high", ["54", "52", "50"]), ("low", ["54", "54", "50"])])
def test_verdicts_on_a_round_with_an_alarm_do_not_follow_and_others_do_whatever_is_taken_back_later(
    order: str, expected: list[str]
) -> None:
    builder, _ = house_ledger()
    builder.add("rule", rule_body(THREE), JUDGE)
    low = builder.add("run", receipt(52.0, 450.0, role="frontier", round_="r0"), RUNNER)
    high = builder.add("run", receipt(54.0, 450.0, role="frontier", round_="r0"), RUNNER)
    runs = []
    for taken in (high, low, None) if order == "high" else (low, high, None):
        run = builder.add("run", receipt(64.0, 450.0, round_="r1"), RUNNER)
        runs.append(held(builder)[0])
        result = last(builder)
        assert isinstance(result, Verdict)
        builder.add("verdict", verdict_body(run, result), JUDGE)
        if taken is not None:
            take_back(builder, taken)
    assert runs == expected
    assert settle_judgements(verified(builder)).findings == ()
    builder.add("run", receipt(30.0, 450.0, role="frontier", round_="r2"), RUNNER)
    run = builder.add("run", receipt(36.0, 450.0, round_="r2"), RUNNER)
    result = last(builder, FOURTH)
    assert isinstance(result, Verdict)
    forged = verdict_body(run, result) | {"rule": THREE.name, "rule_sha256": THREE.sha256}
    builder.add("verdict", forged, JUDGE)
    (finding,) = settle_judgements(verified(builder)).findings
    assert finding.code is Code.VERDICT_MISMATCH
    assert "alarm" in finding.message


def test_a_frontier_of_ones_own_choice_does_not_silence_the_alarm() -> None:
    run = replace(native("36"), frontier=figure("50"), alarm=figure("30"))
    assert isinstance(apply_arithmetic(HOUSE, run), NotScorable)
