"""Several weights under one name: ``frontier``, ``reconcile`` and ``claims check`` never mix them in silence."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import settle_judgements
from k3_ledger.rescore.pins import weigh_pins
from k3_ledger.rescore.reconcile import LockReport, reconcile_lock
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.sealing import new_verdicts, rule_body
from k3_ledger.rescore.slots import Track
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, RUNNER, Builder
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, verified
from tests.rescore.test_claims import claim, speed
from tests.rescore.test_claims_state import of as decided
from tests.rescore.test_claims_state import why
from tests.rescore.test_standing import seal, take_back
from tests.rescore.test_weights import HEAVY, LIGHT, SIXTH, from_file, of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

RATIO = 'ratio = {}\nagainst = "reference"\n'


def swapped() -> tuple[Builder, dict[str, str], str]:
    """A round on the heavy file, and a faster run of the light one."""
    builder, names = house_ledger()
    return builder, names, builder.add("run", of(LIGHT, 75.0, 700.0), RUNNER)


# --------------------------------------------------------------------------------------------------------- frontier


def test_each_file_of_weights_has_a_frontier_of_its_own() -> None:
    builder, names, light = swapped()
    climbs = derive_climbs(gather(verified(builder)), metric="decode")
    assert [(climb.weights, climb.value, climb.attempts, climb.namesakes) for climb in climbs] == [
        (HEAVY, 60, 2, 2),
        (LIGHT, 75, 1, 2),
    ]
    heavy, lighter = climbs
    assert heavy.reference is not None
    assert heavy.reference.receipt == names["reference"]
    assert lighter.reference is None, "the other engine ran the heavy file"
    assert [climb.label for climb in climbs] == [
        f"{DECODE} of aaaaaaaaaaaa… (2 weights under one name)",
        f"{DECODE} of ffffffffffff… (2 weights under one name)",
    ]
    theirs = builder.add("run", of(LIGHT, 55.0, 400.0, role="reference"), RUNNER)
    heavy, lighter = derive_climbs(gather(verified(builder)), metric="decode")
    assert (heavy.multiple, lighter.multiple) == (Fraction(3, 2), Fraction(75, 55))
    take_back(builder, light)
    take_back(builder, theirs)
    (alone,) = derive_climbs(gather(verified(builder)), metric="decode")
    assert alone.label == DECODE, "what no longer stands is nobody's namesake"


def test_the_other_engine_on_another_file_is_a_namesake_too() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 55.0, 400.0, role="reference"), RUNNER)
    (climb,) = derive_climbs(gather(verified(builder)), metric="decode")
    assert climb.namesakes == 2
    assert climb.reference is not None
    assert climb.reference.value == 40


def test_the_command_says_how_many_weights_stand_under_a_name(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _, _ = swapped()
    book = builder.write(tmp_path)
    done = command("frontier", book, "--metric", "decode", "--processes", "1")
    assert f"{DECODE} of ffffffffffff… (2 weights under one name): 75.00, 1 step in 1 receipts" in done.out
    documents = command("frontier", book, "--metric", "decode", "--json", "--processes", "1").json
    assert [(one["weights"], one["weights_under_name"]) for one in documents] == [(HEAVY, 2), (LIGHT, 2)]


# -------------------------------------------------------------------------------------------------------- reconcile


def reconciled(builder: Builder) -> LockReport:
    material = gather(verified(builder))
    return reconcile_lock(material.pin_entries, material.measurements, merges=material.merges)


def weights_found(report: LockReport) -> list[str]:
    return [finding.message for finding in report.findings if finding.code is Code.PIN_WEIGHTS]


def test_a_pin_is_held_against_the_weights_of_its_source() -> None:
    builder, names = house_ledger()
    assert weights_found(reconciled(builder)) == []
    source = builder.add("run", of(LIGHT, 75.0, 440.0, role="frontier", round_="r2"), RUNNER)
    report = reconciled(builder)
    assert weights_found(report) == [
        f"frontier:{slot}: 2 weights under one name: pinned on aaaaaaaaaaaa…, measured since on ffffffffffff…"
        for slot in (DECODE, PREFILL)
    ]
    assert [(row.drift.decision, row.proposal) for row in report.rows] == [("agree", None), ("agree", None)]
    assert report.exit_code is ExitCode.VERIFIED
    for slot, value in ((DECODE, "75"), (PREFILL, "440")):
        take_back(builder, names[slot])
        builder.add("pin", pin_body(f"frontier:{slot}", value, source), JUDGE)
    assert weights_found(reconciled(builder)) == [], "what was measured before the pin is history"
    builder.add("run", of(HEAVY, 20.0, 100.0, role="frontier", round_="r3"), RUNNER)
    report = reconciled(builder)
    assert len(weights_found(report)) == 2
    assert [row.drift.decision for row in report.rows] == ["agree", "agree"], "and no alarm"


@pytest.mark.parametrize("change", [{"role": "candidate"}, {"role": "reference"}, {"round_": "gone"}])
def test_only_what_could_move_a_pin_is_said_to_be_of_other_weights(change: dict[str, str]) -> None:
    builder, _ = house_ledger()
    run = builder.add("run", of(LIGHT, 75.0, 450.0, **({"role": "frontier"} | change)), RUNNER)
    if "round_" in change:
        take_back(builder, run)
    assert weights_found(reconciled(builder)) == []


def test_of_a_pin_without_a_source_nobody_knows_the_weights() -> None:
    builder, _ = house_ledger()
    builder.add("run", of(LIGHT, 75.0, 450.0, role="frontier", round_="r2"), RUNNER)
    material = gather(verified(builder))
    (loose,) = from_file("frontier", "50", None, builder)
    report = reconcile_lock([loose], material.measurements)
    assert weights_found(report) == [f"frontier:{DECODE}: 2 weights under one name: aaaaaaaaaaaa…, ffffffffffff…"]
    assert report.rows[0].drift.decision == "stale", "held against the newest, as it was"


def test_a_pin_of_a_foreign_receipt_is_of_weights_that_nobody_names() -> None:
    builder, names = house_ledger()
    (pin,) = from_file("frontier", "50", names["frontier"], builder)
    foreign, native = (
        item for item in gather(verified(builder)).measurements if item.track == pin.track and item.role == "frontier"
    )
    foreign = replace(foreign, weights=None)
    report = reconcile_lock([pin], [foreign, replace(native, current=True)])
    assert weights_found(report) == [
        f"frontier:{DECODE}: 2 weights under one name: pinned on unknown weights, measured since on aaaaaaaaaaaa…"
    ]
    assert report.rows[0].drift.decision == "agree"
    assert weights_found(reconcile_lock([pin], [foreign, replace(native, current=True, weights=None)])) == []


# ----------------------------------------------------------------------------------------------------------- claims


def test_a_value_says_which_weights_it_was_measured_on_where_there_are_several() -> None:
    builder, names, light = swapped()
    found = decided(builder, speed("75.0", "current = true\n"))
    assert (found.status, [part.why for part in found.parts]) == (
        Status.SUPPORTED,
        [
            f"receipt {light[:8]}, entry 9 holds it, on ffffffffffff… (2 weights under one name)",
            f"receipt {light[:8]}, entry 9 is the newest, on ffffffffffff… (2 weights under one name)",
        ],
    )
    stale = decided(builder, speed("60.0", "current = true\n"))
    assert stale.status is Status.STALE
    assert stale.parts[0].why.endswith("on aaaaaaaaaaaa… (2 weights under one name)")
    assert stale.parts[1].why.endswith("since, on ffffffffffff… (2 weights under one name)")
    take_back(builder, light)
    assert why(decided(builder, speed("60.0", ""))) == f"receipt {names['candidate'][:8]}, entry 8 holds it"
    assert decided(builder, speed("61.0", "")).parts[0].evidence == ()


def test_a_ratio_of_two_weights_is_ambiguous_and_of_one_is_not() -> None:
    builder, _, _ = swapped()
    mixed = "but its sides are of different weights: ffffffffffff… and aaaaaaaaaaaa…"
    alone = claim("ratio", f'track = "{DECODE}"\ntolerance = "rounding"\n{RATIO.format("1.88")}')
    for found in (decided(builder, speed("75.0", RATIO.format("1.88"))), decided(builder, alone)):
        assert found.status is Status.AMBIGUOUS
        assert found.parts[-1].why.endswith(mixed)
    assert decided(builder, speed("60.0", RATIO.format("1.50"))).status is Status.SUPPORTED
    builder.add("run", of(LIGHT, 50.0, 400.0, role="reference"), RUNNER)
    builder.add("run", of(LIGHT, 76.0, 700.0), RUNNER)
    assert decided(builder, speed("76.0", RATIO.format("1.52"))).status is Status.SUPPORTED
    builder.add("run", of(HEAVY, 62.0, 500.0), RUNNER)
    assert decided(builder, speed("62.0", RATIO.format("1.55"))).status is Status.SUPPORTED, "against 40, not 50"
    assert decided(builder, alone.replace("1.88", "1.55")).status is Status.SUPPORTED


def test_a_climb_from_one_file_to_another_is_ambiguous() -> None:
    builder, _, _ = swapped()
    found = decided(builder, speed("75.0", 'start = 50.0\nratio = 1.50\nagainst = "start"\n'))
    assert found.status is Status.AMBIGUOUS
    assert "its sides are of different weights" in found.parts[-1].why
    assert decided(builder, speed("60.0", 'start = 50.0\nratio = 1.20\nagainst = "start"\n')).status is Status.SUPPORTED


def test_a_climb_on_one_file_is_no_less_one_where_another_began_alike() -> None:
    builder = Builder().open()
    for weights, decode in ((LIGHT, 50.0), (HEAVY, 50.0), (HEAVY, 60.0)):
        builder.add("run", of(weights, decode, role="frontier", round_=None), RUNNER)
    assert decided(builder, speed("60.0", 'start = 50.0\nratio = 1.2\nagainst = "start"')).status is Status.SUPPORTED


def test_many_files_cost_no_more_than_one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up of a file is looked up, and not sought among all that was measured."""
    asked: list[int] = []
    plain = Track.__eq__

    def compared(self: Track, other: object) -> bool:
        asked[-1] += 1
        return plain(self, other)

    for files in (10, 20):
        builder = Builder().open()
        for number in range(files):
            builder.add("run", of(f"{number:064x}", role="frontier", round_=None), RUNNER)
        material = gather(verified(builder))
        asked.append(0)
        with monkeypatch.context() as watched:
            watched.setattr(Track, "__eq__", compared)
            assert len(derive_climbs(material, metric="decode")) == files
    assert asked[1] <= 3 * asked[0]


