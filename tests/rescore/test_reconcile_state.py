"""Reconciling looks at what stands, in the log's order: newest, merged, superseded, guarded; and pins that fall."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.history.pins import DECODE_128K, PREFILL_32K, moment
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.pins import Merge, distinct_merges
from k3_ledger.rescore.reconcile import Measurement, reconcile_lock
from k3_ledger.rescore.replay import gather, gather_foreign
from k3_ledger.schemas.errors import RescoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.polaris.to_import import ImportItem, in_source_order
from tests.ledgers import JUDGE, LOG, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_claims_state import import_body, liar
from tests.rescore.test_reconcile import early, measured, merge, only, pin
from tests.rescore.test_standing import FRONTIER, MERGE, seal, take_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.reconcile import LockReport
    from tests.commands import Done


def reconciled(builder: Builder, **options: Any) -> LockReport:
    """The ledger's own pins against its own measurements, as the command does it."""
    material = gather(verified(builder))
    return reconcile_lock(material.pin_entries, material.measurements, merges=material.merges, **options)


def decision(builder: Builder, **options: Any) -> tuple[str, int]:
    """Of the pin of decode: what was decided, and the measurement it was held against."""
    row = next(row for row in reconciled(builder, **options).rows if row.pin.slot == FRONTIER)
    return row.drift.decision, int(row.measured.value) if row.measured else 0


def codes_of(report: LockReport) -> list[Code]:
    return [finding.code for finding in report.findings]


# --------------------------------------------------------------------------------------------------------- newest


@pytest.mark.parametrize("time", ["2025-12-31T00:00:00Z", "2026-01-01T00:00:05Z", "2999-01-01T00:00:00Z"])
def test_the_last_frontier_build_is_the_newest_whatever_time_it_claims(time: str) -> None:
    builder, _ = house_ledger()
    builder.add("run", receipt(70.0, role="frontier", round_="r2"), RUNNER, time=time)
    assert decision(builder) == ("stale", 70)
    builder.add("run", receipt(51.0, role="frontier", round_="r3"), RUNNER)
    assert decision(builder) == ("agree", 51)


def test_a_candidate_of_ours_is_no_measurement_of_the_build_but_can_be_a_pins_source() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(FRONTIER, "60", names["candidate"]), JUDGE)
    report = reconciled(builder)
    assert decision(builder) == ("keep", 50), "what stands in front of the pin's source says nothing of it"
    assert Code.PIN_UNSOURCED not in codes_of(report)


def test_the_order_of_imports_is_that_of_the_log_not_of_their_times() -> None:
    builder = Builder().open()
    for name, tps, at in (("a", "60", "2026-01-03"), ("b", "50", "2026-01-01")):
        builder.add("import", import_body(name, tps, f"{at}T00:00:00Z"), LOG)
    assert [int(item.value) for item in gather(verified(builder)).measurements] == [60, 50]
    items = [ImportItem(import_body(name, "5", f"2026-01-0{day}T00:00:00Z"), {}) for name, day in (("a", 3), ("b", 1))]
    foreign = gather_foreign(items)
    assert [one.run.run for one in foreign.candidates] == ["a", "b"]
    assert [item.position for item in foreign.measurements] == [0, 1]


def test_runs_are_imported_as_their_log_lists_them() -> None:
    class Row:
        def __init__(self, line: int) -> None:
            self.position = type("Place", (), {"line": line})

    class Run:
        def __init__(self, name: str, timestamp: str, line: int | None) -> None:
            self.name, self.timestamp, self.ledger = name, timestamp, () if line is None else (Row(line),)

    runs = [Run("early", "1", None), Run("b", "2", 2), Run("a", "3", 1), Run("mid", "3", None), Run("c", "4", 3)]
    runs += [Run("late", "9", None)]
    assert [run.name for run in in_source_order(runs)] == ["early", "a", "b", "mid", "c", "late"]  # type: ignore[arg-type, attr-defined]


def guarded(*, label: str = "S", superseded: bool = False) -> ImportItem:
    body = import_body("r", "69", "2026-08-06T10:16:02Z")
    fields = {step["name"]: step["value"] for step in body["fields"]} | {
        "sealed.scored_metric": "prefill", "sealed.scored_context": "32768", "sealed.decode_tps": "59.9",
        "receipt.attestation.code.repo": "gittensor-ai-lab/sparkinfer-k3", "ledger.label": label,
        "sealed.node": "h200x8", "sealed.quant": "UD-IQ1_S",
    }  # fmt: skip
    if superseded:
        fields["ledger.superseded_by"] = "x"
    return ImportItem({**body, "fields": [{"name": name, "value": value} for name, value in fields.items()]}, {})


