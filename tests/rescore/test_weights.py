"""What counts under ``house-6``: nothing that other weights measured, under whatever name."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.judgements import check_verdicts, read_judgements, settle_judgements
from k3_ledger.rescore.material import Material
from k3_ledger.rescore.pins import PinRecord, weigh_pins
from k3_ledger.rescore.replay import Gathering, gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import NotScorable, Verdict
from k3_ledger.rescore.sealing import new_verdicts, rule_body, verdict_body
from k3_ledger.rescore.slots import parse_slot
from k3_ledger.rescore.standing import read_standing
from k3_ledger.rescore.sweep import sweep
from k3_ledger.rescore.sweeping.sources import find_weights, weigh_sources
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, verify_log
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, RUNNER, Builder, key_body
from tests.reference import naive_verdicts
from tests.rescore.receipts import DECODE, MODEL, PREFILL, house_ledger, parity, pin_body, receipt, verified
from tests.rescore.test_deriving import imported
from tests.rescore.test_standing import take_back
from tests.rescore.test_sweep import along, same

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.rescore.material import Candidate
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.verdict import Scored

HOUSE = find_rule("house-6.decode")
SIXTH = replace(HOUSE, name="sixth", sampling=replace(HOUSE.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
FIFTH = replace(SIXTH, name="fifth", arithmetic="measured-gain/5")
BARE = replace(SIXTH, name="bare", guard=None, ratchet=None)
RULES = {rule.sha256: rule for rule in (SIXTH, FIFTH, BARE)}
HEAVY, LIGHT = "a" * 64, "f" * 64
CURE = "measure the frontier on these weights, and pin it"


def of(weights: str | None, decode: float = 60.0, prefill: float = 500.0, **more: Any) -> dict[str, Any]:
    """A run of these weights, under the names that all of them have; None for a run that names no model."""
    return receipt(decode, prefill, **more) | {"model": weights and {**MODEL, "sha256": weights}}


def last(builder: Builder, rule: Rule = SIXTH, **more: Any) -> Scored:
    """What a rule says of the newest decode run; the sweep says the same of all."""
    same(builder, rule)
    rows = rescore(gather(verified(builder)).candidates, rule, **more).rows
    return [row.result for row in rows if row.candidate.run.track.metric == "decode"][-1]


def tier(builder: Builder, rule: Rule = SIXTH, **more: Any) -> str:
    found = last(builder, rule, **more)
    return found.tier if isinstance(found, Verdict) else found.reason


def said(builder: Builder, rule: Rule = SIXTH, **more: Any) -> str:
    found = last(builder, rule, **more)
    assert isinstance(found, NotScorable)
    assert (found.reason, found.field) == ("weights", "weights")
    return found.message


# ------------------------------------------------------------------------------------------------------ the attack


@pytest.mark.parametrize("round_", ["r1", "r9", None])
def test_a_lighter_file_under_the_models_name_gains_nothing(round_: str | None) -> None:
    """The same engine on a file of fewer layers: parity is graded against an engine that reads the same file."""
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 75.0, 700.0, round_=round_), RUNNER)
    open_ = replace(FIFTH, ratchet=None)
    assert tier(builder, FIFTH if round_ == "r1" else open_) == "XL"
    assert tier(builder) == "weights"
    builder.add("run", of(HEAVY, 59.0, 500.0), RUNNER)
    assert tier(builder) == "XL", "what the other file measured is in nobody's way"


def test_a_swap_is_named_with_both_digests_and_its_cure() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 75.0), RUNNER)
    assert said(builder) == (
        "not scorable: other weights: the frontier run of its round is of aaaaaaaaaaaa…, "
        f"the run of ffffffffffff…: {CURE}"
    )


def test_the_cure_cures() -> None:
    """A new frontier run and new pins on the new weights; those of the old are superseded where they are higher."""
    builder, names = house_ledger()
    source = builder.add("run", of(LIGHT, 48.0, 440.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", of(LIGHT, 58.0, 500.0, round_="r2"), RUNNER)
    assert "the pin of decode@131072 is of aaaaaaaaaaaa…" in said(builder)
    for slot, value in ((DECODE, "48"), (PREFILL, "440")):
        take_back(builder, names[slot])
        builder.add("pin", pin_body(f"frontier:{slot}", value, source), JUDGE)
    builder.add("run", of(LIGHT, 58.0, 500.0, round_="r2"), RUNNER)
    found = last(builder)
    assert isinstance(found, Verdict)
    assert {step.name: step.text for step in found.steps}["frontier"] == "48", "and not 50, which others measured"
    assert found.tier == "XL"
    assert settle_judgements(verified(builder)).findings == ()
    builder.add("run", of(HEAVY, 58.0, 500.0, round_="r1"), RUNNER)
    assert "the pin of decode@131072 is of ffffffffffff…" in said(builder)


# ----------------------------------------------------------------------------------- each thing it is held against


def test_a_round_whose_newest_frontier_run_is_of_other_weights_scores_nothing() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", of(HEAVY), RUNNER)
    assert "the frontier run of its round is of ffffffffffff…" in said(builder, replace(BARE, guard=None))
    builder.add("run", of(HEAVY, 50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", of(HEAVY), RUNNER)
    assert tier(builder) == "XL"


def test_a_frontier_pin_of_other_weights_is_no_pin_of_a_run() -> None:
    builder, _ = house_ledger()
    light = builder.add("run", of(LIGHT, 55.0, 450.0, role="frontier", round_="r0"), RUNNER)
    builder.add("run", of(HEAVY), RUNNER)
    assert tier(builder) == "XL"
    builder.add("pin", pin_body(f"frontier:{DECODE}", "55", light), JUDGE)
    builder.add("run", of(HEAVY), RUNNER)
    assert "the pin of decode@131072 is of ffffffffffff…" in said(builder)


def test_the_greatest_frontier_is_that_of_a_runs_own_weights() -> None:
    builder = Builder().open()
    builder.add("run", of(HEAVY, 50.0, role="frontier", round_=None), RUNNER)
    builder.add("run", of(LIGHT, 80.0, role="frontier", round_=None), RUNNER)
    builder.add("run", of(HEAVY, 60.0, round_=None), RUNNER)
    found = last(builder, BARE)
    assert isinstance(found, Verdict)
    assert {step.name: step.text for step in found.steps}["frontier"] == "50"
    assert tier(builder, replace(BARE, arithmetic="measured-gain/5")) == "none"


@pytest.mark.parametrize("role", ["frontier", "candidate"])
def test_a_run_is_no_first_one_where_other_weights_were_measured(role: str) -> None:
    what = {"frontier": "the newest frontier run", "candidate": "the best run before it"}[role]
    builder = Builder().open()
    builder.add("run", of(HEAVY, 50.0, role=role, round_=None), RUNNER)
    builder.add("run", of(LIGHT, 60.0, round_=None), RUNNER)
    assert f"{what} is of aaaaaaaaaaaa…" in said(builder, BARE)
    builder.add("run", of(LIGHT, 61.0, round_=None), RUNNER)
    assert tier(builder, BARE) == "weights", "what is not scored moves no frontier"
    builder.add("run", of(HEAVY, 61.0, round_=None), RUNNER)
    assert tier(builder, BARE) == "XL"


def test_a_first_run_is_still_the_first_and_the_next_is_held_against_it() -> None:
    builder = Builder().open()
    builder.add("run", of(LIGHT, 50.0, round_=None), RUNNER)
    assert tier(builder, BARE) == "BASELINE"
    builder.add("run", of(LIGHT, 60.0, round_=None), RUNNER)
    assert tier(builder, BARE) == "XL"


@pytest.mark.parametrize("cache", ["none", "cold"])  # what is cold is read by the explaining path alone
def test_the_ratchet_compares_with_the_divergence_of_the_same_weights(cache: str) -> None:
    """The frontier run of the round that was graded is not the one that was timed last."""
    rule = replace(SIXTH, guard=None)
    for weights, found in ((HEAVY, "XL"), (LIGHT, "weights")):
        builder = Builder().open()
        graded = of(weights, 50.0, 450.0, role="frontier", round_="r1", parity=parity("0.003"))
        timing = [*graded["timing"][:2], *({**series, "cache": cache} for series in graded["timing"][2:])]
        builder.add("run", graded | {"timing": timing}, RUNNER)
        builder.add("run", of(HEAVY, 50.0, 450.0, role="frontier", round_="r1", parity=None), RUNNER)
        builder.add("run", of(HEAVY, 60.0), RUNNER)
        assert tier(builder, rule) == found
        assert tier(builder, BARE) == "XL"
    assert "the divergence of its round's frontier run is of ffffffffffff…" in said(builder, rule)


@pytest.mark.parametrize("slot", ["frontier", "guard"])
def test_a_guards_pin_of_other_weights_guards_nothing(slot: str) -> None:
    builder, _ = house_ledger()
    light = builder.add("run", of(LIGHT, 50.0, 470.0, role="frontier", round_="r0"), RUNNER)
    builder.add("pin", pin_body(f"{slot}:{PREFILL}", "470", light), JUDGE)
    builder.add("run", of(HEAVY), RUNNER)
    assert "the pin of prefill@32768 is of ffffffffffff…" in said(builder)
    assert tier(builder, FIFTH) == "XL"


def test_a_guarded_metric_that_other_weights_measured_last_is_not_reconciled_with() -> None:
    """In a round of its own a run's guard is held against that round's frontier run; outside one against the last."""
    rule = replace(SIXTH, ratchet=None)
    builder, _ = house_ledger()
    light = of(LIGHT, 50.0, 460.0, role="frontier", round_="r0")
    builder.add("run", light | {"timing": light["timing"][2:]}, RUNNER)
    builder.add("run", of(HEAVY), RUNNER)
    assert tier(builder, rule) == "XL"
    builder.add("run", of(HEAVY, round_=None), RUNNER)
    assert "the newest frontier run of prefill@32768 is of ffffffffffff…" in said(builder, rule)
    blind = of(HEAVY, round_=None)
    builder.add("run", blind | {"timing": blind["timing"][:2]}, RUNNER)
    assert tier(builder, rule) == "none", "without prefill nothing of it is compared"


def test_the_other_engine_on_other_weights_is_as_good_as_none() -> None:
    """It is no frontier: the ceiling is then taken from the frontier alone, and an anchor has nothing to hold."""
    anchored = replace(BARE, credit=replace(BARE.credit, anchor=True))
    for weights, found in ((HEAVY, "XL"), (LIGHT, "REJECT")):
        builder = Builder().open()
        builder.add("run", of(weights, 70.0, role="reference"), RUNNER)
        builder.add("run", of(HEAVY, 50.0, role="frontier"), RUNNER)
        builder.add("run", of(HEAVY, 240.0), RUNNER)
        assert tier(builder, BARE) == found
        assert tier(builder, anchored) == (found if weights == HEAVY else "missing")
    pinned = Builder().open()
    light = pinned.add("run", of(LIGHT, 70.0, role="reference", round_="r0"), RUNNER)
    pinned.add("run", of(HEAVY, 50.0, role="frontier"), RUNNER)
    pinned.add("pin", pin_body(f"reference:{DECODE}", "70", light), JUDGE)
    take_back(pinned, light)
    pinned.add("run", of(HEAVY, 240.0), RUNNER)
    assert tier(pinned, BARE) == "REJECT"


# ---------------------------------------------------------------------------------------------------- unknown weights


def test_weights_that_nobody_names_are_nobodys() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(None), RUNNER)
    assert said(builder) == "not scorable: weights unknown: the run does not name its own"
    alone = Builder().open()
    alone.add("run", of(None, round_=None), RUNNER)
    assert tier(alone, BARE) == "weights", "not even a first run"
    assert tier(alone, replace(BARE, arithmetic="measured-gain/5")) == "BASELINE"


def test_a_pin_of_a_foreign_receipt_is_of_unknown_weights() -> None:
    builder = Builder().open()
    source = builder.add("import", imported("50"), LOG)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "50", source), JUDGE)
    builder.add("run", of(HEAVY, round_=None), RUNNER)
    found = rescore(gather(verified(builder)).candidates, BARE).rows[1].result
    assert isinstance(found, NotScorable)
    assert found.message == (
        f"not scorable: weights unknown: the pin of decode@131072 names none, the run aaaaaaaaaaaa…: {CURE}"
    )
    assert sweep(verified(builder), BARE).tiers == along(builder, BARE).result().tiers == {"not scorable": 2}


def test_a_foreign_run_names_no_weights() -> None:
    builder = Builder().open()
    builder.add("import", imported("50"), LOG)
    candidate = gather(verified(builder)).candidates[0]
    scope = replace(BARE.scope, metric=candidate.run.track.metric, context=candidate.run.track.context)
    (row,) = rescore([candidate], replace(BARE, scope=scope)).rows
    assert isinstance(row.result, NotScorable)
    assert row.result.reason == "weights"


# ------------------------------------------------------------------------------------------------- pins from a file


def from_file(slot: str, value: str, source: str | None, builder: Builder) -> list[PinRecord]:
    role, track = parse_slot(f"{slot}:{DECODE}")
    pins = [PinRecord(role, track, Fraction(value), "tok/s", source)]
    return weigh_pins(pins, gather(verified(builder)).weights)


@pytest.mark.parametrize("slot", ["frontier", "reference"])
def test_a_pin_of_a_file_is_of_the_weights_of_its_source(slot: str) -> None:
    builder, names = house_ledger()
    light = builder.add("run", of(LIGHT, 40.0, role="frontier", round_="r7"), RUNNER)
    builder.add("run", of(HEAVY), RUNNER)
    assert tier(builder, pins=from_file(slot, "40", names["frontier"], builder)) == "XL"
    assert "the file's pin is of ffffffffffff…" in said(builder, pins=from_file(slot, "40", light, builder))
    for source in (None, "e" * 64, names[DECODE]):
        message = said(builder, pins=from_file(slot, "40", source, builder))
        assert "weights unknown: the file's pin names none" in message


def test_a_pin_of_a_file_heals_nothing() -> None:
    """What is sealed by it must be judged by the ledger's own pins too, which are of other weights."""
    builder, _ = house_ledger()
    light = builder.add("run", of(LIGHT, 40.0, role="frontier", round_="r7"), RUNNER)
    builder.add("run", of(LIGHT), RUNNER)
    assert "its round" in said(builder, pins=from_file("frontier", "40", light, builder))


