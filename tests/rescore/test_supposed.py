"""A verdict by pins of a file publishes nothing, and a number that its own clock refutes counts for nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.pins import PinRecord
from k3_ledger.rescore.reconcile import reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.sweep import sweep
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode, Outcome, Severity
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, house_ledger, pin_body, receipt, timed, verified
from tests.rescore.test_admission import append, book, names_of
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of, why
from tests.rescore.test_standing import seal
from tests.rescore.test_unproved import PROVING

__all__ = ["book"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done


def supposing(reference: str, run: float) -> tuple[Builder, str, str]:
    """A ledger whose first verdict on a run states a reference from a file; the run, and the tier it was given."""
    builder, _ = house_ledger()
    builder.lines.pop()
    builder.add("rule", rule_body(PROVING), JUDGE)
    identity = builder.add("run", receipt(run), RUNNER)
    candidates = gather(verified(builder)).candidates
    track = candidates[0].run.track
    slots = {"frontier": 40} if reference == "low" else {"frontier": 10, "reference": 10}
    pins = [PinRecord(role, track, Fraction(value), "tok/s") for role, value in slots.items()]  # type: ignore[arg-type]
    (body,) = new_verdicts(rescore(candidates, PROVING, pins=pins))
    assert "file" in {pin["source"] for pin in body["pins"]}
    builder.add("verdict", body, JUDGE)
    return builder, identity, body["tier"]


def test_a_run_that_gained_nothing_is_not_accepted_by_a_file() -> None:
    builder, run, tier = supposing("low", 50.2)
    assert tier == "XL"
    text = claim("accepted", f'receipt = "{run}"\n')
    found = of(builder, text)
    assert (found.status, why(found)) == (
        Status.NO_RECEIPT, f"nobody judged receipt {run[:8]} by pins that the ledger holds",
    )  # fmt: skip
    seal(builder, PROVING)
    assert [one.published for one in gather(verified(builder)).candidates] == ["none", None]
    assert of(builder, text).status is Status.CONTRADICTED


def test_an_honest_run_is_not_refused_by_a_file() -> None:
    builder, run, tier = supposing("far", 60.0)
    assert tier == "REJECT", "60 is beyond four times the 10 that both are said to be"
    assert of(builder, speed("60.0", "")).status is Status.SUPPORTED
    assert derive_climbs(gather(verified(builder)))[0].value == 60
    seal(builder, PROVING)
    assert [one.published for one in gather(verified(builder)).candidates] == ["XL", None]
    assert of(builder, claim("accepted", f'receipt = "{run}"\n')).status is Status.SUPPORTED


def test_verify_counts_it_as_not_checked_and_warns() -> None:
    builder, _, _ = supposing("far", 60.0)
    report = settle_judgements(verified(builder))
    assert report.findings[-1].code is Code.VERDICT_UNTRACED_PIN
    assert report.findings[-1].code.info.severity is Severity.WARNING
    (step,) = [step for step in report.steps if step.name == "verdicts"]
    assert (step.outcome, step.not_checked) == (Outcome.NOT_CHECKED, 1)
    assert report.exit_code is ExitCode.VERIFIED


def test_it_is_no_tier_before_for_rescore_and_its_sweep() -> None:
    builder, _, _ = supposing("far", 60.0)
    for before, change in ((None, "first"), ("XL", "unchanged")):
        rows = rescore(gather(verified(builder)).candidates, PROVING).rows
        assert (rows[0].before, rows[0].change) == (before, change)
        assert sweep(verified(builder), PROVING).changes == {change: 1}
        seal(builder, PROVING)


def test_whoever_seals_or_appends_one_is_told(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    pins = tmp_path / "pins.toml"
    pins.write_text('[[pin]]\nslot = "reference:decode@131072/slice/bf16/node"\nvalue = 41\nunit = "tok/s"\n')
    given = ("rescore", book, "--rule", "house-4.decode", "--metric", "decode", "--processes", "1")
    own = command(*given, "--seal", "judge.pem")
    assert ("1 verdicts sealed" in own.err, "warning" in own.err) == (True, False)
    (run,) = command(*given, "--pins", "pins.toml", "--json").json["runs"]
    done = append(command, tmp_path, "verdict", run["verdict"])
    assert done.code == 0
    assert "warning: it states a pin from a file, which nobody can derive from the ledger" in done.err
    pins.write_text(pins.read_text().replace("41", "42"))
    done = command(*given, "--pins", "pins.toml", "--seal", "judge.pem")
    assert (done.code, "1 verdicts sealed" in done.err) == (0, True)
    assert "warning: 1 of them rest on pins of pins.toml" in done.err


def test_a_pin_that_is_none_is_found_in_its_value(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    body = pin_body("frontier:decode@131072/slice/bf16/node", "0", names_of(book)["frontier"])
    assert "body.value" in append(command, tmp_path, "pin", body).err


def test_a_ledger_of_warm_runs_holds_runs(command: Callable[..., Done], tmp_path: Path) -> None:
    builder = Builder().open()
    warm = [{**series, "cache": "warm"} for series in receipt()["timing"]]
    builder.add("run", receipt(timing=warm), RUNNER)
    folder = tmp_path / "warm"
    folder.mkdir()
    done = command("rescore", builder.write(folder), "--rule", "house-4.decode", "--processes", "1")
    assert "note: no run in it is a measurement, so nothing was judged" in done.err


# --------------------------------------------------------------------------------------------- refuted by its clock


def lying(claimed: float, true: float, **more: Any) -> dict[str, Any]:
    """A run whose program claims another decode than the other process saw."""
    body = receipt(claimed, 510.0, **more)
    seen = timed("decode", true, context=131_072)[1]
    return {**body, "timing": [body["timing"][0], seen, *body["timing"][2:]]}


@pytest.mark.parametrize("role", ["candidate", "frontier"])
def test_a_number_that_its_own_clock_refutes_leads_nothing_and_supports_nothing(role: str) -> None:
    builder, _ = house_ledger()
    run = builder.add("run", lying(500.0, 50.0, role=role, round_="r2"), RUNNER)
    decode, prefill = derive_climbs(gather(verified(builder)))
    assert (int(decode.value), int(prefill.value)) == (60, 510)
    found = of(builder, speed("500.0", ""))
    assert found.status is Status.CONTRADICTED
    assert why(found).startswith(f"only receipt {run[:8]} (unjudged, and refuted by its own clock), entry ")
    assert of(builder, speed("510.0", "").replace("decode@131072", "prefill@32768")).status is Status.SUPPORTED


@pytest.mark.parametrize(("true", "counts"), [(70.0, "70"), (63.0, "63.63"), (50.0, "60")])
def test_a_number_within_the_bound_counts_as_far_as_its_clock_bears_it_out(true: float, counts: str) -> None:
    builder, _ = house_ledger()
    builder.add("run", lying(70.0, true), RUNNER)
    assert derive_climbs(gather(verified(builder)))[0].value == Fraction(counts)


def test_such_a_number_is_no_pins_source() -> None:
    builder, _ = house_ledger()
    run = builder.add("run", lying(500.0, 50.0), RUNNER)
    builder.add("pin", pin_body(f"frontier:{DECODE}", "500", run), JUDGE)
    material = gather(verified(builder))
    sourced = [pin for pin in material.pin_entries if pin.source == run]
    assert Code.PIN_UNSOURCED in {found.code for found in reconcile_lock(sourced, material.measurements).findings}
