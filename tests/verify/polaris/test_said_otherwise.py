"""What honest logs may spell in their own way is no contradiction."""

from __future__ import annotations

import json
import time

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris import audit
from k3_ledger.verify.polaris.compare import days_of
from k3_ledger.verify.polaris.foreign_json import read
from k3_ledger.verify.polaris.parts import published_again


def said(**record: object) -> set[Code]:
    """Codes of an audit of one result."""
    result = {"run_id": "r", "tps": 1, **record}
    report = audit({"runs/r/result.json": json.dumps(result).encode()})
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize("date", ["2026-01-05 10:00", "2026-01-05T10:00", "2026-01-05"])
def test_a_date_with_a_time_in_any_spelling_is_that_day(date: str) -> None:
    assert Code.FOREIGN_CONTRADICTION not in said(date=date, timestamp_utc="2026-01-05T10:00:00Z")
    assert Code.FOREIGN_CONTRADICTION in said(date=date, timestamp_utc="2026-03-05T10:00:00Z")
    assert days_of(date) == ("2026-01-05", "2026-01-05")


@pytest.mark.parametrize("word", ["no", "false", "polaris", False, None, 0])
def test_only_what_is_true_says_that_there_is_a_receipt(word: object) -> None:
    assert Code.FOREIGN_RECEIPT_GONE not in said(polaris=word)
    assert Code.FOREIGN_RECEIPT_GONE in said(polaris=True)


def test_many_results_in_one_record_cost_no_square_of_their_number() -> None:
    def spent(count: int) -> float:
        document = read(json.dumps({f"a{number}": {"label": "x", "tps": 1} for number in range(count)}).encode(), "r")
        before = time.process_time()
        assert list(published_again(document)) == []
        return time.process_time() - before

    assert spent(8000) < 40 * max(spent(1000), 0.001)
