"""What the benchmark of re-scoring judges earns tiers, on the fast path, under every house rule of its metric."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli.sources import DirectorySource
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.house import HOUSE_RULES
from k3_ledger.rescore.rules.verdict import Verdict
from k3_ledger.rescore.sweep import sweep
from k3_ledger.verify.log import verify_log
from tests.support import ROOT

if TYPE_CHECKING:
    from k3_ledger.verify.log import VerifiedLog

RULES = [rule for rule in HOUSE_RULES if rule.scope.metric == "decode"]
RECEIPTS = 40
"""Two rounds and a half: four of the frontier build and twelve candidates in each."""


@pytest.fixture(scope="module")
def benchmark() -> Any:
    folder = str(ROOT / "benchmarks")
    sys.path.insert(0, folder)
    beside = {name: sys.modules.pop(name, None) for name in ("common", "rescore", "verify")}
    try:
        import rescore as found  # type: ignore[import-not-found]

        yield found
    finally:
        sys.path.remove(folder)
        sys.modules.update({name: module for name, module in beside.items() if module is not None})


@pytest.fixture(scope="module")
def log(benchmark: Any, tmp_path_factory: pytest.TempPathFactory) -> VerifiedLog:
    folder = tmp_path_factory.mktemp("rounds")
    bodies = [benchmark.judged_body("frontier")] * 4 + [benchmark.judged_body("candidate")] * 12
    benchmark.ledger.build(folder, RECEIPTS, 1, bodies, varies=str(benchmark.VARIES), pins=[benchmark.GUARD])
    return verify_log(DirectorySource(folder))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_candidate_earns_a_tier_and_none_is_out_of_the_ordinary(log: VerifiedLog, rule: Any) -> None:
    found = sweep(log, rule)
    assert (found.tiers, found.slow) == (Counter({"XL": 28, "not scorable": 28}), 0)
    rows = rescore(gather(log).candidates, rule).rows
    assert Counter(row.result.tier for row in rows if isinstance(row.result, Verdict)) == Counter({"XL": 28})


def test_the_newest_rule_is_what_is_measured(benchmark: Any) -> None:
    assert RULES[-1].name == benchmark.NEWEST
