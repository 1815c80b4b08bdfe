"""What counts: superseded entries of every kind, as of the head and as of where something was sealed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.doubt import REFUTED
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.parameters import Ceiling
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.standing import Moment, Standing, read_standing
from k3_ledger.rescore.sweep import sweep
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, key_body
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, timed, verified
from tests.rescore.test_replay import HOUSE
from tests.rescore.test_sweep import same

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.verify.report import Report

FRONTIER, REFERENCE = f"frontier:{DECODE}", f"reference:{DECODE}"
MERGE = {"pull_request": 7, "commit": "c" * 40, "run": None, "claimed": "58.7", "slot": FRONTIER}


def take_back(builder: Builder, identity: str) -> str:
    return builder.add("supersede", {"target": identity, "reason": "bad build", "replacement": None}, JUDGE)


def seal(builder: Builder, rule: Rule = HOUSE) -> list[str]:
    """Seal what a rule says of every run, and return the verdicts' identities."""
    bodies = list(new_verdicts(rescore(gather(verified(builder)).candidates, rule)))
    return [builder.add("verdict", body, JUDGE) for body in bodies]


def settled(builder: Builder) -> Report:
    return settle_judgements(verified(builder))


def codes(builder: Builder) -> list[Code]:
    return [finding.code for finding in settled(builder).findings]


def pins_of(builder: Builder, *, metric: str = "decode") -> dict[str, tuple[object, str]]:
    """What the newest candidate is held against, by the role of the pin."""
    rows = [row for row in rescore(gather(verified(builder)).candidates, HOUSE).rows if row.change != "not-scorable"]
    (result,) = [row.result for row in rows[-1:]]
    assert isinstance(result, Verdict)
    assert result.metric == metric
    return {pin.slot.partition(":")[0]: (pin.figure.value, pin.figure.origin) for pin in result.pins}


# ------------------------------------------------------------------------------------------------------ the definition


def test_an_entry_stands_until_the_first_supersession_of_it() -> None:
    standing = Standing({"a": 5})
    assert standing.stands("b")
    assert not standing.stands("a")
    assert [standing.stands("a", at=at) for at in (4, 5, 6)] == [True, True, False]
    assert standing.gone() == {"a"}
    assert [set(standing.gone(at=at)) for at in (5, 6)] == [set(), {"a"}]


def test_everything_counts_alike_up_to_the_next_supersession() -> None:
    turns = Standing({"a": 5, "b": 9, "c": 9}).turns()
    assert [turns.after(at) for at in (0, 5, 6, 9, 10)] == [5, 5, 9, 9, None]


def test_a_second_supersession_changes_nothing_and_one_that_was_taken_back_says_nothing() -> None:
    builder, names = house_ledger()
    assert read_standing(verified(builder)).since == {}
    first = len(builder.lines)
    take_back(builder, names["frontier"])
    take_back(builder, names["frontier"])
    assert read_standing(verified(builder)).since == {names["frontier"]: first}
    from_ = {"revoked_from": first, "reason": "stolen"}
    builder.add("key", key_body(JUDGE, "judge", "revoke", **from_), ROOT)
    assert read_standing(verified(builder)).since == {}


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("one", "other", "after"),
    [
        (Moment(6, NOW), Moment(5, NOW + timedelta(days=1)), True),  # a claimed time never wins over a position
        (Moment(5, NOW + timedelta(days=1)), Moment(6, NOW), False),
        (Moment(5, NOW), Moment(5, NOW), False),
        (Moment(None, NOW + timedelta(seconds=1)), Moment(5, NOW), True),
        (Moment(5, NOW), Moment(None, NOW), False),
        (Moment(5, None), Moment(None, NOW), False),
        (Moment(None, NOW), Moment(5, None), False),
    ],
)
def test_position_decides_and_a_claimed_time_only_where_there_is_none(one: Moment, other: Moment, after: bool) -> None:
    assert one.is_after(other) is after


def test_two_moments_that_are_one() -> None:
    for moment in (Moment(5, NOW), Moment(5), Moment(None, NOW)):
        assert not moment.is_after(moment)
        assert moment.is_after(moment, or_same=True)
    assert not Moment().is_after(Moment(), or_same=True)


# ------------------------------------------------------------------------------------------- what no longer counts


def test_a_superseded_frontier_or_reference_is_held_against_nobody() -> None:
    for name, role in (("frontier", "frontier"), ("reference", "reference")):
        builder, names = house_ledger()
        builder.lines.pop()
        take_back(builder, names[name])
        builder.add("run", receipt(60.0), RUNNER)
        pins = pins_of(builder)
        if role == "reference":
            assert role not in pins
        else:
            assert pins[role] == (50, "pin"), "the pin stands on its own until it is superseded"
        same(builder, HOUSE)


