"""A pin is older than the receipts that were accepted on its track behind its source, be its drift what it may."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.pins import read_pins
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather, gather_foreign
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.polaris.to_import import ImportItem
from tests.ledgers import JUDGE, LOG, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt, verified
from tests.rescore.test_claims_state import import_body
from tests.rescore.test_reconcile_state import reconciled
from tests.rescore.test_standing import FRONTIER, MERGE, seal, take_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.reconcile import Row
    from tests.commands import Done

SLOWER = find_rule("house-1.decode")
PREFILLED = find_rule("house-1.prefill")


def row(builder: Builder, slot: str = FRONTIER) -> Row:
    return next(one for one in reconciled(builder).rows if one.pin.slot == slot)


def rounds(*speeds: float, seals: bool = True) -> Builder:
    """The pin of 50 agrees; then candidates that a rule gives a tier, each of a run of its own."""
    builder, _ = house_ledger()
    for speed in speeds:
        builder.add("run", receipt(speed), RUNNER)
    if seals:
        seal(builder, SLOWER)
    return builder


def test_accepted_receipts_are_counted_although_the_drift_agrees() -> None:
    builder = rounds(70, 80)
    assert (row(builder).drift.decision, row(builder).accepted, row(builder).merged) == ("agree", 3, 0)
    (finding,) = row(builder).findings
    assert (finding.code, finding.code.info.exit) == (Code.PIN_PREDATES, 0)
    assert finding.message == f"{FRONTIER}: 3 accepted receipts since it was measured"
    assert reconciled(builder).exit_code == 0
    builder.add("merge", MERGE, JUDGE)
    assert [one.message for one in row(builder).findings if one.code is Code.PIN_PREDATES] == [
        f"{FRONTIER}: 3 accepted receipts, 1 merged since it was measured"
    ]


def test_what_earned_no_tier_or_was_judged_by_nobody_is_not_accepted() -> None:
    assert row(rounds(70, seals=False)).accepted == 0
    assert row(rounds(50.2, 45)).accepted == 1, "the candidate of 60 alone"


def test_a_tier_on_one_metric_is_none_on_another() -> None:
    builder = rounds()
    assert row(builder, f"frontier:{PREFILL}").accepted == 0
    seal(builder, PREFILLED)
    assert row(builder, f"frontier:{PREFILL}").accepted == 1


def test_what_was_taken_back_is_counted_no_more() -> None:
    builder, names = house_ledger()
    (verdict,) = seal(builder, SLOWER)
    assert row(builder).accepted == 1
    other, _ = house_ledger()
    seal(other, SLOWER)
    take_back(other, verdict)
    take_back(builder, names["candidate"])
    assert (row(builder).accepted, row(other).accepted) == (0, 0)


def test_only_what_stands_behind_the_pins_source_is_younger() -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(70.0), RUNNER)
    seal(builder, SLOWER)
    builder.add("pin", pin_body(FRONTIER, "60", names["candidate"]), JUDGE)
    assert row(builder).accepted == 1, "its source itself is not"
    newer = builder.add("run", receipt(75.0, role="frontier", round_="r2"), RUNNER)
    builder.add("pin", pin_body(FRONTIER, "75", newer), JUDGE)
    assert row(builder).accepted == 0


def test_of_the_other_engine_and_on_other_weights_nothing_is_accepted() -> None:
    builder, names = house_ledger()
    builder.add("pin", pin_body(f"reference:{DECODE}", "40", names["reference"]), JUDGE)
    body = receipt(70.0)
    builder.add("run", body | {"model": body["model"] | {"sha256": "f" * 64}}, RUNNER)
    seal(builder, SLOWER)
    assert row(builder, f"reference:{DECODE}").accepted == 0
    assert row(builder).accepted == 1


@pytest.mark.parametrize(("label", "count"), [("XL", 2), ("xs", 2), ("none", 1), ("REJECT", 1)])
def test_of_a_foreign_log_what_it_published_as_accepted(label: str, count: int) -> None:
    bodies = [import_body(name, tps, f"2026-01-0{day}T00:00:00Z") for day, (name, tps) in
              enumerate((("a" * 32, "50"), ("b", "60"), ("c", "50.4")), start=1)]  # fmt: skip
    for field in bodies[1]["fields"]:
        if field["name"] == "ledger.label":
            field["value"] = label
    text = f'[[pin]]\nslot = "frontier:decode@131072/-/bf16/node"\nvalue = 50\nunit = "tok/s"\nsource = "{"a" * 32}"\n'
    pins = read_pins(text.encode(), source="pins.toml")
    foreign = gather_foreign([ImportItem(body, {}) for body in bodies])
    builder = Builder().open()
    for body in bodies:
        builder.add("import", body, LOG)
    for measurements in (foreign.measurements, gather(verified(builder)).measurements):
        (found,) = reconcile_lock(pins, measurements).rows
        assert found.accepted == count


def test_the_command_shows_it(tmp_path: Path, command: Callable[..., Done]) -> None:
    rounds(70).write(tmp_path)
    done = command("reconcile", ".")
    assert re.search(rf"{FRONTIER} .* agree +2 accepted", done.out)
    assert "K3L-PIN-PREDATES" in done.out
    assert done.code == 0
    pins = command("reconcile", ".", "--json").json["pins"]
    assert next(one for one in pins if one["slot"] == FRONTIER)["predates"] == {"accepted": 2, "merged": 0}
