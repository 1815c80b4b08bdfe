"""Advances of the frontier: what a new frontier can be a figure of, and how a line names its proof."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from k3_ledger.verify.polaris import AuditReport, audit
from tests.verify.polaris import make_log


def log_of(row: dict[str, Any], **figures: object) -> make_log.Draft:
    """The sibling's shape with one advance, and its run with these figures; without the seal, which is of another."""
    log = make_log.sibling_draft()
    run = log.runs[1]
    assert run.result is not None
    assert run.index is not None
    for record in (run.result, run.index):
        record |= {name: value for name, value in figures.items() if name in record}
    run.form, run.log, run.beside = "none", None, False
    log.advances = [log.advances[1] | row]
    return log


def reported(log: make_log.Draft) -> tuple[Counter[str], AuditReport]:
    """Findings at the ledger's lines."""
    report = audit(make_log.build(log))
    names = [f.code.name.removeprefix("FOREIGN_") for f in report.findings if f.position.source == "ledger.jsonl"]
    return Counter(names), report


def line(before: float | None, after: float | None, gain: object) -> dict[str, Any]:
    return {"prev_frontier": before, "new_frontier": after, "delta_pct": gain}


def measured(speed: float, base: float, gain: float) -> dict[str, Any]:
    return {"tps": speed, "frontier": base, "delta_pct": gain}


FIVE = measured(105.0, 100.0, 5.0)
ODD = measured(105.3, 100.1, 5.2)
HALF = measured(150.0, 100.0, 50.0)
LOSS = measured(98.0, 100.0, -2.0)

READINGS = {
    "the speed of the run": (FIVE, line(100.0, 105.0, 5.0), ""),
    "the speed, rounded": (measured(105.004, 100.0, 5.0), line(100.0, 105.0, 5.0), ""),
    "raised by the printed gain": (FIVE, line(90.7, 95.24, 5.0), "TWO_MEANINGS"),
    "raised by it, and rounded to even": (FIVE, line(90.7, 95.23, 5.0), "TWO_MEANINGS"),
    "raised by the gain before it was rounded": (ODD, line(90.7, 95.41, 5.2), "TWO_MEANINGS"),
    "raised by an absurd gain": (measured(170.84, 23.22, 635.7), line(93.56, 688.32, 635.7), "TWO_MEANINGS"),
    "the speed where the gain is too large to be put on": (HALF, line(140.0, 150.0, 50.0), "TWO_MEANINGS"),
    "kept where that speed is no more": (HALF, line(160.0, 160.0, 50.0), "TWO_MEANINGS"),
    "kept where there is a loss": (LOSS, line(100.0, 100.0, -2.0), "TWO_MEANINGS"),
    "the speed where no gain is stated": (FIVE, line(103.0, 105.0, None), "BLANK_COPY TWO_MEANINGS"),
    "a cent above the gain": (FIVE, line(90.7, 95.25, 5.0), "CONTRADICTION CONTRADICTION"),
    "a cent below the gain": (FIVE, line(90.7, 95.22, 5.0), "CONTRADICTION CONTRADICTION"),
    "the speed over another frontier": (FIVE, line(100.4, 105.0, 4.6), "CONTRADICTION CONTRADICTION"),
    "another speed over the run's frontier": (FIVE, line(100.0, 106.0, 6.0), "CONTRADICTION TWO_MEANINGS"),
    "raised by another gain than the run's": (FIVE, line(90.7, 96.14, 6.0), "CONTRADICTION TWO_MEANINGS"),
    "no gain of its own and no speed": (FIVE, line(103.0, 106.0, None), "BLANK_COPY CONTRADICTION CONTRADICTION"),
    "less than there was before": (HALF, line(160.0, 150.0, 50.0), "CONTRADICTION DERIVED"),
    "more than that speed": (HALF, line(140.0, 151.0, 50.0), "CONTRADICTION CONTRADICTION DERIVED"),
    "a gain that is no figure": (FIVE, line(90.7, 95.24, "5 or so"), "CONTRADICTION CONTRADICTION CONTRADICTION"),
    "a frontier of nothing": (measured(105.0, 0.0, 5.0), line(90.7, 96.0, 5.0), "CONTRADICTION CONTRADICTION DERIVED"),
}


@pytest.mark.parametrize("name", READINGS)
def test_an_advance_is_contradicted_where_no_meaning_of_its_frontier_holds(name: str) -> None:
    run, row, codes = READINGS[name]
    found, _ = reported(log_of(row, **run))
    del found["FRONTIER_UNMEASURED"]
    assert found == Counter(codes.split())


def test_the_gain_is_held_against_the_runs_under_its_other_name() -> None:
    for stated, wrong in ((5.0, 0), (6.0, 1)):
        log = log_of(line(90.7, 95.24, 5.0), **FIVE)
        assert log.runs[1].result is not None
        assert log.runs[1].index is not None
        for record in (log.runs[1].result, log.runs[1].index):
            record["pct_over_frontier"] = stated
            del record["delta_pct"]
        assert reported(log)[0]["CONTRADICTION"] == wrong


def test_a_relative_advance_says_what_was_measured() -> None:
    report = audit(make_log.build(log_of(line(90.7, 95.24, 5.0), **FIVE)))
    (finding,) = (
        f
        for f in report.findings
        if f.code.name.endswith("TWO_MEANINGS") and "advance" not in f.message and "new_frontier" in f.message
    )
    assert finding.message.endswith(
        "raised by the gain that its run measured over another one; measured was 105.0 over 100.0"
    )
    assert finding.position.field == "new_frontier"


