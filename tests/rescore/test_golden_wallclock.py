"""Eight real wall-clock decisions, each from the numbers of its own run log."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from k3_ledger.rescore.exact import parse_number
from k3_ledger.rescore.history.pins import DECODE_128K
from k3_ledger.rescore.inputs import ClockReading, Figure, RunInputs
from k3_ledger.rescore.rules.clock import check_clock
from k3_ledger.rescore.rules.guards import check_ceiling
from k3_ledger.rescore.rules.parameters import Ceiling, Clock
from k3_ledger.schemas.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def number(row: dict[str, Any], name: str) -> Fraction | None:
    return None if row.get(name) is None else parse_number(row[name], field=name)


def decide(row: dict[str, Any]) -> str:
    """Upstream's order: the clock first, the ceiling after it."""
    claim, speed_bound = number(row, "claim_tps"), number(row, "speed_tol")
    assert speed_bound is not None
    tokens = int(row["n"])
    measured = number(row, "dt")
    if measured is None:
        observed = number(row, "ext_tps")
        assert observed is not None
        measured = tokens / observed
    rule = Clock(("decode",), "claim", tokens, speed_bound, number(row, "work_tol"), None)
    gate = check_clock(rule, "decode", claim, ClockReading(tokens, measured))
    if gate.outcome is Outcome.FAIL:
        return gate.reason
    assert row["ceiling"] is not None
    reference = number(row, "llama")
    assert reference is not None
    run = RunInputs("x", DECODE_128K, claim, None, Figure(reference, "rule"), None)
    return check_ceiling(Ceiling(Fraction(row["ceiling"]), ("decode",), "scored-reference"), run, None).reason


WORDS = {
    "refuse:faster_than_clock": "faster-than-clock",
    "refuse:work_not_done": "work-not-done",
    "refuse:non_positive": "non-positive",
    "refuse:over_ceiling": "over-ceiling",
}


def test_all_eight_decisions(test_data: Callable[..., Path]) -> None:
    path = test_data("data", "rules") / "golden_wallclock.json"
    rows = json.loads(path.read_text(), parse_float=str, parse_int=str)
    assert [decide(row) for row in rows] == [WORDS[row["decision"]] for row in rows]
    assert len(rows) == 8