# ------------------------------------------------------------------------------------- verdicts are derived again


def sealed(builder: Builder, run: str, rule: Rule, by: Rule | None = None) -> None:
    result = last(builder, rule)
    assert isinstance(result, Verdict)
    named = by or rule
    builder.add("verdict", verdict_body(run, result) | {"rule": named.name, "rule_sha256": named.sha256}, JUDGE)


def test_a_verdict_on_a_swapped_file_does_not_follow() -> None:
    builder, _ = house_ledger()
    builder.add("rule", rule_body(SIXTH), JUDGE)
    builder.add("rule", rule_body(FIFTH), JUDGE)
    run = builder.add("run", of(LIGHT, 75.0), RUNNER)
    sealed(builder, run, FIFTH)
    assert settle_judgements(verified(builder)).findings == (), "what was published under an older rule follows"
    sealed(builder, run, FIFTH, SIXTH)
    (finding,) = settle_judgements(verified(builder)).findings
    assert finding.code is Code.VERDICT_MISMATCH
    assert "other weights: the frontier run of its round" in finding.message


def test_a_verdict_by_pins_that_no_longer_stand_follows() -> None:
    """The weights of a pin are those of its source, whatever was superseded since."""
    builder, names = house_ledger()
    builder.add("rule", rule_body(SIXTH), JUDGE)
    run = builder.add("run", of(HEAVY, 59.0), RUNNER)
    sealed(builder, run, SIXTH)
    for gone in (names[DECODE], names[PREFILL], names["frontier"]):
        take_back(builder, gone)
    assert settle_judgements(verified(builder)).findings == ()


