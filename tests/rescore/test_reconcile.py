"""Pins against measurements: boundaries, provenance, proposals."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.rescore.exact import parse_decimal
from k3_ledger.rescore.history.pins import DECODE_128K, PREFILL_32K, moment
from k3_ledger.rescore.pins import Merge, PinRecord
from k3_ledger.rescore.reconcile import Measurement, compare, reconcile_lock
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.reconcile import LockReport, Row

RECEIPT = "8641ae28987a4f8fdcc896dbe5443cd5"
NOW = datetime(2026, 8, 7, tzinfo=UTC)


def pin(value: str, **fields: object) -> PinRecord:
    fields.setdefault("source", RECEIPT)
    return replace(PinRecord("frontier", DECODE_128K, Fraction(value), "tok/s"), **fields)  # type: ignore[arg-type]


def measured(
    value: str, receipt: str | None = RECEIPT, track: object = DECODE_128K, time: datetime = NOW
) -> Measurement:
    return Measurement(track, Fraction(value), time, receipt, "cac4595a")  # type: ignore[arg-type]


def merge(
    value: str | None, *, at: str = "08-06T00:00", sealed: bool = True, track: object = DECODE_128K, **fields: Any
) -> Merge:
    number = None if value is None else Fraction(value)
    one = Merge(track, moment(at), 127, "cac4595", RECEIPT if sealed else None, number, sealed)  # type: ignore[arg-type]
    return replace(one, commit=None, run=None, **fields) if "pull_request" in fields else replace(one, **fields)


def early(value: str) -> Measurement:
    """What a pin was measured at, two days before."""
    return measured(value, time=moment("08-05T00:00"))


def codes(report: LockReport) -> list[Code]:
    return [finding.code for finding in report.findings]


def only(report: LockReport) -> Row:
    (row,) = report.rows
    return row


def test_boundary_cases_of_the_ten_percent_rule(test_data: Callable[..., Path]) -> None:
    (path,) = test_data("bug-cases", "cases", "36-threshold-boundary").glob("*.csv")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    for row in rows:
        if row["expected"].startswith("error"):
            with pytest.raises(RescoreError):
                compare(
                    parse_decimal(row["old"], field="pin"),
                    parse_decimal(row["new"], field="measured"),
                    threshold=Fraction(row["limit_relative"]),
                )
            continue
        found = compare(Fraction(row["old"]), Fraction(row["new"]), threshold=Fraction(row["limit_relative"]))
        assert (found.decision in {"stale", "alarm"}) == (row["expected"] == "flagged"), row
    assert len(rows) == 8


@pytest.mark.parametrize(
    ("pinned", "value", "decision"),
    [
        ("1.0", "1.1", "raise"),
        ("1.0", "1.100000001", "stale"),
        ("4.2", "3.78", "keep"),
        ("4.2", "3.779999999", "alarm"),
        ("50", "51", "agree"),
        ("50", "51.000001", "raise"),
        ("50", "49", "agree"),
        ("50", "48.999999", "keep"),
        ("0.2", "0.21", "agree"),  # within 0.01
        ("0.2", "0.2100001", "raise"),
        ("0.05", "0.06", "stale"),  # within 0.01 too, and 20 % off all the same
        ("0.05", "0.04", "alarm"),
    ],
)
def test_each_boundary_to_the_last_place(pinned: str, value: str, decision: str) -> None:
    assert compare(Fraction(pinned), Fraction(value)).decision == decision


@pytest.mark.parametrize(("value", "word"), [("0", "zero"), ("-100", "negative")])
def test_a_pin_of_zero_or_below_is_no_pin(value: str, word: str) -> None:
    for found in (
        lambda: compare(Fraction(value), Fraction(5)),
        lambda: reconcile_lock([pin(value)], [measured("5")]),
        lambda: reconcile_lock([pin(value)], []),
    ):
        with pytest.raises(RescoreError, match=word) as caught:
            found()
        assert caught.value.code is Code.PIN_INVALID


def test_a_slot_never_pinned_has_no_drift() -> None:
    found = compare(None, Fraction(5))
    assert (found.decision, found.drift, found.explained(Fraction(1, 10))) == ("no-pin", None, False)


def test_a_threshold_must_be_above_zero() -> None:
    with pytest.raises(ValueError, match="above zero"):
        reconcile_lock([], [], threshold=Fraction(0))


def test_a_fresh_sourced_pin_has_nothing_to_report() -> None:
    report = reconcile_lock([pin("56.82")], [measured("56.82")])
    assert report.findings == ()
    assert report.exit_code is ExitCode.VERIFIED
    assert only(report).proposal is None


def test_a_stale_pin_is_exit_1_and_proposes_the_measurement() -> None:
    report = reconcile_lock([pin("46.48")], [measured("46.48"), measured("56.82", "f" * 32)])
    assert codes(report) == [Code.PIN_STALE]
    assert report.exit_code is ExitCode.FALSE
    assert report.errors == report.findings
    assert report.findings[0].message.endswith("46.48 -> 56.82 (+22.2 %), nothing explains it")
    proposal = only(report).proposal
    assert proposal is not None
    assert (proposal.value, proposal.source, proposal.time, proposal.commit) == (
        Fraction("56.82"), "f" * 32, NOW, "cac4595a",
    )  # fmt: skip


def test_a_merged_winner_explains_drift_and_says_so() -> None:
    report = reconcile_lock([pin("46.48")], [early("46.48"), measured("56.82", "f" * 32)], merges=[merge("56.76")])
    assert Code.PIN_EXPLAINED in codes(report)
    assert report.exit_code is ExitCode.VERIFIED
    assert only(report).explained
    assert only(report).proposal is not None
    assert "#127 landed at 56.76; +0.1 % unexplained" in report.findings[-1].message


def test_a_winner_that_explains_too_little_leaves_the_pin_stale() -> None:
    report = reconcile_lock([pin("40")], [early("40"), measured("60", "f" * 32)], merges=[merge("50", sealed=False)])
    assert report.findings[-1].message.endswith("+20.0 % more than #127 landed at 50, which no receipt holds")
    assert report.exit_code is ExitCode.FALSE


@pytest.mark.parametrize(
    "winner",
    [
        merge("60", at="08-08T00:00"),  # landed after the measurement
        merge("60", track=PREFILL_32K),
        merge(None),
        merge("39"),  # beneath the pin: explains nothing
    ],
)
def test_a_winner_that_did_not_move_the_slot_explains_nothing(winner: Merge) -> None:
    report = reconcile_lock([pin("40")], [early("40"), measured("60", "f" * 32)], merges=[winner])
    assert report.findings[-1].message.endswith("nothing explains it")


def test_the_last_winner_counts_not_the_greatest() -> None:
    merges = [merge("60", at="08-05T00:00"), merge("45", at="08-06T00:00", pull_request=128)]
    report = reconcile_lock([pin("40")], [early("40"), measured("60", "f" * 32)], merges=merges)
    assert Code.PIN_STALE in codes(report)


def test_a_pin_is_never_lowered() -> None:
    report = reconcile_lock([pin("21.24")], [measured("21.24"), measured("11.61", "f" * 32)])
    assert codes(report) == [Code.PIN_ALARM]
    assert report.findings[0].message.endswith("21.24 -> 11.61 (-45.3 %)")
    assert only(report).proposal is None
    kept = reconcile_lock([pin("21.24")], [measured("21.24"), measured("20", "f" * 32)])
    assert (only(kept).drift.decision, only(kept).proposal) == ("keep", None)


@given(st.fractions(min_value="0.01", max_value=1000), st.fractions(min_value="0.01", max_value=1000))
def test_a_proposal_is_always_above_its_pin(pinned: Fraction, value: Fraction) -> None:
    row = only(reconcile_lock([pin(str(pinned))], [measured(str(value))]))
    assert row.proposal is None or row.proposal.value > pinned


def test_a_pin_without_a_source_is_a_finding() -> None:
    report = reconcile_lock([pin("56.82", source=None)], [measured("56.82")])
    assert codes(report) == [Code.PIN_UNSOURCED]
    assert report.exit_code is ExitCode.FALSE


def test_a_pin_whose_source_is_not_there_is_a_finding() -> None:
    report = reconcile_lock([pin("56.82", source="e" * 32)], [measured("56.82")])
    assert codes(report) == [Code.PIN_UNSOURCED]
    assert report.findings[0].message.endswith("no receipt eeeeeeee measures anything")


def test_a_pin_that_its_source_did_not_measure_was_edited_by_hand() -> None:
    report = reconcile_lock([pin("56.8")], [measured("56.82")])
    assert codes(report) == [Code.PIN_HAND_EDITED]
    assert report.findings[0].message.endswith("pinned 56.8, its receipt measured 56.82")


def test_a_pin_above_what_its_own_source_measured_is_edited_and_no_alarm() -> None:
    """The source is the newest measurement, and says nothing of what came after the pin."""
    report = reconcile_lock([pin("60")], [measured("50")])
    assert codes(report) == [Code.PIN_HAND_EDITED]
    assert only(report).drift.decision == "keep"


def test_a_source_that_measured_a_slot_twice_measured_either() -> None:
    twice = [measured("50"), measured("56.82")]
    assert codes(reconcile_lock([pin("56.82")], twice)) == []
    assert codes(reconcile_lock([pin("56.8")], twice)) == [Code.PIN_HAND_EDITED]


def test_a_pin_whose_source_measured_another_slot_was_edited_by_hand() -> None:
    report = reconcile_lock([pin("56.82")], [measured("56.82", track=PREFILL_32K), measured("56.82", "f" * 32)])
    assert codes(report) == [Code.PIN_HAND_EDITED]
    assert report.findings[0].message.endswith("receipt 8641ae28 measured frontier:prefill@32768")


def test_a_pin_predates_work_merged_on_any_metric_of_the_same_node() -> None:
    merges = [merge("45", at="08-04T10:57"), merge("46", at="08-04T19:18", track=PREFILL_32K, pull_request=128)]
    elsewhere = replace(merges[0], track=replace(DECODE_128K, node="laptop"))
    old = pin("40.35", time=moment("08-04T07:09"), source=None)
    report = reconcile_lock([old], [measured("40.35", None)], merges=[*merges, elsewhere])
    assert Code.PIN_PREDATES in codes(report)
    assert only(report).merged == 2
    young = pin("40.35", time=moment("08-04T20:00"), source=None)
    assert only(reconcile_lock([young], [measured("40.35", None)], merges=merges)).merged == 0


def test_the_time_of_the_source_counts_rather_than_the_pins_own_word() -> None:
    claims_young = pin("40.35", time=moment("08-06T00:00"))
    source = measured("40.35", time=moment("08-04T07:09"))
    assert only(reconcile_lock([claims_young], [source], merges=[merge("45", at="08-05T00:00")])).merged == 1


def test_a_slot_nobody_measured_is_said_not_passed_over() -> None:
    report = reconcile_lock([pin("56.82", source=None)], [measured("70", track=PREFILL_32K)])
    assert codes(report) == [Code.PIN_UNSOURCED, Code.PIN_UNMEASURED]
    assert only(report).drift.decision == "no-measurement"
    assert only(report).measured is None


def test_the_newest_measurement_counts() -> None:
    claims_old = measured("70", "e" * 32, time=moment("08-05T00:00"))
    assert codes(reconcile_lock([pin("56.82")], [measured("56.82"), claims_old])) == [Code.PIN_STALE]
    assert codes(reconcile_lock([pin("56.82")], [claims_old, measured("56.82")])) == []


@pytest.mark.parametrize(("file", "code"), [("60", Code.PIN_PROPOSAL), ("50", Code.PIN_LOWERED), ("56.82", None)])
def test_a_pin_entry_wins_over_the_file(file: str, code: Code | None) -> None:
    entry, proposal = pin("56.82", entry=True), pin(file, source="f" * 32)
    for pins in ([entry, proposal], [proposal, entry]):
        report = reconcile_lock(pins, [measured(file, "f" * 32), measured("56.82")])
        assert codes(report) == ([] if code is None else [code])
        assert only(report).pin is entry
    assert reconcile_lock([entry, pin("40")], [measured("56.82")]).exit_code is ExitCode.FALSE


@pytest.mark.parametrize(
    ("proposal", "code"),
    [
        (pin("56.82", source=None), Code.PIN_UNSOURCED),
        (pin("56.82", source="e" * 32), Code.PIN_UNSOURCED),
        (pin("60", source=None), Code.PIN_UNSOURCED),
        (pin("60"), Code.PIN_HAND_EDITED),
        (pin("70", source="d" * 32), Code.PIN_HAND_EDITED),
        (pin("56.82", time=moment("08-06T00:00")), Code.PIN_STAMP),
    ],
)
def test_the_source_of_a_proposal_is_looked_at_beside_an_entry_too(proposal: PinRecord, code: Code) -> None:
    """An entry is made of what is proposed: what is found without one is found with one."""
    seen = [measured("70", "d" * 32, track=PREFILL_32K), measured("56.82")]
    alone = reconcile_lock([proposal], seen)
    beside = reconcile_lock([pin("56.82", entry=True), proposal], seen)
    assert code in codes(alone)
    assert (codes(beside).count(code), beside.exit_code) == (1, ExitCode.FALSE)
    assert {code} <= set(codes(beside)) <= {code, Code.PIN_PROPOSAL}


# ------------------------------------------------------------------------------------------------ roles of a slot


def other(value: str, receipt: str | None = RECEIPT, time: datetime = NOW) -> Measurement:
    return replace(measured(value, receipt, time=time), reference=True)


def reference(value: str, **fields: object) -> PinRecord:
    return replace(pin(value, **fields), role="reference")


@pytest.mark.parametrize("value", ["5", "18.4435", "20", "56.82"])
def test_a_reference_is_not_held_against_our_own_measurements(value: str) -> None:
    report = reconcile_lock([reference("18.4435", source=None)], [measured(value)], merges=[merge("60")])
    assert codes(report) == [Code.PIN_UNSOURCED, Code.PIN_UNMEASURED]
    assert (only(report).drift.decision, only(report).proposal, only(report).merged) == ("no-measurement", None, 0)


@pytest.mark.parametrize("role", ["frontier", "guard"])
def test_a_pin_of_our_own_is_not_held_against_the_other_engine(role: str) -> None:
    report = reconcile_lock([replace(pin("18", source=None), role=role)], [other("56.82")])  # type: ignore[arg-type]
    assert only(report).drift.decision == "no-measurement"


@pytest.mark.parametrize(
    ("pinned", "newest", "decision"), [("40", "60", "stale"), ("40", "30", "alarm"), ("40", "43", "raise")]
)
def test_a_reference_is_held_against_the_other_engine(pinned: str, newest: str, decision: str) -> None:
    ours = measured("99", "a" * 32, time=moment("08-08T00:00"))
    rows = [other(pinned), other(newest, "f" * 32), ours]
    report = reconcile_lock([reference(pinned)], rows, merges=[merge("58")])
    assert only(report).drift.decision == decision
    assert not only(report).explained  # our own winner makes no other engine faster
    proposal = only(report).proposal
    assert proposal is None or (proposal.role, proposal.value, proposal.source) == (
        "reference", Fraction(newest), "f" * 32,
    )  # fmt: skip


def test_a_source_of_the_other_role_is_no_source() -> None:
    ours = reconcile_lock([reference("56.82")], [measured("56.82")])
    theirs = reconcile_lock([pin("18.44")], [other("18.44")])
    for report, said in ((ours, "frontier:decode@131072"), (theirs, "reference:decode@131072")):
        assert codes(report) == [Code.PIN_HAND_EDITED, Code.PIN_UNMEASURED]
        assert report.findings[0].message.endswith(f"receipt 8641ae28 measured {said}")


# ------------------------------------------------------------------------------------- alarms need newer evidence


@pytest.mark.parametrize("at", ["08-01T00:00", "08-07T00:00", "08-09T00:00"])
@pytest.mark.parametrize("receipt", [None, "f" * 32])
def test_an_alarm_needs_evidence_that_stands_behind_the_pins_source(receipt: str | None, at: str) -> None:
    low = measured("46.11", receipt, time=moment(at))
    before = reconcile_lock([pin("56.82", source="a" * 32)], [measured("56.82", "a" * 32, PREFILL_32K), low])
    assert only(before).drift.decision == "alarm", "the source's other slot stands in front"
    report = reconcile_lock([pin("56.82")], [measured("56.82"), low])
    assert (only(report).drift.decision, report.exit_code) == ("alarm", ExitCode.FALSE)
    other_slot = measured("56.82", track=PREFILL_32K)
    kept = reconcile_lock([pin("56.82")], [low, other_slot])
    assert only(kept).drift.decision == "keep", "what stands in front of the source says nothing of it"


def test_a_pin_without_its_source_is_as_old_as_it_says() -> None:
    old = measured("46.11", None, time=moment("08-05T00:00"))
    young = pin("56.82", source=None, time=moment("08-06T00:00"))
    assert only(reconcile_lock([young], [old])).drift.decision == "keep"
    assert only(reconcile_lock([replace(young, time=moment("08-04T00:00"))], [old])).drift.decision == "alarm"
    assert only(reconcile_lock([replace(young, time=None)], [old])).drift.decision == "alarm"


def test_a_pin_is_no_younger_than_the_receipt_it_names() -> None:
    rows = [measured("56.82", time=moment("08-04T00:00")), measured("46.11", "f" * 32, time=moment("08-05T00:00"))]
    assert only(reconcile_lock([pin("56.82", time=moment("08-06T00:00"))], rows)).drift.decision == "alarm"


def test_what_is_merged_here_makes_no_reference_older() -> None:
    old = reference("18.44", time=moment("08-04T07:09"))
    row = only(reconcile_lock([old], [other("18.44", time=moment("08-04T07:09"))], merges=[merge("45")]))
    assert (row.merged, row.findings) == (0, ())


@pytest.mark.parametrize(("measured", "explained"), [("121", True), ("121.000001", False)])
def test_a_winner_accounts_for_drift_up_to_the_threshold_above_it(measured: str, explained: bool) -> None:
    drift = compare(Fraction(100), Fraction(measured), winner=merge("110"))
    assert drift.decision == "stale"
    assert drift.explained(Fraction(1, 10)) is explained


def test_a_pin_that_is_younger_than_a_much_greater_measurement_is_stale_all_the_same() -> None:
    """Only an alarm asks for newer evidence: pins rise, whenever the greater number was measured."""
    old = measured("120", receipt="0" * 32, time=moment("08-06T00:00"))
    (row,) = reconcile_lock([pin("100", time=NOW)], [old]).rows
    assert row.drift.decision == "stale"
