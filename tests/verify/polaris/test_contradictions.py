"""Every kind of trouble, made on purpose; and its negative control, a log that is whole."""

from __future__ import annotations

import pytest

from k3_ledger.schemas.outcomes import ExitCode, Severity
from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.kinds import TROUBLE, Trouble, foreign_codes
from tests.support import ROOT
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_done_is_found_and_nothing_else(case: Case) -> None:
    report = audit(case.files())
    assert {finding.code.name for finding in report.findings} == case.codes
    wrong = any(finding.severity is Severity.ERROR for finding in report.findings)
    assert report.exit_code is (ExitCode.FALSE if wrong else ExitCode.VERIFIED)


def test_a_log_that_is_whole_has_no_finding() -> None:
    report = audit(make_log.build(make_log.draft()))
    assert report.findings == ()
    assert report.failed == 0
    assert report.exit_code is ExitCode.VERIFIED


def test_every_code_of_foreign_logs_has_a_case() -> None:
    covered = {code for case in CASES for code in case.codes} | {
        "NOT_A_RUN_LOG",  # test_family.py
        "FOREIGN_NUMBER",  # test_foreign_json.py
        "FOREIGN_SIGNER_OTHER",  # test_hashes.py, with keys given
    }
    assert {code.name for code in foreign_codes()} == covered


def test_the_document_shows_every_code_in_its_class() -> None:
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    for trouble in Trouble:
        codes = [
            code.name.removeprefix("FOREIGN_").replace("_", "-") for code, kind in TROUBLE.items() if kind is trouble
        ]
        assert not codes or f"| {trouble.value} | {', '.join(codes)} |" in page