@pytest.mark.parametrize(("order", "expected"), [("high", ["54", "52", "50"]), ("low", ["54", "54", "50"])])
@pytest.mark.parametrize("role", ["frontier", "candidate"])
def test_verdicts_follow_whatever_of_their_weights_is_taken_back_later(
    role: str, order: str, expected: list[str]
) -> None:
    """The greatest of the frontier builds, and the best of the candidates, as each stood by then."""
    builder = Builder().open()
    builder.add("rule", rule_body(BARE), JUDGE)
    *_, high = (
        builder.add("run", of(weights, decode, role=role, round_=None), RUNNER)
        for weights, decode in ((HEAVY, 50.0), (LIGHT, 80.0), (HEAVY, 54.0))
    )
    middle = builder.add("run", of(HEAVY, 52.0, role=role, round_=None), RUNNER) if role == "frontier" else None
    found = []
    for taken in (high, middle, None) if order == "high" else (middle, high, None):
        run = builder.add("run", of(HEAVY, 51.0, round_=None), RUNNER)
        result = last(builder, BARE)
        assert isinstance(result, Verdict)
        found.append({step.name: step.text for step in result.steps}["frontier"])
        sealed(builder, run, BARE)
        if taken is not None:
            take_back(builder, taken)
    if role == "frontier":
        assert found == expected
    assert settle_judgements(verified(builder)).findings == ()


