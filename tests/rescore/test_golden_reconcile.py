"""Every pair of pin and measurement in the real history: drift, decision, cause, and what stays unexplained."""

from __future__ import annotations

import importlib
import json
from datetime import datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.exact import format_percent, parse_decimal
from k3_ledger.rescore.history.pins import DECODE_64, DECODE_128K, PREFILL_32K
from k3_ledger.rescore.pins import Merge, PinRecord
from k3_ledger.rescore.reconcile import Measurement, compare, reconcile_lock
from k3_ledger.schemas.findings import Code
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRACKS = {"128": DECODE_64, "128K": DECODE_128K, "32K_PP": PREFILL_32K}
DECISIONS = {"no-pin": "no-pin", "agree": "agree", "raise": "raise", "raise_stale": "stale", "alarm_stop": "alarm"}
SEALED = {"winner_landed", "winner_landed_overshoot", "hand_edit_from_receipt"}


@pytest.fixture
def pairs(test_data: Callable[..., Path]) -> list[dict[str, Any]]:
    path = test_data("data", "rules") / "golden_reconcile.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(), parse_float=str)["pairs"]
    return rows


def number(text: str) -> Fraction:
    return parse_decimal(text, field="number")


def pin_of(row: dict[str, Any]) -> Fraction | None:
    return number(row["pin"]) or None


def winner_of(row: dict[str, Any]) -> Merge | None:
    """The winner that the history names for this pair, landed just before it was measured."""
    if not row.get("explaining_tps"):
        return None
    return Merge(
        track=TRACKS[row["slot"]],
        time=datetime.fromisoformat(row["when_utc"]) - timedelta(minutes=1),
        pull_request=1,
        commit=None,
        run=None,
        value=number(row["explaining_tps"]),
        sealed=row["cause"] in SEALED,
    )


def percent(value: Fraction | None, places: int = 2) -> str | None:
    return None if value is None else format_percent(value, places)


def same(found: str | None, golden: str | None) -> bool:
    return found == golden or (found is not None and golden is not None and Fraction(found) == Fraction(golden))


def test_every_pair(pairs: list[dict[str, Any]]) -> None:
    for row in pairs:
        found = compare(pin_of(row), number(row["measured"]), winner=winner_of(row))
        assert found.decision == DECISIONS[row["decision"]], row
        assert same(percent(found.drift), row["drift_pct"]), row
        assert (found.decision == "stale") == row["flag_over_10"], row
        if row["flag_over_10"]:
            assert same(percent(found.unexplained), row["unexplained_pct"]), row
    assert len(pairs) == 34
    assert sum(pin_of(row) is not None for row in pairs) == 31


def stale(pairs: list[dict[str, Any]], *, with_merges: bool, sealed_only: bool = False) -> list[str]:
    """Pairs that still fire, each reconciled as a lock of its own with the winners landed by then."""
    fired = []
    for row in pairs:
        if (value := pin_of(row)) is None:
            continue
        track, at = TRACKS[row["slot"]], datetime.fromisoformat(row["when_utc"])
        winners = [winner_of(row)] if with_merges else []
        report = reconcile_lock(
            [PinRecord("frontier", track, value, "tok/s")],
            [Measurement(track, number(row["measured"]), at)],
            merges=[winner for winner in winners if winner],
            sealed_only=sealed_only,
        )
        if any(finding.code is Code.PIN_STALE for finding in report.findings):
            fired.append(f"{row['pin']}->{row['measured']}")
    return fired


def test_the_bare_rule_fires_fourteen_times(pairs: list[dict[str, Any]]) -> None:
    assert len(stale(pairs, with_merges=False)) == 14


def test_with_sealed_winners_three_remain(pairs: list[dict[str, Any]]) -> None:
    assert stale(pairs, with_merges=True, sealed_only=True) == ["40.35->53.02", "59.59->66.62", "69.02->98.8"]


def test_with_the_unsealed_winner_two_remain(pairs: list[dict[str, Any]]) -> None:
    assert stale(pairs, with_merges=True) == ["40.35->53.02", "69.02->98.8"]


def test_the_overshoots_show_at_five_percent(pairs: list[dict[str, Any]]) -> None:
    shown = {
        row["measured"]
        for row in pairs
        if row["flag_over_10"]
        and not compare(pin_of(row), number(row["measured"]), winner=winner_of(row)).explained(Fraction(1, 20))
    }
    assert shown == {"16.06", "53.02", "66.62", "98.8"}


def test_one_alarm(pairs: list[dict[str, Any]]) -> None:
    alarms = [row for row in pairs if compare(pin_of(row), number(row["measured"])).decision == "alarm"]
    assert [(row["pin"], row["measured"]) for row in alarms] == [("21.24", "11.61")]


def test_the_history_that_the_documents_reconcile_is_the_golden_one(
    pairs: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/reconcile.md gets 14, 3 and 2 from the command; these are the figures that it is run on."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    rows = importlib.import_module("pin_history").rows()
    pinned = [row for row in pairs if pin_of(row) is not None]
    slots = {"128": "64"}
    for (when, slot, pin, measured, won), golden in zip(rows, pinned, strict=True):
        assert f"2026-{when}Z" == golden["when_utc"]
        assert slot == slots.get(golden["slot"], golden["slot"])
        assert (number(pin), number(measured)) == (pin_of(golden), number(golden["measured"]))
        winner = winner_of(golden)
        assert (won == "-") == (winner is None)
        if winner is not None:
            assert (number(won.removeprefix("~")), not won.startswith("~")) == (winner.value, winner.sealed)
