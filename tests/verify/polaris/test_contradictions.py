"""Every kind of trouble, made on purpose; and its negative control, a log that is whole."""

from __future__ import annotations

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.findings.row import Area
from k3_ledger.schemas.outcomes import ExitCode, Severity
from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.kinds import TROUBLE, Trouble
from tests.support import ROOT
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import CASES, Case, path_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_done_is_found_and_nothing_else(case: Case) -> None:
    report = audit(case.files())
    assert {finding.code.name for finding in report.findings} == case.codes
    wrong = any(finding.severity is Severity.ERROR for finding in report.findings)
    open_ = case.codes & {"FOREIGN_VERSION", "FOREIGN_ADVANCE_UNPROVED", "FOREIGN_RECEIPT_GONE", "FOREIGN_LEDGER_EMPTY"}
    passed = ExitCode.NOT_CHECKED if open_ else ExitCode.VERIFIED
    assert report.exit_code is (ExitCode.FALSE if wrong else passed)


def test_a_log_that_is_whole_has_no_finding() -> None:
    report = audit(make_log.build(make_log.draft()))
    assert report.findings == ()
    assert report.failed == 0
    assert report.exit_code is ExitCode.VERIFIED


def test_every_code_of_foreign_logs_has_a_case() -> None:
    covered = {code for case in CASES for code in case.codes} | {
        "NOT_A_RUN_LOG",  # test_family.py
        "FOREIGN_NOT_READ",  # test_family.py, and what is closed in tests/cli/test_foreign.py
        "FOREIGN_NOT_COMPARED",  # test_wordings.py, test_second_records.py
        "FOREIGN_NUMBER",  # test_foreign_json.py
        "FOREIGN_SIGNER_OTHER",  # test_hashes.py, with keys given
    }
    assert {code.name for code in Code if code.info.area is Area.FOREIGN} == covered


def test_the_document_shows_every_code_in_its_class() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    for trouble in Trouble:
        codes = [
            code.name.removeprefix("FOREIGN_").replace("_", "-") for code, kind in TROUBLE.items() if kind is trouble
        ]
        assert not codes or f"| {trouble.value} | {', '.join(codes)} |" in page


PLACES = {
    "workload_that_was_replaced": ("receipt.json", "tdx.workload_sha256"),
    "speed_edited_in_a_ledger_line": ("ledger.jsonl", "tps"),
    "speed_edited_in_an_attestation": ("receipt.json", "attestation.verdict.tps"),
    "short_commit_of_other_code": ("receipt.json:tdx.stdout_b64", "commit"),
    "gain_that_does_not_follow": ("receipt.json:tdx.stdout_b64", "delta_tps"),
    "prefill_under_the_name_of_decode": ("result.json", "tps"),
    "credit_of_another_kind": ("result.json", "effective_pct"),
    "gain_under_the_name_of_a_share": ("result.json", "pct_of_llama"),
    "credit_that_contradicts_its_basis": ("result.json", "effective_pct"),
    "commit_measured_twice": ("result.json", "commit"),
    "build_shared_by_two_commits": ("result.json", "build_hash"),
    "weights_that_changed_under_one_digest": ("result.json", "model_fingerprint"),
    "evidence_copied_from_another_run": ("result.json", "kl_depths.ctx4.kl"),
    "scorer_between_two_of_another": ("receipt.json", "attestation.code.scoring_scripts_commit"),
    "clock_reading_that_was_not_published": ("result.json", "speed_source"),
    "other_tier_applied_in_the_log": ("eval.log", None),
    "run_that_is_only_listed": ("ledger.jsonl", None),
    "row_superseded_by_an_older_run": ("ledger.jsonl", "superseded_by"),
    "enclave_that_judges_by_other_bars": ("receipt.json:tdx.stdout_b64", "reason"),
    "time_before_the_collateral_was_issued": ("receipt.json", "attestation.timestamp_utc"),
    "depths_added_after_sealing": ("result.json", "kl_depths.ctx4.kl"),
}


@pytest.mark.parametrize("name", PLACES)
def test_a_finding_stands_at_the_very_bytes(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    files = case.files()
    codes = (
        case.codes - {"FOREIGN_MISSING_FOR_RESCORE", "FOREIGN_SEALED_VERDICT", "FOREIGN_SCORER_COMMIT"} or case.codes
    )
    first = next(finding for finding in audit(files).findings if finding.code.name in codes)
    source, field = PLACES[name]
    at = first.position
    assert at.source is not None
    assert at.source.endswith(source)
    assert at.field == field
    if field is not None and ":" not in source:
        assert at.byte_offset is not None
        lines = files[at.source][: at.byte_offset].split(b"\n")
        assert len(lines) == at.line
        assert field.rpartition(".")[2].encode() in lines[-1][-80:]


def test_a_derived_figure_says_what_it_follows_from() -> None:
    case = next(case for case in CASES if case.name == "gain_that_does_not_follow")
    finding = next(f for f in audit(case.files()).findings if f.code.name == "FOREIGN_DERIVED")
    assert (finding.expected, finding.found) == ("tps - frontier_tps", "0.8")


def test_codes_are_put_to_the_run_at_whose_records_they_stand() -> None:
    files = make_log.build(make_log.draft())
    lines = files["ledger.jsonl"].splitlines(keepends=True)
    files["ledger.jsonl"] = b"".join([lines[0].replace(b"10.5", b"99.5"), b"{broken\n", lines[1], lines[2]])
    files["index.json"] = files["index.json"].replace(b'"tps": 13.0', b'"tps": 98.0')
    report = audit(files)
    wrong = {name: [code.name for code in codes] for name, codes in report.by_run.items() if codes}
    runs = [path_of(files, number, "").split("/")[1] for number in (1, 3)]
    assert wrong == {key: ["FOREIGN_CONTRADICTION"] for key in runs}
    assert {row.code.name: (row.count, row.runs) for row in report.kinds} == {
        "JSON_SYNTAX": (1, 0),
        "FOREIGN_CONTRADICTION": (2, 2),
    }


def test_every_outcome_of_the_table_is_accounted_for() -> None:
    for row in audit(make_log.build(make_log.sibling_draft())).hashes:
        assert sum(count for _, count in row.reasons) == row.not_checked
        assert sum(count for _, count in row.verified_as) in (0, row.passed)
