"""A verdict states the pins that a judge was given: his ledger's own, those of a release, or those of a file.

Whatever else it says follows from nothing, however well its figures follow from the pins that it states.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.history.pins import pin_at
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import Judge, rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sealing import new_verdicts, rule_body, verdict_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, MODEL, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_unjudged import THREE

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

ROLES = ("frontier", "reference", "guard")
SLOTS = {"frontier": f"frontier:{DECODE}", "reference": f"reference:{DECODE}", "guard": f"guard:{PREFILL}"}
PINNED = replace(
    find_rule("house-4.decode"),
    name="pinned",
    arithmetic="measured-gain/2",
    sampling=THREE.sampling,
    guard=replace(THREE.guard, pin="fixed"),  # type: ignore[type-var, arg-type]
    pins=tuple(sorted((slot, Fraction(value)) for slot, value in zip(SLOTS.values(), (20, 30, 400), strict=True))),
)
"""A rule that pins every slot, the frontier's among them."""


def ledger(rule: Rule) -> Builder:
    builder, _ = house_ledger()
    builder.add("rule", rule_body(rule), JUDGE)
    return builder


def stating(builder: Builder, rule: Rule, figures: dict[str, Figure]) -> dict[str, Any]:
    """A verdict that follows from some figures, whoever was given them."""
    candidate = next(one for one in gather(verified(builder)).candidates if one.run.track.metric == rule.scope.metric)
    result = Judge(rule, "own").peek(candidate, figures)
    assert isinstance(result, Verdict)
    return verdict_body(candidate.identity, result)


def own_pins(builder: Builder, rule: Rule) -> dict[str, Figure]:
    candidates = gather(verified(builder)).candidates
    (result,) = [row.result for row in rescore(candidates, rule).rows if isinstance(row.result, Verdict)]
    return {pin.slot: pin.figure for pin in result.pins}


def found(builder: Builder, body: dict[str, Any]) -> list[Code]:
    other = Builder(lines=[*builder.lines])
    other.add("verdict", body, JUDGE)
    codes = [finding.code for finding in settle_judgements(verified(other)).findings]
    return [code for code in codes if code is not Code.CLAIMED_TIME]


@pytest.mark.parametrize("from_rule", list(product((False, True), repeat=3)))
def test_only_what_a_judge_could_be_given_is_taken_from_the_rule(from_rule: tuple[bool, ...]) -> None:
    """Of eight ways to mix the pins of a ledger and of a rule, a judge is given two."""
    builder = ledger(PINNED)
    figures = own_pins(builder, PINNED)
    assert set(figures) == set(SLOTS.values())
    for role, taken in zip(ROLES, from_rule, strict=True):
        if taken:
            value = PINNED.pin(SLOTS[role])
            assert value is not None
            figures[SLOTS[role]] = Figure(value, "rule", source=PINNED.name)
    codes = found(builder, stating(builder, PINNED, figures))
    assert codes == ([] if from_rule in {(False, False, False), (False, True, True)} else [Code.VERDICT_PIN])


def test_the_control_all_that_rescore_seals_follows() -> None:
    for pins in ("own", "tag"):
        builder = ledger(PINNED)
        for body in new_verdicts(rescore(gather(verified(builder)).candidates, PINNED, pins=pins)):  # type: ignore[arg-type]
            builder.add("verdict", body, JUDGE)
        report = settle_judgements(verified(builder))
        assert (report.findings, report.exit_code) == ((), ExitCode.VERIFIED)


@pytest.mark.parametrize("pins", ["tag", "file"])
def test_the_control_what_the_ledger_lacks_may_be_the_rules_or_a_files(pins: str) -> None:
    """Nobody measured the other engine here, so that the ledger's own pins alone judge nothing."""
    rule = replace(
        find_rule("v0.2.1"), name="anchored", guard=None, ceiling=None, pins=((SLOTS["reference"], Fraction(30)),)
    )
    builder = Builder().open()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    builder.add("rule", rule_body(rule), JUDGE)
    candidates = gather(verified(builder)).candidates
    assert list(new_verdicts(rescore(candidates, rule))) == []
    given: Any = "tag"
    if pins == "file":
        given = [PinRecord("reference", candidates[0].run.track, Fraction(30), "tok/s")]
    (body,) = new_verdicts(rescore(candidates, rule, pins=given))
    assert found(builder, body) == ([] if pins == "tag" else [Code.VERDICT_UNTRACED_PIN])