def test_a_frontier_that_is_superseded_later_is_held_against_nobody_by_now() -> None:
    builder, names = house_ledger()
    for name in ("frontier", DECODE):
        take_back(builder, builder_identity(builder, names, name))
    assert pins_of(builder)["frontier"][0] == 0
    same(builder, HOUSE)


def builder_identity(builder: Builder, names: dict[str, str], name: str) -> str:
    """Identity of an entry of the house ledger; the pins of it by their track."""
    import hashlib

    places = {DECODE: 6, PREFILL: 7}
    return names[name] if name not in places else hashlib.sha256(builder.lines[places[name]][9:-99]).hexdigest()


def test_an_older_frontier_of_the_round_counts_again_when_the_newer_is_superseded() -> None:
    builder, _ = house_ledger()
    builder.lines.pop()
    newer = builder.add("run", receipt(55.0, role="frontier"), RUNNER)
    builder.add("run", receipt(60.0), RUNNER)
    assert pins_of(builder)["frontier"] == (55, "receipt")
    take_back(builder, newer)
    assert pins_of(builder)["frontier"] == (50, "receipt")
    same(builder, HOUSE)


def test_a_superseded_pin_gives_way_to_the_one_before() -> None:
    builder, names = house_ledger()
    higher = builder.add("run", receipt(70.0, role="frontier", round_="r2"), RUNNER)
    pin = builder.add("pin", pin_body(FRONTIER, "70", higher), JUDGE)
    builder.add("run", receipt(80.0, round_=None), RUNNER)
    assert pins_of(builder)["frontier"] == (70, "pin")
    take_back(builder, pin)
    material = gather(verified(builder))
    assert material.pins[FRONTIER].value == 50
    assert [record.value for record in material.pin_entries] == [50, 450]
    assert pins_of(builder)["frontier"] == (50, "pin")
    same(builder, HOUSE)
    assert names["frontier"] == material.pins[FRONTIER].source


def test_a_superseded_merge_rule_or_verdict_says_nothing() -> None:
    builder, _ = house_ledger()
    merge = builder.add("merge", MERGE, JUDGE)
    strict = replace(HOUSE, name="strict")
    rule = builder.add("rule", rule_body(strict), JUDGE)
    builder.add("run", receipt(80.0), RUNNER)
    before = gather(verified(builder))
    assert (len(before.merges), [one.name for one in before.candidates[-1].rules]) == (1, ["strict"])
    (verdict, *_) = seal(builder, strict)
    assert [one.published for one in gather(verified(builder)).candidates][::2] == ["XL", "XL"]
    for identity in (merge, rule, verdict):
        take_back(builder, identity)
    after = gather(verified(builder))
    assert (after.merges, after.rules, after.candidates[-1].rules) == ([], [], ())
    assert [one.published for one in after.candidates][::2] == [None, "XL"]
    assert len(after.verdicts) == 1
    assert settled(builder).exit_code is ExitCode.VERIFIED, "the other verdict can still be derived"


def test_what_cannot_be_read_hinders_nobody_once_it_is_superseded() -> None:
    strict = replace(HOUSE, name="strict")
    wrong = {**rule_body(strict), "rule_sha256": "0" * 64}
    for kind, body in (("pin", pin_body(FRONTIER, "0", "")), ("rule", wrong)):
        builder, names = house_ledger()
        bad = builder.add(kind, body if kind == "rule" else body | {"source": names["frontier"]}, JUDGE)
        seal_after = len(builder.lines)
        with pytest.raises(RescoreError):
            gather(verified(builder))
        assert Code.JUDGEMENT_UNREADABLE in codes(builder)
        take_back(builder, bad)
        assert seal(builder)
        assert settled(builder).exit_code is ExitCode.VERIFIED
        assert sweep(verified(builder), HOUSE).changes == {"unchanged": 1}
        gather(verified(builder), at=seal_after)  # nor as of a position where it still stood


# ------------------------------------------------------------------------------------------------ where it was sealed


def test_a_run_that_is_superseded_later_makes_no_earlier_verdict_false() -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:4]
    first = builder.add("run", receipt(60.0, round_=None), RUNNER)
    builder.add("run", receipt(70.0, round_=None), RUNNER)
    assert len(seal(builder)) == 2
    assert settled(builder).exit_code is ExitCode.VERIFIED
    take_back(builder, first)
    assert settled(builder).findings == ()
    builder.add("run", receipt(80.0, round_=None), RUNNER)
    seal(builder)
    assert settled(builder).findings == (), "of what was judged before and after"


