"""Verdicts are derived again in one pass, and come to what a pass for each of them would."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore import deriving
from k3_ledger.rescore.judgements import check_verdicts, read_judgements, settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import Judge, rescore
from k3_ledger.rescore.rules.parameters import Ceiling, Credit
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.spans import HEAD, Asked, ForgottenError, Gone, Spans
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, LOG, RUNNER, Builder, key_body
from tests.reference import naive_verdicts
from tests.rescore.receipts import DECODE, MODEL, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_sweep import bodies

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedLog

HOUSE = find_rule("house-1.decode")
OPEN = replace(
    HOUSE, name="open", ratchet=None, guard=None, sampling=None, clock=None,
    ceiling=Ceiling(Fraction(2), ("decode",), "own-best"), credit=Credit(Fraction(1), anchor=False),
)  # fmt: skip
BORNE_OUT = replace(OPEN, name="borne-out", arithmetic="measured-gain/5", clock=HOUSE.clock)
"""One whose frontier is the greatest of all that stood."""
WEIGHED = replace(OPEN, name="weighed", arithmetic="measured-gain/6", ratchet=HOUSE.ratchet)
"""One whose frontier is that of a run's own weights."""
RULES = {rule.sha256: rule for rule in (HOUSE, OPEN, BORNE_OUT, WEIGHED)}


def take_back(builder: Builder, identity: str) -> None:
    builder.add("supersede", {"target": identity, "reason": "bad build", "replacement": None}, JUDGE)


def seal(builder: Builder, rule: Rule) -> list[str]:
    rows = rescore(gather(verified(builder)).candidates, rule)
    return [builder.add("verdict", body, JUDGE) for body in new_verdicts(rows)]


def derived(log: VerifiedLog) -> dict[int, Finding | str | None]:
    """What became of each verdict; those that follow are not named by the check itself."""
    material = read_judgements(log)
    wrong: dict[int, Finding | str | None] = {}
    good = 0
    for finding in check_verdicts(log, material, {}):
        if finding is None:
            good += 1
        else:
            assert finding.position.index is not None
            assert finding.position.index not in wrong, "each is derived once"
            wrong[finding.position.index] = finding
    follow = [index for index, body in gather(log).verdicts if body.rule_sha256 in RULES and index not in wrong]
    assert len(follow) == good
    return wrong | dict.fromkeys(follow)


def same(builder: Builder) -> dict[int, Finding | str | None]:
    log = verified(builder)
    found = derived(log)
    for index, expected in naive_verdicts.derive(log, RULES).items():
        mine = found.pop(index)
        if expected == "no such run":
            assert mine is not None
            assert not isinstance(mine, str)
            assert "holds no run" in mine.message
        else:
            assert mine == expected
    assert found == {}
    return derived(log)


def imported(speed: str) -> dict[str, Any]:
    artifact = {"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}
    return {
        "format": "polaris/1", "foreign_id": "x", "original_sha256": "d" * 64, "attestation": "none", "findings": [],
        "fields": [{"name": "ledger.tps", "value": speed}], "artifacts": [artifact],
    }  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> Builder:
    """Runs, pins and verdicts, honest and not, with supersessions of all of them in between."""
    builder = Builder().open()
    builder.add("rule", rule_body(OPEN), JUDGE)
    builder.add("rule", rule_body(BORNE_OUT), JUDGE)
    builder.add("rule", rule_body(WEIGHED), JUDGE)
    named: list[str] = []
    for _ in range(draw(st.integers(3, 12))):
        what = draw(st.integers(0, 9))
        if what == 0 and named:
            slot = draw(st.sampled_from([f"frontier:{DECODE}", f"reference:{DECODE}", f"guard:{PREFILL}"]))
            source = draw(st.sampled_from(named))
            named.append(builder.add("pin", pin_body(slot, draw(st.sampled_from(["50", "450"])), source), JUDGE))
        elif what <= 2 and named:
            take_back(builder, draw(st.sampled_from(named)))
        elif what <= 4 and named:
            rule = draw(st.sampled_from([HOUSE, OPEN, BORNE_OUT, WEIGHED]))
            for body in list(new_verdicts(rescore(gather(verified(builder)).candidates, rule)))[-3:]:
                change = draw(st.sampled_from([{}, {}, {}, {"tier": "L"}, {"metric": "other"}, {"target": named[0]}]))
                named.append(builder.add("verdict", {**body, **change}, JUDGE))
        elif what == 5:
            named.append(builder.add("import", imported(draw(st.sampled_from(["5", "60"]))), LOG))
        elif what <= 7:
            speed = draw(st.sampled_from([49.0, 50.0, 60.0, 70.0, 125.0]))
            role = draw(st.sampled_from(["candidate", "candidate", "frontier"]))
            body = receipt(speed, 460.0, role=role, round_=draw(st.sampled_from(["r1", None])))
            body["model"] = draw(st.sampled_from([MODEL, MODEL, {**MODEL, "sha256": "f" * 64}]))
            named.append(builder.add("run", body, RUNNER))
        else:
            named.append(builder.add("run", draw(bodies()), RUNNER))
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(5, len(builder.lines)))
        builder.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=at), builder.root)
    return builder


