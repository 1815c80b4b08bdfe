"""What others are held against when a round is contested: another build's run, one that its own clock contradicts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.doubt import UNCLOCKED
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import check_verdicts, read_judgements, settle_judgements
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sealing import rule_body
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.reference import naive_verdicts
from tests.rescore.receipts import MODEL, PREFILL, house_ledger, parity, pin_body, receipt, timed, verified
from tests.rescore.test_claims import speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal
from tests.rescore.test_sweep import same

if TYPE_CHECKING:
    from fractions import Fraction

    from k3_ledger.rescore.rules.parameters import Rule

FIFTH = find_rule("house-5.decode")
HOUSE = replace(FIFTH, name="contested", sampling=replace(FIFTH.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
OLDER = replace(HOUSE, name="older", arithmetic="measured-gain/3")
RATCHET = replace(HOUSE, name="ratchet", guard=None)


def last(builder: Builder, rule: Rule = HOUSE) -> Verdict:
    """What a rule says of the newest decode run; the sweep says the same of all."""
    same(builder, rule)
    rows = rescore(gather(verified(builder)).candidates, rule).rows
    found = [row.result for row in rows if row.candidate.run.track.metric == "decode"][-1]
    assert isinstance(found, Verdict), found.message
    return found


def figures(builder: Builder, rule: Rule = HOUSE) -> dict[str, str]:
    """Tier, what decided it, and the figures that the newest decode run was held against."""
    found = last(builder, rule)
    steps = {step.name: step.text for step in found.steps}
    reference = next((str(pin.figure.value) for pin in found.pins if pin.slot.startswith("reference:")), "")
    return {"tier": found.tier, "by": found.bound_by, "frontier": steps["frontier"], "reference": reference}


def liar(decode: float, clock: float, prefill: float = 450.0, **more: Any) -> dict[str, Any]:
    """A run that says one thing and whose clock says another."""
    body = receipt(clock, prefill, **more)
    return {**body, "timing": [timed("decode", decode, context=131_072)[0], *body["timing"][1:]]}


def unclocked(decode: float, **more: Any) -> dict[str, Any]:
    """A run whose decoding no other process saw."""
    body = receipt(decode, **more)
    return {**body, "timing": [body["timing"][0], *body["timing"][2:]]}


def elsewhere(name: str) -> dict[str, Any]:
    """The frontier build of something else, in the same round: of how far that diverges says nothing of this one."""
    slow = receipt(5.0, 45.0, role="frontier")
    if name == "node":
        machine = {**slow["machine"], "node": {**slow["machine"]["node"], "name": "laptop"}}
        return {**slow, "machine": machine}
    if name == "metric":
        return {**slow, "timing": timed("prefill", 450.0, context=32_768, jitter=0.05)}
    if name == "context":
        return {**slow, "timing": timed("decode", 50.0, context=64)}
    if name == "batch":
        return {**slow, "timing": [{**one, "batch": 64} for one in slow["timing"]]}
    return {**slow, "model": {**MODEL, name: {"name": "tiny", "quant": "f32"}[name]}}


# ------------------------------------------------------------------------------------------- whose divergence it is


other_builds = pytest.mark.parametrize("what", ["name", "quant", "node", "metric", "context", "batch"])
earlier_or_later = pytest.mark.parametrize("first", [False, True])


def _round(mine: str, theirs: str, own: str, what: str, *, first: bool) -> Builder:
    """A frontier build of divergence ``mine``, something else of ``theirs``, and a candidate of ``own``."""
    builder = Builder().open()
    runs = [receipt(50.0, 450.0, role="frontier", parity=parity(mine)), elsewhere(what) | {"parity": parity(theirs)}]
    for body in reversed(runs) if first else runs:
        builder.add("run", body, RUNNER)
    builder.add("run", receipt(60.0, parity=parity(own)), RUNNER)
    return builder


@other_builds
@earlier_or_later
def test_another_build_in_the_round_excuses_no_divergence(what: str, first: bool) -> None:
    for rule in (RATCHET, replace(RATCHET, arithmetic="measured-gain/1")):
        found = last(_round("0.004", "0.049", "0.03", what, first=first), rule)
        assert (found.tier, found.bound_by) == ("REJECT", "ratchet")
        assert {step.text for gate in found.gates for step in gate.steps if step.name == "frontier_kl"} == {"0.004"}


@other_builds
@earlier_or_later
def test_another_build_in_the_round_condemns_no_honest_run(what: str, first: bool) -> None:
    assert last(_round("0.01", "0.0006", "0.01", what, first=first), RATCHET).tier == "XL"


@other_builds
def test_what_only_another_build_diverges_by_is_no_evidence(what: str) -> None:
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier", parity=None), RUNNER)
    builder.add("run", elsewhere(what), RUNNER)
    builder.add("run", receipt(60.0), RUNNER)
    assert last(builder, RATCHET).not_checked == ("ratchet",)


def test_the_newest_run_of_the_frontier_build_that_was_graded_is_what_counts() -> None:
    """The control: of one build and metric the order of the round decides."""
    for kls, tier in (("0.004", "0.02"), "XL"), (("0.02", "0.004"), "REJECT"), (("0.02", None), "XL"):
        builder = Builder().open()
        for kl in kls:
            graded = None if kl is None else parity(kl)
            builder.add("run", receipt(50.0, 450.0, role="frontier", parity=graded), RUNNER)
        builder.add("run", receipt(60.0, parity=parity("0.03")), RUNNER)
        assert last(builder, RATCHET).tier == tier


# --------------------------------------------------------------------------------- a frontier that its clock refutes


def test_a_frontier_run_that_its_clock_refutes_is_nobodys_frontier() -> None:
    for rule in (HOUSE, OLDER):
        builder, _ = house_ledger()
        builder.add("run", liar(1000.0, 50.0, role="frontier"), RUNNER)
        builder.add("run", receipt(60.0), RUNNER)
        assert figures(builder, rule) == {"tier": "XL", "by": "gain", "frontier": "50", "reference": "40"}


def test_a_rivals_word_raises_no_frontier_and_stops_no_later_round() -> None:
    builder, _ = house_ledger()
    builder.add("run", liar(1000.0, 50.0, role="frontier", round_="rival"), RUNNER)
    builder.add("run", receipt(52.0, 450.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(62.0, round_="r2"), RUNNER)
    assert figures(builder)["frontier"] == "52"
    assert next(climb.value for climb in derive_climbs(gather(verified(builder)))) == 62
    # The control: what its clock bears out raises it, and a round below is one to measure again.
    builder.add("run", receipt(70.0, 450.0, role="frontier", round_="r3"), RUNNER)
    builder.add("run", receipt(52.5, 450.0, role="frontier", round_="r4"), RUNNER)
    builder.add("run", receipt(62.5, round_="r4"), RUNNER)
    same(builder, HOUSE)
    row = list(rescore(gather(verified(builder)).candidates, HOUSE).rows)[-2]
    assert "below 0.9 of the frontier 70" in row.result.message  # type: ignore[union-attr]


def test_a_refuted_round_guards_nothing_and_pins_nothing() -> None:
    """A rival's word about the guarded metric makes no reconciled pin stale; what it says of itself is no source."""
    builder, _ = house_ledger()
    body = receipt(50.0, 450.0, role="frontier", round_="rival")
    swollen = {**body, "timing": [*body["timing"][:2], timed("prefill", 4500.0, context=32_768)[0], body["timing"][3]]}
    rival = builder.add("run", swollen, RUNNER)
    builder.add("run", receipt(60.0, round_="r2"), RUNNER)
    assert last(builder, replace(HOUSE, ratchet=None)).tier == "XL"
    material = gather(verified(builder))
    assert [item.decision for row in reconcile_lock(list(material.pins.values()), material.measurements).rows
            for item in (row.drift,)] == ["agree", "agree"]  # fmt: skip
    assert settle_judgements(verified(builder)).findings == ()
    builder.add("pin", pin_body(f"frontier:{PREFILL}", "4500", rival), JUDGE)
    (finding,) = settle_judgements(verified(builder)).findings
    assert (finding.code, finding.message) == (
        Code.PIN_UNSOURCED, f"frontier:{PREFILL}: the clock of its source contradicts what that says of itself",
    )  # fmt: skip