def test_a_gain_over_what_other_weights_measured_is_ambiguous() -> None:
    builder, _, light = swapped()
    heavy = builder.add("run", of(HEAVY, 60.0, 540.0), RUNNER)
    text = 'receipt = "{}"\npercent = {}\ntolerance = "rounding"\n'
    found = decided(builder, claim("gain", text.format(light, "50.0")))
    assert found.status is Status.AMBIGUOUS
    assert "other weights: the frontier run of its round is of aaaaaaaaaaaa…, the run of ffffffffffff…" in why(found)
    assert decided(builder, claim("gain", text.format(heavy, "20.0"))).status is Status.SUPPORTED


@pytest.mark.parametrize(("weights", "status"), [(HEAVY, Status.SUPPORTED), (LIGHT, Status.AMBIGUOUS)])
def test_a_credit_over_what_other_weights_measured_is_ambiguous(weights: str, status: Status) -> None:
    builder, _ = house_ledger()
    fifth = replace(SIXTH, name="fifth", arithmetic="measured-gain/5")
    builder.add("rule", rule_body(fifth), JUDGE)
    run = builder.add("run", of(weights, 60.0, 500.0), RUNNER)
    text = f'receipt = "{run}"\ngain_percent = 20.0\ncredited_percent = 20.0\ntolerance = "rounding"\n'
    found = decided(builder, claim("credit", text))
    assert found.status is status
    if status is Status.AMBIGUOUS:
        assert why(found).endswith("of ffffffffffff… was held against aaaaaaaaaaaa…")
    builder.add("rule", rule_body(SIXTH), JUDGE)
    late = builder.add("run", of(weights, 61.0, 500.0), RUNNER)
    found = decided(builder, claim("credit", text.replace(run, late).replace("20.0", "22.0")))
    assert found.status is (status if weights == HEAVY else Status.NO_RECEIPT)


