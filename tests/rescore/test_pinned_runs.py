"""What is pinned is what counts of a run: a refused run is no frontier of anybody's, and no claim beyond its clock."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.admission import admit
from k3_ledger.rescore.doubt import list_counted
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import rule_body
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, parity, pin_body, receipt, verified
from tests.rescore.test_admission import append, book, names_of
from tests.rescore.test_standing import seal
from tests.rescore.test_supposed import lying
from tests.rescore.test_unjudged import THREE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.rescore.rules.parameters import Rule
    from tests.commands import Done

__all__ = ["book"]
WHOLE = replace(find_rule("house-4.decode"), name="whole", sampling=THREE.sampling)
"""Counts a claim whole that its clock does not contradict."""


def ledger(body: dict[str, Any], rule: Rule | None) -> tuple[Builder, str]:
    builder, _ = house_ledger()
    builder.lines.pop()
    run = builder.add("run", body, RUNNER)
    if rule is not None:
        builder.lines.pop()
        builder.add("rule", rule_body(rule), JUDGE)
        run = builder.add("run", body, RUNNER)
        seal(builder, rule)
    return builder, run


def refused(builder: Builder, value: str, source: str) -> list[Code]:
    """What a pin is refused for when it is appended."""
    other = Builder(lines=[*builder.lines])
    other.add("pin", pin_body(f"frontier:{DECODE}", value, source), JUDGE)
    *before, last = verified(other)
    return [finding.code for finding in admit(last.entry, before)]


WITHIN = lying(60.0, 55.0)
"""Claims 60 beside a clock of 55: within the bounds, and 55.55 of it count."""
LOW = receipt(60.0, 500.0, parity=parity("0.4"))


@pytest.mark.parametrize("rule", [None, THREE], ids=["unjudged", "judged"])
def test_what_counts_of_a_winner_is_what_is_pinned(rule: Rule | None) -> None:
    builder, run = ledger(WITHIN, rule)
    assert refused(builder, "55.55", run) == []
    assert refused(builder, "60", run) == [Code.PIN_HAND_EDITED], "nobody counts that"
    assert refused(builder, "55.56", run) == [Code.PIN_HAND_EDITED] * 2
    builder.add("pin", pin_body(f"frontier:{DECODE}", "55.55", run), JUDGE)
    assert settle_judgements(verified(builder)).findings == ()
    material = gather(verified(builder))
    mine = [pin for pin in material.pin_entries if pin.source == run]
    assert [finding.code for finding in reconcile_lock(mine, material.measurements).findings] == []


def test_a_pin_of_before_is_no_less_true() -> None:
    """The control: what verified before verifies."""
    for body in (WITHIN, LOW, lying(60.0, 10.0)):
        builder, run = ledger(body, THREE)
        builder.add("pin", pin_body(f"frontier:{DECODE}", "60", run), JUDGE)
        assert settle_judgements(verified(builder)).exit_code is ExitCode.VERIFIED


def test_the_control_what_counts_whole_is_pinned_whole() -> None:
    builder, run = ledger(WITHIN, WHOLE)
    assert refused(builder, "60", run) == []
    for rule in (None, THREE, WHOLE):
        builder, run = ledger(receipt(60.0, 500.0), rule)
        assert refused(builder, "60", run) == []


def test_a_refused_run_is_no_source_of_a_pin() -> None:
    builder, run = ledger(LOW, None)
    assert refused(builder, "60", run) == [], "nobody refused it"
    lax = replace(THREE, name="lax", correctness=replace(THREE.correctness, kl=Fraction(1)), ratchet=None)
    for rule, expected in ((THREE, [Code.PIN_UNSOURCED]), (lax, [])):
        builder, run = ledger(LOW, rule)
        assert refused(builder, "60", run) == expected


@pytest.mark.parametrize("rule", [None, find_rule("v0.2.1"), THREE], ids=["unjudged", "leniently", "judged"])
def test_what_its_own_clock_refutes_is_no_source_of_a_pin(rule: Rule | None) -> None:
    builder, run = ledger(lying(60.0, 10.0), rule)
    assert refused(builder, "60", run) == [Code.PIN_UNSOURCED]


def test_more_than_a_rule_counts_is_none_where_no_clock_was_read() -> None:
    tracks = [one.run.track for one in gather(verified(house_ledger()[0])).candidates]
    assert [list_counted(track, Fraction(60), None) for track in tracks] == [[60, 60]] * 2


def test_append_says_so(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    pin = pin_body("frontier:decode@131072/slice/bf16/node", "60", names_of(book)["candidate"])
    assert append(command, tmp_path, "pin", pin).code == 0
    bad = command("rules", "show", "house-6.decode", "--toml").out.replace('"house-6.decode"', '"bad"')
    (tmp_path / "bad.toml").write_text(bad.replace('correctness.kl = "0.05"', 'correctness.kl = "0.0001"'))
    body = command("rules", "show", "bad.toml", "--body").json
    assert append(command, tmp_path, "rule", body).code == 0
    given = ("rescore", book, "--rule", "bad.toml", "--metric", "decode", "--processes", "1")
    assert "1 verdicts sealed" in command(*given, "--seal", "judge.pem").err
    done = append(command, tmp_path, "pin", pin)
    assert (done.code, "its source was published as refused" in done.err) == (1, True)