@given(
    claim=st.fractions(min_value=10, max_value=200, max_denominator=20),
    clock=st.sampled_from([20.0, 50.0, 63.0]),
    role=st.sampled_from(["frontier", "reference"]),
    jitter=st.sampled_from([0.0, 0.5, 30.0]),
)
@settings(max_examples=30, deadline=None)
def test_one_definition_says_what_a_clock_refutes(claim: Fraction, clock: float, role: str, jitter: float) -> None:
    """Everybody asks the same: what rescore holds runs against, the sweep, the frontier that is drawn, reconcile."""
    builder, _ = house_ledger()
    body = receipt(clock, 450.0, role=role, round_="r2")
    claimed = timed("decode", float(claim), context=131_072)[0]
    body["timing"] = [claimed, timed("decode", clock, context=131_072, jitter=jitter)[1], *body["timing"][2:]]
    identity = builder.add("run", body, RUNNER)
    builder.add("run", receipt(60.0, round_="r2"), RUNNER)
    same(builder, replace(HOUSE, guard=None, ratchet=None, credit=find_rule("v0.2.1").credit))
    material = gather(verified(builder))
    run = [one for one in material.candidates if one.run.track.metric == "decode"][-1].run
    (fact,) = [one for one in material.facts if (one.identity, one.speed.track, one.speed.observer)
               == (identity, run.track, "subject")]  # fmt: skip
    (measurement,) = [one for one in material.measurements if (one.receipt, one.track) == (identity, run.track)]
    held = run.frontier if role == "frontier" else run.reference
    assert held is not None
    refuted = fact.refuted
    assert measurement.counts is not refuted
    assert (held.source == identity) is not refuted