@pytest.mark.parametrize("tps", [None, 105.0])
def test_a_run_without_figures_is_said_to_have_none(tps: float | None) -> None:
    log = log_of(line(90.7, 95.24, 5.0))
    assert log.runs[1].result is not None
    assert log.runs[1].index is not None
    for record in (log.runs[1].result, log.runs[1].index):
        for name in ("tps", "frontier", "delta_pct"):
            record.pop(name, None)
        if tps is not None:
            record["tps"] = tps
    found, _ = reported(log)
    assert found["CONTRADICTION"] == 0
    assert found["TWO_MEANINGS"] == (tps is not None)  # without a speed nothing is held against the frontier


# -- what nobody measured ---------------------------------------------------------------------------------------------


def test_frontiers_that_nobody_measured_stand_out_the_farthest_first() -> None:
    log = make_log.sibling_draft()
    absurd = [
        log.advances[1] | line(131.25, 164.06, 25.0),
        log.advances[1] | line(131.25, 3412.5, 2500.0),
        log.advances[1] | line(105.0, 131.25, 25.0),
    ]
    log.advances = absurd
    report = audit(make_log.build(log))
    (kind,) = (row for row in report.kinds if row.code.name == "FOREIGN_FRONTIER_UNMEASURED")
    assert kind.count == 2
    assert kind.first.message == (
        "line 2: new_frontier is 3412.5, 26.00 times 131.25, the most that a run of this log had measured by 2026-08-02"
    )
    found = [f.position.line for f in report.findings if f.code.name == "FOREIGN_FRONTIER_UNMEASURED"]
    assert found == [2, 1]


@pytest.mark.parametrize(
    ("date", "count"), [("2026-08-02", 1), ("2026-08-03", 0), ("2026-08-01", 1), (None, 0), ("2026-07-01", 1)]
)
def test_a_speed_counts_from_the_day_on_which_it_was_measured(date: str | None, count: int) -> None:
    log = make_log.sibling_draft()
    log.advances = [log.advances[1] | line(105.0, 132.9, 26.6) | {"date": date}]
    assert reported(log)[0]["FRONTIER_UNMEASURED"] == count  # the third run, of 3 August, measured 133


@pytest.mark.parametrize("value", ["fast", None, float("inf")])
def test_what_is_no_figure_is_not_compared_with_speeds(value: object) -> None:
    log = make_log.sibling_draft()
    log.advances[0]["new_frontier"] = value
    assert reported(log)[0]["FRONTIER_UNMEASURED"] == 0


# -- the proof --------------------------------------------------------------------------------------------------------

NAME = f"0002-{make_log.commit(2)[:7]}"
FORMS = [
    NAME,
    f"runs/{NAME}",
    f"runs/{NAME}/",
    f"./runs/{NAME}",
    f"runs/{NAME}/receipt.json",
    f"https://example.org/x/y/tree/main/runs/{NAME}",
    f"https://example.org/x/y/blob/main/runs/{NAME}/log.txt?plain=1#L3",
    f"https://example.org/log/?run={NAME}",
    f"https://example.org/log/?run={NAME}&tab=log",
    f"https://example.org/log/?tab=log&run={NAME}#top",
    f"https://example.org/log/#run={NAME}",
    f"https://example.org/runs/other/?run={NAME}",
    f"https://example.org/log/?run={NAME.replace('-', '%2D')}",
    f" run={NAME} ",
]


@pytest.mark.parametrize("proof", FORMS)
def test_a_proof_is_found_by_every_form_of_its_name(proof: str) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["proof"] = proof
    assert reported(log)[0] == Counter()
    log.advances[1] |= line(105.0, 999.92, 852.3)
    assert reported(log)[0]["CONTRADICTION"] == 1  # the gain; the frontier itself may be raised by it


@pytest.mark.parametrize(
    "proof", ["nothere", "runs/nothere", "https://example.org/?run=nothere&run=", "runs/nothere/x"]
)
def test_a_proof_that_is_not_there_is_named(proof: str) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["proof"] = proof
    found, report = reported(log)
    assert found == Counter(["ROW_WITHOUT_RUN"])
    assert any(f.message == "nothere: named as proof in line 2, and not in this log" for f in report.findings)


@pytest.mark.parametrize("proof", [5, ["x"], {"run": "x"}, True])
def test_a_proof_that_is_no_text_is_no_proof(proof: object) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["proof"] = proof
    assert reported(log)[0] == Counter(["ROW_WITHOUT_RUN"])


@pytest.mark.parametrize("proof", [None, "", "  ", ...], ids=str)
def test_an_advance_without_a_proof_is_not_checked_and_no_error(proof: object) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["proof"] = proof
    if proof is ...:
        del log.advances[1]["proof"]
    found, report = reported(log)
    assert found == Counter(["ADVANCE_UNPROVED"])
    assert report.exit_code == 4
    assert report.not_checked == audit(make_log.build(make_log.sibling_draft())).not_checked + 1


@pytest.mark.parametrize(
    ("row", "derived"),
    [
        (line(140.0, 150.0, 50.0), 0),  # may be the speed of the run that is not named
        (line(140.0, 150.0, 7.1), 0),
        (line(140.0, 150.0, 9.0), 1),
        (line(150.0, 140.0, 50.0), 1),
        (line(None, 150.0, 50.0), 0),
    ],
)
def test_a_gain_without_a_proof_is_held_against_what_stands_beside_it(row: dict[str, Any], derived: int) -> None:
    log = make_log.sibling_draft()
    log.advances = [log.advances[1] | row | {"proof": None}]
    assert reported(log)[0]["DERIVED"] == derived
