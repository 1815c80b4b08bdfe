"""What nobody judged counts as much as the house rule would count of it: not judging pays for nobody."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.doubt import DIVERGED, NEWEST, UNGRADED
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, parity, receipt, series, timed, verified
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of, rule_of, why
from tests.rescore.test_standing import seal, take_back

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

SIXTH = find_rule("house-6.decode")
THREE = replace(SIXTH, name="three", sampling=replace(SIXTH.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
LENIENT = replace(find_rule("v0.2.1"), name="lenient")
"""A rule that reads no clock and whose bars admit."""
BAD: dict[str, tuple[Any, str]] = {
    "far": (parity("9.9"), DIVERGED),
    "just above the bar": (parity("0.050000001"), DIVERGED),
    "other tokens": (parity(depths=[{**row, "top1_agree": 0} for row in parity()["depths"]]), DIVERGED),
    "one depth": (parity(depths=[*parity()["depths"][:-1], {**parity()["depths"][-1], "kl_max": "1"}]), DIVERGED),
    "nothing graded": (None, UNGRADED),
    "graded after it was smoothed": (parity(processing="processed"), UNGRADED),
    "the easy depths": (parity(depths=parity()["depths"][:3]), UNGRADED),
    "few rows": (parity(depths=[{**row, "rows": 2, "top1_agree": 2} for row in parity()["depths"]]), UNGRADED),
    "another path": (parity(path="prefill"), UNGRADED),
    "by itself": (
        parity(reference={"name": "llama.cpp", "version": "b1", "independent": False}),
        UNGRADED,
    ),
}
bad = pytest.mark.parametrize("what", BAD)


def claims_more(decode: float, clock: float, prefill: float = 450.0, **more: Any) -> dict[str, Any]:
    """A run that says more of its decoding than its clock saw."""
    body = receipt(clock, prefill, **more)
    return {**body, "timing": [timed("decode", decode, context=131_072)[0], *body["timing"][1:]]}


def leads(builder: Builder, track: str = DECODE) -> Fraction:
    """Where the frontier of a track stands."""
    (climb,) = [one for one in derive_climbs(gather(verified(builder))) if str(one.track) == track]
    return climb.value


# --------------------------------------------------------------------------------------------------- its agreement


@bad
def test_fast_and_wrong_supports_nothing_and_leads_nothing(what: str) -> None:
    graded, says = BAD[what]
    builder, _ = house_ledger()
    run = builder.add("run", receipt(190.0, 450.0, parity=graded, round_="r2"), RUNNER)
    found = of(builder, speed("190.0", 'ratio = 4.75\nagainst = "reference"\ncurrent = true\n'))
    assert found.status is Status.CONTRADICTED
    assert found.parts[0].why == f"only receipt {run[:8]} ({says}), entry 9 holds it"
    assert leads(builder) == 60
    read = [item for item in list_evidence(gather(verified(builder))) if item.receipt == run]
    assert {item.accepted for item in read if item.track.metric == "decode"} == {False}, "whichever clock read it"
    material = gather(verified(builder))
    assert {item.counts for item in material.measurements if (item.receipt, item.track.metric) == (run, "decode")} == {
        False
    }
    alone = claim("ratio", f'track = "{DECODE}"\nratio = 4.75\nagainst = "reference"\ntolerance = "rounding"\n')
    assert of(builder, alone).status is Status.CONTRADICTED


@bad
def test_what_the_judge_would_refuse_or_leave_open_does_not_count_before_he_is_asked(what: str) -> None:
    """One definition: where the doubt is, the newest house rule gives no tier, by these gates of its own."""
    builder, _ = house_ledger()
    run = builder.add("run", receipt(190.0, 450.0, parity=BAD[what][0], round_="r2"), RUNNER)
    rows = rescore(gather(verified(builder)).candidates, THREE).rows
    (result,) = [
        row.result for row in rows if row.candidate.identity == run and "decode" in row.candidate.run.track.short
    ]
    assert isinstance(result, Verdict)
    assert {*result.refused_by, *result.not_checked} & {"correctness", "suite", "sampling"}


def test_an_honest_candidate_that_nobody_judged_supports_what_it_measured() -> None:
    """The control: at the bar exactly, on either path alone for the metric of it, of more depths than are asked for."""
    extra = [*parity()["depths"], {**parity()["depths"][0], "depth": 8192}]
    for number, graded in enumerate((parity(), parity("0.05"), parity(path="decode"), parity(depths=extra))):
        builder, _ = house_ledger()
        builder.add("run", receipt(61.0 + number, 450.0, parity=graded, round_="r2"), RUNNER)
        assert of(builder, speed(f"{61 + number}.0", "current = true\n")).status is Status.SUPPORTED
        assert leads(builder) == 61 + number


def test_what_is_graded_on_one_path_is_none_of_the_other() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(61.0, 700.0, parity=parity(path="prefill"), round_="r2"), RUNNER)
    assert [int(leads(builder)), int(leads(builder, PREFILL))] == [60, 700]


def test_of_what_no_house_rule_scores_no_agreement_is_asked() -> None:
    builder = Builder().open()
    rate = series("verify", "subject", [(5000, 1.0)] * 3, context=0)
    timing = [{**rate, "context": None, "context_filled": None}]
    builder.add("run", receipt(60.0, parity=None, timing=timing, model=None), RUNNER)
    assert [climb.value for climb in derive_climbs(gather(verified(builder)))] == [5000]


@pytest.mark.parametrize("role", ["frontier", "reference"])
def test_runs_that_nobody_judges_are_asked_for_no_agreement(role: str) -> None:
    """The control: external engines are measured through reports that grade nothing."""
    builder = Builder().open()
    builder.add("run", receipt(70.0, role=role, parity=None), RUNNER)
    actor = 'actor = "reference"\n' if role == "reference" else ""
    assert of(builder, speed("70.0", actor)).status is Status.SUPPORTED


@bad
def test_a_sealed_verdict_decides_what_its_gates_grade(what: str) -> None:
    graded, says = BAD[what]
    builder, _ = house_ledger()
    kind = replace(LENIENT, correctness=replace(LENIENT.correctness, kl=Fraction(10), top1=Fraction(0)))
    builder.add("rule", rule_of(kind), JUDGE)
    bars = replace(THREE.correctness, kl=Fraction(10), top1=Fraction(0))
    own = replace(THREE, name="own", correctness=bars, ratchet=None)
    builder.add("rule", rule_of(own), JUDGE)
    run = builder.add("run", receipt(61.0, 450.0, parity=graded, round_="r1"), RUNNER)
    assert of(builder, speed("61.0", "")).status is Status.CONTRADICTED
    (_, lenient) = seal(builder, kind)
    found = of(builder, speed("61.0", ""))
    assert found.status is Status.CONTRADICTED, "its gates admit and grade nothing"
    lenient_says = says.replace("unjudged", "judged by lenient alone")
    assert found.parts[0].why == f"only receipt {run[:8]} ({lenient_says}), entry 11 holds it"
    take_back(builder, lenient)
    seal(builder, own)
    assert of(builder, speed("61.0", "")).status is (Status.SUPPORTED if says == DIVERGED else Status.CONTRADICTED)


# -------------------------------------------------------------------------------------- what its clock bears out of it


def _shown(builder: Builder, value: str) -> tuple[Status, str]:
    found = of(builder, speed(value))
    return found.status, why(found) if found.status is not Status.SUPPORTED else found.parts[0].why


@pytest.mark.parametrize("rule", [None, THREE])
def test_of_a_claim_beyond_its_clock_counts_what_the_clock_bears_out(rule: Rule | None) -> None:
    builder, _ = house_ledger()
    if rule is not None:
        builder.add("rule", rule_of(rule), JUDGE)
    run = builder.add("run", claims_more(72.0, 60.0, round_="r2"), RUNNER)
    if rule is not None:
        seal(builder, rule)
    said = f"receipt {run[:8]} (claims 72.00, and its clock bears out no more), entry {9 if rule is None else 10}"
    assert _shown(builder, "72.0") == (Status.NO_RECEIPT, f"nothing holds it; nearest is 60.60, {said}")
    assert _shown(builder, "60.60") == (Status.SUPPORTED, f"{said} holds it")
    assert leads(builder) == Fraction("60.6")
    builder.add("run", receipt(71.0, 450.0, round_="r3"), RUNNER)
    assert said in _shown(builder, "72.0")[1], "the one that claims it is named, not the nearest"


def test_a_rule_that_is_published_behind_its_verdict_counts_no_more_of_a_claim() -> None:
    builder, _ = house_ledger()
    builder.add("run", claims_more(72.0, 60.0, round_="r2"), RUNNER)
    seal(builder, THREE)
    assert leads(builder) == Fraction("60.6"), "nobody knows the rule of the verdict, so nothing is published"
    builder.add("rule", rule_of(THREE), JUDGE)
    assert settle_judgements(verified(builder)).findings == ()
    assert leads(builder) == Fraction("60.6")


def test_where_a_rule_counts_the_whole_claim_its_verdict_decides() -> None:
    older = replace(THREE, name="older", arithmetic="measured-gain/4")
    builder, _ = house_ledger()
    builder.add("rule", rule_of(older), JUDGE)
    builder.add("run", claims_more(72.0, 60.0, round_="r2"), RUNNER)
    assert leads(builder) == Fraction("60.6")
    seal(builder, older)
    assert (int(leads(builder)), _shown(builder, "72.0")[0]) == (72, Status.SUPPORTED)


@pytest.mark.parametrize("clock", [60.0, 59.41, 60.5])
def test_a_claim_within_the_allowance_counts_whole(clock: float) -> None:
    """The control: a hundredth is what the runner allows an engine's own times."""
    builder = Builder().open()
    builder.add("run", claims_more(60.0, clock), RUNNER)
    assert _shown(builder, "60.00")[0] is Status.SUPPORTED
    assert leads(builder) == 60


