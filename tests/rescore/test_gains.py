"""What is claimed of a gain is what a verdict states or the rule in force computes, never the claim over whatever."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import k3_ledger.rescore.claims.gains as computing
from k3_ledger.rescore.claims.check import check_claims
from k3_ledger.rescore.claims.reading import read_claims
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import IN_FORCE, RescoreReport, rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sealing import rule_body
from k3_ledger.schemas.errors import RescoreError
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, parity, pin_body, receipt, timed, verified
from tests.rescore.test_claims import about, candidate, claim, decide
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.check import Decision
    from k3_ledger.rescore.rules.parameters import Rule


def three(name: str, **more: Any) -> Rule:
    """A house rule for receipts of three repetitions."""
    rule = find_rule(name)
    return replace(rule, name=f"three-{name}", sampling=replace(rule.sampling, repetitions=3), **more)  # type: ignore[type-var]


RULES = (three("house-6.decode"), three("house-6.prefill"))
AROUND = ('metric = "decode"\n', 'metric = "decode@131072"\n', "")


def round_(*, rules: tuple[Rule, ...] = RULES) -> tuple[Builder, str]:
    """A round with its frontier build and pins; the ledger has published rules."""
    builder = Builder().open()
    frontier = builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    for track, value in ((DECODE, "50"), (PREFILL, "450")):
        builder.add("pin", pin_body(f"guard:{track}", value, frontier), JUDGE)
    for rule in rules:
        builder.add("rule", rule_body(rule), JUDGE)
    return builder, frontier


def beyond(decode: float, clock: float, prefill: float = 450.0, **more: Any) -> dict[str, Any]:
    """A run that claims more than its clock saw."""
    body = receipt(clock, prefill, **more)
    return {**body, "timing": [timed("decode", decode, context=131_072)[0], *body["timing"][1:]]}


def gains(builder: Builder, run: str, percent: str, more: str = 'metric = "decode"\n') -> Decision:
    text = f'receipt = "{run}"\npercent = {percent}\ntolerance = "rounding"\n'
    return of(builder, claim("gain", text + more))


def credits_(builder: Builder, run: str, gain: str, credit: str, more: str = "") -> Decision:
    text = f'receipt = "{run}"\ngain_percent = {gain}\ncredited_percent = {credit}\ntolerance = "rounding"\n'
    return of(builder, claim("credit", text + more))


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("rules", [(), RULES])
def test_a_gain_is_of_what_counts_whoever_says_it(sealed: bool, rules: tuple[Rule, ...]) -> None:
    builder, _ = round_(rules=rules)
    run = builder.add("run", beyond(60.0, 50.0), RUNNER)
    if sealed:
        seal(builder, RULES[0])
    assert gains(builder, run, "20.00").status is Status.CONTRADICTED
    assert why(gains(builder, run, "20.00")) == f"receipt {run[:8]} gained +1.00 %"
    assert gains(builder, run, "1.00").status is Status.SUPPORTED


@pytest.mark.parametrize("sealed", [False, True])
def test_an_honest_gain_is_supported_with_whatever_metric_it_is_named(sealed: bool) -> None:
    """The control."""
    builder, _ = round_()
    run = builder.add("run", receipt(60.0, 540.0), RUNNER)
    if sealed:
        seal(builder, RULES[0])
        seal(builder, RULES[1])
    for more in AROUND:
        assert gains(builder, run, "20.00", more).status is Status.SUPPORTED
        assert credits_(builder, run, "20.00", "20.00", more).status is Status.SUPPORTED


def test_gain_credit_and_rescore_say_one_number() -> None:
    builder, _ = round_()
    for speed, clock in ((60.0, 50.0), (60.0, 60.0), (55.0, 52.0), (49.0, 49.0)):
        run = builder.add("run", beyond(speed, clock), RUNNER)
        rows = rescore(gather(verified(builder)).candidates, IN_FORCE).rows
        (result,) = [
            row.result for row in rows if (row.candidate.identity, row.candidate.run.track.metric) == (run, "decode")
        ]
        assert isinstance(result, Verdict)
        assert result.gain is not None
        share = format_exact(result.gain * 100)
        assert gains(builder, run, share).status is Status.SUPPORTED
        found = credits_(builder, run, share, "0.5", 'metric = "decode"\n')
        assert found.parts[0].status is Status.SUPPORTED
        seal(builder, RULES[0])
        assert gains(builder, run, share).status is Status.SUPPORTED


def test_a_gain_over_the_slow_frontier_of_its_own_round_is_none() -> None:
    for rules in ((), RULES):
        builder, _ = round_(rules=rules)
        builder.add("run", receipt(30.0, 270.0, role="frontier", round_="r2"), RUNNER)
        run = builder.add("run", receipt(36.0, 324.0, round_="r2"), RUNNER)
        for more in AROUND:
            found = gains(builder, run, "20.00", more)
            assert found.status is Status.NO_RECEIPT
            assert why(found).startswith(f"receipt {run[:8]}: alarm: the frontier run of its round measured 30/s")
        assert credits_(builder, run, "20.00", "20.00").status is Status.NO_RECEIPT
        # The control: a frontier that fell by less than an alarm is no reason, and is not what counts.
        builder.add("run", receipt(46.0, 450.0, role="frontier", round_="r3"), RUNNER)
        good = builder.add("run", receipt(60.0, 450.0, round_="r3"), RUNNER)
        assert gains(builder, good, "20.00").status is Status.SUPPORTED


def test_where_a_sealed_verdict_states_a_gain_it_decides() -> None:
    older = three("house-4.decode")
    builder, _ = round_(rules=(older,))
    run = builder.add("run", beyond(60.0, 50.0), RUNNER)
    seal(builder, older)
    builder.add("rule", rule_body(RULES[0]), JUDGE)
    assert gains(builder, run, "20.00").status is Status.SUPPORTED
    assert credits_(builder, run, "20.00", "20.00").status is Status.SUPPORTED
    seal(builder, RULES[0])
    assert gains(builder, run, "20.00").status is Status.SUPPORTED, "judging again moves nothing"


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("change", "gate"), [({"parity": parity("0.02")}, "ratchet"), ({}, "guard")])
def test_what_the_rule_in_force_refuses_was_credited_with_nothing(
    sealed: bool, change: dict[str, Any], gate: str
) -> None:
    builder, _ = round_()
    run = builder.add("run", receipt(60.0, 200.0 if gate == "guard" else 450.0, **change), RUNNER)
    if sealed:
        seal(builder, RULES[0])
    state = "REJECT" if sealed else f"unjudged, and refused by the rule in force: {gate}"
    assert why(gains(builder, run, "20.00")) == f"receipt {run[:8]} ({state}) gained +20.00 %"
    assert gains(builder, run, "20.00").status is Status.CONTRADICTED
    found = credits_(builder, run, "20.00", "20.00", 'metric = "decode"\n')
    assert (found.status, why(found)) == (Status.CONTRADICTED, f"receipt {run[:8]} ({state}) counts for nothing")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_gain_without_a_tier_was_credited_with_nothing(sealed: bool) -> None:
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("rule", rule_body(RULES[0]), JUDGE)
    run = builder.add("run", receipt(60.0, 450.0), RUNNER)  # nothing pins what is guarded
    if sealed:
        seal(builder, RULES[0])
    found = credits_(builder, run, "20.00", "20.00", 'metric = "decode"\n')
    assert [part.status for part in found.parts] == [Status.SUPPORTED, Status.CONTRADICTED]
    assert why(found) == f"receipt {run[:8]} was credited nothing"


@pytest.mark.parametrize("rules", [(), RULES])
def test_a_gain_at_a_context_that_no_rule_scores_is_computed_all_the_same(rules: tuple[Rule, ...]) -> None:
    builder, _ = round_(rules=rules)
    run = ""
    for speed, role in ((100.0, "frontier"), (120.0, "candidate")):
        body = receipt(role=role, round_="r2")
        run = builder.add("run", {**body, "timing": timed("decode", speed, context=64)}, RUNNER)
    assert gains(builder, run, "20.00", 'metric = "decode@64"\n').status is Status.SUPPORTED
    assert credits_(builder, run, "20.00", "20.00").status is Status.NO_RECEIPT


# -------------------------------------------------------------------------------------------------- which metric


def test_a_receipt_of_two_metrics_is_told_which_is_meant() -> None:
    builder, _ = round_()
    run = builder.add("run", receipt(60.0, 450.0), RUNNER)
    found = gains(builder, run, "20.00", "")
    assert found.status is Status.AMBIGUOUS
    assert why(found) == (
        f"receipt {run[:8]} on decode@131072 gained +20.00 %, receipt {run[:8]} on prefill@32768 gained +0.00 %; "
        'say which with metric = "decode@131072" or metric = "prefill@32768"'
    )
    both = credits_(builder, run, "20.00", "20.00")
    assert both.status is Status.AMBIGUOUS
    assert why(both).endswith('say which with metric = "decode@131072" or metric = "prefill@32768"')
    for metric, percent in (("decode", "20.00"), ("prefill", "0.00"), ("prefill@32768", "0.00")):
        assert gains(builder, run, percent, f'metric = "{metric}"\n').status is Status.SUPPORTED
    assert gains(builder, run, "0.00").status is Status.CONTRADICTED
    missing = gains(builder, run, "0.00", 'metric = "decode@64"\n')
    assert (missing.status, why(missing)) == (Status.NO_RECEIPT, f"no receipt of {run[:8]} measures decode@64")


def test_two_receipts_are_not_told_apart_by_a_metric() -> None:
    text = claim("gain", 'pull_request = 7\npercent = 20.0\ntolerance = "rounding"\n')
    found = decide(text, about(candidate("a" * 32), candidate("b" * 32, "61")))
    assert (found.status, "metric" in why(found)) == (Status.AMBIGUOUS, False)


@pytest.mark.parametrize("kind", ["gain", "credit"])
def test_a_misspelt_metric_is_refused(kind: str) -> None:
    more = "percent = 1.0\n" if kind == "gain" else "gain_percent = 1.0\ncredited_percent = 1.0\n"
    text = claim(kind, f'receipt = "aaaa"\n{more}tolerance = "rounding"\nmetric = "decod"\n')
    with pytest.raises(RescoreError, match="decod is no metric"):
        read_claims(text.encode(), source="c.toml")
    with pytest.raises(RescoreError, match="metric"):
        read_claims(claim("accepted", 'receipt = "aaaa"\nmetric = "decode"\n').encode(), source="c.toml")


# ------------------------------------------------------------------------------------- how many, of how many


def test_a_rescore_that_scores_nothing_supports_nothing() -> None:
    builder, _ = round_()
    builder.add("run", receipt(60.0, 450.0), RUNNER)
    text = 'rule = "{}"\npins = "own"\nchange = "lower"\ncount = {}\n'
    empty = of(builder, claim("rescored", text.format("v0.1.0@fb8e012", 0)))
    assert empty.status is Status.NO_RECEIPT
    assert why(empty) == (
        "v0.1.0@fb8e012 scores nothing here: v0.1.0@fb8e012 leaves 0 runs lower, with own pins; "
        "2 of 2 measurements are not scorable"
    )
    assert of(Builder().open(), claim("rescored", text.format("house-6.decode", 0))).status is Status.NO_RECEIPT
    some = of(builder, claim("rescored", text.format("house-6.decode", 0)))
    assert some.status is Status.NO_RECEIPT, "nobody published a tier that could be lowered"
    assert some.parts[0].why == (
        "no run that house-6.decode scores was published with a tier: house-6.decode leaves 0 runs lower, with own "
        "pins; 1 of 2 measurements are not scorable; 1 had no tier to be compared with"
    )
    seal(builder, RULES[0])
    some = of(builder, claim("rescored", text.format("house-6.decode", 1)))
    assert some.status is Status.SUPPORTED, "it asks for more repetitions"
    assert some.parts[0].why.endswith("leaves 1 runs lower, with own pins; 1 of 2 measurements are not scorable")


def test_a_run_of_two_metrics_is_one_of_every_run() -> None:
    builder, _ = round_()
    for number in range(2):
        builder.add("run", receipt(60.0 + number, 450.0), RUNNER)
    good = of(builder, claim("every", 'what = "kl"\nmost = 0.05\n'))
    assert good.parts[0].why == "so for all 2 runs"
    bad = of(builder, claim("every", 'what = "kl"\nmost = 0.001\n'))
    assert why(bad).startswith("not so for 2 of 2 runs: ")
    builder.add("run", receipt(63.0, 450.0, parity=None), RUNNER)
    assert why(of(builder, claim("every", 'what = "kl"\nmost = 0.05\n'))) == "1 of 3 runs do not record it"


@pytest.mark.parametrize("rules", [(), RULES])
def test_a_track_is_computed_once_however_many_claims_are_about_it(
    rules: tuple[Rule, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, _ = round_(rules=rules)
    runs = [builder.add("run", receipt(60.0 + number, 450.0), RUNNER) for number in range(4)]
    more = 'percent = 20\ntolerance = 0.1\nmetric = "decode"\n'
    text = "".join(claim("gain", f'receipt = "{run}"\n{more}').replace('"a"', f'"a-{run[:8]}"') for run in runs)
    asked: list[object] = []

    def counting(candidates: Any, rule: Any) -> RescoreReport:
        asked.append(rule)
        return rescore(candidates, rule)

    monkeypatch.setattr(computing, "rescore", counting)
    check_claims(read_claims(text.encode(), source="claims.toml"), gather(verified(builder)))
    assert len(asked) == (1 if rules else 2)
