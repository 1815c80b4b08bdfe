"""The integer path gives the tiers of the explaining path, for any receipts and any rule."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.cli.sources import DirectorySource
from k3_ledger.rescore.exact import format_exact
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.parameters import Ceiling, Credit, Precision, Scope
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sweep import NOT_SCORABLE, Along, Sweep, sweep
from k3_ledger.rescore.sweeping.agreement import Ratchet
from k3_ledger.rescore.sweeping.fields import PIECE_BYTES, decode_lines
from k3_ledger.rescore.sweeping.items import Standing
from k3_ledger.rescore.sweeping.numbers import lower_text, upper_text, upper_text_of
from k3_ledger.rescore.sweeping.prepare import Preparer
from k3_ledger.rescore.sweeping.rounds import Rounds
from k3_ledger.rescore.sweeping.settle import Settling
from k3_ledger.schemas.envelope import Kind
from k3_ledger.schemas.errors import LedgerError, RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, verify_log
from k3_ledger.verify.report import VerificationError
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, RUNNER, Builder, Key, canonical, key_body
from tests.rescore.receipts import (
    DECODE,
    MODEL,
    PREFILL,
    house_ledger,
    parity,
    pin_body,
    receipt,
    series,
    timed,
    verified,
)
from tests.schemas import examples

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule

POWERS = {10**exponent for exponent in range(41)}
HOUSE = find_rule("house-1.decode")
RULES: dict[str, Rule] = {
    "house": HOUSE,
    "house, middle": find_rule("house-2.decode"),
    "house, reconciled": replace(find_rule("house-3.decode"), sampling=HOUSE.sampling),
    "house, proving": replace(find_rule("house-4.decode"), sampling=HOUSE.sampling, guard=None),
    "house, proving in tokens": replace(
        find_rule("house-4.decode"),
        sampling=HOUSE.sampling,
        clock=replace(HOUSE.clock, margin=2049, clock_over_claim=None),  # type: ignore[type-var]
    ),
    "house, borne out": replace(find_rule("house-5.decode"), sampling=HOUSE.sampling),
    "house, borne out in coarse figures": replace(
        find_rule("house-5.decode"), sampling=HOUSE.sampling, precision=Precision(2, 1, 9), ratchet=None
    ),
    "house, borne out, of prefill": replace(find_rule("house-5.prefill"), sampling=HOUSE.sampling, ratchet=None),
    "house, borne out without a guard": replace(find_rule("house-5.decode"), sampling=None, guard=None, ratchet=None),
    "house, borne out without a clock": replace(find_rule("house-5.decode"), sampling=None, clock=None, ratchet=None),
    "house, weighed": replace(find_rule("house-6.decode"), sampling=HOUSE.sampling),
    "house, weighed in coarse figures": replace(
        find_rule("house-6.decode"), sampling=HOUSE.sampling, precision=Precision(2, 1, 9), ratchet=None
    ),
    "house, weighed, of prefill": replace(find_rule("house-6.prefill"), sampling=HOUSE.sampling, ratchet=None),
    "house, weighed without a guard": replace(find_rule("house-6.decode"), sampling=None, guard=None, ratchet=None),
    "house, weighed and anchored": replace(
        find_rule("house-6.decode"), sampling=None, credit=Credit(Fraction(2)), clock=None, ratchet=None, guard=None
    ),
    "house, weighed with a fixed guard": replace(
        find_rule("house-6.decode"),
        sampling=None,
        clock=None,
        guard=replace(HOUSE.guard, pin="fixed"),  # type: ignore[type-var]
    ),
    "house, coarse": replace(HOUSE, precision=Precision(2, 1, 9)),
    "house, anchored": replace(HOUSE, credit=Credit(Fraction(2))),
    "house, open": replace(HOUSE, ratchet=None, guard=None, sampling=None, clock=None, ceiling=None),
    "house, one side": replace(HOUSE, clock=replace(HOUSE.clock, clock_over_claim=None, jitter_multiple=None)),  # type: ignore[type-var]
    "house, own reference": replace(HOUSE, ceiling=Ceiling(Fraction(2), ("decode",), "own-reference")),
    "house, careless": replace(HOUSE, sampling=replace(HOUSE.sampling, filled=False, independent=False)),  # type: ignore[type-var]
    "house, no bar": replace(HOUSE, correctness=replace(HOUSE.correctness, kl=Fraction(3))),
    "house, endless bar": replace(HOUSE, correctness=replace(HOUSE.correctness, kl=Fraction(1, 30))),
    "house, endless ratchet": replace(HOUSE, ratchet=replace(HOUSE.ratchet, block=Fraction(4, 3))),  # type: ignore[type-var]
    "house, ratchet from 3": replace(HOUSE, ratchet=replace(HOUSE.ratchet, block_from=Fraction(3))),  # type: ignore[type-var]
    "anchored, sampled": replace(find_rule("v0.2.1"), sampling=HOUSE.sampling),
    "v0.2.0": find_rule("v0.2.0"),
    "v0.2.1": find_rule("v0.2.1"),
    "prefill": find_rule("house-1.prefill"),
    "v0.2.2": find_rule("v0.2.2"),  # holds a second metric under a ceiling: left to the other path
    "the clock's number": replace(find_rule("v0.1.0@4e11d5f"), scope=Scope("decode", 131_072)),
}


def explained(builder: Builder, rule: Rule) -> Counter[str]:
    rows = rescore(gather(verified(builder)).candidates, rule).rows
    return Counter(row.result.tier if isinstance(row.result, Verdict) else NOT_SCORABLE for row in rows)


def along(builder: Builder, rule: Rule, **options: Any) -> Along:
    beside = Along(rule)
    verify_log(MemorySource(builder.data, block=1000), None, Options(companion=beside, **options))
    return beside


def same(builder: Builder, rule: Rule) -> Sweep:
    found = sweep(verified(builder), rule)
    assert found.tiers == explained(builder, rule)
    rows = rescore(gather(verified(builder)).candidates, rule)
    assert found.not_admitted == len({identity for identity, *_ in rows.not_admitted})
    assert along(builder, rule, chunk_bytes=8000).result() == found
    return found


kls = st.sampled_from(["0", "0.0004", "0.004", "0.02", "0.049999", "0.05", "0.050000001", "3", "0.0081"])
seconds = st.integers(min_value=10**4, max_value=10**11)


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Receipts near every edge, and some far from any."""
    speed = draw(st.sampled_from([49.0, 50.0, 51.0, 51.000001, 53.0, 59.0, 60.0, 199.0, 201.0]))
    body = receipt(
        speed, draw(st.sampled_from([440.0, 445.5, 446.0, 500.0])), round_=draw(st.sampled_from(["r1", "r2", None]))
    )
    body["role"] = draw(st.sampled_from(["candidate"] * 6 + ["frontier", "reference"]))
    graded = parity(draw(kls), path=draw(st.sampled_from(["both", "decode", "prefill"])))
    graded["reference"]["independent"] = draw(st.sampled_from([True, True, True, False]))
    graded["processing"] = draw(st.sampled_from(["raw"] * 5 + ["processed"]))
    depth = draw(st.sampled_from(graded["depths"]))
    depth["rows"] = draw(st.sampled_from([32, 32, 31, 64]))
    depth["top1_agree"] = draw(st.integers(min_value=depth["rows"] - 3, max_value=depth["rows"]))
    depth["kl_max"] = draw(kls)
    depth["kl_mean"] = "0"
    if draw(st.integers(0, 9)) == 0:
        graded["depths"] = graded["depths"][1:]
    body["parity"] = draw(st.sampled_from([graded, graded, graded, None]))
    graded["vocabulary"] = draw(st.sampled_from([32] * 5 + [64]))
    graded["reference"]["name"] = draw(st.sampled_from(["llama.cpp"] * 5 + ["vllm", body["subject"]["name"].upper()]))
    others = [{**MODEL, "sha256": "f" * 64}, {**MODEL, "name": "tiny"}]
    body["model"] = draw(st.sampled_from([MODEL, MODEL, MODEL, MODEL, *others] * 2 + [None]))
    claims = draw(st.sampled_from([None, None, None, 45.0, 70.0, 1000.0]))
    if claims is not None:  # whatever the clock says
        body["timing"][0] = timed("decode", claims, context=131_072)[0]
    if draw(st.integers(0, 7)) == 0:
        between = draw(st.sampled_from([(1, 20.0), (1056, 41.0), (4000, 90.0)]))
        seen = body["timing"][1]["samples"]
        end = seen[-1]["start_ns"] + seen[-1]["duration_ns"]
        more = series("decode", "controller", [between] * 3, context=131_072)["samples"]
        body["timing"][1]["samples"] = [*seen, *({**one, "start_ns": one["start_ns"] + end} for one in more)]
    _disturb(draw, body)
    return body