@pytest.mark.parametrize("own", [HEAVY, LIGHT])
@pytest.mark.parametrize("held", [HEAVY, LIGHT])
@pytest.mark.parametrize("pinned", [False, True])
def test_a_gain_is_over_the_frontier_that_its_verdict_was_held_against(own: str, held: str, pinned: bool) -> None:
    """Whatever the frontier of the run's own round is of."""
    fifth = replace(SIXTH, name="fifth", arithmetic="measured-gain/5")
    builder, names = house_ledger()
    builder.add("rule", rule_body(fifth), JUDGE)
    greatest = builder.add("run", of(held, 54.0, role="frontier", round_="r0"), RUNNER)
    if pinned:
        builder.add("pin", pin_body(f"frontier:{DECODE}", "54", greatest), JUDGE)
    other = LIGHT if held == HEAVY else HEAVY
    builder.add("run", of(other, 50.0, 450.0, role="frontier", round_="r2"), RUNNER)
    run = builder.add("run", of(own, 60.0, 500.0, round_="r2"), RUNNER)
    seal(builder, fifth)
    (one,) = [one for one in gather(verified(builder)).candidates if one.identity == run and one.decided]
    assert one.decided is not None
    stated = dict(one.decided.pins)[f"frontier:{DECODE}"]
    assert stated != names["frontier"]
    for kind, more in (
        ("gain", "percent = 11.1\n"),
        ("credit", "gain_percent = 11.1\ncredited_percent = 11.1\n"),
    ):
        text = f'receipt = "{run}"\n{more}metric = "decode"\ntolerance = "rounding"\n'
        found = decided(builder, claim(kind, text))
        assert found.status is (Status.SUPPORTED if own == held else Status.AMBIGUOUS), kind
        assert own == held or "aaaaaaaaaaaa…" in why(found)