@pytest.mark.parametrize("name", ["frontier", "reference", DECODE])
def test_no_supersession_of_what_a_verdict_rests_on_makes_it_false(name: str) -> None:
    builder, names = house_ledger()
    seal(builder)
    take_back(builder, builder_identity(builder, names, name))
    assert Code.VERDICT_PIN not in codes(builder)
    assert Code.VERDICT_MISMATCH not in codes(builder)


@pytest.mark.parametrize("name", ["frontier", "reference", DECODE, PREFILL])
def test_a_verdict_that_ignores_an_earlier_supersession_is_false(name: str) -> None:
    builder, names = house_ledger()
    (body,) = list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE)))
    take_back(builder, builder_identity(builder, names, name))
    builder.add("verdict", body, JUDGE)
    found = [code for code in codes(builder) if code in {Code.VERDICT_PIN, Code.VERDICT_MISMATCH}]
    assert bool(found) is (name != DECODE), "the pin of decode was not what it was held against"


# ------------------------------------------------------------------------------------------------ what is comparable


def timed_otherwise(speed: float, role: str = "candidate", **change: Any) -> dict[str, Any]:
    body = receipt(speed, role=role, round_="r1" if role == "candidate" else "r2")
    return {**body, "timing": [{**one, **change} if one["metric"] == "decode" else one for one in body["timing"]]}


@pytest.mark.parametrize(
    ("change", "tier"),
    [
        ({"unit": "byte"}, "not scorable"),
        ({"batch": 2}, "not scorable"),
        ({"processes": 8}, "BASELINE"),
        ({"cache": "cold"}, "BASELINE"),
    ],
)
def test_what_was_measured_otherwise_is_never_held_against_the_frontier(change: dict[str, Any], tier: str) -> None:
    builder, _ = house_ledger()
    builder.add("run", timed_otherwise(70.0, **change), RUNNER)
    found = same(builder, HOUSE).tiers
    assert found == {"XL": 1, tier: 1, "not scorable": 2} if tier == "BASELINE" else {"XL": 1, "not scorable": 3}
    seal(builder)
    assert settled(builder).findings == ()


@pytest.mark.parametrize("change", [{"unit": "byte"}, {"batch": 2}, {"processes": 8}, {"cache": "cold"}])
def test_a_frontier_that_was_measured_otherwise_is_nobodys(change: dict[str, Any]) -> None:
    builder, _ = house_ledger()
    builder.add("run", timed_otherwise(90.0, "frontier", **change), RUNNER)
    builder.add("run", receipt(60.0, round_="r2"), RUNNER)
    assert pins_of(builder)["frontier"] == (50, "pin")
    same(builder, HOUSE)


def test_a_verdict_on_one_context_is_not_derived_from_another_of_the_same_run() -> None:
    builder, _ = house_ledger()
    body = receipt(61.0)
    short = [{**one, "context": 16, "context_filled": 16} for one in body["timing"] if one["metric"] == "decode"]
    batch = [{**one, "batch": 64} for one in body["timing"] if one["metric"] == "decode"]
    builder.add("run", {**body, "timing": [*short, *batch, *body["timing"]]}, RUNNER)
    assert len(seal(builder)) == 2
    assert settled(builder).findings == ()
    same(builder, HOUSE)


# ------------------------------------------------------------------------------------------------ what was published


def test_only_a_rule_that_is_known_publishes_anything() -> None:
    builder, _ = house_ledger()
    (body,) = list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE)))
    unknown: dict[str, Any] = {**body, "rule_sha256": "0" * 64, "tier": "REJECT"}
    builder.add("verdict", unknown, JUDGE)
    assert gather(verified(builder)).candidates[0].published is None
    assert sweep(verified(builder), HOUSE).changes == {"not-comparable": 1}
    builder.add("verdict", body, JUDGE)
    assert gather(verified(builder)).candidates[0].published == "XL"
    assert sweep(verified(builder), HOUSE).changes == {"unchanged": 1}


def test_a_rule_that_the_ledger_published_is_known_and_its_first_verdict_stays() -> None:
    builder, _ = house_ledger()
    bars = (("XL", Fraction("0.3")), *HOUSE.tiers.steps[1:])
    strict = replace(HOUSE, name="strict", tiers=replace(HOUSE.tiers, steps=bars))
    builder.add("rule", rule_body(strict), JUDGE)
    (first,) = seal(builder, strict)
    seal(builder)
    assert gather(verified(builder)).candidates[0].published == "L"
    assert sweep(verified(builder), HOUSE).changes == {"higher": 1}
    take_back(builder, first)
    assert gather(verified(builder)).candidates[0].published == "XL"
    assert sweep(verified(builder), HOUSE).changes == {"unchanged": 1}