@settings(max_examples=60)
@given(histories(), st.sampled_from([(1, 1), (2, 1), (10_000, 10_000)]))
def test_one_pass_derives_what_a_pass_for_each_verdict_does(builder: Builder, bounds: tuple[int, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deriving, "AHEAD", bounds[0])
        patch.setattr(deriving, "KEPT_ROUNDS", bounds[1])
        same(builder)


def judged_between(count: int, *, climbs: bool) -> Builder:
    """Runs without a round, then verdicts, and after each of these one more run is taken back."""
    builder = Builder().open()
    builder.add("rule", rule_body(OPEN), JUDGE)
    speeds = [50.0 + (number if climbs else -number) / 100 for number in range(count)]
    runs = [builder.add("run", receipt(speed, 450.0, round_=None), RUNNER) for speed in speeds]
    (*_, last) = new_verdicts(rescore(gather(verified(builder)).candidates, OPEN))
    for run in runs[:-1]:
        builder.add("verdict", last, JUDGE)
        take_back(builder, run)
    return builder


def judged_on_the_way(count: int) -> Builder:
    """Run after run, each judged at once, and taken back when the next one is there."""
    builder = Builder().open()
    builder.add("rule", rule_body(OPEN), JUDGE)
    before = None
    body: dict[str, Any] = {}
    for number in range(count):
        run = builder.add("run", receipt(50.0 + number / 100, 450.0, round_=None), RUNNER)
        if before is None:
            (body,) = new_verdicts(rescore(gather(verified(builder)).candidates, OPEN))
        else:
            take_back(builder, before)
        speed = {"name": "speed", "value": f"{50 + number / 100:g}"}
        steps = [speed if step["name"] == "speed" else step for step in body["steps"]]
        builder.add("verdict", {**body, "target": run, "steps": steps}, JUDGE)
        before = run
    return builder


class Counted:
    """How often runs are judged, and how often the log is read for it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.judged = self.passes = 0
        judge, read = Judge._judge, deriving._Pass.read

        def count_judged(*arguments: Any) -> Any:
            self.judged += 1
            return judge(*arguments)

        def count_passes(*arguments: Any) -> Any:
            self.passes += 1
            return read(*arguments)

        patch.setattr(Judge, "_judge", count_judged)
        patch.setattr(deriving._Pass, "read", count_passes)


def operations(builder: Builder) -> tuple[int, int]:
    with pytest.MonkeyPatch.context() as patch:
        log, counted = verified(builder), Counted(patch)
        settle_judgements(log)
        return counted.judged, counted.passes


@pytest.mark.parametrize(
    ("build", "reads"),
    [
        (judged_on_the_way, 1),
        (lambda count: judged_between(count, climbs=True), 1),
        (lambda count: judged_between(count, climbs=False), 2),  # none but the first of these follows
    ],
    ids=["on the way", "in between, climbing", "in between, falling"],
)
def test_supersessions_between_verdicts_cost_one_judgement_each(build: Callable[[int], Builder], reads: int) -> None:
    (few, once), (many, also_once) = operations(build(12)), operations(build(24))
    assert (once, also_once) == (reads, reads), "what does not follow is derived once more, as it was read before"
    assert few >= 12
    assert many <= 2 * few + 12, "twice as many cost twice as much"


def test_what_was_superseded_in_between_is_what_each_verdict_is_derived_without() -> None:
    for builder in (judged_between(6, climbs=True), judged_between(6, climbs=False), judged_on_the_way(6)):
        assert len(same(builder)) >= 5
    assert set(same(judged_on_the_way(6)).values()) == {None}, "each was the first that stood"
    assert set(same(judged_between(6, climbs=True)).values()) == {None}, "the one before it stood all along"
    first, *others = dict(sorted(same(judged_between(6, climbs=False)).items())).values()
    assert first is None
    assert None not in others, "what it was held against was the first to be taken back"


def test_no_more_verdicts_are_held_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = house_ledger()
    for number in range(12):
        builder.add("run", receipt(60.0 + number, 500.0), RUNNER)
    seal(builder, HOUSE)
    bodies_ = [body for _, body in gather(verified(builder)).verdicts]
    assert len(bodies_) == 13
    held = []
    about = deriving._Feed.about

    def watched(self: deriving._Feed, identity: str) -> Any:
        held.append(sum(map(len, self.waiting.values())))
        return about(self, identity)

    monkeypatch.setattr(deriving, "AHEAD", 3)
    monkeypatch.setattr(deriving._Feed, "about", watched)
    monkeypatch.setattr("k3_ledger.rescore.judgements.gather", None, raising=False)
    assert set(same(builder).values()) == {None}
    assert max(held) == 3
    assert operations(builder)[1] == 1, "verdicts in the order of their runs are derived on the way"


def test_verdicts_in_any_order_are_derived_in_as_many_readings_as_they_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = house_ledger()
    for number in range(5):
        builder.add("run", receipt(60.0 + number, 500.0), RUNNER)
    rows = list(new_verdicts(rescore(gather(verified(builder)).candidates, HOUSE)))
    for body in reversed(rows):
        builder.add("verdict", body, JUDGE)
    builder.add("verdict", {**rows[0], "metric": "other"}, JUDGE)
    monkeypatch.setattr(deriving, "AHEAD", 2)
    (wrong,) = [finding for finding in same(builder).values() if finding is not None]
    assert not isinstance(wrong, str)
    assert wrong.code is Code.VERDICT_MISMATCH
    assert 3 <= operations(builder)[1] <= 7


def test_nothing_of_a_run_is_held_when_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = house_ledger()
    for number in range(4):
        builder.add("run", receipt(60.0 + number, 500.0), RUNNER)
    builder.add("import", imported("5"), LOG)
    seal(builder, HOUSE)
    passes = []
    read = deriving._Pass.read

    def watched(self: deriving._Pass, log: VerifiedLog) -> Any:
        passes.append(self)
        return read(self, log)

    monkeypatch.setattr(deriving._Pass, "read", watched)
    material = read_judgements(verified(builder))
    assert set(check_verdicts(verified(builder), material, {})) == {None}
    (one,) = passes
    held = one.gathering.material
    assert not any(
        (held.candidates, held.facts, held.measurements, held.unread, held.left_out, one.gathering.by_identity)
    )
    assert {fact.identity for fact in material.facts} == {pin.source for pin in material.pin_entries}


def test_a_round_that_is_kept_no_longer_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(55.0, 450.0, role="frontier", round_="r2"), RUNNER)
    builder.add("run", receipt(60.0, 500.0, round_="r2"), RUNNER)
    builder.add("run", receipt(65.0, 500.0, round_="r1"), RUNNER)
    seal(builder, HOUSE)
    assert operations(builder)[1] == 1
    monkeypatch.setattr(deriving, "KEPT_ROUNDS", 1)
    assert set(same(builder).values()) == {None}
    assert operations(builder)[1] == 2
    builder.add("run", receipt(56.0, 450.0, role="frontier", round_="r1"), RUNNER)
    assert set(same(builder).values()) == {None}


spans = st.lists(st.tuples(st.integers(-1, 9), st.integers(0, 10), st.sampled_from("abc")), max_size=8)


@given(spans, st.integers(0, 12))
def test_a_value_holds_for_its_span_and_the_answer_says_for_which(puts: list[tuple[int, int, str]], at: int) -> None:
    asked = Asked()
    mine: Spans[str, str] = Spans(asked)
    plain: dict[int, str] = {}
    for after, until, value in puts:
        if after < until:
            asked.about(until)
            asked.narrow(after, until)
            mine["key"] = value
            plain |= dict.fromkeys(range(after + 1, until + 1), value)
    asked.about(at)
    assert mine.get("key") == plain.get(at)
    until = min(asked.until, 15)
    assert asked.after < at <= asked.until
    assert {plain.get(each) for each in range(asked.after + 1, until + 1)} == {plain.get(at)}
    ends, values = mine._spans.get("key", ([], []))
    assert ends == sorted(set(ends))
    assert all(one != other for one, other in pairwise(values)), "no span ends where nothing changes"
    assert len(mine) == bool([None for after, until, _ in puts if after < until])


def test_an_entry_is_gone_from_behind_its_supersession_on() -> None:
    asked = Asked()
    gone = Gone(asked, {"a": ((5, HEAD),)})
    for at, expected, span in ((5, False, (-1, 5)), (6, True, (5, HEAD)), (HEAD, True, (5, HEAD))):
        asked.about(at)
        assert ("a" in gone) is expected
        assert (asked.after, asked.until) == span
    asked.about(7)
    assert "b" not in gone
    assert (asked.after, asked.until) == (-1, HEAD)


def test_what_is_kept_no_longer_is_neither_read_nor_written() -> None:
    asked = Asked()
    kept: Spans[str, int] = Spans(asked, 1)
    kept["a"], kept["b"] = 1, 2
    assert (kept.get("b"), kept.get("c"), len(kept)) == (2, None, 1)
    with pytest.raises(ForgottenError):
        kept.get("a")
    with pytest.raises(ForgottenError):
        kept["a"] = 3
