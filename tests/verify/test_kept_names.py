"""A kept head stands under its own size: one that was replaced by another's copy is noticed."""

from __future__ import annotations

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import check_log
from k3_ledger.verify.source import MemorySource
from tests.ledgers import sign_head, small_ledger

LEDGER = small_ledger()


@pytest.mark.parametrize(
    ("name", "size", "found"),
    [
        ("checkpoints/000000000007.note", 7, set()),
        ("checkpoints/7.note", 7, set()),
        ("checkpoints/000000000005.note", 7, {Code.CHECKPOINT_MISNAMED}),
        ("checkpoints/000000000005.note", len(LEDGER.lines), {Code.CHECKPOINT_MISNAMED}),
        ("elsewhere/5.note", 7, set()),
    ],
)
def test_a_kept_head_under_another_name_is_a_warning(name: str, size: int, found: set[Code]) -> None:
    kept = [(name, sign_head(LEDGER.lines[:size]))]
    report = check_log(MemorySource(LEDGER.data, checkpoint=LEDGER.head(), kept=kept))
    assert (set(report.counts), report.exit_code) == (found, 0)
    for finding in report.findings:
        assert (finding.position.source, finding.expected) == (name, "a head of 5 entries")
