"""What stood where a verdict was sealed and was taken back since makes no honest judge a liar, and no liar honest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.reach import Reach, reach_as_sealed, reach_of
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.spans import HEAD
from k3_ledger.rescore.standing import Standing, read_standing
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, Key, key_body
from tests.rescore.receipts import DECODE, house_ledger, parity, pin_body, receipt, timed, verified
from tests.rescore.test_deriving import histories
from tests.rescore.test_standing import seal
from tests.rescore.test_unjudged import THREE

if TYPE_CHECKING:
    from k3_ledger.verify.report import Report

THIEF, SECOND = Key("thief"), Key("second")
ABOUT_VERDICTS = frozenset(
    {Code.VERDICT_MISMATCH, Code.VERDICT_PIN, Code.JUDGEMENT_DISOWNED, Code.VERDICT_OLDER_READING}
)


def round_with_strangers() -> tuple[Builder, dict[str, str]]:
    """The house ledger without its candidate; two more keys may sign, the one as a judge and the other as a runner."""
    builder, names = house_ledger()
    builder.lines.pop()
    builder.add("key", key_body(THIEF, "judge", "enrol"), ROOT)
    builder.add("key", key_body(SECOND, "runner", "enrol"), ROOT)
    builder.add("rule", rule_body(THREE), JUDGE)
    return builder, names


def take_back(builder: Builder, key: Key, since: int) -> int:
    role = "judge" if key is THIEF else "runner"
    builder.add("key", key_body(key, role, "revoke", revoked_from=since, reason="stolen"), ROOT)
    return len(builder.lines) - 1


def supersede(builder: Builder, identity: str, key: Key) -> int:
    builder.add("supersede", {"target": identity, "reason": "bad", "replacement": None}, key)
    return len(builder.lines) - 1


def settled(builder: Builder) -> Report:
    return settle_judgements(verified(builder))


def about_verdicts(builder: Builder) -> list[tuple[Code, int | None]]:
    return [(one.code, one.position.index) for one in settled(builder).findings if one.code in ABOUT_VERDICTS]


def thief_supersedes(builder: Builder, names: dict[str, str]) -> tuple[Key, int]:
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    return THIEF, supersede(builder, names["frontier"], THIEF)


def of_decode(speed: float, **more: Any) -> dict[str, Any]:
    return receipt(speed, role="frontier", timing=timed("decode", speed, context=131_072), **more)


def second_measures(builder: Builder, names: dict[str, str]) -> tuple[Key, int]:
    """A frontier build that only the divergence of the round is taken from: its speed is below what is pinned."""
    builder.add("run", of_decode(49.0, parity=parity("0.001")), SECOND)
    at = len(builder.lines) - 1
    builder.add("run", receipt(60.0, 500.0, parity=parity("0.004")), RUNNER)
    return SECOND, at


def second_measures_well(builder: Builder, names: dict[str, str]) -> tuple[Key, int]:
    """The same in a round of its own: what is left has no evidence for the ratchet."""
    builder.add("run", of_decode(49.0, round_="r2"), SECOND)
    at = len(builder.lines) - 1
    builder.add("run", receipt(60.0, 500.0, round_="r2"), RUNNER)
    return SECOND, at


ways = pytest.mark.parametrize(
    "way", [thief_supersedes, second_measures, second_measures_well], ids=lambda way: way.__name__
)


@ways
def test_who_judged_by_what_stood_there_is_accused_of_nothing(way: Any) -> None:
    builder, names = round_with_strangers()
    key, since = way(builder, names)
    assert seal(builder, THREE)
    at = len(builder.lines) - 1
    before = settled(builder)
    assert (before.exit_code, about_verdicts(builder)) == (ExitCode.VERIFIED, [])
    take_back(builder, key, since)
    report = settled(builder)
    assert about_verdicts(builder) == [(Code.JUDGEMENT_DISOWNED, at)]
    assert report.exit_code is ExitCode.VERIFIED
    (step,) = [step for step in report.steps if step.name == "verdicts"]
    assert (step.outcome, step.not_checked) == (Outcome.NOT_CHECKED, 1), "derived again from what is left it was not"


@ways
@pytest.mark.parametrize("change", [{"tier": "S"}, {"bound_by": "cap"}, {"not_checked": ["suite"]}, {"metric": "load"}])
def test_what_did_not_follow_there_either_is_false(way: Any, change: dict[str, Any]) -> None:
    builder, names = round_with_strangers()
    key, since = way(builder, names)
    (*_, body) = new_verdicts(rescore(gather(verified(builder)).candidates, THREE))
    builder.add("verdict", {**body, **change}, JUDGE)
    take_back(builder, key, since)
    assert [code for code, _ in about_verdicts(builder)] == [Code.VERDICT_MISMATCH]
    assert settled(builder).exit_code is ExitCode.FALSE


@ways
def test_who_judges_after_the_revocation_judges_by_what_is_left(way: Any) -> None:
    builder, names = round_with_strangers()
    key, since = way(builder, names)
    (*_, stood) = new_verdicts(rescore(gather(verified(builder)).candidates, THREE))
    take_back(builder, key, since)
    (*_, left) = new_verdicts(rescore(gather(verified(builder)).candidates, THREE))
    assert stood != left
    for body, expected in ((left, []), (stood, [Code.VERDICT_MISMATCH])):
        other = Builder(lines=[*builder.lines])
        other.add("verdict", body, JUDGE)
        assert [code for code, _ in about_verdicts(other)] == expected


@pytest.mark.parametrize(
    ("value", "slot", "gone", "code"),
    [
        ("61", f"frontier:{DECODE}", False, Code.JUDGEMENT_DISOWNED),
        ("62", f"frontier:{DECODE}", False, Code.PIN_HAND_EDITED),
        ("61", f"reference:{DECODE}", False, Code.PIN_HAND_EDITED),
        ("61", "frontier:decode@4/k3-slice/bf16/node", False, Code.PIN_HAND_EDITED),
        ("61", f"frontier:{DECODE}", True, Code.PIN_UNSOURCED),
    ],
)
def test_a_pin_that_was_false_before_its_source_was_taken_back_is_false_behind_it(
    value: str, slot: str, gone: bool, code: Code
) -> None:
    builder, _ = round_with_strangers()
    source = builder.add("run", receipt(61.0, 461.0, role="frontier", round_="r3"), SECOND)
    since = len(builder.lines) - 1
    if gone:
        supersede(builder, source, JUDGE)
    builder.add("pin", pin_body(slot, value, source), JUDGE)
    before = [] if code is Code.JUDGEMENT_DISOWNED else [code]
    assert [one.code for one in settled(builder).findings] == before
    take_back(builder, SECOND, since)
    report = settled(builder)
    assert [one.code for one in report.findings if one.position.index != since] == [code]
    assert report.exit_code is (ExitCode.FALSE if before else ExitCode.VERIFIED)
    (step,) = [step for step in report.steps if step.name == "pins"]
    assert step.outcome is (Outcome.FAIL if before else Outcome.NOT_CHECKED)


def test_a_pin_that_rose_from_what_stood_there_was_not_lowered() -> None:
    builder, _ = round_with_strangers()
    slower = builder.add("run", receipt(48.0, 451.0, role="frontier", round_="r3"), RUNNER)
    since = supersede(builder, identity_at(builder, 6), THIEF)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "48", slower), JUDGE)
    assert settled(builder).findings == ()
    revoked = take_back(builder, THIEF, since)
    codes = [one.code for one in settled(builder).findings if one.code in {Code.PIN_LOWERED, Code.JUDGEMENT_DISOWNED}]
    assert codes == [Code.JUDGEMENT_DISOWNED]
    assert settled(builder).exit_code is ExitCode.VERIFIED
    builder.add("pin", pin_body(f"frontier:{DECODE}", "48", slower), JUDGE)
    assert len(builder.lines) - 1 > revoked
    codes = [one.code for one in settled(builder).findings if one.code is Code.PIN_LOWERED]
    assert codes == [Code.PIN_LOWERED], "who pins after the revocation sees the higher one"


def identity_at(builder: Builder, index: int) -> str:
    import hashlib

    return hashlib.sha256(builder.lines[index][9:-99]).hexdigest()


def test_where_an_entry_counts_for_nothing() -> None:
    builder, names = round_with_strangers()
    since = supersede(builder, names["frontier"], THIEF)
    thiefs = identity_at(builder, since)
    revoked = take_back(builder, THIEF, since)
    own = supersede(builder, names["reference"], JUDGE)
    log = verified(builder)
    standing = read_standing(log)
    assert standing.since == {names["reference"]: own}
    reach = reach_as_sealed(log, standing)
    assert reach.gaps == {
        names["reference"]: ((own, HEAD),), names["frontier"]: ((since, revoked),), thiefs: ((revoked, HEAD),),
    }  # fmt: skip
    assert reach.read == {since}
    assert reach.turns().positions == (since, revoked, own)
    assert [reach.stood(names["frontier"], at) for at in (since, since + 1, revoked, revoked + 1)] == [
        True,
        False,
        False,
        True,
    ]
    assert [reach.until(one) for one in (names["reference"], names["frontier"], "f" * 64)] == [own, HEAD, HEAD]
    assert reach_of(standing) == Reach({names["reference"]: ((own, HEAD),)})


def test_an_entry_is_gone_from_the_revocation_on_that_took_it_back_and_not_from_one_that_did_not() -> None:
    builder, names = round_with_strangers()
    since = supersede(builder, names["frontier"], THIEF)
    take_back(builder, THIEF, len(builder.lines))
    revoked = take_back(builder, THIEF, since)
    take_back(builder, THIEF, since)
    log = verified(builder)
    assert log.disowned == {since}
    assert reach_as_sealed(log, read_standing(log)).gaps[names["frontier"]] == ((since, revoked),)


def test_what_two_superseded_is_gone_until_both_are_taken_back() -> None:
    builder, names = round_with_strangers()
    first = supersede(builder, names["frontier"], THIEF)
    supersede(builder, names["frontier"], THIEF)
    revoked = take_back(builder, THIEF, first)
    reach = reach_as_sealed(verified(builder), Standing())
    assert reach.gaps[names["frontier"]] == ((first, revoked),)
    own = supersede(builder, names["frontier"], JUDGE)
    log = verified(builder)
    assert reach_as_sealed(log, read_standing(log)).gaps[names["frontier"]] == ((first, revoked), (own, HEAD))


def test_what_a_key_signed_behind_its_revocation_was_never_anybodys() -> None:
    """The control: a revocation from its own position on takes nothing back."""
    builder, names = round_with_strangers()
    thief_supersedes(builder, names)
    seal(builder, THREE)
    take_back(builder, THIEF, len(builder.lines))
    assert about_verdicts(builder) == []


def test_what_keys_of_a_stolen_root_signed_stood_there_too() -> None:
    """They were never enrolled, as the log says now, and no revocation names them."""
    builder, names = house_ledger()
    builder.lines.pop()
    stolen = Key("stolen-root")
    builder.add("key", key_body(stolen, "root", "enrol"), ROOT)
    since = len(builder.lines)
    builder.add("key", key_body(SECOND, "runner", "enrol"), stolen)
    builder.add("rule", rule_body(THREE), JUDGE)
    _, at = second_measures(builder, names)
    seal(builder, THREE)
    judged = len(builder.lines) - 1
    assert about_verdicts(builder) == []
    builder.add("key", key_body(stolen, "root", "revoke", revoked_from=since, reason="stolen"), ROOT)
    log = verified(builder)
    assert log.disowned == {since, at} == reach_as_sealed(log, Standing()).read
    assert about_verdicts(builder) == [(Code.JUDGEMENT_DISOWNED, judged)]
    assert settled(builder).exit_code is ExitCode.VERIFIED


def test_a_pin_that_was_taken_back_was_of_the_weights_of_its_source() -> None:
    """The verdict names nothing of the thief's: his pin is below the frontier run that it names."""
    builder, names = round_with_strangers()
    slower = builder.add("run", of_decode(48.0, round_="r9"), RUNNER)
    since = supersede(builder, names[DECODE], THIEF)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "48", slower), THIEF)
    supersede(builder, names["frontier"], THIEF)
    builder.add("run", of_decode(49.0), RUNNER)
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    assert seal(builder, THREE)
    at = len(builder.lines) - 1
    assert about_verdicts(builder) == []
    take_back(builder, THIEF, since)
    assert about_verdicts(builder) == [(Code.JUDGEMENT_DISOWNED, at)]


