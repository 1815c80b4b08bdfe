"""A receipt has room for every round that a plan may take, whatever the numbers in it are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from k3_ledger.engine.runner.measure import MOST_ROUNDS, Plan
from k3_ledger.engine.runner.observations import Observations, Timed, Walk
from k3_ledger.engine.runner.record import MOST_RANKS, plan_with_room, timing_of
from k3_ledger.schemas.envelope import MAX_ENTRY
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import RankMemory
from tests.support import ROOT

LONG = Timed(9_999_999, 2 * 10**15, 9_999_999_999_999, 9_999_999_999_999)
"""Some days into a run, and hours long."""
COMMAND = ("k3-ledger", "run", *("--depth", "131072") * 20)


def walk(kind: Any) -> Walk:
    return Walk(kind, (1,), 0, LONG, LONG, 0, -1.0, (0,), (-1.0,), 1)


def observed(rounds: int) -> Observations:
    some: Any = [{kind: walk(kind) for kind in ("short", "prompts", "long-decode")} for _ in range(rounds)]
    pings = [9_999_999_999] * (4 + 3 * rounds)
    return Observations(seed=1, load_ns=10**13, pings=pings * 3, rounds=some, warmups=some[:1], shorter=some * 2)


def rounds_with(depths: int) -> int:
    asked = Plan(most_repetitions=MOST_ROUNDS)
    return plan_with_room(asked, depths, COMMAND).most_repetitions


@pytest.mark.parametrize("depths", [1, 4, 16, 64])
def test_the_largest_receipt_that_may_come_is_one(depths: int) -> None:
    """The largest one of the project's own ledger, with everything in it at its longest."""
    lines = (ROOT / "published" / "ledger.jsonl").read_bytes().splitlines()
    entries = [json.loads(line)["entry"] for line in lines]
    (*_, entry) = sorted(
        (one for one in entries if one["kind"] == "run" and one["body"]["parity"]),
        key=lambda one: len(json.dumps({**one["body"], "timing": []})),
    )
    body, rounds = entry["body"], rounds_with(depths)
    assert rounds >= Plan().repetitions
    body["timing"] = [one.model_dump(mode="json") for one in timing_of(observed(rounds), 0, Plan())]
    ranks = [RankMemory(rank=10**6 + at, peak_bytes=10**12, device="accelerator") for at in range(MOST_RANKS)]
    body["memory"] += [rank.model_dump(mode="json") for rank in ranks]
    body["parity"]["depths"] = [max(body["parity"]["depths"], key=lambda one: len(json.dumps(one)))] * depths
    assert len(json.dumps(entry, separators=(",", ":"))) + 4000 < MAX_ENTRY


def test_rounds_for_which_there_is_no_room_are_refused_before_anything_runs() -> None:
    most = rounds_with(64)
    assert 20 < most < rounds_with(4) == MOST_ROUNDS
    plan = Plan(repetitions=most, most_repetitions=MOST_ROUNDS)
    assert plan_with_room(plan, 64, COMMAND) == replace(plan, most_repetitions=most)
    with pytest.raises(RunError, match="more than a receipt has room for beside 64 depths") as caught:
        plan_with_room(Plan(repetitions=most + 1, most_repetitions=MOST_ROUNDS), 64, COMMAND)
    assert (caught.value.code, caught.value.finding.expected) == (Code.RUN_FLAG, f"at most {most}")
    with pytest.raises(RunError, match="receipt has room for"):
        plan_with_room(Plan(), 4, ("x" * 60_000,))


def test_pings_of_rounds_that_do_not_count_are_no_samples() -> None:
    for rounds in (3, 7):
        made = {one.metric: one for one in timing_of(observed(rounds), 0, Plan()) if one.metric == "ping"}
        assert len(made["ping"].samples) == 3 * rounds