# -------------------------------------------------------------------------------- a reference that its clock refutes


def test_another_engine_that_its_clock_refutes_lifts_no_ceiling_and_anchors_no_credit() -> None:
    builder, _ = house_ledger()
    builder.add("run", liar(10_000.0, 40.0, 300.0, role="reference"), RUNNER)
    builder.add("run", receipt(500.0), RUNNER)
    assert figures(builder) == {"tier": "REJECT", "by": "ceiling", "frontier": "50", "reference": "40"}
    anchored = find_rule("v0.2.1")
    builder.add("run", receipt(60.0), RUNNER)
    assert figures(builder, replace(anchored, ratchet=None))["tier"] == "XL"
    # The control: a reference that its clock bears out is the newest.
    builder.add("run", receipt(200.0, 300.0, role="reference"), RUNNER)
    builder.add("run", receipt(60.5), RUNNER)
    assert figures(builder, replace(anchored, ratchet=None))["reference"] == "200"


# ------------------------------------------------------------------------------------------- what no clock has seen


def test_a_number_that_nobody_judged_and_no_clock_saw_supports_nothing() -> None:
    builder = Builder().open()
    run = builder.add("run", unclocked(900.0), RUNNER)
    material = gather(verified(builder))
    assert [one.voided for one in material.candidates] == [UNCLOCKED, ""]
    assert [climb.track.metric for climb in derive_climbs(material)] == ["prefill"]
    found = of(builder, speed("900.0", ""))
    assert (found.status, why(found)) == (
        Status.CONTRADICTED, f"only receipt {run[:8]} (unjudged, and seen by no clock), entry 4 holds it",
    )  # fmt: skip
    pinned = [*gather(verified(builder)).measurements]
    assert [item.counts for item in pinned] == [False, True]
    # The control: with a clock that proves it, it is a number.
    builder.add("run", receipt(90.0), RUNNER)
    assert of(builder, speed("90.0", "")).status is Status.SUPPORTED


def test_a_rule_that_accepts_a_run_without_a_clock_makes_its_number_none() -> None:
    lenient = replace(find_rule("v0.2.1"), name="lenient")
    builder, _ = house_ledger()
    builder.add("rule", rule_body(lenient), JUDGE)
    run = builder.add("run", unclocked(61.5), RUNNER)
    assert of(builder, speed("61.5", "")).status is Status.CONTRADICTED
    seal(builder, lenient)
    assert of(builder, speed("61.5", "")).status is Status.CONTRADICTED, "its gates grade nothing"
    assert run not in {step.receipt for step in derive_climbs(gather(verified(builder)))[0].steps}


def test_nobody_is_asked_for_a_clock_of_what_no_house_rule_reads_one_for() -> None:
    builder = Builder().open()
    body = receipt(60.0, model=None)
    rate = {**body["timing"][0], "metric": "verify", "unit": "receipt", "inputs": "repeated", "context": None}
    builder.add("run", {**body, "timing": [{**rate, "context_filled": None}]}, RUNNER)
    assert len(derive_climbs(gather(verified(builder)))) == 1


# ------------------------------------------------------------------------------------------------- derived again