def test_a_name_that_was_taken_back_was_one_of_its_rule() -> None:
    """A copy of a registered rule under a second name: whoever sealed by that name was free to."""
    builder, _ = round_with_strangers()
    since = len(builder.lines)
    copy = replace(find_rule("house-6.decode"), name="mine")
    builder.add("rule", rule_body(copy), THIEF)
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    assert seal(builder, copy)
    at = len(builder.lines) - 1
    assert about_verdicts(builder) == []
    take_back(builder, THIEF, since)
    assert about_verdicts(builder) == [(Code.JUDGEMENT_DISOWNED, at)]


def test_a_pin_below_one_that_did_stand_there_is_lowered_whatever_stands_again() -> None:
    builder, names = round_with_strangers()
    runs = [builder.add("run", of_decode(speed, round_="r9"), RUNNER) for speed in (49.0, 48.0)]
    since = supersede(builder, names[DECODE], THIEF)
    for value, run in zip(("49", "48"), runs, strict=True):
        builder.add("pin", pin_body(f"frontier:{DECODE}", value, run), JUDGE)
    at = len(builder.lines) - 1

    def about_pins() -> dict[int | None, Code]:
        told = {Code.PIN_LOWERED, Code.JUDGEMENT_DISOWNED}
        return {one.position.index: one.code for one in settled(builder).findings if one.code in told}

    assert about_pins() == {at: Code.PIN_LOWERED}
    take_back(builder, THIEF, since)
    assert about_pins() == {at - 1: Code.JUDGEMENT_DISOWNED, at: Code.PIN_LOWERED}
    assert settled(builder).exit_code is ExitCode.FALSE


