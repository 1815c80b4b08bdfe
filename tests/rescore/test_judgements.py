"""Verdicts derived again and pins traced: what follows passes, and every way of not following is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.sealing import new_verdicts
from k3_ledger.rescore.sweep import sweep
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from k3_ledger.verify.policy import TrustPolicy
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, key_body
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_replay import HOUSE, RECONCILED, rule_body

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.verify.report import Report, StepResult


def step(report: Report, name: str) -> StepResult:
    (found,) = [item for item in report.steps if item.name == name]
    return found


def sealed(*, rule: Rule = HOUSE, **options: Any) -> tuple[Builder, dict[str, Any]]:
    """A house ledger and the body of the verdict on its candidate."""
    builder, _ = house_ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, rule, **options))
    return builder, body


def settled(builder: Builder, body: dict[str, Any] | None = None, **options: Any) -> Report:
    if body is not None:
        builder.add("verdict", body, JUDGE)
    return settle_judgements(verified(builder), **options)


def test_a_verdict_that_follows_passes() -> None:
    report = settled(*sealed())
    assert (step(report, "verdicts").outcome, step(report, "verdicts").checked) == (Outcome.PASS, 1)
    assert (step(report, "pins").outcome, step(report, "pins").checked) == (Outcome.PASS, 2)
    assert report.exit_code is ExitCode.VERIFIED
    assert step(report, "verdicts").detail == "1 derived again"


def test_a_ledger_without_judgements_has_nothing_to_check() -> None:
    report = settled(Builder().open())
    assert step(report, "verdicts").outcome is Outcome.NOT_CHECKED
    assert (step(report, "verdicts").detail, step(report, "pins").detail) == ("no verdict entries", "no pin entries")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tier": "L"}, "tier"),
        ({"bound_by": "cap"}, "bound_by"),
        ({"not_checked": ["clock"]}, "not_checked"),
        ({"steps": [{"name": "gain", "value": "0.3"}]}, "steps"),
        ({"pins": []}, "steps"),
    ],
)
def test_a_verdict_with_one_thing_changed_does_not_follow(change: dict[str, Any], field: str) -> None:
    builder, body = sealed()
    report = settled(builder, {**body, **change})
    (finding,) = report.findings[-1:]
    if change == {"pins": []}:  # the run's own pins then take part, and the verdict does not state them
        assert (finding.code, finding.position.field) == (Code.VERDICT_MISMATCH, "body.pins")
    else:
        assert (finding.code, finding.position.field) == (Code.VERDICT_MISMATCH, f"body.{field}")
    assert finding.position.index == 9
    assert step(report, "verdicts").outcome is Outcome.FAIL
    assert report.exit_code is ExitCode.FALSE


def test_a_forged_pin_is_found_even_where_everything_follows_from_it() -> None:
    builder, _ = sealed()
    track = gather(verified(builder)).candidates[0].run.track
    forged = [PinRecord("frontier", track, Fraction(30), "tok/s")]
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE, pins=forged))
    for pin in body["pins"]:
        pin["source"] = "receipt" if pin["source"] == "file" else pin["source"]
    report = settled(builder, body)
    assert report.findings[-1].code is Code.VERDICT_PIN
    assert (report.findings[-1].expected, report.findings[-1].found) == ("50", "30")


def test_the_measurement_that_a_guards_pin_agreed_with_is_traced() -> None:
    builder, body = sealed(rule=RECONCILED)
    assert body["pins"][-1]["slot"] == f"frontier:{PREFILL}"
    builder.add("rule", rule_body(RECONCILED), JUDGE)
    report = settled(builder, body)
    assert (report.exit_code, step(report, "verdicts").outcome) == (ExitCode.VERIFIED, Outcome.PASS)
    for change, code in (
        ({"value": "449"}, Code.VERDICT_PIN),
        ({"source": "pin"}, Code.VERDICT_PIN),
        ({"value": "900"}, Code.VERDICT_MISMATCH),  # the guard would be open
    ):
        builder, body = sealed(rule=RECONCILED)
        builder.add("rule", rule_body(RECONCILED), JUDGE)
        pins = [*body["pins"][:-1], body["pins"][-1] | change]
        assert settled(builder, {**body, "pins": pins}).findings[-1].code is code
    builder, body = sealed(rule=RECONCILED)
    builder.add("rule", rule_body(RECONCILED), JUDGE)
    assert settled(builder, {**body, "pins": body["pins"][:-1]}).findings[-1].code is Code.VERDICT_MISMATCH


def test_a_pin_from_a_file_is_not_checked_and_not_wrong() -> None:
    builder, _ = sealed()
    track = gather(verified(builder)).candidates[0].run.track
    pins = [PinRecord("frontier", track, Fraction(55), "tok/s")]
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE, pins=pins))
    report = settled(builder, body)
    assert report.findings[-1].code is Code.VERDICT_UNTRACED_PIN
    assert step(report, "verdicts").outcome is Outcome.NOT_CHECKED
    assert report.exit_code is ExitCode.VERIFIED


def test_a_pin_from_a_file_does_not_hide_a_forged_one() -> None:
    builder, _ = sealed()
    track = gather(verified(builder)).candidates[0].run.track
    pins = [PinRecord("frontier", track, Fraction(55), "tok/s"), PinRecord("reference", track, Fraction(41), "tok/s")]
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE, pins=pins))
    assert [pin["source"] for pin in body["pins"]] == ["file", "file", "pin"]
    body["pins"][1]["source"] = "receipt"
    assert settled(builder, body).findings[-1].code is Code.VERDICT_PIN


def test_a_floor_that_was_timed_beside_is_no_source_of_a_pin() -> None:
    builder, _ = house_ledger()
    body = receipt(50.0, 450.0, role="frontier")
    for item in body["timing"][:2]:
        item["actor"] = "floor"
    source = builder.add("run", body, RUNNER)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "50", source), JUDGE)
    assert settled(builder).findings[-1].code is Code.PIN_HAND_EDITED


def test_pins_of_the_rule_are_traced_to_the_rule() -> None:
    tagged = replace(HOUSE, name="tagged", pins=((f"reference:{DECODE}", Fraction(33)),))
    builder, _ = house_ledger()
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, tagged, pins="tag"))
    unknown = settled(builder, body)
    assert unknown.findings[-1].code is Code.VERDICT_UNKNOWN_RULE
    assert unknown.exit_code is ExitCode.VERIFIED
    builder.add("rule", rule_body(tagged), JUDGE)
    assert step(settled(builder), "verdicts").outcome is Outcome.PASS
    wrong = [dict(pin, value="34") if pin["source"] == "rule" else pin for pin in body["pins"]]
    steps = [dict(item, value="34") if item["name"] == "reference" else item for item in body["steps"]]
    report = settled(builder, {**body, "pins": wrong, "steps": steps})
    assert report.findings[-1].code is Code.VERDICT_PIN
    absent = [dict(pin, source="rule") if pin["slot"].startswith("frontier") else pin for pin in body["pins"]]
    assert settled(builder, {**body, "pins": absent}).findings[-1].code is Code.VERDICT_PIN


def test_a_verdict_on_what_cannot_be_judged_does_not_follow() -> None:
    builder, body = sealed()
    report = settled(builder, {**body, "metric": "append"})
    assert report.findings[-1].message.endswith("holds no run of append that could be judged")
    builder, body = sealed()
    report = settled(builder, {**body, "metric": "prefill"})
    assert "the rule does not judge this run: not scorable" in report.findings[-1].message


def test_imported_runs_are_held_against_the_history_again() -> None:
    from k3_ledger.rescore.rules.registry import find_rule
    from tests.rescore.test_imported import FIELDS

    builder = Builder().open()
    artifact = {"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}
    imported = builder.add(
        "import",
        {
            "format": "polaris/1", "foreign_id": "70e6a00a", "original_sha256": "d" * 64, "attestation": "none",
            "fields": [{"name": name, "value": value} for name, value in FIELDS.items()], "findings": [],
            "artifacts": [artifact],
        },
        LOG,
    )  # fmt: skip
    builder.add("pin", pin_body("frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8", "41.39", imported), JUDGE)
    (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, find_rule("v0.2.1")))
    report = settled(builder, body)
    assert (step(report, "verdicts").outcome, step(report, "pins").outcome) == (Outcome.PASS, Outcome.PASS)
    proud = [dict(pin, inferred=False) for pin in body["pins"]]
    assert settled(builder, {**body, "pins": proud}).findings[-1].code is Code.VERDICT_PIN
    moved = [dict(pin, source="history") if pin["slot"].startswith("frontier") else pin for pin in body["pins"]]
    assert settled(builder, {**body, "pins": moved}).findings[-1].code is Code.VERDICT_PIN


@pytest.mark.parametrize(
    ("slot", "value", "code"),
    [
        (f"frontier:{DECODE}", "50", None),
        (f"guard:{PREFILL}", "450", None),
        (f"frontier:{DECODE}", "51", Code.PIN_HAND_EDITED),
        ("frontier:decode@4/k3-slice/bf16/node", "50", Code.PIN_HAND_EDITED),
    ],
)
def test_pins_are_traced_to_what_their_source_measured(slot: str, value: str, code: Code | None) -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(slot, value, names["frontier"]), JUDGE)
    report = settled(builder)
    assert [finding.code for finding in report.findings if finding.code.info.area == "pins"] == ([code] if code else [])


def test_a_pin_whose_source_measured_nothing_is_unsourced() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"frontier:{DECODE}", "50", names[DECODE]), JUDGE)
    assert settled(builder).findings[-1].code is Code.PIN_UNSOURCED


@pytest.mark.parametrize("broken", ["pin", "rule"])
def test_an_entry_that_verdicts_rest_on_and_that_is_none_is_found(broken: str) -> None:
    builder, names = house_ledger()
    if broken == "pin":
        builder.add("pin", pin_body(f"frontier:{DECODE}", "0", names["frontier"]), JUDGE)
    else:
        builder.add("rule", {**rule_body(HOUSE), "parameters": []}, JUDGE)
    report = settled(builder)
    (finding,) = report.findings
    assert (finding.code, finding.position.index) == (Code.JUDGEMENT_UNREADABLE, 9)
    assert report.exit_code is ExitCode.FALSE
    assert step(report, "pins").outcome is Outcome.FAIL
    said = "an entry of these kinds cannot be read, so none was judged"
    assert {step(report, name).detail for name in ("pins", "verdicts")} == {said}


def test_a_policy_may_demand_what_is_checked_here() -> None:
    policy = TrustPolicy(require=frozenset({"verdicts", "pins", "chain"}))
    builder, body = sealed()
    assert settled(builder, body, policy=policy).exit_code is ExitCode.VERIFIED
    builder, _ = house_ledger()
    report = settled(builder, policy=policy)
    assert report.findings[-1].code is Code.REQUIRED_NOT_CHECKED
    assert report.exit_code is ExitCode.NOT_CHECKED
    assert "required steps" in report.policy


def test_the_frontier_that_runs_carried_is_carried_again() -> None:
    builder = Builder().open()
    rule = replace(HOUSE, name="open", ratchet=None, guard=None)
    builder.add("rule", rule_body(rule), JUDGE)
    for speed in (50.0, 60.0, 66.0):
        builder.add("run", receipt(speed, round_=None), RUNNER)
    bodies = list(new_verdicts(rescore(gather(verified(builder)).candidates, rule)))
    assert [body["tier"] for body in bodies] == ["BASELINE", "XL", "L"]
    for body in bodies:
        builder.add("verdict", body, JUDGE)
    report = settled(builder)
    assert (step(report, "verdicts").outcome, step(report, "verdicts").checked) == (Outcome.PASS, 4)
    assert step(report, "verdicts").detail == "3 derived again, 1 rules read"


def test_a_published_rule_is_read_though_nothing_was_judged_by_it() -> None:
    builder, _ = house_ledger()
    builder.add("rule", rule_body(HOUSE), JUDGE)
    found = step(settled(builder), "verdicts")
    assert (found.outcome, found.checked, found.detail) == (Outcome.PASS, 1, "1 rules read")


def test_a_judgement_on_what_was_taken_back_is_not_checked_and_accuses_nobody() -> None:
    builder, body = sealed()
    builder.add("verdict", body, JUDGE)
    candidate, frontier = 8, 5
    for start, verdicts, pins in ((candidate, 1, 0), (frontier, 1, 2)):
        ledger = replace(builder, lines=list(builder.lines))
        ledger.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=start), ROOT)
        report = settled(ledger)
        assert report.exit_code is ExitCode.VERIFIED
        assert report.counts[Code.JUDGEMENT_DISOWNED] == verdicts + pins
        assert step(report, "verdicts").not_checked == verdicts
        assert step(report, "pins").not_checked == pins
        assert settled(ledger, policy=TrustPolicy(require=frozenset({"verdicts"}))).exit_code == 4


def test_a_verdict_names_the_rule_by_its_own_name() -> None:
    builder, body = sealed()
    report = settled(builder, {**body, "rule": "v0.2.2"})
    assert (report.findings[-1].code, report.findings[-1].position.field) == (Code.VERDICT_MISMATCH, "body.rule")


def test_a_rule_cannot_take_the_name_of_another() -> None:
    loose = replace(HOUSE, tiers=replace(HOUSE.tiers, significance=Fraction("0.001")))
    mine, other = replace(loose, name="mine"), replace(HOUSE, name="mine")
    builder, body = sealed()
    for rule in (HOUSE, mine, mine):  # saying the same again is no harm
        builder.add("rule", rule_body(rule), JUDGE)
    assert settled(builder, body).exit_code is ExitCode.VERIFIED
    for rule in (loose, other):
        ledger = replace(builder, lines=list(builder.lines))
        ledger.add("rule", rule_body(rule), JUDGE)
        report = settled(ledger)
        assert (report.findings[-1].code, report.exit_code) == (Code.RULE_NAME_TAKEN, ExitCode.FALSE)
        assert report.findings[-1].position.index == len(ledger.lines) - 1


@pytest.mark.parametrize(
    ("role", "value", "source", "holds"),
    [
        ("reference", "40", "reference", True),
        ("reference", "50", "frontier", False),
        ("frontier", "40", "reference", False),
        ("guard", "40", "reference", False),
    ],
)
def test_a_pin_is_traced_under_its_own_role(role: str, value: str, source: str, holds: bool) -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"{role}:{DECODE}", value, names[source]), JUDGE)
    report = settled(builder)
    assert [finding.code for finding in report.findings if finding.code.info.area == "pins"] == (
        [] if holds else [Code.PIN_HAND_EDITED]
    )


def test_a_pin_entry_in_the_unit_of_another_metric_is_found() -> None:
    builder, names = house_ledger()
    builder.add("pin", {**pin_body(f"frontier:{DECODE}", "50", names["frontier"]), "unit": "ms"}, JUDGE)
    (finding,) = settled(builder).findings
    assert (finding.code, finding.position.field) == (Code.JUDGEMENT_UNREADABLE, "body.unit")


STRICT = replace(
    HOUSE, name="strict", tiers=replace(HOUSE.tiers, steps=(("XL", Fraction("0.3")), *HOUSE.tiers.steps[1:]))
)


def test_what_was_published_of_a_run_is_its_first_verdict() -> None:
    builder, body = sealed()
    before = gather(verified(builder)).candidates
    assert [candidate.published for candidate in before] == [None, None]
    builder.add("verdict", body, JUDGE)
    (again,) = new_verdicts(rescore(gather(verified(builder)).candidates, STRICT))
    assert again["tier"] != body["tier"]
    builder.add("verdict", again, JUDGE)
    candidates = gather(verified(builder)).candidates
    assert [candidate.published for candidate in candidates] == ["XL", None]
    assert rescore(candidates, HOUSE).rows[0].change == "unchanged"
    assert rescore(candidates, STRICT).rows[0].change == "lower"
    assert dict(sweep(verified(builder), HOUSE).changes) == {"unchanged": 1}
    assert dict(sweep(verified(builder), STRICT).changes) == {"lower": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"tier": "L"},
        {"bound_by": "cap"},
        {"not_checked": ["clock"]},
        {"steps": [{"name": "gain", "value": "0.3"}]},
        {"pins": []},
        {"rule_sha256": "0" * 64},
    ],
)
def test_a_verdict_is_there_already_only_when_everything_in_it_is(change: dict[str, Any]) -> None:
    builder, body = sealed()
    builder.add("verdict", {**body, **change}, JUDGE)
    missing = list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE)))
    assert missing == [body]
    builder.add("verdict", body, JUDGE)
    builder.add("verdict", {**body, **change}, JUDGE)  # the newest is another, and the same one stands before it
    assert list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE))) == []


@pytest.mark.parametrize("field", ["value", "source", "entry", "inferred"])
def test_a_verdict_from_another_pin_is_another(field: str) -> None:
    builder, body = sealed()
    other = {"value": "49", "source": "history", "entry": None, "inferred": True}
    pins = [{**body["pins"][0], field: other[field]}, *body["pins"][1:]]
    builder.add("verdict", {**body, "pins": pins}, JUDGE)
    assert list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE))) == [body]


def test_the_order_of_pins_makes_no_other_verdict() -> None:
    builder, body = sealed()
    builder.add("verdict", {**body, "pins": body["pins"][::-1]}, JUDGE)
    assert list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE))) == []
