"""Of what nobody judged no more counts than the newest house rule would let: whatever it is called, whoever is named.

And the other side of it: what a verdict is derived from is asked of nothing newer than the verdict.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.claims.evidence import list_evidence
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.doubt import (
    REFUTED,
    UNCLOCKED,
    UNFILLED,
    UNGRADED,
    UNPROVED,
    doubt_clock,
    is_of_a_model,
    is_refuted,
    newest_rule,
)
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.inputs import Figure, RunInputs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.native import read_run
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rules.judging import count_claims
from k3_ledger.rescore.rules.registry import RULES
from k3_ledger.rescore.rules.score import apply_arithmetic
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.slots import UNITS, Track
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, parity, pin_body, receipt, series, timed, verified
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of, rule_of, why
from tests.rescore.test_native import decoded
from tests.rescore.test_standing import seal, settled

if TYPE_CHECKING:
    from k3_ledger.rescore.claims.check import Decision

PLACE = "k3-slice/bf16/node"
SEVENTH = {metric: RULES[f"house-7.{metric}"] for metric in ("decode", "prefill")}
THREE = {
    metric: replace(rule, name=f"three.{metric}", sampling=replace(rule.sampling, repetitions=3))  # type: ignore[type-var]
    for metric, rule in SEVENTH.items()
}


def read_by(metric: str, claimed: float, short: list[float], long: list[float], *between: float) -> dict[str, Any]:
    """A run that claims a speed of a metric, and whose outside clock read these seconds, 2,048 tokens apart."""
    context, count, first = (131_072, 2048, 32) if metric == "decode" else (0, 32_768, 32_768)
    outside = [(first, took) for took in short] + [(first + 2048, took) for took in long]
    outside += [(first + 1024, took) for took in between]
    timing = [
        series(metric, "subject", [(count, count / claimed)] * 7, context=context),
        series(metric, "controller", outside, context=context),
    ]
    return {**receipt(), "timing": timing}


def judged(metric: str, body: dict[str, Any]) -> tuple[RunInputs, Verdict]:
    """What the newest house rule says of a run beside a frontier of ten."""
    (item,) = read_run(decoded(body))
    assert item.speed is not None
    ten = Figure(item.speed / 10, "receipt", source="f" * 64)
    run = RunInputs("r" * 64, item.track, item.speed, ten, None, None, clock=item.clock, exact=item.exact, samples=7)
    result = apply_arithmetic(SEVENTH[metric], run)
    assert isinstance(result, Verdict)
    return run, result


def shown(builder: Builder, track: str, value: str, more: str = "") -> Decision:
    head = f'track = "{track}"\nvalue = {value}\ntolerance = "rounding"\n'
    return of(builder, claim("speed", head + more))


def leaders(builder: Builder) -> dict[str, int]:
    return {str(climb.track): int(climb.value) for climb in derive_climbs(gather(verified(builder)))}


# ---------------------------------------------------------------------------------------------------- what a clock saw

SECONDS = st.floats(min_value=0.001, max_value=200, allow_nan=False)


@given(
    metric=st.sampled_from(["decode", "prefill"]),
    rate=st.sampled_from([20.0, 60.0, 450.0, 5000.0]),
    off=st.sampled_from([0.5, 0.79, 0.81, 1.0, 1.009, 1.02, 1.24, 1.26, 2.0, 100.0]),
    jitter=st.lists(st.sampled_from([0.0, 0.01, 0.2, 1.0, 40.0, -5.0]), min_size=2, max_size=14),
    more=st.tuples(st.sampled_from([1.0, 1.0, 1.0, 0.0, -0.001, 0.3]), st.lists(SECONDS, max_size=2)),
)
@settings(max_examples=400, deadline=None)
def test_a_number_counts_unjudged_where_the_gate_of_the_newest_house_rule_passes_and_as_far(
    metric: str, rate: float, off: float, jitter: list[float], more: tuple[float, list[float]]
) -> None:
    longer, between = more
    half = len(jitter) // 2
    base = 20.0 + (0 if metric == "decode" else 32_768 / rate)
    short = [base + one for one in jitter[:half]]
    long = [base + longer * 2048 / rate + one for one in jitter[half:]]
    run, verdict = judged(metric, read_by(metric, rate * off, short, long, *between))
    (gate,) = [gate for gate in verdict.gates if gate.name == "clock"]
    says = {Outcome.FAIL: REFUTED, Outcome.NOT_CHECKED: UNPROVED, Outcome.PASS: ""}[gate.outcome]
    assert run.clock is not None
    assert doubt_clock(run.track, run.speed, run.clock) == says
    if not says:
        assert run.clock.seconds > 0, "what shows no speed bears nothing out"
        counted = count_claims(newest_rule(run.track), run)
        assert [step.value for step in verdict.steps if step.name == "speed"] == [counted.speed]


FLAT = {
    "one of seven was held up": ([60.0] * 6 + [100.0], -0.001, REFUTED),
    "one of seven, and a little longer": ([60.0] * 6 + [100.0], 0.001, REFUTED),
    "three of seven were held up": ([60.0] * 4 + [100.0] * 3, -0.001, UNPROVED),
    "three of seven, and a little longer": ([60.0] * 4 + [100.0] * 3, 0.001, UNPROVED),
    "nothing was held up": ([60.0] * 7, -0.001, REFUTED),
    "once each": ([60.0], -0.001, REFUTED),
}


@pytest.mark.parametrize("metric", ["decode", "prefill"])
@pytest.mark.parametrize("what", FLAT)
def test_a_clock_that_shows_no_speed_supports_none(what: str, metric: str) -> None:
    took, more, says = FLAT[what]
    builder, _ = house_ledger()
    before = leaders(builder)
    body = read_by(metric, 100_000.0, took, [one + more for one in took])
    run = builder.add("run", {**body, "round": "r2"}, RUNNER)
    track = DECODE if metric == "decode" else PREFILL
    found = shown(builder, track, "100000")
    assert (found.status, why(found)) == (
        Status.CONTRADICTED,
        f"only receipt {run[:8]} ({says}), entry 9 holds it",
    )
    assert leaders(builder) == before
    merge = {"slot": f"frontier:{track}", "pull_request": None, "commit": "c" * 40, "run": run, "claimed": None}
    builder.add("merge", merge, JUDGE)
    material = gather(verified(builder))
    assert [(one.value, one.sealed) for one in material.merges] == [(None, False)]
    assert not any(item.counts for item in material.measurements if item.receipt == run)
    gain = claim("gain", f'receipt = "{run}"\npercent = 199900\ntolerance = 0.1\nmetric = "{metric}"\n')
    assert of(builder, gain).status is Status.CONTRADICTED


def test_what_a_clock_proves_of_many_repetitions_of_which_one_was_held_up_counts() -> None:
    """The control: the jitter is that of the middle half for who is honest as well."""
    took = [60.0, 60.01, 60.02, 60.03, 60.04, 60.05, 100.0]
    builder, _ = house_ledger()
    builder.add("run", {**read_by("decode", 70.0, took, [one + 2048 / 70 for one in took]), "round": "r2"}, RUNNER)
    assert shown(builder, DECODE, "70.0").status is Status.SUPPORTED
    assert leaders(builder)[DECODE] == 70


# ------------------------------------------------------------------------------------------------ whatever it is called


def called(metric: str, *, context: int = 131_072, clocked: bool, **more: Any) -> dict[str, Any]:
    """A run of seventy of a metric of this name."""
    own, outside = timed("decode", 70.0, context=context)
    rows = [{**one, "metric": metric, **more} for one in ([own, outside] if clocked else [own])]
    return receipt(round_="r2") | {"timing": rows}


NAMES: dict[str, tuple[str, dict[str, Any], str]] = {
    "decode": ("decode", {}, f"decode@131072/{PLACE}"),
    "in capitals": ("DECODE", {}, f"DECODE@131072/{PLACE}"),
    "with a capital": ("Prefill", {}, f"Prefill@131072/{PLACE}"),
    "with a suffix": ("decode.fast", {}, f"decode.fast@131072/{PLACE}"),
    "with a number": ("decode2", {}, f"decode2@131072/{PLACE}"),
    "another word": ("throughput", {}, f"throughput@131072/{PLACE}"),
    "a figure of this program, in tokens": ("verify", {}, f"verify@131072/{PLACE}/unit:token"),
    "two at once": ("decode", {"batch": 2}, f"decode@131072/{PLACE}/batch:2"),
    "two processes": ("decode", {"processes": 2}, f"decode@131072/{PLACE}/processes:2"),
    "a cold cache": ("decode", {"cache": "cold"}, f"decode@131072/{PLACE}/cache:cold"),
    "tokens in short": ("generate", {"unit": "tok"}, f"generate@131072/{PLACE}/inputs:fresh/unit:tok"),
    "Tokens": ("generate", {"unit": "Tokens"}, f"generate@131072/{PLACE}/inputs:fresh/unit:Tokens"),
    "another unit": ("decode", {"unit": "word"}, f"decode@131072/{PLACE}/inputs:fresh/unit:word"),
    "another unit, on the same inputs": (
        "decode",
        {"unit": "word", "inputs": "repeated"},
        f"decode@131072/{PLACE}/unit:word",
    ),
}


@pytest.mark.parametrize("what", NAMES)
def test_no_name_and_no_condition_saves_a_figure_of_a_model_from_being_asked(what: str) -> None:
    metric, more, track = NAMES[what]
    for graded, clocked, says in ((parity(), False, UNCLOCKED), (None, True, UNGRADED)):
        if clocked and more.get("inputs") == "repeated":
            continue  # no measurement, and so no reading
        builder, _ = house_ledger()
        run = builder.add("run", {**called(metric, clocked=clocked, **more), "parity": graded}, RUNNER)
        (read,) = [
            item
            for item in list_evidence(gather(verified(builder)))
            if (item.receipt, item.observer) == (run, "subject")
        ]
        assert (str(read.track), read.accepted) == (track, False)
        assert read.says == f"receipt {run[:8]} ({says}), entry 9"
        assert leaders(builder).get(track) == (60 if track == DECODE else None)


@pytest.mark.parametrize("what", [what for what, (_, more, _) in NAMES.items() if "inputs" not in more])
def test_what_was_seen_and_graded_counts_under_any_name(what: str) -> None:
    """The control."""
    metric, more, track = NAMES[what]
    builder, _ = house_ledger()
    builder.add("run", called(metric, clocked=True, **more), RUNNER)
    assert leaders(builder)[track] == 70
    builder.add("run", {**called(metric, clocked=True, **more), "parity": parity("9.9")}, RUNNER)
    assert leaders(builder)[track] == 70


def behind(tokens: int, prefill: float = 500.0, **more: Any) -> dict[str, Any]:
    body = receipt(60.0, prefill, round_="r2")
    rows = [{**one, "context": tokens, "context_filled": tokens, **more} for one in body["timing"][2:]]
    return body | {"timing": rows}


@pytest.mark.parametrize("tokens", [1, 64])
def test_one_token_in_front_of_a_prefill_saves_it_from_nothing(tokens: int) -> None:
    track = f"prefill-behind-{tokens}@32768/{PLACE}"
    for change, says in (
        ({"timing": behind(tokens)["timing"][:1]}, UNCLOCKED),
        ({"parity": None}, UNGRADED),
        ({"parity": parity(path="decode")}, UNGRADED),
        (behind(tokens, context_filled=0), UNFILLED),
    ):
        builder, _ = house_ledger()
        run = builder.add("run", behind(tokens) | change, RUNNER)
        assert why(shown(builder, track, "500.0")) == f"only receipt {run[:8]} ({says}), entry 9 holds it"
        assert track not in leaders(builder)
    builder, _ = house_ledger()
    builder.add("run", behind(tokens) | {"parity": parity(path="prefill")}, RUNNER)
    assert shown(builder, track, "500.0").status is Status.SUPPORTED
    own = behind(tokens, 650.0)["timing"][0]
    builder.add("run", behind(tokens) | {"timing": [own, behind(tokens, 600.0)["timing"][1]]}, RUNNER)
    assert leaders(builder)[track] == 606, "a hundredth beyond its clock, as of any prefill"


@pytest.mark.parametrize("metric", sorted({*UNITS} - {"load", "ping"}))
def test_figures_of_this_program_itself_are_asked_for_nothing(metric: str) -> None:
    builder = Builder().open()
    row = series(metric, "subject", [(5000, 1.0)] * 3, context=0, unit=UNITS[metric], inputs="repeated")
    rows = [{**row, "context": None, "context_filled": None}]
    builder.add("run", receipt(60.0, parity=None, model=None, timing=rows), RUNNER)
    assert leaders(builder) == {f"{metric}@-/-/-/node": 5000}


@pytest.mark.parametrize(("metric", "unit"), [("sha256", "byte"), ("42", "byte"), ("decoded", "page")])
def test_what_no_model_makes_is_no_figure_of_one(metric: str, unit: str) -> None:
    assert not is_of_a_model(Track(metric, None, "-", "-", "node", (("unit", unit),)))


# -------------------------------------------------------------------------------------------------- skipped over


@pytest.mark.parametrize("filled", [0, 1, 131_071])
def test_a_context_that_was_not_filled_is_none(filled: int) -> None:
    builder, _ = house_ledger()
    body = receipt(190.0, 450.0, round_="r2")
    skipped = [{**one, "context_filled": filled} for one in body["timing"][:2]]
    run = builder.add("run", {**body, "timing": [*skipped, *body["timing"][2:]]}, RUNNER)
    found = of(builder, speed("190.0", 'ratio = 4.75\nagainst = "reference"\n'))
    assert found.status is Status.CONTRADICTED
    assert found.parts[0].why == f"only receipt {run[:8]} ({UNFILLED}), entry 9 holds it"
    assert leaders(builder)[DECODE] == 60
    read = [item for item in list_evidence(gather(verified(builder))) if item.receipt == run]
    assert {item.accepted for item in read if item.track.metric == "decode"} == {False}, "whichever clock read it"
    assert shown(builder, PREFILL, "450.0").status is not Status.CONTRADICTED, "the control: that had nothing in front"
    gain = claim("gain", f'receipt = "{run}"\npercent = 280\ntolerance = "rounding"\nmetric = "decode"\n')
    assert of(builder, gain).status is Status.CONTRADICTED


# ------------------------------------------------------------------------------------------------ whoever is named


def beside(actor: str, *, clocked: bool, rate: float = 1_024_000.0, outside: float = 80.0) -> list[dict[str, Any]]:
    own = series("decode", "subject", [(2048, 2048 / rate)] * 3, context=131_072)
    rows = [own, timed("decode", outside, context=131_072)[1]] if clocked else [own]
    return [{**one, "actor": actor} for one in rows]


@pytest.mark.parametrize("role", ["candidate", "frontier", "reference"])
@pytest.mark.parametrize("actor", ["fast-path", "floor", "llama.cpp"])
def test_another_name_for_who_was_fast_saves_nothing_and_is_said(actor: str, role: str) -> None:
    for clocked, says in ((False, UNCLOCKED), (True, REFUTED)):
        builder, _ = house_ledger()
        body = receipt(60.0, role=role, round_="r2")
        rows = [*body["timing"], *beside(actor, clocked=clocked)]
        run = builder.add("run", {**body, "timing": rows}, RUNNER)
        found = shown(builder, DECODE, "1024000", f'actor = "{actor}"\nratio = 25600\nagainst = "reference"\n')
        assert found.status is Status.CONTRADICTED
        assert found.parts[0].why == f"only receipt {run[:8]} (its {actor}) ({says}), entry 9 holds it"
        assert found.parts[1].status is not Status.SUPPORTED


@pytest.mark.parametrize("role", ["candidate", "frontier", "reference"])
def test_who_was_seen_beside_the_program_is_somebody(role: str) -> None:
    """The control."""
    builder, _ = house_ledger()
    body = receipt(60.0, role=role, round_="r2")
    run = builder.add("run", {**body, "timing": [*body["timing"], *beside("floor", clocked=True, rate=80.0)]}, RUNNER)
    found = shown(builder, DECODE, "80.0", 'actor = "floor"\n')
    assert (found.status, found.parts[0].why) == (
        Status.SUPPORTED,
        f"receipt {run[:8]} (its floor), entry 9 holds it",
    )


# ---------------------------------------------------------------------------------------- a gain that nobody ruled on


@pytest.mark.parametrize(
    ("body", "percent", "gate"),
    [
        (receipt(60.0, 450.0, parity=parity("0.03")), "20.00", "ratchet"),
        (receipt(60.0, 200.0), "20.00", "guard"),
        (receipt(210.0, 450.0), "320.00", "ceiling"),
    ],
)
def test_without_a_rule_the_newest_house_rule_refuses_a_gain_too(body: dict[str, Any], percent: str, gate: str) -> None:
    builder, _ = house_ledger()
    run = builder.add("run", body, RUNNER)
    head = f'receipt = "{run}"\npercent = {percent}\ntolerance = "rounding"\nmetric = "decode"\n'
    found = of(builder, claim("gain", head))
    state = f"unjudged, and refused by the newest house rule: {gate}"
    assert (found.status, why(found)) == (Status.CONTRADICTED, f"receipt {run[:8]} ({state}) gained +{percent} %")
    builder.add("rule", rule_of(THREE["decode"]), JUDGE)
    seal(builder, THREE["decode"])
    assert of(builder, claim("gain", head)).status is Status.CONTRADICTED


def test_how_often_a_run_was_repeated_is_no_refusal_where_no_rule_was_published() -> None:
    """The control: these are three repetitions, and the newest house rule asks for seven."""
    builder, names = house_ledger()
    head = f'receipt = "{names["candidate"]}"\npercent = 20\ntolerance = "rounding"\nmetric = "decode"\n'
    assert of(builder, claim("gain", head)).status is Status.SUPPORTED


# ------------------------------------------------------------------------------------------ judged, and left open


@pytest.mark.parametrize("graded", [None, parity(processing="processed")], ids=["nothing", "smoothed"])
@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_verdict_that_left_the_agreement_open_makes_no_number_of_what_was_none(number: int, graded: Any) -> None:
    kind = RULES[f"house-{number}.decode"]
    rule = replace(kind, name="three", sampling=replace(kind.sampling, repetitions=3))  # type: ignore[type-var]
    builder, _ = house_ledger()
    builder.add("rule", rule_of(rule), JUDGE)
    run = builder.add("run", receipt(190.0, 450.0, parity=graded, round_="r2"), RUNNER)
    assert why(shown(builder, DECODE, "190.0")) == f"only receipt {run[:8]} ({UNGRADED}), entry 10 holds it"
    seal(builder, rule)
    (said,) = [item.entry.body for item in verified(builder) if item.entry.kind == "verdict" and
               item.entry.body.target == run]  # fmt: skip
    assert (said.tier, "clock" in said.not_checked, "suite" in said.not_checked) == ("none", False, True)
    assert why(shown(builder, DECODE, "190.0")) == f"only receipt {run[:8]} (unproved), entry 10 holds it"
    assert leaders(builder)[DECODE] == 60
    assert settled(builder).findings == ()


def test_a_verdict_that_left_open_what_a_receipt_cannot_answer_leaves_the_number_one() -> None:
    """The control: nothing pins what is guarded."""
    builder = Builder().open()
    builder.add("rule", rule_of(THREE["decode"]), JUDGE)
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", receipt(60.0, 450.0), RUNNER)
    seal(builder, THREE["decode"])
    (said,) = [item.entry.body for item in verified(builder) if item.entry.kind == "verdict"]
    assert (said.tier, said.bound_by) == ("none", "guard")
    assert shown(builder, DECODE, "60.0").status is Status.SUPPORTED
    assert leaders(builder)[DECODE] == 60


def test_a_code_that_a_log_and_its_judgements_both_have_is_counted_for_both() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"frontier:{DECODE}", "999", names["frontier"]), JUDGE)
    log = verified(builder)
    ahead = {Code.PIN_HAND_EDITED: 2, Code.PIN_UNSOURCED: 5}
    log.report = replace(log.report, counts=ahead, covered=ahead)
    report = settle_judgements(log)
    assert report.counts == {Code.PIN_HAND_EDITED: 3, Code.PIN_UNSOURCED: 5}
    assert report.covered == ahead


# --------------------------------------------------------------------------------------- what verdicts are derived from


def excused(role: str, metric: str = "decode") -> dict[str, Any]:
    """A run whose clock contradicts it, but for one repetition that was held up for long."""
    took = [20.0] * 6 + [90.0]
    rate, track = (60.0, 0) if metric == "decode" else (600.0, 32_768)
    took = [one + track / rate for one in took]
    body = read_by(metric, rate, took, [one + 2.4 * 2048 / rate for one in took])
    other = receipt(50.0, 450.0)["timing"]
    rows = [*body["timing"], *other[2:]] if metric == "decode" else [*other[:2], *body["timing"]]
    return receipt(role=role, round_="r1") | {"timing": rows}


@pytest.mark.parametrize("number", [4, 5, 6])
@pytest.mark.parametrize("metric", ["decode", "prefill"])
def test_a_verdict_of_before_is_derived_from_what_it_was_derived_from(metric: str, number: int) -> None:
    """A frontier run that stricter questions refute is still what older verdicts and pins rest on, and no support."""
    kind = RULES[f"house-{number}.{metric}"]
    rule = replace(kind, name="of-before", sampling=replace(kind.sampling, repetitions=3))  # type: ignore[type-var]
    track, value = (DECODE, 60) if metric == "decode" else (PREFILL, 600)
    builder = Builder().open()
    builder.add("rule", rule_of(rule), JUDGE)
    built = builder.add("run", excused("frontier", metric), RUNNER)
    builder.add("pin", pin_body(f"frontier:{track}", str(value), built), JUDGE)
    run = builder.add("run", receipt(65.0, 650.0), RUNNER)
    seal(builder, rule)
    (held,) = [
        pin
        for entry in verified(builder)
        if entry.entry.kind == "verdict" and entry.entry.body.target == run
        for pin in entry.entry.body.pins
        if pin.slot == f"frontier:{track}"
    ]
    assert (held.value, held.entry) == (str(value), built), "it is the frontier that the verdict was held against"
    report = settled(builder)
    assert (report.findings, report.exit_code) == ((), 0)
    material = gather(verified(builder))
    (fact,) = [fact for fact in material.facts if fact.identity == built and fact.speed.track.metric == metric
               and fact.speed.observer == "subject"]  # fmt: skip
    assert (fact.refuted, fact.doubted) == (False, REFUTED)
    (candidate,) = [one for one in read_run(decoded(excused("frontier", metric))) if one.track.metric == metric]
    assert not is_refuted(candidate.track, candidate.speed, candidate.clock)
    assert why(shown(builder, track, str(value))) == f"only receipt {built[:8]} ({REFUTED}), entry 5 holds it"
    assert leaders(builder)[track] == (65 if metric == "decode" else 650)
    assert not any(item.counts for item in material.measurements if (item.receipt, str(item.track)) == (built, track))
    assert reconcile_lock(material.pin_entries, material.measurements).findings