@given(claimed=st.fractions(min_value=20, max_value=200, max_denominator=20), clock=st.sampled_from([20.0, 50.0, 63.0]))
@settings(max_examples=25, deadline=None)
def test_what_counts_is_what_the_newest_house_rule_scores(claimed: Fraction, clock: float) -> None:
    builder, _ = house_ledger()
    run = builder.add("run", claims_more(float(claimed), clock, round_="r2"), RUNNER)
    (candidate,) = [
        one for one in gather(verified(builder)).candidates if (one.identity, one.run.track.metric) == (run, "decode")
    ]
    (row,) = rescore([candidate], THREE).rows
    assert isinstance(row.result, Verdict)
    (scored,) = [step.value for step in row.result.steps if step.name == "speed"]
    assert candidate.counted == scored
    assert NEWEST["decode"].clock == THREE.clock


def test_no_multiple_is_taken_of_what_does_not_count() -> None:
    """Neither over the other engine nor, repetition by repetition, over an actor that took turns."""
    builder, _ = house_ledger()
    body = claims_more(72.0, 60.0, round_="r2")
    floor = [{**one, "actor": "floor"} for one in timed("decode", 80.0, context=131_072)]
    builder.add("run", {**body, "timing": [*body["timing"], *floor]}, RUNNER)
    for against, whole, part in (("reference", "1.80", "1.515"), ("floor", "0.90", "0.7575")):
        head = f'track = "{DECODE}"\nagainst = "{against}"\ntolerance = "rounding"\n'
        assert of(builder, claim("ratio", f"{head}ratio = {whole}\n")).status is Status.CONTRADICTED
        assert of(builder, claim("ratio", f"{head}ratio = {part}\n")).status is Status.SUPPORTED
    turned = f'track = "{DECODE}"\nactor = "floor"\nagainst = "subject"\ntolerance = "rounding"\n'
    assert of(builder, claim("ratio", f"{turned}ratio = 1.11\n")).status is Status.CONTRADICTED
    assert of(builder, claim("ratio", f"{turned}ratio = 1.32\n")).status is Status.SUPPORTED


def test_a_winner_explains_no_more_drift_than_counts_of_it() -> None:
    builder, _ = house_ledger()
    run = builder.add("run", claims_more(72.0, 60.0, round_="r2"), RUNNER)
    body = {"slot": f"frontier:{DECODE}", "pull_request": None, "commit": "c" * 40, "run": run, "claimed": None}
    builder.add("merge", body, JUDGE)
    assert [merge.value for merge in gather(verified(builder)).merges] == [Fraction("60.6")]