def test_nothing_is_read_of_what_was_taken_back_where_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = round_with_strangers()
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    seal(builder, THREE)
    builder.add("run", of_decode(47.0, round_="r9"), SECOND)
    take_back(builder, SECOND, len(builder.lines) - 1)
    monkeypatch.setattr("k3_ledger.rescore.judgements.reach_as_sealed", None)
    assert about_verdicts(builder) == []


def judged_by_what_is_named() -> tuple[Builder, int, dict[str, Any]]:
    """A verdict that names a frontier run of the second runner's; where that stands; its body."""
    builder, _ = round_with_strangers()
    since = len(builder.lines)
    builder.add("run", of_decode(51.0), SECOND)
    builder.add("run", receipt(60.0, 500.0), RUNNER)
    (*_, body) = new_verdicts(rescore(gather(verified(builder)).candidates, THREE))
    assert identity_at(builder, since) in {pin["entry"] for pin in body["pins"]}
    return builder, since, body


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, Code.JUDGEMENT_DISOWNED),
        ({"tier": "XXL"}, Code.VERDICT_MISMATCH),
        ({"steps": []}, Code.VERDICT_MISMATCH),
        ({"metric": "load"}, Code.VERDICT_MISMATCH),
    ],
    ids=str,
)
def test_a_verdict_that_names_what_was_taken_back_is_derived_all_the_same(change: Any, expected: Code) -> None:
    """Or a false one would be nobody's lie once any entry that it names was taken back."""
    builder, since, body = judged_by_what_is_named()
    builder.add("verdict", {**body, **change}, JUDGE)
    at = len(builder.lines) - 1
    assert about_verdicts(builder) == ([(Code.VERDICT_MISMATCH, at)] if change else [])
    take_back(builder, SECOND, since)
    assert about_verdicts(builder) == [(expected, at)]
    told = [one.message for one in settled(builder).findings if one.position.index == at]
    assert bool(change) or told == [f"the verdict rests on entry {since}, which was taken back later"]


