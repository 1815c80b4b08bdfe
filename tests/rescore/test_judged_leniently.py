"""Judging leniently pays as little as not judging: what no gate of a verdict graded, the receipt itself is asked."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import rule_body
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, parity, receipt, timed, verified
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal
from tests.rescore.test_supposed import lying
from tests.rescore.test_unjudged import BAD

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

SHIPPED = find_rule("v0.2.1")
SIXTH = find_rule("house-6.decode")
THREE = replace(SIXTH, name="three", sampling=replace(SIXTH.sampling, repetitions=3))  # type: ignore[type-var]
"""A rule whose gates grade, for receipts of three repetitions beside one frontier run."""
UNREAD = replace(THREE, name="unread", clock=None)
"""Its gates grade, and none reads a clock."""
UNFILLED = replace(THREE, name="unfilled", sampling=replace(THREE.sampling, filled=False))  # type: ignore[type-var]
"""Asks for no context."""


def skipped() -> dict[str, Any]:
    body = receipt(60.0, 500.0)
    timing = [{**one, "context_filled": 0} if one["context"] else one for one in body["timing"]]
    return {**body, "timing": timing}


def unclocked() -> dict[str, Any]:
    body = receipt(60.0, 500.0)
    return {**body, "timing": [body["timing"][0], *body["timing"][2:]]}


def drowned() -> dict[str, Any]:
    body = receipt(60.0, 500.0)
    return {**body, "timing": [*timed("decode", 60.0, context=131_072, jitter=30.0), *body["timing"][2:]]}


WORK = {name: receipt(60.0, 500.0, parity=BAD[name][0]) for name in ("nothing graded", "the easy depths", "by itself")}
CLOCK = {
    "refuted by its own clock": lying(60.0, 10.0),
    "seen by no clock": unclocked(),
    "its clock was read over too little to bear it out": drowned(),
}
CASES: list[tuple[dict[str, Any], str, Rule]] = [
    *((body, said, rule) for said, body in CLOCK.items() for rule in (SHIPPED, UNREAD)),
    (skipped(), "its context was not filled with tokens", SHIPPED),
    (skipped(), "its context was not filled with tokens", UNFILLED),
    *((body, "its agreement was not graded in full", SHIPPED) for body in WORK.values()),
]


def ledger(body: dict[str, Any], *rules: Rule) -> tuple[Builder, str]:
    """One round whose candidate is judged by rules, in order; those that are not shipped are published first."""
    builder, _ = house_ledger()
    builder.lines.pop()
    for rule in rules:
        if rule is not SHIPPED:
            builder.add("rule", rule_body(rule), JUDGE)
    run = builder.add("run", body, RUNNER)
    for rule in rules:
        seal(builder, rule)
    return builder, run


def decode_climb(builder: Builder) -> Fraction:
    return next(one.value for one in derive_climbs(gather(verified(builder))) if str(one.track) == DECODE)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_what_no_gate_of_its_verdict_graded_is_asked_of_the_receipt(case: int) -> None:
    body, said, rule = CASES[case]
    builder, run = ledger(body, rule)
    found = next(one for one in gather(verified(builder)).candidates if one.run.track.metric == "decode")
    assert (found.published, found.voided) == ("XL", f"judged by {rule.name} alone, and {said}")
    held = of(builder, speed("60.0", ""))
    assert held.status is Status.CONTRADICTED
    assert why(held).startswith(f"only receipt {run[:8]} (judged by {rule.name} alone, and {said}), entry ")
    accepted = of(builder, claim("accepted", f'receipt = "{run}"\n'))
    told = f"receipt {run[:8]} (judged by {rule.name} alone, and {said}) was given XL, and counts for nothing"
    assert (accepted.status, why(accepted)) == (Status.CONTRADICTED, told)
    more = f'receipt = "{run}"\nmetric = "decode"\ntolerance = "rounding"\n'
    for kind, what in (("gain", "percent = 20.0\n"), ("credit", "gain_percent = 20.0\ncredited_percent = 20.0\n")):
        assert of(builder, claim(kind, more + what)).status is Status.CONTRADICTED
    assert decode_climb(builder) == 50
    clock = [
        one for one in list_evidence(gather(verified(builder))) if (one.receipt, one.observer) == (run, "controller")
    ]
    wrong_work = said.startswith(("its agreement", "its context"))
    assert {one.accepted for one in clock if str(one.track) == DECODE} <= {not wrong_work}
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED, "what was derived stays as it was"


@pytest.mark.parametrize("rule", [SHIPPED, UNREAD, UNFILLED, THREE], ids=lambda rule: rule.name)
def test_the_control_an_honest_run_is_supported_whoever_judged_it(rule: Rule) -> None:
    builder, run = ledger(receipt(60.0, 500.0), rule)
    assert of(builder, speed("60.0", "current = true\n")).status is Status.SUPPORTED
    accepted = of(builder, claim("accepted", f'receipt = "{run}"\n'))
    assert (accepted.status, why(accepted)) == (Status.SUPPORTED, f"receipt {run[:8]} was accepted as XL")
    assert decode_climb(builder) == 60


def test_the_control_what_gates_graded_they_decide() -> None:
    lax = replace(THREE, name="lax", correctness=replace(THREE.correctness, kl=Fraction(10)), ratchet=None)
    builder, _ = ledger(receipt(60.0, 500.0, parity=parity("9.9")), lax)
    assert of(builder, speed("60.0", "")).status is Status.SUPPORTED, "the ledger says by which bars"
    for body in (lying(60.0, 10.0), unclocked(), drowned()):
        builder, run = ledger(body, THREE)
        assert of(builder, speed("60.0", "")).status is Status.CONTRADICTED
        assert of(builder, claim("accepted", f'receipt = "{run}"\n')).status is Status.CONTRADICTED


@pytest.mark.parametrize("rule", [SHIPPED, UNREAD], ids=lambda rule: rule.name)
def test_no_more_counts_of_a_claim_than_before_it_was_judged_leniently(rule: Rule) -> None:
    for rules in ((), (rule,)):
        builder, _ = ledger(lying(60.0, 55.0), *rules)
        assert decode_climb(builder) == Fraction("55.55")
        assert of(builder, speed("60.0", "")).status is not Status.SUPPORTED
        assert of(builder, speed("55.55", "")).status is Status.SUPPORTED


def test_a_lenient_verdict_in_front_of_a_strict_one_hides_nothing() -> None:
    builder, _ = ledger(lying(60.0, 10.0), SHIPPED, THREE)
    assert of(builder, speed("60.0", "")).status is Status.CONTRADICTED
    assert decode_climb(builder) == 50


# ------------------------------------------------------------------------------- refused on one metric, and on another


def test_a_gain_of_a_run_that_was_refused_on_another_metric_supports_nothing() -> None:
    builder, run = ledger(receipt(60.0, 400.0), SHIPPED)
    more = f'receipt = "{run}"\nmetric = "decode"\n'
    gain = claim("gain", more + 'percent = 20.0\ntolerance = "rounding"\n')
    credit = claim("credit", more + 'gain_percent = 20.0\ncredited_percent = 20.0\ntolerance = "rounding"\n')
    assert [of(builder, text).status for text in (gain, credit)] == [Status.SUPPORTED] * 2
    own = replace(
        find_rule("house-6.prefill"), sampling=THREE.sampling,
        correctness=replace(THREE.correctness, kl=Fraction("0.001")),
    )  # fmt: skip
    own = replace(own, name="own")
    builder.add("rule", rule_body(own), JUDGE)
    seal(builder, own)
    assert [one.published for one in gather(verified(builder)).candidates] == ["XL", "REJECT"]
    assert [of(builder, text).status for text in (gain, credit)] == [Status.CONTRADICTED] * 2
    assert "(REJECT)" in why(of(builder, gain))
    assert [one.voided for one in gather(verified(builder)).candidates] == ["REJECT"] * 2


# --------------------------------------------------------------------------------------- what is said of every run


def every(what: str, bar: str) -> str:
    return claim("every", f'what = "{what}"\n{bar}\n')


BARS = [("top1-bar", "least = 0.95", "least = 0.5"), ("kl-bar", "most = 0.05", "most = 0.6")]


@pytest.mark.parametrize(("what", "house", "lax"), BARS)
def test_the_bars_of_a_receipt_are_those_of_the_rule_it_was_published_by(what: str, house: str, lax: str) -> None:
    bars = replace(THREE.correctness, top1=Fraction(1, 2), kl=Fraction("0.6"))
    rule = replace(THREE, name="lax", correctness=bars)
    for rules in ((), (rule,), (THREE,), (SHIPPED,)):
        builder, _ = ledger({**receipt(60.0, 500.0), "timing": receipt(60.0)["timing"][:2]}, *rules)
        if not rules:
            assert of(builder, every(what, house)).status is Status.NO_RECEIPT, "nobody judged it by any bar"
            continue
        assert of(builder, every(what, lax)).status is Status.SUPPORTED
        strict = rules == (THREE,) or (rules == (SHIPPED,) and what == "kl-bar")  # it asked for a top-1 of 0.9
        assert of(builder, every(what, house)).status is (Status.SUPPORTED if strict else Status.CONTRADICTED)


@pytest.mark.parametrize("name", ["the easy depths", "by itself", "few rows"])
def test_agreement_that_was_not_graded_in_full_is_said_of_no_run(name: str) -> None:
    for body, status in ((receipt(parity=BAD[name][0]), Status.NO_RECEIPT), (receipt(), Status.SUPPORTED)):
        builder = Builder().open()
        builder.add("run", body, RUNNER)
        for text in (every("kl", "most = 0.04"), every("top1", "least = 1")):
            assert of(builder, text).status is status


def test_agreement_that_is_below_the_bars_is_held_against_what_is_said_of_every_run() -> None:
    builder = Builder().open()
    builder.add("run", receipt(parity=BAD["far"][0]), RUNNER)
    assert of(builder, every("kl", "most = 0.04")).status is Status.CONTRADICTED
