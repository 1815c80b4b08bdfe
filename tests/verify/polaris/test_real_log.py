"""The public log that nobody here wrote: exact counts of everything an audit says about it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.polaris import AuditReport, audit, parse_log, to_import
from k3_ledger.verify.polaris.hashes import Check

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG = ("data", "sparkinfer-k3-log")

HASHES = {
    Check.RECEIPT_ID: (51, 0, 0),
    Check.RESULT: (51, 0, 0),
    Check.WORKLOAD: (51, 0, 0),
    Check.EXPECTED: (50, 0, 1),
    Check.REBUILT: (1, 0, 0),
    Check.FILES: (51, 0, 0),
    Check.REPORT_NONCE: (51, 0, 0),
    Check.REPORT_RESULT: (51, 0, 0),
    Check.NONCE: (0, 0, 51),
    Check.BOUND_DIGEST: (0, 0, 51),
    Check.SCORER: (0, 0, 51),
    Check.QUOTE: (51, 0, 0),
    Check.DCAP: (0, 0, 51),
}
KINDS = {
    "ADDED_AFTER_SEALING": 15,
    "ATTESTATION_UNBOUND": 51,
    "BLANK_COPY": 148,
    "BOUND_DIGEST": 2,
    "BUILD_DIFFERS": 1,
    "CHAIN_UNLINKED": 51,
    "CLOCKS_UNPINNED": 51,
    "CLOCK_UNPUBLISHED": 46,
    "CLOCK_WRONG_METRIC": 3,
    "COMMIT": 1,
    "EDITED_IN_PLACE": 2,
    "EVIDENCE_REPEATED": 1,
    "FAILURE_UNRECORDED": 13,
    "FIELD_ABSENT": 2,
    "FIELD_MISFILLED": 2,
    "FILE_MISSING": 4,
    "GUARD_UNMEASURED": 51,
    "LOG_SHARED": 13,
    "MERGED_WITHOUT_GAIN": 1,
    "MISSING_FOR_RESCORE": 51,
    "NONCE_UNBOUND": 51,
    "OVERRIDE_UNRECORDED": 2,
    "PIN_GAP": 4,
    "PRECISION_FEIGNED": 16,
    "PRECISION_LOST": 172,
    "PROVENANCE_EMPTY": 444,
    "RECEIPT_ID_COMMON": 1,
    "REFUSED_THEN_PUBLISHED": 3,
    "REGRESSION_PUBLISHED": 1,
    "SAME_COMMIT": 2,
    "SCORER_COMMIT": 3,
    "SEALED_BARS": 43,
    "SEALED_VERDICT": 100,
    "SUPERSEDED_BY_OLDER": 2,
    "TIER": 1,
    "TIER_BASIS": 4,
    "TIER_HISTORY": 1,
    "TWO_MEANINGS": 54,
    "UNLISTED": 2,
    "VERIFICATION_ASSERTED": 51,
    "VERIFIER_REFUSES": 51,
    "WEIGHTS_CHANGED": 3,
}
RUNS = {
    "COMMIT": {"89fb50be"},
    "FIELD_MISFILLED": {"89fb50be"},
    "MERGED_WITHOUT_GAIN": {"446e6eb4"},
    "OVERRIDE_UNRECORDED": {"aac53b8c", "8641ae28"},
    "REGRESSION_PUBLISHED": {"87a834ea"},
    "SCORER_COMMIT": {"11406ee4", "36cc3b34", "6d0ca87d"},
    "SUPERSEDED_BY_OLDER": {"446e6eb4"},
    "TIER": {"06f9b40b"},
    "TIER_BASIS": {"3898c809", "87a834ea", "63bd1de4", "8641ae28"},
    "UNLISTED": {"11406ee4"},
}


def directory(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def reports() -> dict[str, AuditReport]:
    return {}


@pytest.fixture
def files(test_data: Callable[..., Path]) -> dict[str, bytes]:
    return directory(test_data(*LOG))


@pytest.fixture
def report(files: dict[str, bytes], reports: dict[str, AuditReport]) -> AuditReport:
    return reports.setdefault("real", audit(files) if "real" not in reports else reports["real"])


def test_every_digest_that_can_be_recomputed_comes_out(report: AuditReport) -> None:
    assert {row.check: (row.passed, row.failed, row.not_checked) for row in report.hashes} == HASHES


def test_the_run_without_a_result_is_rebuilt_from_what_was_sealed(report: AuditReport) -> None:
    rebuilt = next(row for row in report.hashes if row.check is Check.REBUILT)
    assert rebuilt.passed == 1


def test_the_inventory_names_what_is_there(report: AuditReport) -> None:
    counts = dict(report.inventory)
    assert counts["runs with a folder"] == counts["receipts with a TDX quote"] == 51
    assert counts["folders named by their receipt id"] == 51
    assert (counts["results"], counts["log texts"], counts["distinct log texts"]) == (50, 48, 30)
    assert (counts["ledger lines of runs"], counts["index rows"], counts["rounds that published nothing"]) == (
        50,
        50,
        7,
    )
    assert counts["distinct values of bound_digest"] == 3
    assert counts["distinct enclave images (mrtd)"] == counts["distinct run-time measurements (rtmr)"] == 1


def test_every_kind_of_contradiction_is_found_as_often_as_it_is_there(report: AuditReport) -> None:
    counts = {row.code.name.removeprefix("FOREIGN_"): row.count for row in report.kinds}
    assert counts == KINDS
    assert report.exit_code is ExitCode.FALSE


def test_findings_name_the_runs_that_they_are_about(report: AuditReport) -> None:
    for kind, runs in RUNS.items():
        code = f"FOREIGN_{kind}"
        assert {name[:8] for name, codes in report.by_run.items() if code in {c.name for c in codes}} == runs


def test_the_enclave_rejects_every_run_and_the_log_publishes_all_but_one(report: AuditReport) -> None:
    rejected = [name for name, codes in report.by_run.items() if any(c.name.endswith("SEALED_VERDICT") for c in codes)]
    assert len(rejected) == 50


def test_the_comparison_is_complete_and_counted(report: AuditReport) -> None:
    assert {agreement.value: count for agreement, count in report.agreements} == {
        "equal": 6920,
        "rounded copy": 440,
        "blank in one": 333,
        "different": 341,
        "not comparable": 0,
    }
    assert report.derived == 368
    assert (report.checked, report.failed, report.not_checked) == (8477, 341, 538)


def test_nothing_binds_the_attestation_and_everything_sealed_is_bound(report: AuditReport) -> None:
    body = [row for row in report.fields if row.path.startswith("attestation.") and row.record.value == "receipt"]
    assert len(body) == 57
    assert not any(row.bound for row in body)
    assert all(row.bound for row in report.fields if row.record.value == "sealed output")
    unbound = {row.path for row in report.fields if row.record.value == "result" and not row.bound}
    assert unbound == {"receipt_id", "kl_depths.ctx*.kl", "kl_depths.ctx*.top1"}


def test_what_a_re_score_lacks_is_counted(report: AuditReport) -> None:
    assert dict(report.missing) == {
        "rule version": 51,
        "main commit behind the frontier": 51,
        "clock reading": 51,
        "reference speed": 49,
        "top1 bar": 49,
        "scored metric": 48,
        "decode speed": 48,
        "kl by depth": 36,
        "evaluation seed": 31,
        "kl bar": 10,
        "build digest": 5,
        "scored context": 4,
    }


def test_import_bodies_hold_every_run_and_round_once(report: AuditReport, files: dict[str, bytes]) -> None:
    items = list(to_import(parse_log(files), files, report))
    assert len(items) == len({item.key for item in items}) == 51 + 7
    assert Counter(item.body["attestation"] for item in items) == {"tdx-quote": 51, "none": 7}
    for item in items[:51]:
        fields = {pair["name"]: pair["value"] for pair in item.body["fields"]}
        source = "sealed" if item.body["foreign_id"].startswith("11406ee4") else "result"
        assert fields[f"{source}.tps"] in files[item.body["artifacts"][0]["name"]].decode()
        assert item.body["original_sha256"] == item.body["artifacts"][0]["sha256"]


@pytest.mark.parametrize(
    ("field", "at"),
    [
        ("quote_b64", 770),  # report_data[0:32]
        ("quote_b64", 820),  # report_data[32:64]
        ("stdout_b64", 10),
        ("nonce", 10),
        ("e2e_pubkey_b64", 10),
        ("files_sha256", 10),
        ("bound_digest", 10),
        ("scoring_sha256", 10),
    ],
)
def test_a_change_of_one_character_in_a_sealed_field_is_found(files: dict[str, bytes], field: str, at: int) -> None:
    path = "runs/c5efb8b23b342e0b3f217713c7765371/receipt.json"
    mark = f'"{field}": "'.encode()
    at += files[path].index(mark) + len(mark)
    other = b"0" if files[path][at : at + 1] != b"0" else b"1"
    changed = {name: data for name, data in files.items() if name == path or name.endswith("/result.json")}
    changed[path] = files[path][:at] + other + files[path][at + 1 :]
    assert sum(row.failed for row in audit(changed).hashes) >= 1


def test_a_change_in_the_quote_that_only_intel_could_refute_shows_as_another_enclave(files: dict[str, bytes]) -> None:
    path = "runs/c5efb8b23b342e0b3f217713c7765371/receipt.json"
    at = files[path].index(b'"quote_b64": "') + 14 + 260
    changed = files | {path: files[path][:at] + b"000" + files[path][at + 3 :]}
    report = audit(changed)
    assert sum(row.failed for row in report.hashes) == 0
    assert dict(report.inventory)["distinct enclave images (mrtd)"] == 2
    assert sum(row.count for row in report.kinds if row.code.name == "FOREIGN_ENCLAVE_CHANGED") == 2