def test_the_credit_of_a_first_run_is_over_nothing() -> None:
    builder = Builder().open()
    builder.add("rule", rule_body(replace(SIXTH, guard=None, ratchet=None)), JUDGE)
    run = builder.add("run", of(HEAVY, 60.0, round_=None), RUNNER)
    text = f'receipt = "{run}"\ngain_percent = 20.0\ncredited_percent = 20.0\ntolerance = "rounding"\n'
    assert "was gained nothing" in decided(builder, claim("credit", text)).parts[0].why


def test_a_pin_and_a_measurement_of_different_weights_are_not_compared() -> None:
    builder, _, _ = swapped()
    text = f'track = "{DECODE}"\nvalue = 50\nmeasured = {{}}\ntolerance = 0.001\n'
    found = decided(builder, claim("pin", text.format(75)))
    assert [part.status for part in found.parts if part.name == "weights"] == [Status.AMBIGUOUS]
    found = decided(builder, claim("pin", text.format(50)))
    assert found.status is Status.SUPPORTED


# ------------------------------------------------------------------------------------------------------ the command


def test_pins_of_a_file_are_weighed_by_the_receipts_they_name(command: Callable[..., Done], tmp_path: Path) -> None:
    """Under the registered rule, which asks for seven repetitions: what is scored is refused for too few."""
    builder, names = house_ledger()
    light = builder.add("run", of(LIGHT, 40.0, 450.0, role="frontier", round_="r2"), RUNNER)
    book = builder.write(tmp_path)
    pin = '[[pin]]\nslot = "frontier:{}"\nvalue = 40\nunit = "tok/s"\n{}'
    for source, said in (
        (f'source = "{light}"\n', "the file's pin is of ffffffffffff…"),
        (f'source = "{names["frontier"]}"\n', "sampling"),
        ("", "weights unknown: the file's pin names none"),
    ):
        (tmp_path / "pins.toml").write_text(pin.format(DECODE, source))
        done = command(
            "rescore", book, "--rule", "house-6.decode", "--metric", "decode", "--all", "--pins", "pins.toml",
            "--processes", "1",
        )  # fmt: skip
        assert (done.code, said in done.out) == (0, True)


def test_a_verdict_by_a_file_of_the_same_weights_can_be_sealed() -> None:
    builder, _ = house_ledger()
    builder.lines.pop()
    builder.add("rule", rule_body(SIXTH), JUDGE)
    low = builder.add("run", of(HEAVY, 46.0, 450.0, role="frontier"), RUNNER)
    run = builder.add("run", of(HEAVY, 60.0, 500.0), RUNNER)
    material = gather(verified(builder))
    pins = weigh_pins(from_file("frontier", "46", low, builder), material.weights)
    (body,) = new_verdicts(rescore(material.candidates, SIXTH, pins=pins))
    assert (body["target"], body["tier"]) == (run, "XL")
    builder.add("verdict", body, JUDGE)
    found = settle_judgements(verified(builder)).findings
    assert [finding.code for finding in found] == [Code.VERDICT_UNTRACED_PIN]
