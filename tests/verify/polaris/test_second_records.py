"""One fact under two names, in two kinds, or within something longer: days, addresses, folders' names, receipts there.

Each pair of the tables is tried both ways: what agrees is held against nobody, and an edit of either side is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.compare import Agreement, compare, days_of
from k3_ledger.verify.polaris.hashes import Record
from tests.verify.polaris import make_log, modes
from tests.verify.polaris.test_partners import told

if TYPE_CHECKING:
    from tests.verify.polaris.make_log import Draft, RunDraft

Files = dict[str, bytes]


# -- a day and a moment -----------------------------------------------------------------------------------------------

TIMES: Final = [
    # one, the other, whether they may be one moment
    ("2026-08-02", "2026-08-02T12:00:00Z", True),
    ("2026-08-02", "2026-08-01T22:52:01Z", True),  # in Europe it was the second
    ("2026-08-02", "2026-08-01T10:00:00Z", True),
    ("2026-08-02", "2026-08-01T09:59:59Z", False),  # nowhere yet
    ("2026-08-02", "2026-08-03T11:59:59Z", True),
    ("2026-08-02", "2026-08-03T12:00:00Z", False),  # nowhere any more
    ("2026-08-02", "2026-08-03T01:00:00+02:00", True),
    ("2026-08-02", "2026-08-02", True),
    ("2026-08-02", "2026-08-03", False),
    ("2026-08-02", "2026-08-32", False),
    ("someday", "2026-08-02T12:00:00Z", False),
    ("2026-02-30", "2026-03-01T00:00:00Z", False),
    ("0001-01-01", "0001-01-01T00:00:00Z", True),
    ("9999-12-31", "9999-12-31T23:59:59Z", True),
    ("2026-08-02T12:00:00Z", "2026-08-02T12:00:01Z", False),
]


@pytest.mark.parametrize(("one", "other", "same"), TIMES)
def test_a_day_is_held_against_a_moment_wherever_that_was(one: str, other: str, same: bool) -> None:
    expected = Agreement.EQUAL if same else Agreement.DIFFER
    assert compare("timestamp_utc", one, other) is compare("timestamp_utc", other, one) is expected


def test_the_first_and_the_last_day_there_is_have_no_other_beside_them() -> None:
    assert days_of("0001-01-01T00:00:00Z") == ("0001-01-01", "0001-01-01")
    assert days_of("9999-12-31T23:00:00Z") == ("9999-12-31", "9999-12-31")
    assert days_of("soon") is None


# -- what two records share under any name ----------------------------------------------------------------------------


def log_of(change: Any = None) -> Draft:
    """A log whose folders are named by pull request and commit, with addresses, and receipts that results name."""
    log = modes.draft("glimmer")
    for run in log.runs:
        assert run.result is not None
        assert run.index is not None
        run.folder = f"glimmer-{run.result['pr']:04d}-{run.result['commit']}"
        run.index["id"] = run.folder
        run.result |= {"id": run.folder, "url": f"https://example.org/made-up/pull/{run.result['pr']}"}
        run.attestation["code"]["repo"] = "https://example.org/made-up"
        for record in (run.result, run.index):
            record.update({"polaris": True} if run.form != "none" else {})
    if change is not None:
        change(log.runs[0])
    return log


def edited(record: str, field: str, value: object) -> Draft:
    def change(run: RunDraft) -> None:
        place: Any = getattr(run, record)
        *parents, name = field.split(".")
        for parent in parents:
            place = place[parent]
        place[name] = value

    return log_of(change)


def errors(log: Draft) -> set[str]:
    return {f.message for f in audit(make_log.build(log)).findings if f.severity.value == "error"}


EDITS: Final = [
    # record, field, value, what is then held against it
    ("result", "date", "2026-07-30", "receipt attestation.timestamp_utc"),
    ("index", "date", "2026-07-30", "result date"),
    ("attestation", "timestamp_utc", "2026-07-30T12:00:00Z", "index row date"),
    ("result", "date", "someday", "receipt attestation.timestamp_utc"),
    ("result", "pr", 99, "folder name pr"),
    ("index", "pr", 99, "result url"),
    ("result", "commit", "f" * 7, "folder name commit"),
    ("attestation", "code.commit", "f" * 40, "folder name commit"),
    ("result", "url", "https://example.org/made-up/pull/99", "pr is "),
    ("result", "url", "https://example.org/other/pull/11", "repo is "),
    ("attestation", "code.repo", "https://example.org/other", "repo is "),
    ("result", "polaris", False, "receipt"),
    ("index", "polaris", False, "receipt"),
]


@pytest.mark.parametrize(("record", "field", "value", "against"), EDITS)
def test_an_edit_of_either_of_two_that_share_a_fact_is_found(
    record: str, field: str, value: object, against: str
) -> None:
    assert not errors(log_of())
    found = errors(edited(record, field, value))
    assert found
    assert any(against in message for message in found)


def test_a_row_is_held_against_the_folder_where_no_result_states_the_same() -> None:
    def lonely(log: Draft) -> Draft:
        for run in log.runs:
            assert run.result is not None
            for name in ("pr", "url", "date"):
                del run.result[name]
        return log

    assert not errors(lonely(log_of()))
    assert any("folder name pr" in message for message in errors(lonely(edited("index", "pr", 99))))
    assert any("timestamp_utc" in message for message in errors(lonely(edited("index", "date", "2026-07-30"))))


@pytest.mark.parametrize("value", ["", None])
@pytest.mark.parametrize(("record", "field"), [("result", "date"), ("result", "pr"), ("index", "polaris")])
def test_a_field_left_blank_is_said(record: str, field: str, value: object) -> None:
    added = told(make_log.build(edited(record, field, value))) - told(make_log.build(log_of()))
    assert "FOREIGN_BLANK_COPY" in {code for code, _ in added}


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_a_folder_is_held_to_its_name_where_half_of_all_are_named_so(odd: int) -> None:
    """A name may begin with another number than that of the pull request: then it says nothing."""
    log = log_of()
    for at, run in enumerate(log.runs):
        assert run.result is not None
        if at < odd:
            assert run.index is not None
            run.folder = run.result["id"] = run.index["id"] = f"glimmer-{at + 500:04d}-{run.result['commit']}"
    found = [message for message in errors(log) if "folder name pr" in message]
    assert len(found) == (1 if odd == 1 else 0)


def test_a_folder_of_which_no_record_states_the_same_says_nothing() -> None:
    files = {"runs/glimmer-0011-0123456/result.json": b'{"tps": 1.5}'}
    assert {row.path for row in audit(files).fields if row.record is Record.NAME} == {""}


@pytest.mark.parametrize("name", ["0011", "0011-xyzxyzx", "11-0123", "a b-11-0123456", "0" * 32])
def test_a_folder_of_another_shape_says_nothing(name: str) -> None:
    files = {f"runs/{name}/result.json": b'{"pr": 12, "commit": "0123456"}'}
    assert not [f for f in audit(files).findings if f.severity.value == "error"]


@pytest.mark.parametrize("url", ["none", 5, "ftp://example.org/pull/99", "https://example.org/pull/99/files"])
def test_an_address_of_another_shape_says_nothing(url: object) -> None:
    assert not errors(edited("result", "url", url))


# -- a receipt that is there, or is not -------------------------------------------------------------------------------


@pytest.mark.parametrize("record", ["result", "index"])
@pytest.mark.parametrize("value", [True, False, None])
def test_a_run_that_is_said_to_have_a_receipt_and_has_none(record: str, value: object) -> None:
    log = log_of()
    assert log.runs[2].form == "none"
    getattr(log.runs[2], record)["polaris"] = value
    gone = [f for f in audit(make_log.build(log)).findings if f.code.name == "FOREIGN_RECEIPT_GONE"]
    assert bool(gone) is (value is True)
    assert all((f.position.field, f.expected) == ("polaris", "receipt.json") for f in gone)
    assert not errors(log)


# -- an advance of the frontier ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["pr", "date", "delta_pct", "new_frontier", "prev_frontier"])
@pytest.mark.parametrize("value", [None, ""])
def test_what_an_advance_leaves_blank_and_its_proof_states_is_said(field: str, value: object) -> None:
    log = make_log.sibling_draft()
    log.advances[1][field] = value
    added = told(make_log.build(log)) - told(make_log.build(make_log.sibling_draft()))
    assert {code for code, _ in added} - {"FOREIGN_PIN_GAP"} == {"FOREIGN_BLANK_COPY"}
    assert any(f"{field} is blank in the advance" in message for _, message in added)


@pytest.mark.parametrize("value", ["someday", "2026-13-01", 5, {"day": 1}, ["2026-08-02"]])
def test_a_date_of_an_advance_that_is_none_is_of_the_wrong_shape(value: object) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["date"] = value
    added = told(make_log.build(log)) - told(make_log.build(make_log.sibling_draft()))
    assert {code for code, _ in added} == {"FOREIGN_SHAPE"}


def test_the_moment_of_an_advance_may_stand_where_others_have_a_day() -> None:
    log = make_log.sibling_draft()
    log.advances[1]["date"] = "2026-08-02T23:00:00Z"
    assert told(make_log.build(log)) == told(make_log.build(make_log.sibling_draft()))
    log.advances[1]["date"] = "2026-07-02T23:00:00Z"
    assert any("the advance is dated" in message for _, message in told(make_log.build(log)))