def _disturb(draw: st.DrawFn, body: dict[str, Any]) -> None:
    """Change one thing about the timing of decode, mostly."""
    claim, outside = body["timing"][:2]
    if draw(st.booleans()):
        rows = [(draw(st.sampled_from([32_768, 34_816, 16_384])), draw(st.floats(30, 90))) for _ in range(4)]
        kept = draw(st.sampled_from([0, 0, 4096]))
        body["timing"][2]["samples"] = series("prefill", "subject", rows, context=0)["samples"]
        body["timing"][2] |= {"context": kept, "context_filled": kept}
    elif draw(st.booleans()):
        took, jitter = draw(st.sampled_from([50.0, 66.0, 74.0, 90.0])), draw(st.sampled_from([0.0, 0.1, 0.6]))
        longer = draw(st.sampled_from([-1.0, 0.1, 3.0, 4.1, 5.2, 8.0]))
        rows = [(32_768, took), (34_816, took + longer), (32_768, took + jitter), (34_816, took + longer - jitter)]
        body["timing"][3]["samples"] = series("prefill", "controller", rows, context=0)["samples"]
    change = draw(st.sampled_from(["none", "none", "lengths", "few", "pace", "outside", "drop", "field"]))
    if change == "lengths":
        rows = [(count, draw(st.floats(1, 60))) for count in (64, 128)]
        claim["samples"] = series("decode", "subject", rows, context=1)["samples"]
    elif change == "few":
        outside["samples"] = outside["samples"][: draw(st.integers(1, 5))]
        claim["samples"] = claim["samples"][: draw(st.integers(1, 3))]
    elif change == "pace":
        pace = [(128, draw(seconds) / 10**9) for _ in range(draw(st.integers(1, 5)))]
        claim["samples"] = series("decode", "subject", pace, context=1)["samples"]
    elif change == "outside":
        lengths = st.sampled_from([32, 2080, 4096])
        rows = [(draw(lengths), draw(st.floats(0.5, 90))) for _ in range(draw(st.integers(1, 6)))]
        outside["samples"] = series("decode", "controller", rows, context=1)["samples"]
    elif change == "drop":
        body["timing"] = body["timing"][draw(st.integers(1, 2)) :]
    elif change == "field":
        fields = {"context_filled": 4, "inputs": "repeated", "cache": "warm", "actor": "floor"}
        name = draw(st.sampled_from(sorted(fields)))
        claim[name] = fields[name]


@st.composite
def histories(draw: st.DrawFn) -> Builder:
    builder = Builder().open()
    runs: list[str] = []
    for _ in range(draw(st.integers(1, 6))):
        what = draw(st.integers(0, 7))
        if what == 0 and runs:
            slot = draw(
                st.sampled_from(
                    [f"frontier:{DECODE}", f"frontier:{PREFILL}", f"reference:{DECODE}", f"guard:{PREFILL}"]
                )
            )
            value, source = draw(st.sampled_from(["50", "450", "40.5"])), draw(st.sampled_from([runs[0], runs[-1]]))
            builder.add("pin", pin_body(slot, value, source), JUDGE)
        elif what == 1 and runs:
            target = draw(st.sampled_from(runs))
            builder.add("supersede", {"target": target, "reason": "bad build", "replacement": None}, JUDGE)
        else:
            runs.append(builder.add("run", draw(bodies()), RUNNER))
    return builder