# ------------------------------------------------------------------------------------------------- both derivations


def test_the_source_of_a_pin_is_found_wherever_it_stands() -> None:
    builder, names = house_ledger()
    identity = builder.add("note", {"text": f'"prev":"{"c" * 64}"', "artifacts": []}, LOG)
    builder.add("run", of(LIGHT), RUNNER)
    log = verify_log(MemorySource(builder.data, block=1000), None, Options(chunk_bytes=1))
    assert len(list(log.chunks())) > 5
    wanted = {names["frontier"], names["candidate"], names[DECODE], identity, "c" * 64}
    expected = {names["frontier"]: HEAVY, names["candidate"]: HEAVY, names[DECODE]: None, identity: None}
    assert find_weights(log.chunks(), wanted) == expected
    assert find_weights(verified(builder).chunks(), wanted) == expected
    assert weigh_sources(log) == {names["frontier"]: HEAVY}


def test_a_source_that_was_taken_back_is_of_unknown_weights() -> None:
    builder, _ = house_ledger()
    at = len(builder.lines)
    light = builder.add("run", of(HEAVY, 50.0, 460.0, role="frontier", round_="r0"), RUNNER)
    builder.add("pin", pin_body(f"frontier:{PREFILL}", "460", light), JUDGE)
    builder.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=at), builder.root)
    log = verified(builder)
    assert light not in weigh_sources(log)
    assert light not in gather(log).weights


