"""Variants of the family: whatever is there is read, what is missing is named, and only other things are refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.schemas.errors import MalformedError
from k3_ledger.verify.polaris import audit, parse_log, to_import
from k3_ledger.verify.polaris.logtext import read_log
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import path_of, receipt

if TYPE_CHECKING:
    from k3_ledger.verify.polaris import AuditReport


def names(report: AuditReport) -> set[str]:
    return {finding.code.name for finding in report.findings}


def test_the_siblings_shape_is_read_in_full() -> None:
    report = audit(make_log.build(make_log.sibling_draft()))
    counts = dict(report.inventory)
    assert counts["receipts with a TDX quote"] == 2
    assert counts["runs without a receipt"] == 1
    assert counts["folders named by their receipt id"] == 0
    assert counts["attestations beside the receipt"] == counts["log texts"] == 3
    assert counts["ledger lines of frontier advances"] == 2
    assert report.failed == 0
    bound = {row.path for row in report.fields if row.bound}
    assert "attestation.measurements.primary.kl" in bound
    assert "attestation.code.commit" in bound


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": b"# hello"},
        {"runs/": b""},
        {"runs/abc/notes.txt": b"{}"},
        {"runs/receipt.json": b"{}"},
        {"ledger.jsonl": b""},
        {"ledger.jsonl": b"\n\n"},
        {"ledger.jsonl": b'{"something": "else"}\n'},
        {"ledger.jsonl": b"[1, 2]\n"},
        {"index.json": b"[]"},
        {"index.json": b'{"run_id": "abc"}'},
        {"index.json": b"not json"},
        {"rounds/abc/eval.log": b"main: measuring the frontier at 0123456 on x"},
    ],
)
def test_what_is_no_run_log_gets_one_clear_error(files: dict[str, bytes]) -> None:
    with pytest.raises(MalformedError, match="no run, no ledger line") as caught:
        audit(files)
    assert caught.value.code.name == "NOT_A_RUN_LOG"
    assert caught.value.code.info.exit == 3
    assert caught.value.finding.expected is not None


def test_a_ledger_of_our_own_is_sent_to_the_right_command() -> None:
    with pytest.raises(MalformedError) as caught:
        audit({"ledger.jsonl": b'{"entry":{"body":{}},"sig":"AA"}\n'})
    assert "k3-ledger verify" in caught.value.finding.advice


@pytest.mark.parametrize(
    "files",
    [
        {"runs/abc/receipt.json": b"{}"},
        {"runs/abc/result.json": b"{}"},
        {"runs/abc/log.txt": b""},
        {"runs/abc/attestation.json": b"{}"},
        {"ledger.jsonl": b'{"run_id": "abc"}\n'},
        {"ledger.jsonl": b'{"new_frontier": 5.0}\n'},
        {"index.json": b'[{"id": "abc"}]'},
    ],
)
def test_the_least_of_a_run_log_is_audited(files: dict[str, bytes]) -> None:
    report = audit(files)
    assert sum(count for _, count in report.inventory) >= 1


def test_a_ledger_alone_has_rows_without_runs() -> None:
    files = {"ledger.jsonl": make_log.build(make_log.draft())["ledger.jsonl"]}
    report = audit(files)
    assert "FOREIGN_ROW_WITHOUT_RUN" in names(report)
    assert dict(report.inventory)["runs that are only listed"] == 3


def test_rows_that_are_no_objects_are_findings_and_the_rest_is_read() -> None:
    files = make_log.build(make_log.draft())
    files["ledger.jsonl"] += b"[1]\n{\n"
    files["index.json"] = files["index.json"][:-2] + b', 7, {"other": 1}]\n'
    report = audit(files)
    assert names(report) == {"FOREIGN_SHAPE", "JSON_SYNTAX"}
    assert dict(report.inventory)["ledger lines of runs"] == 3


RESPELLED = {
    "commit in upper case": (make_log.commit(2), make_log.commit(2).upper()),
    "short commit in upper case": (f'"{make_log.commit(2)[:7]}"', f'"{make_log.commit(2)[:7].upper()}"'),
    "build in upper case": (make_log.sha("build 2"), make_log.sha("build 2").upper()),
    "model in upper case": (make_log.MODEL, make_log.MODEL.upper()),
    "time in lower case": ("2026-08-02T12:00:00Z", "2026-08-02t12:00:00z"),
    "time with an offset": ("2026-08-02T12:00:00Z", "2026-08-02T14:00:00+02:00"),
    "pull request as text": ('"pr": 12', '"pr": "12"'),
    "pull request as a reference": ('"pr": 12', '"pr": "#12"'),
    "figure with another exponent": ('"tps": 12.6', '"tps": 1.26e1'),
    "tier in lower case": ('"label": "XL"', '"label": "xl"'),
}


@pytest.mark.parametrize("spelled", RESPELLED)
@pytest.mark.parametrize("form", ["tdx", "ed25519"])
@pytest.mark.parametrize("name", ["ledger.jsonl", "index.json", "receipt.json"])
def test_the_same_value_spelled_otherwise_is_the_same_value(name: str, form: str, spelled: str) -> None:
    old, new = RESPELLED[spelled]
    log = make_log.draft()
    for run in log.runs:
        run.form = form
    before = names(audit(make_log.build(log)))
    if name == "receipt.json":
        for run in log.runs:
            run.attestation = json.loads(json.dumps(run.attestation).replace(old, new))
    files = make_log.build(log)
    if name != "receipt.json":
        files[name] = files[name].replace(old.encode(), new.encode())
    after = names(audit(files))
    if name == "receipt.json" and not new.endswith("Z"):
        after -= {"FOREIGN_VERIFIER_REFUSES"}  # true, and no contradiction: the family's own verifier reads Z only
        after -= {"FOREIGN_NONCE_UNBOUND", "FOREIGN_ATTESTATION_UNBOUND"}  # the nonce is a digest of texts as they are
    assert after == before


@pytest.mark.parametrize(
    "name", ["receipt_id", "tdx.bound_digest", "chain.prev_receipt_hash", "_expected.scoring_sha256"]
)
def test_a_digest_in_upper_case_is_the_same_digest_wherever_no_text_is_hashed(name: str) -> None:
    files = make_log.build(make_log.draft())
    parent, _, key = name.rpartition(".")

    def change(body: dict[str, Any]) -> None:
        place = body[parent] if parent else body
        place[key] = place[key].upper().replace("SHA256:", "sha256:")

    receipt(files, 2, change)
    texts = {"tdx.bound_digest", "_expected.scoring_sha256"}  # digests of which the text is hashed again
    assert names(audit(files)) == ({"FOREIGN_HASH"} if name in texts else set())


@pytest.mark.parametrize("place", ["ledger.jsonl", "index.json", "runs/a/receipt.json", "rounds/a/log.txt"])
def test_a_folder_that_is_called_as_a_record_is_found_by_what_it_holds(place: str) -> None:
    report = audit({"runs/b/result.json": b"{}", f"{place}/x": b"1", f"{place}/y/z": b"2"})
    found = [finding for finding in report.findings if finding.code.name == "FOREIGN_NOT_READ"]
    assert [(finding.position.source, finding.found) for finding in found] == [(place, "a folder")]
    assert (report.exit_code.value, report.unread, dict(report.inventory)["files that were not read"]) == (4, 1, 2)


@pytest.mark.parametrize("text", [b"", b"nothing to see\n", b"RESULT_JSON {\n", b"\xff"])
@pytest.mark.parametrize("folder", ["run", "round"])
@pytest.mark.parametrize("held", ["eval.log", "log.txt"])
def test_of_two_log_texts_in_a_folder_one_is_read_and_the_other_said(held: str, folder: str, text: bytes) -> None:
    """Which of the two is read does not depend on what is in them, nor on whether it is a run's or a round's."""
    log = make_log.draft()
    log.runs[1].log_name = held
    files = make_log.build(log)
    files[f"rounds/0123456/{held}"] = b"main: measuring the frontier at 0123456 on x\n"
    place = "rounds/0123456" if folder == "round" else path_of(files, 2, "")[:-1]
    (added,) = {"eval.log", "log.txt"} - {held}
    whole = audit(files)
    files[f"{place}/{added}"] = text
    report = audit(files)
    found = [finding for finding in report.findings if finding.code.name == "FOREIGN_NOT_READ"]
    said = [(finding.position.source, finding.found) for finding in found]
    assert said == [(f"{place}/log.txt", "a second log text of its folder")]
    assert (whole.unread, whole.exit_code.value, report.unread) == (0, 0, 1)
    counts, before = dict(report.inventory), dict(whole.inventory)
    assert counts["files that were not read"] == before["files that were not read"] + 1
    read_ones = {one.source for one in parse_log(files).logs}
    assert f"{place}/eval.log" in read_ones
    assert f"{place}/log.txt" not in read_ones
    assert report.exit_code.value == (1 if added == "eval.log" and text in (b"\xff", b"RESULT_JSON {\n") else 4)


@pytest.mark.parametrize("added", ["eval.log", "log.txt"])
def test_a_second_log_text_is_left_out_of_an_import(added: str) -> None:
    log = make_log.draft()
    (log.runs[1].log_name,) = {"eval.log", "log.txt"} - {added}
    files = make_log.build(log)
    files[path_of(files, 2, added)] = b"nothing to see\n"
    sealed = [
        one["name"] for item in to_import(parse_log(files), files, audit(files)) for one in item.body["artifacts"]
    ]
    assert path_of(files, 2, "eval.log") in sealed
    assert path_of(files, 2, "log.txt") not in sealed


@pytest.mark.parametrize("path", ["ledger.jsonl.d/x", "runs/a/b/receipt.json", "x/index.json/y", "runs/receipt.json/x"])
def test_folders_that_are_called_otherwise_are_other_files(path: str) -> None:
    report = audit({"runs/b/result.json": b"{}", path: b"1"})
    assert (report.exit_code.value, report.unread) == (0, 0)


def test_an_index_that_is_no_list_is_a_finding() -> None:
    files = make_log.build(make_log.draft())
    files["index.json"] = b'{"rows": []}'
    assert names(audit(files)) == {"FOREIGN_SHAPE"}


def test_records_that_are_no_objects_are_findings() -> None:
    files = make_log.build(make_log.draft())
    files[path_of(files, 2, "result.json")] = b"[]"
    files[path_of(files, 3, "receipt.json")] = b'"receipt"'
    wrong = [finding.position.source for finding in audit(files).findings if finding.code.name == "FOREIGN_SHAPE"]
    assert len(wrong) == 2


def test_windows_line_ends_in_a_ledger_are_taken() -> None:
    files = make_log.build(make_log.draft())
    files["ledger.jsonl"] = files["ledger.jsonl"].replace(b"\n", b"\r\n\r\n")
    assert names(audit(files)) == set()


def test_a_run_takes_its_time_from_wherever_it_is_stated() -> None:
    files = make_log.build(make_log.draft())
    del files[path_of(files, 1, "receipt.json")]
    times = [run.timestamp for run in parse_log(files).runs]
    assert times == sorted(times)
    assert all(times)
    assert parse_log({"runs/a/log.txt": b""}).runs[0].timestamp == ""
    assert parse_log({"index.json": b'[{"id": "a", "date": "2026-08-01"}]'}).runs[0].timestamp == "2026-08-01"


def test_the_sealed_output_is_its_last_line_that_is_an_object() -> None:
    log = make_log.draft()
    assert log.runs[0].result is not None
    body = json.dumps(log.runs[0].result)
    log.runs[0].sealed = f"warming up\n{{not json\n{body}\n  done\n{{\n"
    run = parse_log(make_log.build(log)).runs[0]
    assert run.sealed is not None
    assert run.sealed.position.line == 3
    assert run.sealed.position.byte_offset == len("warming up\n{not json\n")
    assert run.sealed.source.endswith("receipt.json:tdx.stdout_b64")


# -- log texts --------------------------------------------------------------------------------------------------------


def test_lines_belong_to_what_was_being_measured() -> None:
    text = read_log(
        b"main: measuring the frontier at 01234567 on box\n"
        b"   ctx4: top1=1.000000 kl=0.000001000\r\n"
        b"#7: evaluating 89abcdef on box \xe2\x80\xa6\n"
        b"   ctx4: top1=1.000000 kl=0.000002000\n"
        b"#7: eval failed \xe2\x80\x94 once\n"
        b"#7: evaluating 89abcdef on box \xe2\x80\xa6\n"
        b">> #7: published runs/abc to log\n"
        b">> #8: tier applied by x \xe2\x80\x94 eval:s\n"
        b"chatter\n",
        "eval.log",
    )
    assert [event.kind for event in text.main.events] == ["measuring", "depth", "tier"]
    assert [[event.kind for event in one.events] for one in text.evaluations] == [
        ["evaluating", "depth", "failed"],
        ["evaluating", "published"],
    ]
    assert text.evaluation_of("abc") is text.evaluations[1]
    assert text.evaluation_of("abd") is None
    assert text.evaluations[0].commit == "89abcdef"
    assert text.main.events[1].figures["kl"] == "0.000001000"
    assert (text.events[1].position.line, text.events[1].position.byte_offset) == (2, 48)


def test_json_printed_in_a_log_is_read_at_its_own_place() -> None:
    text = read_log(b'x\nRESULT_JSON {"tps": 1}\nRESULT_JSON {"tps": 2}', "log.txt")
    assert text.result is not None
    leaf = text.result.leaves["tps"]
    assert (leaf.position.line, leaf.position.byte_offset) == (3, 45)
    assert text.attestation is None
    broken = read_log(b'RESULT_JSON {"tps": ', "log.txt")
    assert [problem.code.name for problem in broken.problems] == ["JSON_SYNTAX"]


def test_bytes_that_are_no_text_are_a_finding_and_the_rest_is_read() -> None:
    text = read_log(b"ok\n\xff\xfe\nmain: measuring the frontier at 01234567 on box\n", "eval.log")
    assert [(p.code.name, p.position.line, p.position.byte_offset) for p in text.problems] == [("JSON_NOT_UTF8", 2, 3)]
    assert len(text.events) == 1


def test_a_long_log_is_read_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k3_ledger.verify.polaris.logtext.MAX_BYTES", 60)
    line = b"main: measuring the frontier at 01234567 on box\n"
    text = read_log(line * 3, "eval.log")
    assert [problem.code.name for problem in text.problems] == ["JSON_TOO_LONG"]
    assert len(text.events) == 1


def test_hostile_lines_take_no_time() -> None:
    for line in (
        b"#1: evaluating " + b"a" * 200_000,
        b"#" + b"9" * 200_000 + b": tps=",
        b">> frontier: " + b"x " * 100_000,
    ):
        read_log(line, "eval.log")


def test_files_that_a_run_lacks_are_said_in_one_order() -> None:
    log = make_log.draft()
    for run in log.runs:
        run.beside = True
    files = make_log.build(log)
    for file in ("attestation.json", "eval.log", "receipt.json"):
        del files[path_of(files, 3, file)]
    found = [finding for finding in audit(files).findings if finding.code.name == "FOREIGN_FILE_MISSING"]
    words = [finding.message.partition("no ")[2].partition(",")[0] for finding in found]
    assert words == ["attestation.json", "log", "receipt.json"]
