"""One fact under two names, in two kinds, or within something longer: days, addresses, folders' names, receipts there.

Each pair of the tables is tried both ways: what agrees is held against nobody, and an edit of either side is found.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.compare import Agreement, compare, days_of
from k3_ledger.verify.polaris.hashes import Record
from tests.verify.polaris import longctx, make_log, modes
from tests.verify.polaris.test_partners import told

if TYPE_CHECKING:
    from tests.verify.polaris.make_log import Draft, RunDraft

Files = dict[str, bytes]


# -- a day and a moment -----------------------------------------------------------------------------------------------

TIMES: Final = [
    # one, the other, whether they may be one moment; None where one is no date
    ("2026-08-02", "2026-08-02T12:00:00Z", True),
    ("2026-08-02", "2026-08-01T22:52:01Z", True),  # in Europe it was the second
    ("2026-08-02", "2026-08-01T10:00:00Z", True),
    ("2026-08-02", "2026-08-01T09:59:59Z", False),  # nowhere yet
    ("2026-08-02", "2026-08-03T11:59:59Z", True),
    ("2026-08-02", "2026-08-03T12:00:00Z", False),  # nowhere any more
    ("2026-08-02", "2026-08-03T01:00:00+02:00", True),
    ("2026-08-02", "2026-08-02", True),
    ("2026-08-02", "2026-08-03", False),
    ("2026-08-02", "2026-08-32", None),
    ("someday", "2026-08-02T12:00:00Z", None),
    ("2026-02-30", "2026-03-01T00:00:00Z", None),
    ("0001-01-01", "0001-01-01T00:00:00Z", True),
    ("9999-12-31", "9999-12-31T23:59:59Z", True),
    ("2026-08-02T12:00:00Z", "2026-08-02T12:00:01Z", False),
]


@pytest.mark.parametrize(("one", "other", "same"), TIMES)
def test_a_day_is_held_against_a_moment_wherever_that_was(one: str, other: str, same: bool | None) -> None:
    expected = {True: Agreement.EQUAL, False: Agreement.DIFFER, None: Agreement.NOT_COMPARED}[same]
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
        run.result |= {"id": run.folder, "url": f"https://example.org/owner/made-up/pull/{run.result['pr']}"}
        run.attestation["code"]["repo"] = "https://example.org/owner/made-up"
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
    ("result", "pr", 99, "folder name pr"),
    ("index", "pr", 99, "result url"),
    ("result", "commit", "f" * 7, "folder name commit"),
    ("attestation", "code.commit", "f" * 40, "folder name commit"),
    ("result", "url", "https://example.org/owner/made-up/pull/99", "pr is "),
    ("result", "url", "https://example.org/owner/other/pull/11", "repo is "),
    ("attestation", "code.repo", "https://example.org/owner/other", "repo is "),
    ("result", "url", "https://example.org/owner/made-up/pull/11x", "pr is "),
    ("result", "url", "https://example.org/owner/made-up/pull/99/files?x=1#y", "pr is "),
    ("result", "id", "glimmer-0011-0f98b1f0", "folder name"),
    ("result", "polaris_receipt_id", "0" * 16, "receipt_id is "),
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


@pytest.mark.parametrize("url", ["none", 5, "ftp://example.org/pull/99", "https://example.org/issues/99"])
def test_an_address_of_another_shape_says_nothing(url: object) -> None:
    assert not errors(edited("result", "url", url))


# -- words, and identifiers that are whole ----------------------------------------------------------------------------

TEXTS: Final = [
    ("gpu_name", "ABC 5090", "Maker ABC 5090", True),
    ("gpu_name", "ABC 5090", "maker abc  5090", True),
    ("gpu_name", "ABC 5090", "ABC 4090", False),
    ("gpu_name", " ", "ABC 4090", False),
    ("gpu_name", "ABC 5090 Ti", "Maker ABC 5090", False),
    ("commit", "0123456", "0123456789", True),
    ("commit", "012345", "0123456789", False),
    ("commit", "0123456", "0123456x", False),
    ("commit", "a" * 40, "a" * 41, False),
    ("commit", "a" * 12, "a" * 40, True),
    ("receipt_id", "a" * 16, "a" * 64, True),
    ("receipt_id", "a" * 32, "a" * 33, False),
    ("receipt_id", "a" * 63, "a" * 64, True),
    ("receipt_id", "a" * 64, "a" * 65, False),
    ("run_id", "0011-0123456", "0011-01234567", False),
    ("run_id", "0011-0123456", "0011-0123456", True),
]


@pytest.mark.parametrize(("fact", "one", "other", "same"), TEXTS)
def test_what_is_whole_is_no_beginning_of_anything(fact: str, one: str, other: str, same: bool) -> None:
    expected = Agreement.EQUAL if same else Agreement.DIFFER
    assert compare(fact, one, other) is compare(fact, other, one) is expected


# -- results inside a result ------------------------------------------------------------------------------------------


def printed(change: Any) -> set[str]:
    """Errors of a log in which a result in a log text has other values."""
    files = longctx.build(longctx.draft("logged"))
    path = next(path for path in files if path.endswith("log.txt"))
    head, _, body = files[path].decode().partition("RESULT_JSON ")
    line, _, rest = body.partition("\n")
    result = json.loads(line)
    change(result)
    files[path] = f"{head}RESULT_JSON {json.dumps(result)}\n{rest}".encode()
    return {f.message for f in audit(files).findings if f.severity.value == "error"}


def test_a_result_inside_another_is_the_one_published_where_all_its_figures_but_one_are() -> None:
    assert not printed(lambda result: result["score_qwen36"].update(regression_labels=[], model="one"))
    assert any("score_qwen36.kl" in message for message in printed(lambda r: r["score_qwen36"].update(kl=0.5)))
    assert any("score_qwen36.label" in message for message in printed(lambda r: r["score_qwen36"].update(label="M")))
    assert not printed(lambda result: result["score_qwen36"].update(kl=0.5, top1=0.5))


def test_what_shares_too_few_figures_is_not_taken_for_the_one_published() -> None:
    def few(result: dict[str, Any]) -> None:
        result["score_qwen36"] = {"label": "M", "tps": result["tps"], "kl": result["kl"]}
        del result["label_qwen36"]

    assert not printed(few)


@pytest.mark.parametrize("field", ["guard_4k_ratio", "delta_tps", "pct_over_frontier"])
def test_figures_of_a_result_that_was_not_scored_are_recomputed(field: str) -> None:
    found = printed(lambda result: result["score_qwen35"].update({field: 99.0}))
    assert [message for message in found if f"{field} is 99.0, which does not follow" in message]


def test_gains_at_each_context_are_recomputed() -> None:
    found = printed(lambda result: result["score_qwen35"]["context_gains_pct"].update({"16k-context": 9.0}))
    assert any("context_gains_pct.16k-context is 9.0" in message for message in found)


# -- attestations without a receipt -----------------------------------------------------------------------------------


def test_an_attestation_in_a_log_text_is_held_against_the_file_where_there_is_no_receipt() -> None:
    log = longctx.draft("printed")
    log.runs[0].beside = True
    assert not errors(log)
    files = longctx.build(log)
    path = next(path for path in files if path.endswith("attestation.json"))
    body = json.loads(files[path])
    body["references"]["model_file"] = "other.gguf"
    found = {f.message for f in audit(files | {path: json.dumps(body).encode()}).findings}
    assert any("references.model_file is other.gguf in attestation.json" in message for message in found)


@pytest.mark.parametrize("file", ["receipt.json", "attestation.json"])
def test_an_empty_object_of_an_attestation_is_held_against_one_with_fields_in_its_copy(file: str) -> None:
    log = modes.draft("glimmer")
    for run in log.runs:
        run.attestation["verdict"]["context_gains_pct"] = {}
    assert not errors(log)
    files = make_log.build(log)
    path = next(path for path in files if path.endswith(file))
    body = json.loads(files[path])
    (body["attestation"] if file == "receipt.json" else body)["verdict"]["context_gains_pct"] = {"x": 1}
    found = {f.message for f in audit(files | {path: json.dumps(body).encode()}).findings}
    assert any("context_gains_pct" in message and '{"x":1}' in message for message in found)


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


@pytest.mark.parametrize("value", [5, {"day": 1}, ["2026-08-02"]])
def test_a_date_of_an_advance_that_is_no_text_is_of_the_wrong_shape(value: object) -> None:
    log = make_log.sibling_draft()
    log.advances[1]["date"] = value
    added = told(make_log.build(log)) - told(make_log.build(make_log.sibling_draft()))
    assert {code for code, _ in added} == {"FOREIGN_SHAPE"}


@pytest.mark.parametrize("value", ["someday", "2026-13-01", "30 February 2026"])
def test_a_date_of_an_advance_that_cannot_be_read_is_not_checked(value: str) -> None:
    log = make_log.sibling_draft()
    whole = audit(make_log.build(log))
    log.advances[1]["date"] = value
    report = audit(make_log.build(log))
    added = told(make_log.build(log)) - told(make_log.build(make_log.sibling_draft()))
    assert {code for code, _ in added} == {"FOREIGN_NOT_COMPARED"}
    assert (report.failed, report.not_checked) == (whole.failed, whole.not_checked + 1)


def test_the_moment_of_an_advance_may_stand_where_others_have_a_day() -> None:
    log = make_log.sibling_draft()
    log.advances[1]["date"] = "2026-08-02T23:00:00Z"
    assert told(make_log.build(log)) == told(make_log.build(make_log.sibling_draft()))
    log.advances[1]["date"] = "2026-07-02T23:00:00Z"
    assert any("the advance is dated" in message for _, message in told(make_log.build(log)))
