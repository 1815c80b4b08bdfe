"""What a re-score is held against and what it leaves out is said: no run, no pin and no rounding goes by in silence."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.imported import list_unreadable
from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.pins import PinRecord, read_pins
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore, unused_pins
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sweep import sweep
from k3_ledger.schemas.errors import RescoreError
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, series, verified
from tests.rescore.test_replay import HOUSE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.rescore.conftest import Done

# ----------------------------------------------------------------------------------------------------------------- runs

CHANGES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "warm": {"cache": "warm"},
    "repeated": {"inputs": "repeated"},
    "another actor": {"actor": "floor"},
    "another batch": {"batch": 2},
    "beside": {"metric": "load", "context": None, "context_filled": None},
}


def changed(changes: list[str], number: int) -> dict[str, Any]:
    """A candidate whose four series (decode twice, prefill twice) are changed one by one."""
    body = receipt(60.0 + number, 500.0)
    body["timing"] = [
        {**one, **CHANGES[change], **({"metric": "ping"} if change == "beside" and number > 1 else {})}
        for number, (one, change) in enumerate(zip(body["timing"], changes, strict=True))
    ]  # fmt: skip
    return body


def expected(body: dict[str, Any]) -> int:
    """How many things are to be said of a candidate: one for each metric it timed, and one where it timed none."""
    own = [one for one in body["timing"] if one["actor"] == "subject" and one["metric"] not in {"load", "ping"}]
    if not own:
        return 1
    told = set()
    for metric in {one["metric"] for one in own}:
        mine = [one for one in own if one["metric"] == metric]
        counting = {one["batch"] for one in mine if one["cache"] != "warm" and one["inputs"] == "fresh"}
        told |= {(metric, batch) for batch in counting or {0}}
    return len(told)


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(sorted(CHANGES)), min_size=4, max_size=4), min_size=1, max_size=4))
def test_every_candidate_is_in_a_row_or_counted_under_a_reason(runs: list[list[str]]) -> None:
    builder, _ = house_ledger()
    bodies = [changed(changes, number) for number, changes in enumerate(runs)]
    names = {builder.add("run", body, RUNNER) for body in bodies}
    material = gather(verified(builder))
    for rule in (HOUSE, find_rule("v0.2.1")):
        rows = rescore(material.candidates, rule).rows
        assert len(rows) + len(material.left_out) == 2 + sum(map(expected, bodies))
        said = {row.candidate.identity for row in rows} | {one.identity for one in material.left_out}
        assert names <= said
        found = sweep(verified(builder), rule)
        assert sum(found.tiers.values()) == len(rows)
        assert found.left_out == Counter(f"{one.metric}: {one.reason}" for one in material.left_out)


def left_out_book(tmp_path: Path) -> None:
    builder, _ = house_ledger()
    for number, change in enumerate(("warm", "repeated", "beside", "another actor")):
        builder.add("run", changed([change] * 4, number), RUNNER)
    builder.write(tmp_path)


def test_what_is_in_no_row_is_named_with_its_reason(command: Callable[..., Done], tmp_path: Path) -> None:
    left_out_book(tmp_path)
    named = [
        "  1 no measurement, so in no row: -: nothing of the program was timed",
        "  1 no measurement, so in no row: -: only what is noted beside a run",
        "  1 no measurement, so in no row: decode: a warm cache may have answered",
        "  1 no measurement, so in no row: decode: its inputs were not fresh",
        "  1 no measurement, so in no row: prefill: a warm cache may have answered",
        "  1 no measurement, so in no row: prefill: its inputs were not fresh",
    ]
    words = ("rescore", ".", "--rule", "house-1.decode", "--processes", "1")
    for more in (), ("--counts",):
        lines = command(*words, *more).out.splitlines()
        assert [line for line in lines if "no measurement" in line] == named
    document = command(*words, "--json").json
    assert [(one["index"], one["metric"]) for one in document["left_out"]] == [
        (9, "decode"), (9, "prefill"), (10, "decode"), (10, "prefill"), (11, "-"), (12, "-"),
    ]  # fmt: skip
    assert command(*words, "--counts", "--json").json["left_out"]["decode: its inputs were not fresh"] == 1
    one = command(*words, "--metric", "decode").out.splitlines()
    assert [line for line in one if "no measurement" in line] == named[2:4]


# ----------------------------------------------------------------------------------------------------------------- pins

PIN = '[[pin]]\nslot = "{}"\nvalue = {}\nunit = "tok/s"\n'


@pytest.mark.parametrize(
    ("slot", "code", "says"),
    [
        (f"frontier:{DECODE}", 0, ""),
        (f"guard:{PREFILL}", 0, ""),
        (
            f"frontier:{DECODE.replace('/node', '/h200x9')}",
            0,
            "warning: p.toml, line 1, pin[0]: frontier:decode@131072",
        ),
        (f"frontier:{DECODE.replace('k3-slice', 'kimi-K3')}", 0, "no run that was judged is held against this pin"),
        (f"frontier:{DECODE.replace('131072', '13107')}", 0, "no run that was judged is held against this pin"),
        (f"frontier:{PREFILL}", 0, "no run that was judged is held against this pin"),
        (f"frontier:{DECODE.replace('decode', 'decod')}", 3, "decod is no metric; did you mean decode?"),
        (f"frontir:{DECODE}", 3, "is not the name of a slot"),
    ],
)
def test_a_pin_of_a_file_that_nothing_is_held_against_is_named(
    command: Callable[..., Done], tmp_path: Path, slot: str, code: int, says: str
) -> None:
    house_ledger()[0].write(tmp_path)
    (tmp_path / "p.toml").write_text(PIN.format(slot, 450 if "prefill" in slot else 55))
    done = command("rescore", ".", "--rule", "house-1.decode", "--pins", "p.toml", "--root-key", ROOT.public.hex())
    assert done.code == code
    assert says in done.err
    told = [line for line in done.err.splitlines() if "K3L-PIN-UNSOURCED" not in line]  # which it is beside
    assert bool(says) == bool(told)
    assert (len(told) < len(done.err.splitlines())) == (code == 0)


def test_unused_pins_are_those_of_a_file_alone() -> None:
    builder, _ = house_ledger()
    material = gather(verified(builder))
    track = material.candidates[0].run.track
    pins = [PinRecord(role, track, Fraction(55), "tok/s") for role in ("frontier", "guard")]
    rows = rescore(material.candidates, HOUSE, pins=pins).rows
    assert [pin.role for pin in unused_pins(rows, pins)] == ["guard"]
    for own in ("own", "tag"):
        assert unused_pins(rows, own) == []  # type: ignore[arg-type]


def test_a_misspelt_metric_is_a_slip_and_another_metric_is_none() -> None:
    with pytest.raises(RescoreError, match="prefil is no metric"):
        read_pins(PIN.format("frontier:prefil@32768/m/q/n", 1).encode(), source="p.toml")
    (pin,) = read_pins(PIN.format("frontier:verify@-/m/q/n", 1).replace("tok/s", "receipt/s").encode(), source="p.toml")
    assert pin.track.metric == "verify"


# ------------------------------------------------------------------------------------------------------------- frontier


def test_the_frontier_that_is_shown_is_the_one_that_was_used(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(56.0, 500.0, round_=None), RUNNER)
    builder.write(tmp_path)
    words = ("rescore", ".", "--rule", "house-1.decode", "--metric", "decode", "--all", "--processes", "1")

    def shown(*more: str) -> list[list[str]]:
        lines = command(*words, *more).out.splitlines()
        assert lines[0].split()[4:6] == ["frontier", "from"]
        return [line.split()[4:7] for line in lines[1:3]]

    assert shown() == [["50.00", "receipt", names["frontier"][:8]], ["50.00", "pin", names[DECODE][:8]]]
    (tmp_path / "p.toml").write_text(PIN.format(f"frontier:{DECODE}", 40))
    assert [row[:2] for row in shown("--pins", "p.toml")] == [["40.00", "file"], ["40.00", "file"]]


def test_the_frontier_of_an_earlier_run_is_shown_and_none_where_there_was_none(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    text = command("rules", "show", "house-1.decode", "--toml").out.replace("house-1.decode", "open")
    for part in ("ratchet", "guard"):
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(f"{part}."))
        text = f'{part} = "none"\n' + text
    (tmp_path / "open.toml").write_text(text)
    builder = Builder().open()
    first = builder.add("run", receipt(50.0, round_=None), RUNNER)
    builder.add("run", receipt(60.0, round_=None), RUNNER)
    builder.write(tmp_path)
    done = command("rescore", ".", "--rule", "open.toml", "--metric", "decode", "--all", "--processes", "1")
    rows = [line.split()[4:7] for line in done.out.splitlines()[1:3]]
    assert rows[0][:2] == ["0.00", "-"]
    assert rows[1] == ["50.00", "receipt", first[:8]]


# ------------------------------------------------------------------------------------------------------------- rounding

RULE = replace(find_rule("v0.2.1"), pins=())
STEPS = [(Fraction(18, 100), "XL"), (Fraction(10, 100), "L"), (Fraction(6, 100), "M"), (Fraction(35, 1000), "S")]


def graded(raw: Fraction, frontier: Fraction, reference: Fraction) -> str:
    """The tier of a raw rate by the text of the rule alone: to two decimals once, ties to even, and no code of it."""
    hundredths, rest = divmod(raw * 100, 1)
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and hundredths % 2 == 1)
    difference = Fraction(int(hundredths) + up, 100) - frontier
    if difference / frontier <= Fraction(2, 100):
        return "none"
    credit = min(difference / reference, difference / frontier)
    return next((tier for bar, tier in STEPS if credit >= bar), "XS")


def ledger_of(count: int, durations: list[int], frontier: str) -> Builder:
    builder = Builder().open()
    builder.add("run", receipt(18.0, role="reference", round_=None), RUNNER)
    body = receipt(float(frontier), role="frontier", round_=None)
    start, samples = 0, []
    for _ in range(3):
        duration = int(count * 10**9 / Fraction(frontier))
        samples.append({"start_ns": start, "duration_ns": duration, "count": count})
        start += duration
    body["timing"][0]["samples"] = samples
    source = builder.add("run", body, RUNNER)
    builder.add("pin", pin_body(f"frontier:{DECODE}", frontier, source), JUDGE)
    body = receipt(21.0, round_=None)
    rows = [(count, duration) for duration in durations]
    body["timing"][0] = series("decode", "subject", [(one, 1.0) for one, _ in rows], context=131_072)
    start = 0
    for sample, (_, duration) in zip(body["timing"][0]["samples"], rows, strict=True):
        sample |= {"start_ns": start, "duration_ns": duration}
        start += duration
    builder.add("run", body, RUNNER)
    return builder


def tier_of(builder: Builder) -> str:
    material = gather(verified(builder))
    candidates = [one for one in material.candidates if one.run.track.metric == "decode"]
    pins = [PinRecord("frontier", candidates[0].run.track, Fraction("20.62"), "tok/s")]
    (row,) = rescore(candidates, RULE, pins=pins).rows
    assert isinstance(row.result, Verdict)
    return row.result.tier


COUNT = 2_048_000
ties = st.integers(2062, 2500).map(lambda hundredths: Fraction(hundredths, 100) + Fraction(5, 1000))


@settings(max_examples=80)
@given(ties, st.integers(-400, 400), st.integers(1, 4))
def test_a_raw_rate_is_rounded_once(tie: Fraction, off: int, repetitions: int) -> None:
    """Durations on either side of a tie of two decimals, some of them within half a millionth of it."""
    durations = [int(COUNT * 10**9 / tie) + off + number for number in range(repetitions)]
    rates = sorted(Fraction(COUNT * 10**9, duration) for duration in durations)
    half = repetitions // 2
    raw = rates[half] if repetitions % 2 else (rates[half - 1] + rates[half]) / 2
    builder = ledger_of(COUNT, durations, "20.62")
    assert tier_of(builder) == graded(raw, Fraction("20.62"), Fraction(18))


def test_the_rate_that_two_roundings_promoted() -> None:
    """21.0349999… is 21.035000 in six decimals and 21.04 in two of those, and gains less than 2 % over 20.62."""
    exact = next(
        duration
        for duration in range(int(COUNT * 10**9 / Fraction("21.035")), 10**18)
        if Fraction("21.0349995") < Fraction(COUNT * 10**9, duration) < Fraction("21.035")
    )
    builder = ledger_of(COUNT, [exact] * 3, "20.62")
    assert tier_of(builder) == "none"
    assert sweep(verified(builder), RULE).tiers == {"none": 1, "not scorable": 1}
    run = gather(verified(builder)).candidates[-2].run
    assert run.speed == Fraction("21.035")
    assert run.exact == Fraction(COUNT * 10**9, exact)
    assert Figure(Fraction("20.62"), "file").value * Fraction(102, 100) > Fraction("21.03")


def test_the_table_rounds_once_too(command: Callable[..., Done], tmp_path: Path) -> None:
    ledger_of(COUNT, [97361540289993] * 3, "20.62").write(tmp_path)
    done = command("rescore", ".", "--rule", "v0.2.1", "--metric", "decode", "--all", "--processes", "1")
    assert done.out.splitlines()[1].split()[3] == "21.03"


@pytest.mark.parametrize(
    ("text", "said"), [("-45.38", ["sealed.tps: '-45.38' is below zero"]), ("0", []), ("-0.0", [])]
)
def test_a_copy_of_a_figure_below_zero_is_named(text: str, said: list[str]) -> None:
    assert [finding.message for finding in list_unreadable("id", {"sealed.tps": text, "ledger.tps": "45"})] == said


@settings(max_examples=30)
@given(ties, st.integers(-400, 400))
def test_counting_rounds_once_too(tie: Fraction, off: int) -> None:
    builder = ledger_of(COUNT, [int(COUNT * 10**9 / tie) + off] * 3, "20.62")
    rows = rescore(gather(verified(builder)).candidates, RULE).rows
    tiers = Counter(row.result.tier if isinstance(row.result, Verdict) else "not scorable" for row in rows)
    assert sweep(verified(builder), RULE).tiers == tiers


def test_the_document_says_what_the_table_does(command: Callable[..., Done], tmp_path: Path) -> None:
    house_ledger()[0].write(tmp_path)
    done = command("rescore", ".", "--rule", "house-1.decode", "--json", "--processes", "1")
    assert json.loads(done.out)["left_out"] == []