def test_a_pin_of_what_was_measured_long_ago_is_swept_once_more() -> None:
    builder, names = house_ledger()
    builder.add("run", of(LIGHT, 50.0, 450.0, role="frontier", round_="r0"), RUNNER)
    for _ in range(3):
        builder.add("run", of(HEAVY), RUNNER)
    builder.add("pin", pin_body(f"guard:{PREFILL}", "450", names["frontier"]), JUDGE)
    builder.add("run", of(HEAVY, 58.0), RUNNER)
    for _ in range(2):
        found = same(builder, SIXTH)
        log = verify_log(MemorySource(builder.data, block=1000), None, Options(chunk_bytes=1))
        assert sweep(log, SIXTH) == along(builder, SIXTH, chunk_bytes=1).result() == found
        assert found.tiers["XL"] == 4
        take_back(builder, builder.add("run", of(LIGHT), RUNNER))  # which is known only at the end


def test_a_chunk_is_searched_once_for_the_sources_of_all_its_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search for each of them would read the chunk as often as there are pins in it."""
    builder, _ = house_ledger()
    for number in range(4):
        body = of(HEAVY, 51.0 + number, 450.0, role="frontier", round_=f"round-{number}")
        source = builder.add("run", body, RUNNER)
        builder.add("pin", pin_body(f"frontier:{DECODE}", f"{51 + number}", source), JUDGE)
    expected, searches = same(builder, SIXTH), []

    def watched(*arguments: Any) -> dict[str, str | None]:
        searches.append(arguments)
        return find_weights(*arguments)

    monkeypatch.setattr("k3_ledger.rescore.sweeping.settle.find_weights", watched)
    monkeypatch.setattr("k3_ledger.rescore.sweep.weigh_sources", None)  # nor is the whole log searched
    assert sweep(verified(builder), SIXTH) == expected
    assert len(searches) == 1


def test_what_only_the_explaining_path_reads_is_of_its_weights_too() -> None:
    """Its claim is over repetitions of two lengths."""
    odd = of(LIGHT, 50.0, role="frontier", round_=None)
    for figure in ("count", "duration_ns"):
        odd["timing"][0]["samples"][-1][figure] *= 2
    builder = Builder().open()
    builder.add("run", odd, RUNNER)
    builder.add("run", of(HEAVY, 60.0, round_=None), RUNNER)
    assert tier(builder, BARE) == "weights"


WEIGHED = [
    SIXTH, FIFTH, BARE, replace(BARE, name="anchored", credit=replace(BARE.credit, anchor=True)),
    replace(SIXTH, name="fixed", guard=replace(SIXTH.guard, pin="fixed")),  # type: ignore[type-var]
    replace(SIXTH, name="unguarded", guard=None),
]  # fmt: skip


@st.composite
def histories(
    draw: st.DrawFn, files: Sequence[str | None] = (*[HEAVY] * 5, *[LIGHT] * 4, None)
) -> tuple[Builder, list[str]]:
    """Runs that every gate passes, on files under one name, in and out of rounds; pins, and what is taken back."""
    builder = Builder().open()
    for rule in RULES.values():
        builder.add("rule", rule_body(rule), JUDGE)
    runs: list[str] = []
    pins: list[str] = []
    for _ in range(draw(st.integers(2, 9))):
        what = draw(st.integers(0, 9))
        if what <= 1 and runs:
            slot, value = draw(
                st.sampled_from(
                    [
                        (f"frontier:{DECODE}", "50"),
                        (f"frontier:{PREFILL}", "450"),
                        (f"guard:{PREFILL}", "450"),
                        (f"reference:{DECODE}", "40"),
                    ]
                )
            )
            pins.append(builder.add("pin", pin_body(slot, value, draw(st.sampled_from(runs))), JUDGE))
        elif what == 2 and runs:
            take_back(builder, draw(st.sampled_from(runs + pins)))
        else:
            role = draw(st.sampled_from(["candidate", "candidate", "frontier", "frontier", "reference"]))
            weights = draw(st.sampled_from(files))
            speed = draw(st.sampled_from([44.0, 50.0, 52.0, 60.0, 72.0])) if role != "reference" else 40.0
            body = of(
                weights, speed, draw(st.sampled_from([450.0, 500.0])), role=role,
                round_=draw(st.sampled_from(["r1", "r1", "r2", None])),
            )  # fmt: skip
            part = draw(st.integers(0, 7))
            body["timing"] = body["timing"][:2] if part == 0 else body["timing"][2:] if part == 1 else body["timing"]
            if draw(st.integers(0, 5)) == 0:  # left to the explaining path
                for figure in ("count", "duration_ns"):
                    body["timing"][0]["samples"][-1][figure] *= 2
            runs.append(builder.add("run", body, RUNNER))
    return builder, runs


@settings(max_examples=150)
@given(histories(), st.sampled_from(WEIGHED), st.sampled_from([1, 8000, 10**6]))
def test_both_derivations_agree_on_mixed_weights(made: tuple[Builder, list[str]], rule: Rule, size: int) -> None:
    builder, _ = made
    found = same(builder, rule)
    assert along(builder, rule, chunk_bytes=size).result() == found


@settings(max_examples=60)
@given(histories(), st.sampled_from(sorted(RULES)))
def test_verdicts_on_mixed_weights_are_derived_again_alike(made: tuple[Builder, list[str]], digest: str) -> None:
    """Each as it was judged, and as a rule that does not ask for weights would have judged it."""
    builder, _ = made
    for rule in (RULES[digest], FIFTH):
        for body in list(new_verdicts(rescore(gather(verified(builder)).candidates, rule)))[-3:]:
            builder.add("verdict", body | {"rule": RULES[digest].name, "rule_sha256": digest}, JUDGE)
    log = verified(builder)
    found = check_verdicts(log, read_judgements(log), {})
    wrong = {finding.position.index: finding for finding in found if finding is not None}
    naive = naive_verdicts.derive(log, RULES)
    assert {index: found for index, found in naive.items() if found is not None} == wrong


@settings(max_examples=60)
@given(histories([HEAVY]), st.sampled_from([SIXTH, BARE]))
def test_on_one_file_nothing_is_different(made: tuple[Builder, list[str]], rule: Rule) -> None:
    builder, _ = made
    fifth = replace(rule, arithmetic="measured-gain/5")
    assert same(builder, rule).tiers == sweep(verified(builder), fifth).tiers


@settings(max_examples=100)
@given(histories(), st.sampled_from([SIXTH, BARE]))
def test_what_is_scored_is_what_its_own_weights_alone_would_score(made: tuple[Builder, list[str]], rule: Rule) -> None:
    """Drop every run of the other file, and the pins of it: whatever was scored scores the same.

    The newest run of the other engine is the one that counts: where it was on the other file, there is none.
    """
    builder, _ = made
    material = gather(verified(builder))
    scored = [row for row in rescore(material.candidates, rule).rows if isinstance(row.result, Verdict)]
    for digest in (HEAVY, LIGHT):
        others = {identity for identity, weights in material.weights.items() if weights != digest}
        alone = {
            (row.candidate.identity, row.candidate.run.track): row.result
            for row in rescore(_without(builder, others), rule).rows
        }
        for row in scored:
            reference = row.candidate.run.reference
            if row.candidate.run.weights == digest and (reference is None or reference.weights == digest):
                assert alone[row.candidate.identity, row.candidate.run.track] == row.result


def _without(builder: Builder, identities: set[str]) -> list[Candidate]:
    """The candidates of a log in which some runs, and the pins of them, never were."""
    log = verified(builder)
    gathering = Gathering(Material("a part"), read_standing(log).gone())
    for entry in log:
        if entry.identity not in identities and getattr(entry.entry.body, "source", None) not in identities:
            gathering.take(entry)
    return gathering.material.candidates


def test_the_older_rules_ask_for_no_weights() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 59.0), RUNNER)
    for name in ("house-1.decode", "house-5.decode", "v0.2.1"):
        rows = rescore(gather(verified(builder)).candidates, find_rule(name)).rows
        found = Counter(row.result.reason for row in rows if isinstance(row.result, NotScorable))
        assert found["weights"] == 0