def test_a_guarded_value_is_a_measurement_of_its_own_metric() -> None:
    found = gather_foreign([guarded()]).measurements
    assert [(item.track, item.value, item.counts) for item in found] == [
        (DECODE_128K, Fraction("59.9"), True), (PREFILL_32K, Fraction(69), True),
    ]  # fmt: skip
    for out in (guarded(label="REJECT"), guarded(superseded=True)):
        assert [item.counts for item in gather_foreign([out]).measurements] == [False, False]


@pytest.mark.parametrize("role", ["frontier", "guard"])
def test_the_stale_decode_pin_of_the_real_log_is_found(
    command: Callable[..., Done], test_data: Callable[..., Path], tmp_path: Path, role: str
) -> None:
    log = test_data("data", "sparkinfer-k3-log")
    (source,) = [path.name for path in (log / "runs").iterdir() if path.name.startswith("63bd1de4")]
    (tmp_path / "pins.toml").write_text(
        f'[[pin]]\nslot = "{role}:{DECODE_128K}"\nvalue = 46.49\nunit = "tok/s"\nsource = "{source}"\n'
    )
    done = command("reconcile", log, "--pins", "pins.toml", "--json")
    (row,) = done.json["pins"]
    assert (done.code, row["decision"], row["measured"]) == (1, "stale", "59.9")


# ----------------------------------------------------------------------------------------------- what no longer stands


def test_a_superseded_or_refused_receipt_is_neither_newest_nor_a_source() -> None:
    builder, names = house_ledger()
    newer = builder.add("run", receipt(70.0, role="frontier", round_="r2"), RUNNER)
    assert decision(builder) == ("stale", 70)
    take_back(builder, newer)
    assert decision(builder) == ("agree", 50)
    take_back(builder, names["frontier"])
    report = reconciled(builder)
    assert report.findings[0].message.endswith(
        f"receipt {names['frontier'][:8]} was refused, left unproved or superseded"
    )
    assert decision(builder) == ("no-measurement", 0)
    bad, _ = house_ledger()
    identity = liar(bad)
    bad.add("pin", pin_body(FRONTIER, "150", identity), JUDGE)
    assert Code.PIN_UNSOURCED in codes_of(reconciled(bad)), "nobody judged it, and its own clock refutes it"
    seal(bad)
    assert Code.PIN_UNSOURCED in codes_of(reconciled(bad))


def test_a_superseded_pin_is_not_reconciled() -> None:
    builder, names = house_ledger()
    high = builder.add("pin", pin_body(FRONTIER, "60", names["candidate"]), JUDGE)
    take_back(builder, high)
    assert [str(row.pin.value) for row in reconciled(builder).rows] == ["50", "450"]


@pytest.mark.parametrize("state", ["standing", "superseded", "refused"])
def test_only_a_winner_that_stands_explains_anything(state: str) -> None:
    builder, names = house_ledger()
    winner = liar(builder) if state == "refused" else names["candidate"]
    builder.add("merge", {**MERGE, "run": winner, "claimed": None}, JUDGE)
    builder.add("run", receipt(150.0 if state == "refused" else 60.0, role="frontier", round_="r2"), RUNNER)
    seal(builder)
    if state == "superseded":
        take_back(builder, winner)
    row = reconciled(builder).rows[0]
    assert (row.drift.decision, row.explained) == ("stale", state == "standing")
    assert row.merged == 1


