"""What the exit codes mean stands on one page; every other document links to it."""

from __future__ import annotations

import re

import pytest

from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.report import EXIT_PRECEDENCE
from tests.docs.test_links import DOCUMENTS
from tests.support import ROOT

PAGE = "docs/exit-codes.md"
ROW = re.compile(r"^\| *([0-9]) *\| *([^|]+?) *\|", re.MULTILINE)


def test_the_page_has_every_exit_code_and_no_other() -> None:
    rows = ROW.findall((ROOT / PAGE).read_text(encoding="utf-8"))
    assert [int(code) for code, _ in rows] == list(ExitCode)
    assert len({meaning for _, meaning in rows}) == len(ExitCode)


def test_the_page_says_which_one_wins() -> None:
    order = ", ".join(str(int(code)) for code in EXIT_PRECEDENCE)
    assert f"the first of {order} is the exit code" in (ROOT / PAGE).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != PAGE])
def test_no_other_document_has_a_table_of_its_own(document: str) -> None:
    rows = ROW.findall((ROOT / document).read_text(encoding="utf-8"))
    about = re.compile(r"torn tail|verified|was not checked", re.IGNORECASE)
    assert [(code, meaning) for code, meaning in rows if about.search(meaning)] == []