@settings(max_examples=150)
@given(histories(), st.sampled_from(sorted(RULES)))
def test_a_sweep_gives_the_tiers_of_the_explaining_path(builder: Builder, rule: str) -> None:
    same(builder, RULES[rule])


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_round_of_the_house(rule: str) -> None:
    builder, _ = house_ledger()
    for speed in (50.9, 51.1, 52.0, 54.0, 56.0, 58.0, 61.0):
        builder.add("run", receipt(speed, 500.0), RUNNER)
    found = same(builder, RULES[rule])
    slow = {
        "v0.2.2": 8, "the clock's number": 8, "house, no bar": 8, "house, endless bar": 8,
        "house, ratchet from 3": 8,
    }  # fmt: skip
    assert found.slow == slow.get(rule, 0)
    assert found.changes == ({} if sum(found.tiers.values()) == found.tiers[NOT_SCORABLE] else {"first": 8})


@pytest.mark.parametrize("round_", ["r1", None])
def test_a_guards_pin_is_held_against_each_measurement_as_it_comes(round_: str | None) -> None:
    """Measured 450, 495 (a tenth above the pin), 496 (more), 460: open once, and each time another floor."""
    rule = replace(RULES["house, reconciled"], ratchet=None)
    builder, _ = house_ledger()
    for measured in (450.0, 495.0, 496.0, 460.0):
        builder.add("run", receipt(50.0, measured, role="frontier", round_=round_), RUNNER)
        for prefill in (measured * 0.98999, measured * 0.99001):
            builder.add("run", receipt(60.0, prefill, round_=round_), RUNNER)
            found = same(builder, rule)
    assert found.slow == 0
    assert found.tiers == {"XL": 4, "REJECT": 3, "none": 2, NOT_SCORABLE: 9}


def test_what_was_judged_before_is_compared_with() -> None:
    from tests.rescore.test_replay import judged, result, verdict_body

    builder, names = house_ledger()
    (row,) = [row for row in judged(builder).rows if row.change != "not-scorable"]
    body = verdict_body(names["candidate"], result(row))
    second = builder.add("run", receipt(61.0, 500.0), RUNNER)
    builder.add("verdict", {**body, "tier": "S"}, JUDGE)
    builder.add("verdict", {**body, "target": second, "metric": "prefill"}, JUDGE)
    found = same(builder, HOUSE)
    assert found.changes == {"higher": 1, "first": 1}
    assert found.changed == [(8, "S", "XL")]
    report = judged(builder)
    assert (report.count("higher"), report.count("first")) == (1, 1)


def test_what_was_judged_under_a_rule_that_nobody_knows_is_not_comparable() -> None:
    from tests.rescore.test_replay import judged, result, verdict_body

    builder, names = house_ledger()
    (row,) = [row for row in judged(builder).rows if row.change != "not-scorable"]
    body = {**verdict_body(names["candidate"], result(row)), "tier": "S"}
    unknown = builder.add("verdict", {**body, "rule": "elsewhere", "rule_sha256": "e" * 64}, JUDGE)
    found = same(builder, HOUSE)
    assert found.changes == {"not-comparable": 1}
    assert found.changed == []
    assert judged(builder).count("not-comparable") == 1
    builder.add("verdict", body, JUDGE)
    assert same(builder, HOUSE).changes == {"higher": 1}, "a verdict under a known rule is compared with"
    builder.lines.pop()
    builder.add("supersede", {"target": unknown, "reason": "not ours", "replacement": None}, JUDGE)
    assert same(builder, HOUSE).changes == {"first": 1}, "one that stands no more says nothing at all"
    assert judged(builder).count("first") == 1


def test_a_verdict_that_was_taken_back_is_not_what_was_published() -> None:
    from tests.rescore.test_replay import judged, result, verdict_body

    builder, names = house_ledger()
    (row,) = [row for row in judged(builder).rows if row.change != "not-scorable"]
    at = len(builder.lines)
    builder.add("verdict", {**verdict_body(names["candidate"], result(row)), "tier": "S"}, JUDGE)
    builder.add("key", key_body(JUDGE, "judge", "revoke", revoked_from=at), builder.root)
    assert same(builder, HOUSE).changes == {"first": 1}
    assert judged(builder).count("first") == 1


def test_disowned_receipts_are_not_judged() -> None:
    builder, _ = house_ledger()
    builder.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=8), builder.root)
    assert sweep(verified(builder), HOUSE).tiers == {}
    assert along(builder, HOUSE).result().tiers == {}


def test_several_processes_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = house_ledger()
    for speed in (61.0, 62.0, 63.0, 70.0, 64.0):
        last = builder.add("run", receipt(speed, 500.0), RUNNER)
    builder.add("supersede", {"target": last, "reason": "bad build", "replacement": None}, JUDGE)
    monkeypatch.setattr("k3_ledger.rescore.sweep.PARALLEL_BYTES", 0)
    log = verify_log(MemorySource(builder.data, block=1000), None, Options(chunk_bytes=1))
    assert len(list(log.chunks())) > 1
    alone = sweep(log, HOUSE)
    assert alone.tiers == explained(builder, HOUSE)
    assert sweep(log, HOUSE, processes=2) == alone
    monkeypatch.setattr("k3_ledger.verify.scan.PARALLEL_BYTES", 0)
    assert along(builder, HOUSE, processes=2, chunk_bytes=1).result(processes=2) == alone