def test_a_file_and_a_rule_are_not_mixed() -> None:
    builder = ledger(PINNED)
    figures = own_pins(builder, PINNED) | {
        SLOTS["reference"]: Figure(Fraction(30), "rule"),
        SLOTS["guard"]: Figure(Fraction(400), "file"),
    }
    assert found(builder, stating(builder, PINNED, figures)) == [Code.VERDICT_PIN]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("other", ["reference", "frontier", "candidate", None])
def test_a_pin_names_the_entry_that_it_is_of(role: str, other: str | None) -> None:
    builder = ledger(PINNED)
    names = house_ledger()[1]
    body = stating(builder, PINNED, own_pins(builder, PINNED))
    assert found(builder, body) == []
    (pin,) = [pin for pin in body["pins"] if pin["slot"] == SLOTS[role]]
    entry = None if other is None else names[other]
    honest = pin["entry"] == entry
    pin["entry"] = entry
    assert found(builder, body) == ([] if honest else [Code.VERDICT_PIN])


@pytest.mark.parametrize("role", ROLES)
def test_a_pin_is_inferred_only_where_it_is(role: str) -> None:
    builder = ledger(PINNED)
    body = stating(builder, PINNED, own_pins(builder, PINNED))
    (pin,) = [pin for pin in body["pins"] if pin["slot"] == SLOTS[role]]
    pin["inferred"] = True
    assert found(builder, body) == [Code.VERDICT_PIN]


def history_ledger() -> Builder:
    """The same round on the model and node whose history is shipped."""
    model = {**MODEL, "name": "Kimi-K3", "quant": "UD-IQ1_S"}

    def on_node(body: dict[str, Any]) -> dict[str, Any]:
        machine = {**body["machine"], "node": {**body["machine"]["node"], "name": "h200x8"}}
        return {**body, "machine": machine}

    builder = Builder().open()
    builder.add(
        "run", on_node(receipt(40.0, 300.0, role="reference", model=model)), RUNNER, time="2026-08-02T06:00:00Z"
    )
    frontier = builder.add("run", on_node(receipt(50.0, 450.0, role="frontier", model=model)), RUNNER)
    builder.add("pin", pin_body("frontier:prefill@32768/Kimi-K3/UD-IQ1_S/h200x8", "450", frontier), JUDGE)
    builder.add("run", on_node(receipt(50.5, 460.0, model=model)), RUNNER, time="2026-08-02T06:00:00Z")
    return builder


@pytest.mark.parametrize("role", ["frontier", "reference"])
@pytest.mark.parametrize("origin", ["rule", "history"])
def test_a_receipt_of_the_ledger_is_held_against_no_history_and_no_frontier_of_a_rule(role: str, origin: str) -> None:
    builder, rule = history_ledger(), find_rule("v0.2.1")
    figures = own_pins(builder, rule)
    slot = next(slot for slot in figures if slot.startswith(f"{role}:decode"))
    candidate = next(one for one in gather(verified(builder)).candidates if one.run.track.metric == "decode")
    assert found(builder, stating(builder, rule, figures)) == []
    assert candidate.run.at is not None
    pinned, dated = rule.pin(slot), pin_at(slot, candidate.run.at)
    assert pinned is not None
    assert dated is not None
    figure = Figure(pinned, "rule") if origin == "rule" else Figure(dated.value, "history", inferred=True)
    codes = found(builder, stating(builder, rule, figures | {slot: figure}))
    given = (role, origin) == ("reference", "rule")  # by `--pins tag`
    assert codes == ([] if given else [Code.VERDICT_PIN])