# ------------------------------------------------------------------------------------------- one metric, two contexts


CEILING = Ceiling(Fraction(2), ("decode",), "own-best")
NEAR = replace(HOUSE, name="house-near", scope=replace(HOUSE.scope, context=64))
"""A rule of the ledger's own for the same metric at another context."""


def two_contexts(near: float, far: float, role: str = "candidate") -> dict[str, Any]:
    body = receipt(far, role=role)
    return body | {"timing": timed("decode", near, context=64) + body["timing"]}


def ledger_of_two_contexts(near: float, far: float, *rules: Rule) -> tuple[Builder, str]:
    """A frontier of 100 near and 50 far, one candidate, and what these rules say of it, in this order."""
    builder = Builder().open()
    frontier = builder.add("run", two_contexts(100.0, 50.0, "frontier"), RUNNER)
    builder.add("pin", pin_body(f"frontier:{PREFILL}", "450", frontier), JUDGE)
    builder.add("rule", rule_body(NEAR), JUDGE)
    candidate = builder.add("run", two_contexts(near, far), RUNNER)
    for rule in rules:
        for body in new_verdicts(rescore(gather(verified(builder)).candidates, rule)):
            builder.add("verdict", body, JUDGE)
    return builder, candidate


def published(builder: Builder) -> dict[int | None, str | None]:
    """What is published of decode, by context."""
    found = gather(verified(builder)).candidates
    return {one.run.track.context: one.published for one in found if one.run.track.metric == "decode"}


@pytest.mark.parametrize(
    ("near", "far", "tiers"),
    [(120.0, 300.0, {64: "XL", 131_072: "REJECT"}), (300.0, 60.0, {64: "REJECT", 131_072: "XL"})],
)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_verdict_counts_for_the_context_that_its_rule_scores(
    near: float, far: float, tiers: dict[int | None, str], reverse: bool
) -> None:
    """Both runs are refused at one context, above the ceiling: whatever was sealed first is of no other."""
    rules = [replace(HOUSE, ceiling=CEILING), replace(NEAR, ceiling=CEILING)]
    builder, _ = ledger_of_two_contexts(near, far)
    for rule in rules:
        builder.add("rule", rule_body(replace(rule, name=f"{rule.name}-capped")), JUDGE)
    for rule in reversed(rules) if reverse else rules:
        for body in new_verdicts(rescore(gather(verified(builder)).candidates, rule)):
            builder.add("verdict", body, JUDGE)
    assert published(builder) == tiers
    for rule in rules:
        report = rescore(gather(verified(builder)).candidates, rule)
        (row,) = [row for row in report.rows if row.change != "not-scorable"]
        assert (row.before, row.change) == (tiers[rule.scope.context], "unchanged")
        assert same(builder, rule).changes == {"unchanged": 1}


def test_a_verdict_on_one_context_leaves_the_other_unpublished() -> None:
    builder, _ = ledger_of_two_contexts(120.0, 60.0, NEAR)
    assert published(builder) == {64: "XL", 131_072: None}
    report = rescore(gather(verified(builder)).candidates, HOUSE)
    assert [row.change for row in report.rows if row.change != "not-scorable"] == ["first"]
    assert same(builder, HOUSE).changes == {"first": 1}
    assert same(builder, NEAR).changes == {"unchanged": 1}


def test_nobody_hides_behind_a_verdict_on_another_context() -> None:
    """Not judged where it lies, a run is asked for its clock there, however well it did elsewhere."""
    builder, candidate = ledger_of_two_contexts(120.0, 60.0)
    body = two_contexts(120.0, 60.0)
    body["timing"] = [one for one in body["timing"] if one["metric"] != "prefill"]
    body["timing"][2] = timed("decode", 150.0, context=131_072)[0]
    liar = builder.add("run", body | {"bundle": "d" * 64}, RUNNER)
    before = {one.run.track.context: one.voided for one in gather(verified(builder)).candidates if one.identity == liar}
    for verdict in new_verdicts(rescore(gather(verified(builder)).candidates, NEAR)):
        builder.add("verdict", verdict, JUDGE)
    after = {one.run.track.context: one.voided for one in gather(verified(builder)).candidates if one.identity == liar}
    assert before == after
    assert after[131_072] == REFUTED
    assert after[64] == ""
    assert candidate != liar