def test_whoever_names_what_was_taken_back_before_is_not_excused() -> None:
    builder, since, body = judged_by_what_is_named()
    take_back(builder, SECOND, since)
    builder.add("verdict", body, JUDGE)
    assert [code for code, _ in about_verdicts(builder)] == [Code.VERDICT_PIN]


def test_a_verdict_on_a_run_that_was_taken_back_is_derived_too() -> None:
    for change, expected in (({}, Code.JUDGEMENT_DISOWNED), ({"tier": "S"}, Code.VERDICT_MISMATCH)):
        builder, _ = round_with_strangers()
        since = len(builder.lines)
        builder.add("run", receipt(60.0, 500.0), SECOND)
        (*_, body) = new_verdicts(rescore(gather(verified(builder)).candidates, THREE))
        builder.add("verdict", {**body, **change}, JUDGE)
        take_back(builder, SECOND, since)
        assert [code for code, _ in about_verdicts(builder)] == [expected]


@settings(max_examples=40, deadline=None)
@given(histories())
def test_a_verdict_follows_where_it_was_sealed_as_the_log_up_to_there_says(builder: Builder) -> None:
    """The log in front of the revocation is the oracle: what followed there is never false, and what did not, is."""
    log = verified(builder)
    revoked = [
        entry.index
        for entry in log.select(b'"kind":"key"')
        if entry.entry.body.action == "revoke"  # type: ignore[union-attr]
    ]
    earlier = verified(Builder(lines=builder.lines[: revoked[0]])) if revoked else log
    then = {one.position.index for one in settle_judgements(earlier).findings if one.code.info.exit}
    now = settle_judgements(log).findings
    false = {one.position.index for one in now if one.code.info.exit}
    open_ = {one.position.index for one in now if one.code is Code.JUDGEMENT_DISOWNED}
    assert false <= then
    pins = {one.position.index for one in now if one.message.startswith("the pin rests on entry")}
    assert not (open_ - pins) & then