def test_verdicts_of_contested_rounds_are_derived_again_as_they_were_sealed() -> None:
    builder = Builder().open()
    builder.add("rule", rule_body(RATCHET), JUDGE)
    for number, what in enumerate(["name", "quant", "node", "metric"]):
        round_ = f"r{number}"
        builder.add("run", liar(1000.0, 50.0, role="frontier", round_=round_), RUNNER)
        builder.add("run", receipt(50.0, 450.0, role="frontier", round_=round_, parity=parity("0.01")), RUNNER)
        builder.add("run", {**elsewhere(what), "round": round_, "parity": parity("0.0006")}, RUNNER)
        builder.add("run", receipt(60.0 + number, round_=round_, parity=parity("0.01")), RUNNER)
        seal(builder, RATCHET)
    log = verified(builder)
    assert list(check_verdicts(log, read_judgements(log), {})) == [None] * 4
    assert set(naive_verdicts.derive(log, {RATCHET.sha256: RATCHET}).values()) == {None}
    assert {one.published for one in gather(log).candidates if one.run.track.metric == "decode"} == {"XL"}


# ------------------------------------------------------------------------------------------- on what it was graded


@pytest.mark.parametrize(
    "other", [{"vocabulary": 2}, {"reference": {"name": "vllm", "version": "b1", "independent": True}}]
)
@pytest.mark.parametrize("kls", [("0.004", "0.001"), ("0.0006", "0.02")])
def test_divergences_on_two_grounds_are_no_evidence_about_one_another(
    other: dict[str, Any], kls: tuple[str, str]
) -> None:
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier", parity=parity(kls[0])), RUNNER)
    builder.add("run", receipt(60.0, parity=parity(kls[1]) | other), RUNNER)
    found = last(builder, RATCHET)
    assert (found.tier, found.not_checked, found.refused_by) == ("none", ("ratchet",), ())
    (gate,) = [gate for gate in found.gates if gate.name == "ratchet"]
    assert gate.reason == "other-ground"
    assert "the frontier of its round against llama.cpp over 32 tokens" in gate.detail


def test_prompts_and_a_references_version_are_no_ground() -> None:
    """The control: prompts are drawn anew for every run, and an engine is updated in between."""
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    other = {"prompt_sha256": "9" * 64, "reference": {"name": "llama.cpp", "version": "b2", "independent": True}}
    builder.add("run", receipt(60.0, parity=parity() | other), RUNNER)
    assert last(builder, RATCHET).tier == "XL"


@pytest.mark.parametrize("spelled", [str, str.upper])
def test_a_program_is_not_independent_of_itself_whatever_it_says(spelled: Any) -> None:
    builder, _ = house_ledger()
    body = receipt(60.0)
    name = spelled(body["subject"]["name"])
    body["parity"] = parity() | {"reference": {"name": name, "version": "1", "independent": True}}
    builder.add("run", body, RUNNER)
    found = last(builder, replace(HOUSE, ratchet=None))
    assert (found.tier, found.refused_by) == ("REJECT", ("sampling",))
    own = body["subject"] | {"name": f"{body['subject']['name']}-2"}
    builder.add("run", body | {"subject": own}, RUNNER)
    assert last(builder, replace(HOUSE, ratchet=None)).tier == "XL"


# ------------------------------------------------------------------------------------------------------------- words


def test_what_is_said_shows_on_which_side_of_a_bound_a_number_is() -> None:
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", receipt(44.999, 450.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(60.0, round_="r2"), RUNNER)
    result = rescore(gather(verified(builder)).candidates, HOUSE).rows[0].result
    assert "measured 44.999/s, below 0.9 of the frontier 50" in result.message  # type: ignore[union-attr]
    builder.add("run", receipt(60.0, parity=parity("0.0500000001")), RUNNER)
    found = last(builder, HOUSE)
    assert next(gate.detail for gate in found.gates if gate.name == "correctness") == "kl 0.0500000001 is above 0.05"


def test_a_ratchet_says_which_side_it_has_nothing_of() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(60.0, round_="r9"), RUNNER)
    (gate,) = [gate for gate in last(builder).gates if gate.name == "ratchet"]
    assert gate.detail == "no frontier run of this metric and build in its round was graded"


def test_a_frontier_run_that_no_clock_saw_is_its_runners_word_everywhere() -> None:
    """Reports of external engines hold no reading; nobody judges them, and a judge supersedes what was wrong."""
    builder, _ = house_ledger()
    builder.add("run", unclocked(55.0, role="frontier"), RUNNER)
    builder.add("run", receipt(65.0), RUNNER)
    assert figures(builder)["frontier"] == "55"
    assert [step.value for step in derive_climbs(gather(verified(builder)))[0].steps] == [50, 60, 65]
    assert of(builder, speed("55.0", "")).status is Status.SUPPORTED
