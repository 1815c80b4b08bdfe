"""From a verified ledger to verdicts: order, pins, rounds, what was judged before."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sealing import new_verdicts, verdict_body
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from tests.ledgers import JUDGE, LOG, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, verified

if TYPE_CHECKING:
    from k3_ledger.rescore.rescore import Rescored, RescoreReport
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.rules.verdict import Gate

HOUSE = find_rule("house-1.decode")


def judged(builder: Builder, rule: str = "house-1.decode", **options: Any) -> RescoreReport:
    return rescore(gather(verified(builder)).candidates, find_rule(rule), **options)


def only(report: RescoreReport) -> Rescored:
    (row,) = [row for row in report.rows if row.change != "not-scorable"]
    return row


def result(row: Rescored) -> Verdict:
    assert isinstance(row.result, Verdict)
    return row.result


def test_a_native_candidate_earns_its_tier_with_nothing_lacking() -> None:
    builder, names = house_ledger()
    row = only(judged(builder))
    found = result(row)
    assert (found.tier, found.gain, row.change, row.lacks) == ("XL", Fraction(1, 5), "first", ())
    assert [(pin.slot, pin.figure.source, pin.origin) for pin in found.pins] == [
        (f"frontier:{DECODE}", names["frontier"], "receipt"),
        (f"reference:{DECODE}", names["reference"], "receipt"),
        (f"guard:{PREFILL}", names[PREFILL], "pin"),
    ]


def test_either_metric_has_its_own_rule() -> None:
    builder, _ = house_ledger()
    found = result(only(judged(builder, "house-1.prefill")))
    assert (found.metric, found.tier, found.gain) == ("prefill", "L", Fraction(1, 9))
    report = judged(builder)
    assert report.reasons == {"not scorable: the rule scores decode@131072, the run measured prefill@32768": 1}


def test_the_guarded_metric_of_the_same_build_must_not_fall() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(60.0, 440.0, round_="r1"), RUNNER)
    fallen = result(judged(builder).rows[-2])
    assert (fallen.tier, fallen.bound_by) == ("REJECT", "guard")


RECONCILED = replace(find_rule("house-3.decode"), name="reconciled", sampling=HOUSE.sampling)
"""The newest house rule, for receipts of three repetitions."""


def guard_of(builder: Builder, rule: Rule = RECONCILED) -> tuple[Verdict, Gate]:
    """The verdict on the last run and its guard."""
    rows = [row for row in rescore(gather(verified(builder)).candidates, rule).rows if row.change != "not-scorable"]
    found = result(rows[-1])
    (gate,) = [gate for gate in found.gates if gate.name == "guard"]
    return found, gate


def test_a_guard_is_held_against_what_the_rounds_frontier_run_measured() -> None:
    """Prefill doubled while its pin stood, and a candidate gave half of it back."""
    builder, names = house_ledger()
    assert guard_of(builder)[0].tier == "XL"
    doubled = builder.add("run", receipt(50.0, 900.0, role="frontier"), RUNNER)
    builder.add("run", receipt(60.0, 460.0), RUNNER)
    found, gate = guard_of(builder)
    assert (found.tier, found.speed_tier, found.not_checked) == ("none", "XL", ("guard",))
    assert "pinned at 450, and the newest frontier run measured 900 (+100.0 %)" in gate.detail
    assert [(pin.slot, pin.figure.source, pin.origin) for pin in found.pins[2:]] == [
        (f"guard:{PREFILL}", names[PREFILL], "pin"),
        (f"frontier:{PREFILL}", doubled, "receipt"),
    ]
    assert guard_of(builder, HOUSE)[0].tier == "XL"  # what it was under the first
    builder.add("pin", pin_body(f"guard:{PREFILL}", "900", doubled), JUDGE)
    builder.add("run", receipt(60.1, 460.0), RUNNER)
    found, gate = guard_of(builder)
    assert (found.tier, gate.reason) == ("REJECT", "guarded-metric-fell")
    builder.add("run", receipt(60.2, 891.0), RUNNER)
    assert guard_of(builder)[0].tier == "XL"


def test_the_frontier_run_of_the_round_counts_before_a_later_one_and_a_later_one_before_none() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(50.0, 900.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(60.0, 446.0), RUNNER)
    assert guard_of(builder)[0].tier == "XL"
    builder.add("run", receipt(60.0, 446.0, round_="r3"), RUNNER)
    assert guard_of(builder)[1].reason == "not-reconciled"
    builder.add("run", receipt(50.0, 470.0, role="frontier", round_=None), RUNNER)
    builder.add("run", receipt(61.0, 465.2, round_="r3"), RUNNER)
    assert guard_of(builder)[1].reason == "guarded-metric-fell"  # 0.99 of what was measured, not of what is pinned
    builder.add("run", receipt(61.0, 465.4, round_=None), RUNNER)
    assert guard_of(builder)[1].outcome is Outcome.PASS


def test_a_superseded_frontier_run_reconciles_no_pin() -> None:
    builder, _ = house_ledger()
    slow = builder.add("run", receipt(50.0, 900.0, role="frontier", round_=None), RUNNER)
    builder.add("run", receipt(60.0, 500.0, round_=None), RUNNER)
    assert guard_of(builder)[1].reason == "not-reconciled"
    builder.add("supersede", {"target": slow, "reason": "wrong clock", "replacement": None}, JUDGE)
    assert guard_of(builder)[1].outcome is Outcome.PASS


def test_a_candidate_reconciles_no_pin() -> None:
    builder = Builder().open()
    source = builder.add("run", receipt(50.0, 450.0, round_=None), RUNNER)
    for track, value in ((DECODE, "50"), (PREFILL, "450")):
        builder.add("pin", pin_body(f"frontier:{track}", value, source), JUDGE)
    builder.add("run", receipt(60.0, 500.0, round_=None), RUNNER)
    assert guard_of(builder)[1].reason == "no-measurement"


def test_without_a_round_the_newest_pin_is_the_frontier() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"frontier:{DECODE}", "58", names["frontier"]), JUDGE)
    builder.add("run", receipt(60.0, 500.0, round_=None), RUNNER)
    found = result(judged(builder).rows[-2])
    assert (found.gain, found.pins[0].origin) == (Fraction(2, 58), "pin")
    assert found.not_checked == ("ratchet",)


def test_a_pin_counts_for_what_stands_behind_it() -> None:
    builder = Builder().open()
    frontier = builder.add("run", receipt(50.0, 450.0, role="frontier", round_=None), RUNNER)
    early = builder.add("run", receipt(60.0, round_=None), RUNNER)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "50", frontier), JUDGE)
    late = builder.add("run", receipt(60.5, round_=None), RUNNER)
    found = {row.candidate.identity: row for row in judged(builder).rows if row.change != "not-scorable"}
    assert result(found[early]).speed_tier == "BASELINE"
    assert result(found[late]).gain == Fraction("10.5") / 50


def test_accepted_runs_carry_the_frontier_where_nothing_states_it() -> None:
    open_rule = replace(HOUSE, ratchet=None, guard=None)
    builder = Builder().open()
    for speed in (50.0, 40.0, 60.0, 61.0):
        builder.add("run", receipt(speed, round_=None), RUNNER)
    liar = receipt(70.0, round_=None)
    liar["timing"][0]["samples"][0]["duration_ns"] //= 3
    liar["timing"][0]["samples"][1]["duration_ns"] //= 3
    builder.add("run", liar, RUNNER)
    builder.add("run", receipt(66.0, round_=None), RUNNER)
    rows = [
        row for row in rescore(gather(verified(builder)).candidates, open_rule).rows if row.change != "not-scorable"
    ]
    assert [result(row).tier for row in rows] == ["BASELINE", "none", "XL", "none", "REJECT", "M"]
    # The refused run did not move the frontier, the insignificant one did: it is verified and faster.
    assert result(rows[-1]).gain == Fraction(5, 61)


def test_pins_of_a_file_replace_the_runs_own() -> None:
    builder, _ = house_ledger()
    material = gather(verified(builder))
    track = material.candidates[0].run.track
    pins = [PinRecord("frontier", track, Fraction(59), "tok/s"), PinRecord("reference", track, Fraction(10), "tok/s")]
    found = result(only(rescore(material.candidates, HOUSE, pins=pins)))
    assert found.gain == Fraction(1, 59)
    assert [pin.origin for pin in found.pins] == ["file", "file", "pin"]
    again = result(only(rescore(material.candidates, HOUSE, pins=[])))
    assert again.gain == Fraction(1, 5)


def test_pins_of_the_tag_replace_the_reference_and_the_guard() -> None:
    builder, _ = house_ledger()
    tagged = replace(HOUSE, pins=((f"guard:{PREFILL}", Fraction(400)), (f"reference:{DECODE}", Fraction(33))))
    found = result(only(rescore(gather(verified(builder)).candidates, tagged, pins="tag")))
    assert [(pin.figure.value, pin.origin) for pin in found.pins] == [
        (Fraction(50), "receipt"), (Fraction(33), "rule"), (Fraction(400), "rule"),
    ]  # fmt: skip


def test_a_run_without_a_rule_of_its_moment_says_so() -> None:
    builder, _ = house_ledger()
    rows = rescore(gather(verified(builder)).candidates, "in-force").rows
    assert {row.result.message for row in rows if row.rule is None} == {  # type: ignore[union-attr]
        "cannot re-score: the ledger had published no rule for decode@131072",
        "cannot re-score: the ledger had published no rule for prefill@32768",
    }
    candidate = gather(verified(builder)).candidates[0]
    for at, message in (
        (None, "cannot re-score: field at is missing"),
        (candidate.run.at, "cannot re-score: no rule was in force at 2026-01-01T00:00:08+00:00"),
    ):
        foreign = replace(candidate, native=False, run=replace(candidate.run, at=at))
        (row,) = rescore([foreign], "in-force").rows
        assert row.result.message == message  # type: ignore[union-attr]


def rule_body(rule: Any) -> dict[str, Any]:
    return {
        "rule": rule.name, "rule_sha256": rule.sha256, "arithmetic": rule.arithmetic,
        "parameters": [{"name": name, "value": text} for name, text in rule.parameters()],
    }  # fmt: skip


def test_in_force_is_the_newest_rule_the_ledger_had_published_for_the_metric() -> None:
    builder, _ = house_ledger()
    strict = replace(HOUSE, name="strict", tiers=replace(HOUSE.tiers, significance=Fraction("0.3")))
    for rule in (HOUSE, find_rule("house-1.prefill")):
        builder.add("rule", rule_body(rule), JUDGE)
    builder.add("run", receipt(60.0, 501.0), RUNNER)
    builder.add("rule", rule_body(strict), JUDGE)
    builder.add("run", receipt(60.0, 502.0), RUNNER)
    rows = rescore(gather(verified(builder)).candidates, "in-force").rows
    assert [row.rule and row.rule.name for row in rows] == [
        None, None, "house-1.decode", "house-1.prefill", "strict", "house-1.prefill",
    ]  # fmt: skip
    assert [result(row).tier for row in rows[2:]] == ["XL", "L", "none", "L"]


def test_a_rule_entry_that_is_no_rule_is_an_error_with_its_index() -> None:
    builder, _ = house_ledger()
    body = rule_body(HOUSE)
    builder.add("rule", {**body, "parameters": body["parameters"][1:]}, JUDGE)
    with pytest.raises(RescoreError, match="arithmetic is missing") as caught:
        gather(verified(builder))
    assert caught.value.finding.position.index == 9


def test_what_was_judged_before_is_what_a_rescore_is_compared_with() -> None:
    builder, names = house_ledger()
    found = result(only(judged(builder)))
    body = verdict_body(names["candidate"], found)
    builder.add("verdict", {**body, "tier": "S"}, JUDGE)
    row = only(judged(builder))
    assert (row.before, row.change, row.why) == ("S", "higher", "gain 20.0 %")
    builder.add("verdict", body, JUDGE)  # what was published is the first
    assert only(judged(builder)).change == "higher"
    assert only(judged(builder, against=find_rule("v0.2.1"))).before == "XL"
    assert only(judged(builder, against=find_rule("v0.2.2"))).change == "first"


def test_a_verdict_body_holds_all_that_is_needed_to_derive_it_again() -> None:
    builder, names = house_ledger()
    body = verdict_body(names["candidate"], result(only(judged(builder))))
    assert body["rule_sha256"] == HOUSE.sha256
    assert body["pins"][0] == {
        "slot": f"frontier:{DECODE}", "value": "50", "source": "receipt", "entry": names["frontier"], "inferred": False,
    }  # fmt: skip
    assert {"name": "gain", "value": "0.2"} in body["steps"]
    builder.add("verdict", body, JUDGE)
    verified(builder)


def test_sealing_twice_adds_nothing() -> None:
    builder, _ = house_ledger()
    (body,) = new_verdicts(judged(builder))
    builder.add("verdict", body, JUDGE)
    assert list(new_verdicts(judged(builder))) == []
    builder.add("verdict", {**body, "tier": "none"}, JUDGE)
    assert list(new_verdicts(judged(builder))) == []


def test_a_superseded_run_is_marked_and_moves_no_frontier() -> None:
    builder = Builder().open()
    first = builder.add("run", receipt(50.0, round_=None), RUNNER)
    builder.add("run", receipt(60.0, round_=None), RUNNER)
    builder.add("supersede", {"target": first, "reason": "reused build directory", "replacement": None}, JUDGE)
    rows = [
        row
        for row in rescore(gather(verified(builder)).candidates, replace(HOUSE, ratchet=None, guard=None)).rows
        if row.change != "not-scorable"
    ]
    assert [row.candidate.superseded for row in rows] == [True, False]
    assert [result(row).tier for row in rows] == ["BASELINE", "BASELINE"]


def test_merges_take_the_number_of_their_receipt() -> None:
    builder, names = house_ledger()
    base = {"pull_request": 7, "commit": "c" * 40, "slot": f"frontier:{DECODE}"}
    builder.add("merge", {**base, "run": names["candidate"], "claimed": "99"}, JUDGE)
    builder.add("merge", {**base, "run": None, "claimed": "61.5"}, JUDGE)
    builder.add("merge", {**base, "run": names["reference"], "claimed": None}, JUDGE)
    material = gather(verified(builder))
    assert [(merge.value, merge.sealed) for merge in material.merges] == [
        (Fraction(60), True), (Fraction("61.5"), False), (None, False),
    ]  # fmt: skip


def test_frontier_builds_and_the_other_engine_are_measurements_and_pins_are_kept_by_slot() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"frontier:{DECODE}", "51", names["frontier"]), JUDGE)
    material = gather(verified(builder))
    assert [(item.value, item.receipt, item.role) for item in material.measurements if item.current] == [
        (Fraction(40), names["reference"], "reference"), (Fraction(300), names["reference"], "reference"),
        (Fraction(50), names["frontier"], "frontier"), (Fraction(450), names["frontier"], "frontier"),
    ]  # fmt: skip
    assert material.pins[f"frontier:{DECODE}"].value == 51
    assert material.pins[f"frontier:{DECODE}"].entry


def test_a_pin_entry_that_is_no_pin_is_an_error_with_its_index() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"frontier:{DECODE}", "0", names["frontier"]), JUDGE)
    with pytest.raises(RescoreError) as caught:
        gather(verified(builder))
    assert caught.value.code is Code.PIN_INVALID
    assert caught.value.finding.position.index == 9


def test_disowned_entries_count_for_nothing() -> None:
    from tests.ledgers import key_body

    builder, _ = house_ledger()
    builder.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=8), builder.root)
    assert gather(verified(builder)).candidates == []


def test_imports_are_candidates_with_their_own_pins() -> None:
    from tests.rescore.test_imported import FIELDS

    builder = Builder().open()
    steps = [{"name": name, "value": value} for name, value in FIELDS.items()]
    steps += [{"name": "log.main.frontier.frontier", "value": "35.70"}]
    steps += [{"name": "log.main.pin-kept.slot", "value": "KIMI_K3_H200X8_IQ1S_SPARKINFER_128K"}]
    artifact = {"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}
    identity = builder.add(
        "import",
        {
            "format": "polaris/1", "foreign_id": "70e6a00a", "original_sha256": "d" * 64, "attestation": "none",
            "fields": steps, "findings": [], "artifacts": [artifact],
        },
        LOG,
    )  # fmt: skip
    material = gather(verified(builder))
    row = only(rescore(material.candidates, find_rule("v0.2.1")))
    assert (row.candidate.identity, row.before, result(row).tier) == (identity, "XL", "L")
    assert isinstance(row.candidate.run.frontier, Figure)
    assert [(item.value, item.receipt) for item in material.measurements] == [
        (Fraction("35.7"), None), (Fraction("41.39"), "70e6a00a"),
    ]  # fmt: skip


def test_a_run_that_claims_nothing_is_not_scorable_and_moves_nothing() -> None:
    builder = Builder().open()
    body = receipt(50.0, role="frontier")
    body["timing"] = body["timing"][1:2]  # the other process's clock alone
    builder.add("run", {**body, "parity": None}, RUNNER)
    spoken = receipt(50.0, 450.0, role="frontier", parity=None)
    builder.add("run", spoken, RUNNER)
    silent = receipt(60.0)
    silent["timing"] = silent["timing"][1:2]
    builder.add("run", silent, RUNNER)
    material = gather(verified(builder))
    assert [item.value for item in material.measurements] == [50, 450]
    (row,) = rescore(material.candidates, HOUSE).rows
    assert row.result.message == "cannot re-score: field speed is missing"  # type: ignore[union-attr]
    assert row.lacks == ("speed",)


def test_tiers_without_an_order_are_changed_otherwise() -> None:
    builder, names = house_ledger()
    body = verdict_body(names["candidate"], result(only(judged(builder))))
    builder.add("verdict", {**body, "tier": "BASELINE"}, JUDGE)
    assert only(judged(builder)).change == "other"


def test_an_import_with_a_figure_that_is_none_is_named_and_hides_no_other() -> None:
    from k3_ledger.rescore.replay import gather_foreign
    from k3_ledger.verify.polaris import ImportItem

    def item(name: str, tps: str) -> ImportItem:
        fields = [{"name": "ledger.tps", "value": tps}]
        body = {
            "format": "f",
            "foreign_id": name,
            "attestation": "none",
            "fields": fields,
            "artifacts": [],
            "findings": [],
        }
        return ImportItem(body, {})

    material = gather_foreign([item("bad", "fast"), item("good", "5")])
    assert [candidate.identity for candidate in material.candidates] == ["good"]
    (finding,) = material.unread
    assert (finding.code, finding.position.source, finding.position.field) == (Code.NUMBER, "bad", "ledger.tps")


def test_an_import_without_speed_or_moment_measures_nothing() -> None:
    from k3_ledger.rescore.replay import gather_foreign
    from k3_ledger.verify.polaris import ImportItem

    body = {"foreign_id": "x", "attestation": "none", "fields": [{"name": "ledger.label", "value": "XL"}]}
    material = gather_foreign([ImportItem({"format": "f", **body, "artifacts": [], "findings": []}, {})])
    assert (len(material.candidates), material.measurements) == (1, [])