@pytest.mark.parametrize("rule", ["house", "house, weighed, of prefill"])
def test_several_processes_read_a_ledger_on_disk_for_themselves(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but places goes to them, and what is out of the ordinary is read here."""
    builder, _ = house_ledger()
    for speed in (61.0, 62.0, 63.0, 70.0, 64.0):
        last = builder.add("run", receipt(speed, 500.0), RUNNER)
    builder.add("pin", pin_body(f"frontier:{PREFILL}", "460", last), JUDGE)
    builder.add("run", receipt(60.0, 700.0), RUNNER)
    (tmp_path / "ledger.jsonl").write_bytes(builder.data)
    monkeypatch.setattr("k3_ledger.rescore.sweep.PARALLEL_BYTES", 0)
    log = verify_log(DirectorySource(tmp_path), None, Options(chunk_bytes=1))
    pieces = list(log.pieces())
    assert all(len(pickle.dumps(piece)) < 1000 for _, piece in pieces)
    assert [(first, piece.read()) for first, piece in pieces] == list(log.chunks())
    found = sweep(log, RULES[rule], processes=2)
    assert found == sweep(log, RULES[rule])
    assert found.tiers == explained(builder, RULES[rule])


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("harm", ["change", "cut", "gone", "pipe"])
def test_a_ledger_that_changed_since_it_verified_is_judged_by_nobody(
    harm: str, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder, _ = house_ledger()
    place = tmp_path / "ledger.jsonl"
    place.write_bytes(builder.data)
    monkeypatch.setattr("k3_ledger.rescore.sweep.PARALLEL_BYTES", 0)
    log = verify_log(DirectorySource(tmp_path), None, Options(chunk_bytes=1))
    place.unlink()
    if harm == "change":
        place.write_bytes(builder.data.replace(b'"role":"candidate"', b'"role":"reference"'))
    elif harm == "cut":
        place.write_bytes(builder.data[:-1])
    elif harm == "pipe":
        os.mkfifo(place)
    with pytest.raises(LedgerError) as caught:
        sweep(log, HOUSE, processes=processes)
    changed = harm in {"change", "cut"}
    assert isinstance(caught.value, VerificationError) is changed
    assert caught.value.code is (Code.CHANGED_WHILE_READ if changed else Code.UNREADABLE)


def test_a_sweep_along_says_nothing_before_the_log_has_verified() -> None:
    builder, _ = house_ledger()
    beside = Along(HOUSE)
    forged = builder.data.replace(b'"name":"node"', b'"name":"nodf"')
    with pytest.raises(VerificationError):
        verify_log(MemorySource(forged), None, Options(companion=beside))
    with pytest.raises(ValueError, match="no log has verified"):
        beside.result()


def test_a_pin_that_is_none_stops_a_sweep_along_when_the_log_has_verified() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body("elsewhere", "50", names["frontier"]), JUDGE)
    builder.add("run", receipt(61.0, 500.0), RUNNER)
    with pytest.raises(RescoreError) as plain:
        sweep(verified(builder), HOUSE)
    with pytest.raises(RescoreError) as caught:
        along(builder, HOUSE, chunk_bytes=1).result()
    assert caught.value.finding == plain.value.finding


@pytest.mark.parametrize("kind", get_args(Kind))
def test_entries_of_every_kind_decode_beside_runs(kind: str) -> None:
    """One that did not would stop the whole chunk."""
    for example in (examples.smallest, examples.sparse, examples.largest):
        lines = list(decode_lines(b'{"entry":' + canonical(example(kind)) + b',"sig":""}\n'))
        assert [line.entry.kind for line in lines] == [kind]


@given(st.lists(st.sampled_from([0, 1, 100, PIECE_BYTES - 60, PIECE_BYTES, 3 * PIECE_BYTES]), max_size=12))
def test_lines_of_any_length_are_decoded_each_once_and_in_order(lengths: list[int]) -> None:
    """Whatever lies across the edge of what is decoded at once."""
    body = '{"entry":{"body":{"round":"%d","more":"%s"},"kind":"run"},"sig":""}\n'
    chunk = "".join(body % (number, "x" * length) for number, length in enumerate(lengths)).encode()
    assert [line.entry.body.round for line in decode_lines(chunk)] == [str(number) for number in range(len(lengths))]


@given(
    st.from_regex(r"(?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,40})?", fullmatch=True),
    st.fractions(min_value=0, max_value=Fraction(999_999, 10**6), max_denominator=10**6)
    | st.sampled_from(["0", "0.05", "0.5", "0.049999", "0.000000000000000000000000000000000000000001"]).map(Fraction),
    st.booleans(),
)
def test_text_sorts_like_the_number_it_stands_for(text: str, bound: Fraction, equal: bool) -> None:
    if equal and bound.denominator in POWERS:
        text = format_exact(bound) + ("" if bound.denominator == 1 else "0" * (len(text) % 3))
    upper, lower = upper_text(bound), lower_text(bound)
    terminates = 10**120 % bound.denominator == 0
    assert (upper is not None, lower is not None) == (terminates, terminates)
    if upper is not None and lower is not None:
        assert (text <= upper) == (Fraction(text) <= bound)
        assert (text >= lower) == (Fraction(text) >= bound)


@given(
    st.from_regex(r"(?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,40})?", fullmatch=True),
    st.sampled_from(["0", "1", "2", "1.5", "4/3", "0.0000000000000000000000000000001"]).map(Fraction),
)
def test_a_multiple_of_text_has_the_bound_of_its_number(text: str, times: Fraction) -> None:
    one, other = upper_text_of(text, times), upper_text(times * Fraction(text))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.ljust(len(other), "0") == other
        assert len(one) > 2 + 40, "longer than any text it is held against"


@pytest.mark.parametrize("bound", ["-0.1", "1", "1.5", "1/3"])
def test_a_bound_that_text_cannot_stand_for_has_none(bound: str) -> None:
    assert (upper_text(Fraction(bound)), lower_text(Fraction(bound))) == (None, None)


def test_only_a_verified_log_is_swept() -> None:
    with pytest.raises(TypeError, match="only a verified log"):
        sweep([], HOUSE)  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- every edge, to the last integer


def exact(
    *,
    count: int = 60,
    seconds_: int = 1,
    tokens: int = 6000,
    longer: int = 100,
    jitter: int = 1,
    kl: str = "0.004",
    prefill: str = "500",
    round_: str | None = "r1",
) -> dict[str, Any]:
    """A receipt of whole numbers: ``count`` tokens in ``seconds_``, ``tokens`` more in ``longer`` more seconds."""
    outside = [(100, 20 + extra) for extra in (0, jitter, 0)] + [(100 + tokens, 20 + longer)] * 3
    timing = [
        series("decode", "subject", [(count, seconds_)] * 3, context=131_072),
        series("decode", "controller", outside, context=131_072),
        series("prefill", "subject", [(32_768, 32_768 / Fraction(prefill))] * 3, context=0),
    ]
    return {**receipt(round_=round_), "timing": timing, "parity": parity(kl)}


def tier_of(body: dict[str, Any], rule: Rule = HOUSE) -> str:
    builder, _ = house_ledger()
    builder.lines.pop()
    builder.add("run", body, RUNNER)
    found = same(builder, rule)
    (tier,) = [tier for tier in found.tiers if tier != NOT_SCORABLE]
    return tier


@pytest.mark.parametrize(
    ("change", "tier"),
    [
        ({}, "XL"),
        ({"count": 51, "tokens": 5100}, "none"),  # exactly 2 %
        ({"count": 51_000_001, "seconds_": 10**6, "tokens": 5100}, "XS"),
        ({"count": 59, "tokens": 5900}, "XL"),  # exactly 18 %
        ({"count": 58_999_999, "seconds_": 10**6, "tokens": 5900}, "L"),
        ({"tokens": 4800}, "XL"),  # claim is exactly 1.25 times the clock
        ({"tokens": 4799}, "REJECT"),
        ({"tokens": 7500}, "XL"),  # the clock is exactly 1.25 times the claim
        ({"tokens": 7501}, "REJECT"),
        ({"jitter": 10}, "XL"),  # exactly ten times the jitter
        ({"jitter": 10, "tokens": 5999}, "REJECT"),
        ({"kl": "0.008"}, "XL"),  # exactly twice the frontier's
        ({"kl": "0.0080000001"}, "REJECT"),
        ({"prefill": "445.5"}, "XL"),  # exactly 0.99 of 450
        ({"prefill": "445.499999"}, "REJECT"),
        ({"longer": 0}, "REJECT"),
        ({"count": 200, "tokens": 20000}, "XL"),  # exactly four times the frontier
        ({"count": 200_000_001, "seconds_": 10**6, "tokens": 20000}, "REJECT"),
    ],
)
def test_each_edge_of_the_house_rule(change: dict[str, Any], tier: str) -> None:
    assert tier_of(exact(**change)) == tier


@pytest.mark.parametrize(
    ("change", "tier"),
    [
        # 600 tokens at 60 a second are 10 s; the difference that is read may be off by twice the jitter.
        ({"jitter": 1, "longer": 10, "tokens": 600}, "XL"),  # exactly ten times
        ({"jitter": 2, "longer": 10, "tokens": 600}, "none"),
        ({"jitter": 2, "longer": 16, "tokens": 600}, "none"),  # 12 s at least, and 12.5 would be exactly 1.25 times
        ({"jitter": 2, "longer": 17, "tokens": 600}, "REJECT"),
        ({"jitter": 2, "longer": 18, "tokens": 672}, "none"),  # 14 s at least, exactly 1.25 times
        ({"jitter": 2, "longer": 18, "tokens": 671}, "REJECT"),
        ({"jitter": 2, "longer": 4, "tokens": 600}, "none"),  # 8 s at most, exactly 1/1.25
        ({"jitter": 2, "longer": 4, "tokens": 601}, "REJECT"),
        ({"jitter": 6, "longer": -2, "tokens": 300}, "none"),
        ({"jitter": 6, "longer": -11, "tokens": 60}, "none"),
        ({"jitter": 6, "longer": -12, "tokens": 60}, "REJECT"),
        ({"jitter": 1, "longer": 13, "tokens": 600}, "REJECT"),
    ],
)
def test_each_edge_of_a_clock_that_proves_nothing(change: dict[str, Any], tier: str) -> None:
    """Three repetitions have no middle half but all of them."""
    assert tier_of(exact(**change), RULES["house, proving"]) == tier


@pytest.mark.parametrize(
    ("change", "tier"),
    [
        ({"tokens": 2049, "longer": 30}, "XL"),
        ({"tokens": 2048, "longer": 30}, "none"),
        ({"tokens": 2048, "longer": 1}, "none"),
        ({"tokens": 2048, "longer": -1}, "none"),
        ({"tokens": 2048, "longer": -2}, "REJECT"),
        ({"tokens": 2048, "longer": 60}, "REJECT"),
        ({"tokens": 2000, "longer": 43}, "none"),
        ({"tokens": 1968, "longer": 43}, "none"),  # 41 s at least, exactly 1.25 times
        ({"tokens": 1967, "longer": 43}, "REJECT"),
    ],
)
def test_each_edge_of_a_margin_in_tokens_that_proves_nothing(change: dict[str, Any], tier: str) -> None:
    assert tier_of(exact(**change), RULES["house, proving in tokens"]) == tier


@pytest.mark.parametrize(
    ("outside", "first", "second"),
    [
        ([0, 0, 0, 5, 10, 10, 90], "REJECT", "XL"),  # ten times: one of seven was held up
        ([0, 0, 0, 5, 10, 11, 90], "REJECT", "REJECT"),
        ([0, 0, 0, 5, 10, 90, 90], "REJECT", "REJECT"),  # two of seven are more than a quarter
        ([0, 5, 10, 90], "REJECT", "REJECT"),  # a quarter is not fewer than a quarter
        ([0, 0, 0, 0, 0, 10, 10], "XL", "XL"),
    ],
)
def test_one_repetition_that_was_held_up_is_no_jitter_to_the_second_house_rule(
    outside: list[int], first: str, second: str
) -> None:
    body = exact()
    rows = [(100, 20 + extra) for extra in outside] + [(6100, 120 + sorted(outside)[len(outside) // 2])] * 7
    subject = series("decode", "subject", [(60, 1)] * 7, context=131_072)
    body["timing"][:2] = [subject, series("decode", "controller", rows, context=131_072)]
    rule = find_rule("house-2.decode")
    few = replace(rule, sampling=replace(rule.sampling, repetitions=3))  # type: ignore[type-var]
    assert (tier_of(body), tier_of(body, few)) == (first, second)
    assert tier_of(body, rule) == (second if len(outside) >= 7 else "REJECT")


@pytest.mark.parametrize(("thousandths", "tier"), [(51_005, "none"), (51_015, "XS"), (51_006, "XS")])
def test_speed_is_rounded_to_the_rules_decimals_with_ties_to_even(thousandths: int, tier: str) -> None:
    body = exact(count=thousandths, seconds_=1000, tokens=5100)
    assert tier_of(body, RULES["house, coarse"]) == tier


@pytest.mark.parametrize(
    "durations", [[65_536], [65_536, 65_536], [65_536, 131_072], [131_072, 65_536, 65_536], [3, 7], [3, 7, 9, 11]]
)
def test_the_median_rate_is_that_of_fractions(durations: list[int]) -> None:
    from k3_ledger.rescore.exact import quantize
    from k3_ledger.rescore.native import median
    from k3_ledger.rescore.sweeping.numbers import median_rate

    rates = [Fraction(10**9, duration) for duration in durations]
    assert Fraction(median_rate(1, list(durations)), 10**6) == quantize(median(rates), 6)


def test_prefill_of_two_lengths_is_counted_like_it_is_explained() -> None:
    builder, _ = house_ledger()
    two = [(32_768, 64), (32_768 + 2048, 300), (32_768, 60), (32_768 + 2048, 64), (32_768, 50)]
    body = receipt(60.0, 500.0)
    body["timing"][2:] = [series("prefill", observer, two, context=0) for observer in ("subject", "controller")]
    builder.add("run", body, RUNNER)
    for rule in ("house", "prefill", "house, open"):
        found = same(builder, RULES[rule])
        assert found.slow == 0
    assert sweep(verified(builder), RULES["prefill"]).tiers["REJECT"] == 1, "250 s for 2,048 tokens is no 546 tok/s"


def test_a_superseded_run_carries_no_frontier() -> None:
    builder = Builder().open()
    first = builder.add("run", exact(round_=None), RUNNER)
    builder.add("run", exact(count=61, tokens=6100, round_=None), RUNNER)
    rule = RULES["house, open"]
    assert same(builder, rule).tiers["none"] == 1
    builder.add("supersede", {"target": first, "reason": "bad build", "replacement": None}, JUDGE)
    assert same(builder, rule).tiers["BASELINE"] == 2


@pytest.mark.parametrize(("pin", "prefill", "tier"), [("450", "445.5", "XL"), ("450.000001", "445.5", "REJECT")])
def test_a_floor_between_two_speeds_is_above_the_lower_one(pin: str, prefill: str, tier: str) -> None:
    """99 % of 450.000001 is 445.50000099, and measured speeds have six decimals."""
    builder, names = house_ledger()
    builder.lines.pop()
    builder.add("pin", pin_body(f"guard:{PREFILL}", pin, names["frontier"]), JUDGE)
    builder.add("run", exact(prefill=prefill), RUNNER)
    assert same(builder, RULES["house"]).tiers == {tier: 1, NOT_SCORABLE: 1}


def test_a_ceiling_without_anything_to_stand_on_is_open() -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:4]
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    builder.add("run", exact(), RUNNER)
    assert same(builder, replace(RULES["house, own reference"], guard=None)).tiers == {"none": 1, NOT_SCORABLE: 1}


@pytest.mark.parametrize("role", ["frontier", "reference"])
def test_what_a_run_is_held_against_counts_while_it_stands(role: str) -> None:
    """61 is 2 % above 59, which the second frontier build measured, and 22 % above 50; and so with the other engine."""
    anchored = replace(RULES["house, anchored"], ratchet=None, guard=None)
    builder = Builder().open()
    builder.add("run", receipt(40.0, 300.0, role="reference"), RUNNER)
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    gone = builder.add("run", receipt(59.5 if role == "frontier" else 400.0, 450.0, role=role), RUNNER)
    builder.add("run", receipt(61.0), RUNNER)
    (before,) = [tier for tier in same(builder, anchored).tiers if tier != NOT_SCORABLE]
    builder.add("supersede", {"target": gone, "reason": "bad build", "replacement": None}, JUDGE)
    (after,) = [tier for tier in same(builder, anchored).tiers if tier != NOT_SCORABLE]
    assert (before, after) == ({"frontier": "S", "reference": "XS"}[role], "XL")


def graded_at(rows: int, agree: int) -> dict[str, Any]:
    body = exact()
    body["parity"]["depths"][3] |= {"rows": rows, "top1_agree": agree}
    return body


def test_agreement_at_the_bar_passes() -> None:
    assert tier_of(graded_at(40, 38)) == "XL"  # exactly 95 %
    assert tier_of(graded_at(40, 37)) == "REJECT"


def test_a_margin_of_the_rules_own_length_is_long_enough() -> None:
    assert HOUSE.clock is not None
    for margin, tier in ((6000, "XL"), (6001, "REJECT")):
        assert tier_of(exact(), replace(HOUSE, clock=replace(HOUSE.clock, margin=margin))) == tier


def test_the_length_that_was_repeated_least_counts() -> None:
    body = exact()
    body["timing"][1]["samples"].pop()
    assert tier_of(body) == "REJECT"
    body["timing"][0]["samples"] = body["timing"][0]["samples"][:2]
    body["timing"][1] = exact()["timing"][1]
    assert tier_of(body) == "REJECT"


def test_the_least_divergence_that_the_ratchet_looks_at_is_looked_at() -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(50.0, 450.0, role="frontier", round_="r2", parity=parity("0.0002")), RUNNER)
    for kl in ("0.0005", "0.0004999"):  # both are more than twice the frontier's
        builder.add("run", receipt(60.0, 500.0, round_="r2", parity=parity(kl)), RUNNER)
    found = same(builder, HOUSE)
    assert (found.tiers["REJECT"], found.tiers["XL"]) == (1, 2)


def test_a_gate_that_only_house_rules_have_does_not_hold_an_older_rules_frontier_back() -> None:
    old = replace(RULES["anchored, sampled"], ratchet=None, clock=None, ceiling=None, credit=Credit(Fraction(1), False))
    builder = Builder().open()
    few = receipt(60.0, 500.0, round_=None)
    few["timing"][0]["samples"] = few["timing"][0]["samples"][:1]
    builder.add("run", few, RUNNER)
    builder.add("run", receipt(60.5, 500.0, round_=None), RUNNER)
    assert same(builder, old).tiers == {"BASELINE": 1, "none": 1, NOT_SCORABLE: 2}


def test_a_frontier_that_the_explaining_path_moved_is_the_one_to_beat() -> None:
    builder = Builder().open()
    builder.add("run", exact(round_=None), RUNNER)
    odd = exact(count=70, tokens=7000, round_=None)
    odd["timing"][0] = series("decode", "subject", [(70, 1), (140, 2), (70, 1)], context=131_072)
    builder.add("run", odd, RUNNER)
    builder.add("run", exact(count=71, tokens=7100, round_=None), RUNNER)
    found = same(builder, RULES["house, open"])
    assert (found.slow, found.tiers["BASELINE"], found.tiers["L"], found.tiers["none"]) == (1, 1, 1, 1)


def test_a_reference_too_slow_to_tell_from_nothing_is_no_base_for_a_ceiling() -> None:
    builder = Builder().open()
    still = receipt(40.0, 300.0, role="reference")
    still["timing"][0] = series("decode", "subject", [(1, 3 * 10**6)] * 3, context=131_072)
    builder.add("run", still, RUNNER)
    builder.add("run", exact(round_=None), RUNNER)
    assert same(builder, HOUSE).tiers["BASELINE"] == 1


def test_a_clock_that_stood_still_proves_nothing_under_one_side_either() -> None:
    assert tier_of(exact(longer=0), RULES["house, one side"]) == "REJECT"


def test_a_first_run_is_a_baseline() -> None:
    builder = Builder().open()
    builder.add("run", exact(round_=None), RUNNER)
    assert same(builder, HOUSE).tiers["BASELINE"] == 1


def test_evidence_that_is_absent_earns_nothing_here_either() -> None:
    silent = exact()
    silent["timing"][2]["observer"] = "controller"  # nobody says how fast prefill was
    alone = exact()
    alone["timing"] = alone["timing"][:2]
    once = exact()
    once["timing"][1]["samples"] = [once["timing"][1]["samples"][at] for at in (0, 3)]
    deeper = exact()
    deeper["parity"]["depths"].append({**deeper["parity"]["depths"][0], "depth": 8192})
    lenient = replace(HOUSE, sampling=None)
    for body in (silent, alone, once, deeper):
        assert tier_of(body, lenient) == "none"


def same_but_for_imports(builder: Builder) -> Sweep:
    found = sweep(verified(builder), HOUSE)
    assert along(builder, HOUSE).result() == found
    return found


def test_rounds_are_settled_without_the_explaining_path() -> None:
    """Each round has its frontier build, and the other engine is measured now and then; a later one replaces it."""
    builder, _ = house_ledger()
    for number, (kl, mine) in enumerate([("0.001", "0.0019"), ("0.001", "0.0021"), ("3", "0.02"), ("0.4", "0.02")]):
        name = f"round-{number}"
        builder.add("run", receipt(50.0, 450.0, role="frontier", round_=name, parity=parity("0.5")), RUNNER)
        builder.add("run", receipt(50.0, 450.0, role="frontier", round_=name, parity=parity(kl)), RUNNER)
        builder.add("run", receipt(41.0, 300.0, role="reference", round_=name), RUNNER)
        builder.add("run", receipt(60.0, 500.0, round_=name, parity=parity(mine)), RUNNER)
    found = same(builder, HOUSE)
    assert (found.slow, found.tiers["REJECT"], found.tiers["XL"]) == (0, 1, 4)


def test_a_round_that_the_explaining_path_has_read_is_held_against_all_the_same() -> None:
    builder, _ = house_ledger()
    odd = receipt(50.0, 450.0, role="frontier", parity=parity("0.001"))
    odd["timing"][2:] = [series("prefill", "controller", [(32_768, 70.0)] * 3, context=0)]
    strange = exact(kl="0.0019", round_="r1")
    strange["timing"][0] = series("decode", "subject", [(60, 1), (120, 2), (60, 1)], context=131_072)
    for body in (odd, exact(kl="0.0021"), strange, exact(kl="0.0021"), exact(kl="0.0019")):
        builder.add("run", body, RUNNER)
    found = same(builder, HOUSE)
    assert (found.slow, found.tiers["REJECT"]) == (1, 2)


def test_imports_are_left_to_the_explaining_path() -> None:
    importer = Key("importer")
    builder, _ = house_ledger()
    builder.add("key", key_body(importer, "log"), builder.root)
    artifact = {"name": "receipt.json", "sha256": "d" * 64, "size": 1, "media_type": "application/json"}
    body = {
        "format": "polaris/1", "foreign_id": "x", "original_sha256": "d" * 64, "attestation": "none", "findings": [],
        "fields": [{"name": "ledger.tps", "value": "5"}], "artifacts": [artifact],
    }  # fmt: skip
    builder.add("import", body, importer)
    found = same_but_for_imports(builder)
    assert (found.tiers, found.imports) == ({"XL": 1, NOT_SCORABLE: 1}, 1)
    builder.add("key", key_body(importer, "log", "revoke", revoked_from=len(builder.lines) - 1), builder.root)
    assert same_but_for_imports(builder).imports == 0, "it was taken back"


def test_memory_of_rounds_is_bounded_and_what_is_said_late_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds, of which one is kept, and a candidate of the first behind them all."""
    builder, names = house_ledger()
    for number, kl in enumerate(("0.001", "0.002")):
        name = f"round-{number}"
        builder.add("run", receipt(50.0, 450.0, role="frontier", round_=name, parity=parity(kl)), RUNNER)
        builder.add("run", receipt(60.0, 500.0, round_=name, parity=parity("0.0019")), RUNNER)
    held = []
    take = Rounds.take

    def watched(self: Rounds, item: Any, place: Any) -> None:
        take(self, item, place)
        held.append((self._kept, len(self._rounds)))

    monkeypatch.setattr(Rounds, "take", watched)
    monkeypatch.setattr("k3_ledger.rescore.sweep.KEPT_ROUNDS", 1)
    found = same(builder, HOUSE)
    assert found.tiers["XL"] == 3
    assert {(kept, most) for kept, most in held if most > 1} == set(), "no round is asked for again"
    for late in (
        receipt(70.0, 500.0, round_="round-0", parity=parity("0.0021")),
        receipt(50.0, 451.0, role="frontier", round_="r1"),
        {**exact(round_="r1"), "timing": strange()},
    ):
        builder.add("run", late, RUNNER)
        held.clear()
        again = same(builder, HOUSE)
        assert (None, 3) in held, "all of them are kept in the second reading"
        monkeypatch.setattr("k3_ledger.rescore.sweep.KEPT_ROUNDS", 20_000)
        assert same(builder, HOUSE) == again
        monkeypatch.setattr("k3_ledger.rescore.sweep.KEPT_ROUNDS", 1)
    assert again.tiers["REJECT"] == 1
    builder.add("supersede", {"target": names["candidate"], "reason": "bad build", "replacement": None}, JUDGE)
    assert same(builder, HOUSE).tiers["XL"] >= 3


def strange() -> list[dict[str, Any]]:
    """Timing that only the explaining path reads."""
    timing: list[dict[str, Any]] = exact()["timing"]
    return [series("decode", "subject", [(60, 1), (120, 2), (60, 1)], context=131_072), *timing[1:]]


def test_a_round_is_held_against_alike_within_a_chunk_and_across(monkeypatch: pytest.MonkeyPatch) -> None:
    """One chunk holds both, or the frontier build stands in another: the ratchet says the same to the last digit."""
    builder, _ = house_ledger()
    rule = RULES["house, endless ratchet"]
    for number, mine in enumerate(("0.0013", "0.00133333333333", "0.0013333333333333334", "0.002")):
        name = f"round-{number}"
        builder.add("run", receipt(50.0, 450.0, role="frontier", round_=name, parity=parity("0.001")), RUNNER)
        builder.add("run", receipt(60.0, 500.0, round_=name, parity=parity(mine)), RUNNER)
    asked = []
    hold = Settling._hold

    def watched(self: Settling, *arguments: Any) -> bool | None:
        asked.append(arguments)
        return hold(self, *arguments)

    monkeypatch.setattr(Settling, "_hold", watched)
    whole = along(builder, rule, chunk_bytes=10**6).result()
    assert asked == []
    assert along(builder, rule, chunk_bytes=1).result() == whole
    assert len(asked) == 5
    assert (whole.tiers["REJECT"], whole.tiers["XL"], whole.slow) == (2, 3, 0)
    assert same(builder, rule) == whole


def test_a_chunk_travels_whole() -> None:
    """Everything that settles a chunk is in the bytes it is sent as."""
    builder, names = house_ledger()
    odd = receipt(60.0, 500.0)
    odd["timing"] = odd["timing"][2:]
    for body in (odd, {**exact(), "timing": strange()}, exact(round_="elsewhere")):
        builder.add("run", body, RUNNER)
    builder.add("supersede", {"target": names["candidate"], "reason": "bad build", "replacement": None}, JUDGE)
    for preparer in (Preparer(HOUSE), Preparer(HOUSE, by_round=False), Preparer(RULES["v0.2.2"])):
        prepared = preparer.prepare(builder.data)
        sent = pickle.dumps(prepared)
        assert pickle.loads(sent) == prepared
        assert {type(item) for item in prepared.items} >= {int, Standing}
        assert prepared.judged
    assert len(sent) < len(builder.data) / 8


@pytest.mark.parametrize(
    ("main", "mine", "holds"),
    [("3", "12", False), ("3", "6", True), ("3", "6.1", False), ("0.5", "1", True), ("0.5", "1.01", False)],
)
def test_the_ratchet_tells_numbers_from_text_above_one_too(main: str, mine: str, holds: bool) -> None:
    assert Ratchet(HOUSE).beside_text([4], [main], "x").check([4], [mine], "x") is holds


@pytest.mark.parametrize("name", ["v0.2.1", "v0.2.1@d28b5df", "v0.1.0@4e11d5f"])
def test_what_a_rule_would_not_have_admitted_is_counted(name: str) -> None:
    """On either path: the last of them scores the clock's number, which the explaining one alone reads."""
    builder, _ = house_ledger()
    beyond = receipt(60.0)
    beyond["timing"][0] = timed("decode", 160.0, context=131_072)[0]
    for body in (beyond, receipt(1000.0)):
        builder.add("run", body, RUNNER)
    assert same(builder, find_rule(name)).not_admitted > 0
