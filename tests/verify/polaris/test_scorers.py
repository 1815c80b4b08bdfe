"""A scorer's commit is called wrong where the log shows it, not for what runs may lack or how a time is stated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.verify.polaris import audit, parse_log
from tests.verify.polaris import longctx, make_log

if TYPE_CHECKING:
    from tests.verify.polaris.make_log import Draft


def wrong(log: Draft) -> list[str]:
    found = audit(longctx.build(log)).findings
    return [f.message for f in found if f.code.name == "FOREIGN_SCORER_COMMIT"]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_run_without_a_receipt_has_no_other_scorer_than_those_with_one(at: int) -> None:
    log = longctx.draft("sealed")
    log.runs[at].form = "none"
    assert wrong(log) == []


@pytest.mark.parametrize("shape", ["attested", "printed"])
def test_runs_of_one_day_stand_in_the_order_of_their_attestations(shape: str) -> None:
    """Two scorers in a row: by their days alone, runs without a receipt would stand in front of all of that day."""
    log = longctx.draft(shape)
    for at, run in enumerate(log.runs):
        moment = f"2026-08-01T{10 + at}:00:00Z"
        run.attestation["timestamp_utc"] = moment
        run.attestation["code"]["scoring_scripts_commit"] = make_log.commit(1000 if at < 2 else 1001)
        for record in (run.result, run.index):
            assert record is not None
            record["date"] = "2026-08-01"
        if shape == "printed":
            assert run.log is not None
            run.log[1] = "POLARIS_ATTESTATION " + make_log.spell(run.attestation).decode()
    log.runs[0].form = "measurements"
    log.advances = []
    files = longctx.build(log)
    assert [run.timestamp for run in parse_log(files).runs] == [f"2026-08-01T{10 + at}:00:00Z" for at in range(3)]
    assert wrong(log) == []


@pytest.mark.parametrize(("other", "said"), [(1, 1), (2, 0), (3, 1)])
def test_fields_that_half_of_the_results_of_a_scorer_have_show_nothing(other: int, said: int) -> None:
    first, second = longctx.draft("sealed"), longctx.draft("attested")
    log = first
    log.runs.append(second.runs[0])
    log.runs[3] = longctx.draft("sealed").runs[2]
    log.runs[3].folder = "0504-0123456"
    log.advances = []
    for record in (log.runs[3].result, log.runs[3].index):
        assert record is not None
        record["id"] = "0504-0123456"
    for run in log.runs[:other]:
        assert run.result is not None
        run.result["decode16k_delta_pct"] = 1.5
    assert len(wrong(log)) == said