def test_a_pin_from_an_entry_that_no_longer_stood_is_found_by_verify() -> None:
    builder, names = house_ledger()
    take_back(builder, names["frontier"])
    assert settle_judgements(verified(builder)).findings == (), "these pins are older than that"
    builder.add("pin", pin_body(f"guard:{DECODE}", "50", names["frontier"]), JUDGE)
    (finding,) = settle_judgements(verified(builder)).findings
    assert (finding.code, finding.message) == (
        Code.PIN_UNSOURCED, f"guard:{DECODE}: the entry it names was superseded before",
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------ pins that fall


def test_a_pin_entry_that_falls_is_a_finding_wherever_one_looks() -> None:
    builder, names = house_ledger()
    high = builder.add("pin", pin_body(FRONTIER, "60", names["candidate"]), JUDGE)
    low = builder.add("pin", pin_body(FRONTIER, "50", names["frontier"]), JUDGE)
    for report in (reconciled(builder), settle_judgements(verified(builder))):
        found = [finding for finding in report.findings if finding.code is Code.PIN_LOWERED]
        assert [(finding.message, finding.position.index) for finding in found] == [
            (f"{FRONTIER}: pinned 50, after 60", 10)
        ]
        assert report.exit_code is ExitCode.FALSE
    for wrong in (high, low):
        cured = Builder(list(builder.lines))
        take_back(cured, wrong)
        assert Code.PIN_LOWERED not in codes_of(reconciled(cured))
        assert settle_judgements(verified(cured)).exit_code is ExitCode.VERIFIED


def test_a_pin_below_the_highest_has_fallen_even_when_it_rose_since() -> None:
    rows = [pin(value, entry=True, identity=value) for value in ("50", "70", "60", "65", "70", "71")]
    report = reconcile_lock([*rows, pin("40", entry=True, track=PREFILL_32K)], [measured("71")])
    found = [finding.found for finding in report.findings if finding.code is Code.PIN_LOWERED]
    assert found == ["60", "65"]


# ----------------------------------------------------------------------------------------------------------- merges


def test_what_is_recorded_twice_was_merged_once() -> None:
    commit = "cac4595" + "0" * 33
    entry = replace(merge("45"), commit=commit, index=9)
    file = replace(merge("45"), run=None)
    for both in ([entry, file], [file, entry], [entry, entry, file]):
        assert distinct_merges(both) == [entry]
    assert len(distinct_merges([entry, replace(file, commit="d" * 7)])) == 2, "another commit"
    assert len(distinct_merges([entry, replace(file, pull_request=128)])) == 2, "another pull request"
    assert len(distinct_merges([entry, replace(file, run="e" * 32)])) == 2, "another run"
    numbered = replace(file, commit=None)
    assert distinct_merges([numbered, entry, replace(file, pull_request=None)]) == [entry], "the entry knows more"
    bare = replace(file, commit=None, pull_request=None)
    assert len(distinct_merges([bare, bare])) == 2, "nothing says that they are one"
    assert len(distinct_merges([entry, replace(entry, track=PREFILL_32K)])) == 2, "another slot"


def test_predates_counts_what_landed_once() -> None:
    old = [early("40"), measured("41", "f" * 32)]
    twice = [merge("41"), replace(merge("41"), index=9), replace(merge("450"), track=PREFILL_32K)]
    assert only(reconcile_lock([pin("40")], old, merges=twice)).merged == 1
    assert only(reconcile_lock([pin("40")], old, merges=[*twice, merge("41", pull_request=128)])).merged == 2


def test_predates_of_a_merge_entry_is_decided_by_position() -> None:
    builder, _ = house_ledger()
    for time in ("2025-01-01T00:00:00Z", "2999-01-01T00:00:00Z"):
        book = Builder(list(builder.lines))
        book.add("merge", MERGE, JUDGE, time=time)
        assert reconciled(book).rows[0].merged == 1


@pytest.mark.parametrize("claimed", ["0", "-5"])
def test_a_winner_claims_more_than_nothing(claimed: str) -> None:
    builder, _ = house_ledger()
    bad = builder.add("merge", {**MERGE, "claimed": claimed}, JUDGE)
    with pytest.raises(RescoreError, match=f"a winner on {FRONTIER} claims {claimed}"):
        gather(verified(builder))
    (finding,) = settle_judgements(verified(builder)).findings
    assert (finding.code, finding.position.index) == (Code.JUDGEMENT_UNREADABLE, 9)
    take_back(builder, bad)
    assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED


# ------------------------------------------------------------------------------------------- what a winner can explain


@pytest.mark.parametrize(
    ("winner", "explained"),
    [("54.55", True), ("54.545454", False), ("60", True), ("66.67", False), ("66.666666", True), ("1000", False)],
)
def test_a_winner_explains_what_is_near_its_own_number(winner: str, explained: bool) -> None:
    row = only(reconcile_lock([pin("40")], [early("40"), measured("60", "f" * 32)], merges=[merge(winner)]))
    assert (row.drift.decision, row.explained) == ("stale", explained)
    if winner == "1000":
        assert row.findings[-1].message.endswith("94.0 % less than #127 landed at 1000")


@pytest.mark.parametrize(
    ("at", "explained"),
    [
        ("08-04T23:59:59", False),  # in front of the pin's own build
        ("08-05T00:00:00", True),  # as old as it, as far as claimed times tell
        ("08-07T00:00:00", True),
        ("08-07T00:00:01", False),  # behind the measurement
    ],
)
def test_a_winner_explains_what_was_measured_after_it_landed(at: str, explained: bool) -> None:
    row = only(reconcile_lock([pin("40")], [early("40"), measured("60", "f" * 32)], merges=[merge("60", at=at)]))
    assert row.explained is explained


@pytest.mark.parametrize(("index", "explained"), [(3, False), (5, True), (7, False)])
def test_a_merge_entry_explains_by_its_place(index: int, explained: bool) -> None:
    rows = [replace(early("40"), position=4), replace(measured("60", "f" * 32), position=6)]
    landed = merge("60", at="01-01T00:00", index=index)
    assert only(reconcile_lock([pin("40")], rows, merges=[landed])).explained is explained


def test_a_pin_that_says_nothing_of_its_age_is_explained_by_whatever_landed() -> None:
    bare = pin("40", source=None)
    assert only(reconcile_lock([bare], [measured("60")], merges=[merge("60", at="01-01T00:00")])).explained
    young = replace(bare, time=moment("08-06T12:00"))
    assert not only(reconcile_lock([young], [measured("60")], merges=[merge("60")])).explained


def test_merges_of_a_file_take_no_number_from_a_receipt_that_does_not_count(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(60.0, role="frontier", round_="r2"), RUNNER)
    text = (
        f'[[merge]]\ntrack = "{DECODE}"\npull_request = 7\ntime = 2026-01-01T00:00:09Z\nrun = "{names["candidate"]}"\n'
    )
    (tmp_path / "merges.toml").write_text(text)
    builder.write(tmp_path)
    stands = command("reconcile", ".", "--merges", "merges.toml", "--json").json["pins"][0]
    assert (stands["explained"], stands["winner"]) == (True, "#7")
    take_back(builder, names["candidate"])
    builder.write(tmp_path)
    gone = command("reconcile", ".", "--merges", "merges.toml", "--json").json["pins"][0]
    assert (gone["explained"], gone["winner"], gone["predates"]) == (False, None, {"accepted": 0, "merged": 1})


def test_the_position_of_a_measurement_in_a_ledger_is_its_entrys() -> None:
    builder, names = house_ledger()
    found = gather(verified(builder)).measurements
    assert {item.receipt: item.position for item in found} == {
        names["reference"]: 4, names["frontier"]: 5, names["candidate"]: 8,
    }  # fmt: skip
    assert isinstance(found[0], Measurement)
    assert isinstance(merge("1"), Merge)
    assert PREFILL in {str(item.track) for item in found}


def test_verify_reads_merges_and_says_so() -> None:
    builder, _ = house_ledger()
    builder.add("merge", MERGE, JUDGE)
    (pins,) = [step for step in settle_judgements(verified(builder)).steps if step.name == "pins"]
    assert (pins.checked, pins.detail) == (3, "2 traced to the entry they were measured in, 1 merges read")
    alone = Builder(builder.lines[:4])
    alone.add("merge", MERGE, JUDGE)
    (waiting,) = [step for step in verified(alone).report.steps if step.name == "pins"]
    assert (waiting.not_checked, waiting.detail) == (1, "1 merge entries, traced by the reconcile command")
    (read,) = [step for step in settle_judgements(verified(alone)).steps if step.name == "pins"]
    assert (read.checked, read.detail) == (1, "1 merges read")


def test_a_ledger_of_a_wrong_merge_alone_does_not_verify(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    alone = Builder(builder.lines[:6])
    alone.add("merge", {**MERGE, "claimed": "-5"}, JUDGE)
    alone.write(tmp_path)
    assert command("verify", ".").code == 1


def test_no_pin_is_admitted_from_an_entry_that_no_longer_stands() -> None:
    from k3_ledger.rescore.admission import admit

    builder, names = house_ledger()
    take_back(builder, names["frontier"])
    before = list(verified(builder))
    builder.add("pin", pin_body(f"guard:{DECODE}", "50", names["frontier"]), JUDGE)
    entry = list(verified(builder))[-1].entry
    assert [finding.code for finding in admit(entry, before)] == [Code.PIN_UNSOURCED]
    assert list(admit(entry, [item for item in before if item.entry.kind != "supersede"])) == []
