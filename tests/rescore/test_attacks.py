"""Ways an evaluation was fooled, or fooled itself, each with the honest run beside it that must pass."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from k3_ledger.rescore.inputs import Parity
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.schemas.outcomes import Outcome
from tests.rescore.runs import SUITE, at_depth, clock, figure, gate, native, parity, run, verdict

HOUSE = {"decode": "house-1.decode", "prefill": "house-1.prefill"}


@pytest.fixture(autouse=True, params=["house-1", "house-2", "house-3", "house-4", "house-5", "house-6", "house-7"])
def _every_house_rule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for metric in HOUSE:
        monkeypatch.setitem(HOUSE, metric, f"{request.param}.{metric}")


both_metrics = pytest.mark.parametrize("metric", ["decode", "prefill"])


@both_metrics
def test_an_honest_run_passes_every_gate(metric: str) -> None:
    found = verdict(HOUSE[metric], native("60", metric=metric))
    assert (found.tier, found.bound_by, found.not_checked, found.refused_by) == ("XL", "gain", (), ())
    assert [each.name for each in found.gates] == [
        "correctness", "suite", "sampling", "clock", "ceiling", "ratchet",
        *(["guard-clock"] if find_rule(HOUSE[metric]).bears_out else []), "guard",
        *(["repeats"] if find_rule(HOUSE[metric]).repeats else []),
    ]  # fmt: skip


@both_metrics
def test_a_binary_that_prints_its_own_speed(metric: str) -> None:
    honest = native("60", metric=metric)
    liar = replace(honest, speed=Fraction(76))
    found = verdict(HOUSE[metric], liar)
    assert (found.tier, found.speed_tier, found.bound_by) == ("REJECT", "XL", "clock")
    assert gate(HOUSE[metric], liar, "clock").reason == "faster-than-clock"
    assert verdict(HOUSE[metric], replace(honest, speed=Fraction(75))).tier == "XL"


@both_metrics
def test_a_binary_that_ignores_the_token_count_and_does_the_same_work_twice(metric: str) -> None:
    # Both runs take equally long but for half a second of jitter: the clock sees 4,096 tokens a second.
    idle = native("60", metric=metric, clock=clock(2048, "0.5", "0.5"))
    found = gate(HOUSE[metric], idle, "clock")
    assert (found.outcome, found.reason) == (Outcome.FAIL, "work-not-done")
    nothing = native("60", metric=metric, clock=clock(2048, "0", "0.5"))
    assert gate(HOUSE[metric], nothing, "clock").reason == "non-positive"


def test_prefill_had_no_external_clock() -> None:
    liar = native("160", metric="prefill", clock=clock(2048, "40", "0.5"))
    assert gate("v0.2.2", liar, "clock").reason == "not-read"
    assert verdict("v0.2.2", liar).tier == "XL"
    assert verdict(HOUSE["prefill"], liar).bound_by == "clock"


@pytest.mark.parametrize(
    ("tokens", "speed", "jitter", "reason"),
    [
        (128, "18.87", "7", "drowned"),  # 6.8 s of signal against 7.0 s of jitter
        (512, "40", "17", "drowned"),  # 12.8 s against 17 s
        (2048, "40", "5.12", ""),  # exactly ten times
        (2048, "40", "5.1201", "drowned"),
    ],
)
def test_the_margin_went_stale_as_the_engine_sped_up(tokens: int, speed: str, jitter: str, reason: str) -> None:
    seconds = str(Fraction(tokens) / Fraction(speed))
    inputs = native(speed, clock=clock(tokens, seconds, jitter))
    assert gate(HOUSE["decode"], inputs, "clock").reason == reason


def test_a_margin_whose_jitter_nobody_measured_proves_nothing() -> None:
    found = verdict(HOUSE["decode"], native("60", clock=clock(2048, "34")))
    assert (found.tier, found.speed_tier, found.bound_by) == ("none", "XL", "clock")


def test_jitter_subtracts_from_the_difference_too() -> None:
    # An honest 20.12 tok/s whose 128 tokens seemed to take 2.96 s; the same build over 2,048 tokens is believed.
    assert gate("v0.1.0", run("20.12", clock=clock(128, "2.96")), "clock").reason == "work-not-done"
    assert gate("v0.2.1", run("20.12", clock=clock(2048, "98.4")), "clock").outcome is Outcome.PASS


def test_a_reading_shorter_than_the_rules_margin_is_refused() -> None:
    assert gate("v0.2.1", run("60", clock=clock(2047, "34.1")), "clock").reason == "short-margin"


def test_a_one_sided_clock_lets_the_idle_binary_through() -> None:
    idle = run("20", clock=clock(128, "0.1"))
    assert gate("v0.1.0@9996452", idle, "clock").outcome is Outcome.PASS
    assert gate("v0.1.0@3bc3211", idle, "clock").reason == "work-not-done"


def test_a_claim_is_compared_only_when_there_is_one() -> None:
    assert gate("v0.1.0@4e11d5f", run(None, clock=clock(16, "1")), "clock").reason == "no-claim"


def test_the_ceiling_went_stale_below_main_itself() -> None:
    honest = run("56.76", "46.48", "18.4435")
    assert gate("v0.2.0", honest, "ceiling").reason == "over-ceiling"
    assert gate("v0.2.1", honest, "ceiling").outcome is Outcome.PASS
    assert gate(HOUSE["decode"], honest, "ceiling").outcome is Outcome.PASS


def test_the_decode_ceiling_took_the_prefill_reference() -> None:
    # 700 tok/s of decode is 38 times llama.cpp's, yet under five times its prefill.
    inputs = native("70", reference="143.88", metric="prefill", guarded=Fraction(700))
    assert gate("v0.2.2", inputs, "ceiling").outcome is Outcome.PASS
    assert gate("v0.2.2", replace(inputs, guarded=Fraction("719.41")), "ceiling").reason == "over-ceiling"


@both_metrics
def test_a_claim_above_the_ceiling_of_its_own_metric(metric: str) -> None:
    assert gate(HOUSE[metric], native("200", metric=metric), "ceiling").outcome is Outcome.PASS
    assert gate(HOUSE[metric], native("200.000001", metric=metric), "ceiling").reason == "over-ceiling"
    from_reference = native("200.000001", metric=metric, reference="51")
    assert gate(HOUSE[metric], from_reference, "ceiling").outcome is Outcome.PASS


def test_a_ceiling_without_anything_to_stand_on_is_not_checked() -> None:
    assert (
        gate("v0.2.1", run("60", "60", None), "ceiling").detail
        == "the run has no decode value to take the ceiling from"
    )
    assert gate("v0.2.2", run("60", metric="prefill"), "ceiling").detail == "the run has no decode claim"
    other = replace(run("60", metric="prefill"), guarded=Fraction(5))
    from k3_ledger.rescore.rules.guards import check_ceiling
    from k3_ledger.rescore.rules.parameters import Ceiling

    for basis in ("own-reference", "own-best"):
        found = check_ceiling(Ceiling(Fraction(3), ("decode",), basis), other, "decode")  # type: ignore[arg-type]
        assert found.outcome is Outcome.NOT_CHECKED
    own = check_ceiling(Ceiling(Fraction(3), ("prefill",), "own-reference"), other, "decode")
    assert own.outcome is Outcome.PASS


def test_parity_graded_on_one_four_token_prompt() -> None:
    short = parity(depths=(4,), rows=32)
    assert gate("v0.1.0", run(parity=short), "suite").outcome is Outcome.PASS
    found = verdict(HOUSE["decode"], native(parity=short))
    assert (found.tier, found.bound_by) == ("REJECT", "suite")
    assert gate(HOUSE["decode"], native(parity=short), "suite").detail == (
        "not graded at depth 128, 256, 512, 1024, 2048, 4096"
    )


def test_the_fast_path_was_never_the_graded_one() -> None:
    elsewhere = native(metric="prefill", parity=parity(rows=32, path="decode"))
    assert gate(HOUSE["prefill"], elsewhere, "suite").reason == "other-path"
    assert gate(
        HOUSE["prefill"], native(metric="prefill", parity=parity(rows=32, path="prefill")), "suite"
    ).outcome is (Outcome.PASS)
    unknown = gate(HOUSE["prefill"], native(metric="prefill", parity=parity(rows=32, path=None)), "suite")
    assert (unknown.outcome, unknown.reason) == (Outcome.NOT_CHECKED, "no-path")


def test_one_broken_depth_is_not_averaged_away() -> None:
    # Depth 4 diverges while six others agree to the digit; their mean would pass, and so would a recorded total.
    broken = at_depth(parity(rows=32), 4, kl="0.0501")
    assert broken.kl == Fraction("0.004")
    assert sum(depth.kl for depth in broken.depths) / len(broken.depths) < Fraction("0.05")
    assert verdict(HOUSE["decode"], native(parity=broken)).bound_by == "correctness"
    wrong_token = at_depth(parity(rows=32), 256, top1="0.9")
    assert verdict(HOUSE["decode"], native(parity=wrong_token)).bound_by == "correctness"


def test_an_agreement_bar_needs_rows_to_stand_on() -> None:
    assert gate(HOUSE["decode"], native(parity=parity(rows=31)), "suite").reason == "few-rows"


def test_half_of_the_evidence_is_no_evidence() -> None:
    half = Parity(Fraction("0.001"), None)
    assert gate("v0.2.1", run(parity=half), "correctness").detail == "the run does not record top1"
    assert gate("v0.2.1", run(parity=Parity(None, Fraction(1))), "correctness").detail == "the run does not record kl"


def test_a_soft_bar_warns_and_changes_nothing() -> None:
    found = gate("v0.2.1", run(parity=parity("0.020000001")), "correctness")
    assert (found.outcome, found.warning, found.reason) == (Outcome.PASS, True, "soft-bar")
    assert not gate("v0.2.1", run(parity=parity("0.02")), "correctness").warning


@pytest.mark.parametrize(
    ("times", "house", "release"),
    [
        ("1.25", ("pass", ""), ("pass", "")),
        ("1.53", ("pass", "drifted"), ("pass", "drifted")),
        ("2", ("pass", "drifted"), ("pass", "drifted")),
        ("2.01", ("fail", "blocked"), ("pass", "drifted")),
    ],
)
def test_the_bar_is_a_floor_so_divergence_creeps_up_beneath_it(
    times: str, house: tuple[str, str], release: tuple[str, str]
) -> None:
    crept = at_depth(parity(rows=32), 512, kl=str(Fraction("0.004") * Fraction(times)))
    for rule, expected in ((HOUSE["decode"], house), ("v0.2.1", release)):
        found = gate(rule, native(parity=crept), "ratchet")
        assert (str(found.outcome), found.reason) == expected
        assert found.warning == (found.reason == "drifted")


def test_a_ratio_on_a_number_far_under_the_bar() -> None:
    # Three times the frontier's divergence, at 0.19 % of the bar.
    tiny, main = parity("0.000095"), parity("0.00003")
    assert gate("v0.2.0", run(parity=tiny, frontier_parity=main), "ratchet").reason == "blocked"
    assert gate("v0.2.1@def43b4", run(parity=tiny, frontier_parity=main), "ratchet").outcome is Outcome.PASS


def test_a_frontier_without_any_divergence_makes_every_ratio_infinite() -> None:
    found = gate(HOUSE["decode"], native(frontier_parity=parity("0")), "ratchet")
    assert found.detail == "kl at depth 4 is infinitely many times the frontier's, more than 2x"


def test_of_several_depths_that_diverged_the_worst_is_named() -> None:
    """The first one beyond the bar is not the one to look at, and from nothing to something is the worst of all."""
    main = at_depth(parity("0.001", rows=32), 2048, kl="0.0006")
    mine = at_depth(at_depth(parity("0.001", rows=32), 256, kl="0.0021"), 2048, kl="0.003")
    found = gate(HOUSE["decode"], native(parity=mine, frontier_parity=main), "ratchet")
    assert (found.reason, found.detail) == ("blocked", "kl at depth 2048 is 5.00x the frontier's, more than 2x")
    drifted = at_depth(at_depth(parity("0.001", rows=32), 256, kl="0.0015"), 2048, kl="0.0011")
    found = gate(HOUSE["decode"], native(parity=drifted, frontier_parity=main), "ratchet")
    assert (found.reason, found.detail) == ("drifted", "kl at depth 2048 is 1.83x the frontier's, more than 1.25x")
    nothing = at_depth(main, 512, kl="0")
    found = gate(HOUSE["decode"], native(parity=mine, frontier_parity=nothing), "ratchet")
    assert found.detail == "kl at depth 512 is infinitely many times the frontier's, more than 2x"


def test_divergence_that_reaches_the_bar_of_the_ratchet_is_blocked() -> None:
    main = parity("0.02")
    assert gate("v0.2.1", run(parity=parity("0.05"), frontier_parity=main), "ratchet").reason == "blocked"
    assert gate("v0.2.1", run(parity=parity("0.049999"), frontier_parity=main), "ratchet").reason == "drifted"


def test_where_one_prompt_was_graded_its_whole_divergence_is_compared() -> None:
    whole = replace(parity("0.0021"), depths=())
    main = replace(parity("0.001"), depths=(), source="the round's log")
    found = gate("v0.2.0", native(parity=whole, frontier_parity=main), "ratchet")
    assert (found.reason, found.detail) == ("blocked", "kl is 2.10x the frontier's, more than 2x")
    assert [(step.name, step.text) for step in found.steps] == [
        ("kl", "0.0021"), ("frontier_kl", "0.001"), ("frontier_kl_source", "the round's log"),
    ]  # fmt: skip
    close = gate("v0.2.0", native(parity=main, frontier_parity=main), "ratchet")
    assert [step.text for step in close.steps] == ["1", "the round's log"]
    for one, other in ((whole, parity("0.001")), (parity("0.001"), main)):
        mixed = gate("v0.2.0", native(parity=one, frontier_parity=other), "ratchet")
        assert mixed.reason == "other-depths"
    silent = replace(main, kl=None)
    assert gate("v0.2.0", native(parity=whole, frontier_parity=silent), "ratchet").reason == "no-evidence"


def test_a_ratchet_needs_the_same_depths_on_both_sides() -> None:
    assert gate("v0.2.1", run(), "ratchet").detail == (
        "no frontier run of this metric and build in its round was graded"
    )
    assert gate("v0.2.1", run(parity=None, frontier_parity=parity()), "ratchet").detail == "the run records no depths"
    other = parity(depths=SUITE[1:])
    assert gate("v0.2.1", run(frontier_parity=other), "ratchet").reason == "other-depths"
    assert gate("v0.2.1", run(parity=other, frontier_parity=parity()), "ratchet").outcome is Outcome.PASS


def test_the_guards_baseline_was_stale() -> None:
    # Decode fell from 56.8 to 46.1, 19 %, and a guard of "1 %" pinned at 46.48 passed it.
    fallen = native(metric="prefill", guarded=Fraction("46.1"), guard_pin=figure("46.48", "history"))
    assert gate("v0.2.2", fallen, "guard").outcome is Outcome.PASS
    found = verdict(HOUSE["prefill"], fallen)
    assert (found.tier, found.bound_by) == ("none", "guard")
    assert gate(HOUSE["prefill"], fallen, "guard").reason == "not-reconciled"
    reconciled = replace(fallen, guard_pin=figure("56.8", "pin"), guard_measured=figure("56.8"))
    assert verdict(HOUSE["prefill"], reconciled).tier == "REJECT"


STALE = {"guard_pin": figure("450", "pin"), "guard_measured": figure("900")}


def test_a_pin_entry_is_no_reconciled_pin_until_it_agrees_with_what_was_measured() -> None:
    """Prefill halved, from 900 to 460, and a pin entry of 450 passed it under every rule that asks for an entry."""
    halved = native(guarded=Fraction(460), **STALE)
    for old in ("house-1.decode", "house-2.decode"):
        assert verdict(old, halved).tier == "XL"
    found = verdict("house-3.decode", halved)
    assert (found.tier, found.speed_tier, found.bound_by, found.not_checked) == ("none", "XL", "guard", ("guard",))
    undecided = gate("house-3.decode", halved, "guard")
    assert (undecided.outcome, undecided.reason) == (Outcome.NOT_CHECKED, "not-reconciled")
    assert undecided.detail == "prefill is pinned at 450, and the newest frontier run measured 900 (+100.0 %)"
    # Undecided for who kept the guarded metric up, too: the pin is at fault, and is to be raised first.
    assert verdict("house-3.decode", native(guarded=Fraction(900), **STALE)).tier == "none"


@pytest.mark.parametrize(
    ("pin", "newest", "reason"),
    [
        ("100", "110", ""),
        ("100", "110.000001", "not-reconciled"),
        ("100", "90", ""),
        ("100", "89.999999", "not-reconciled"),
    ],
)
def test_a_pin_agrees_up_to_a_tenth_either_way(pin: str, newest: str, reason: str) -> None:
    inputs = native(guarded=Fraction(200), guard_pin=figure(pin, "pin"), guard_measured=figure(newest))
    assert gate("house-3.decode", inputs, "guard").reason == reason


@pytest.mark.parametrize(
    ("pin", "newest", "least", "which"),
    [("56.8", "59.9", "59.301", "measured 59.9"), ("59.9", "56.8", "59.301", "pinned 59.9")],
)
def test_the_guard_admits_the_loss_it_states_and_not_the_drift_besides(
    pin: str, newest: str, least: str, which: str
) -> None:
    """A guard of 1 % at 56.8 admitted 6.1 % against the 59.90 that two builds read, and 5.5 % of drift is not stale."""
    inputs = native(metric="prefill", guard_pin=figure(pin, "pin"), guard_measured=figure(newest))
    assert gate("house-3.prefill", replace(inputs, guarded=Fraction(least)), "guard").outcome is Outcome.PASS
    found = gate("house-3.prefill", replace(inputs, guarded=Fraction(least) - Fraction(1, 10**6)), "guard")
    assert (found.outcome, found.reason) == (Outcome.FAIL, "guarded-metric-fell")
    assert found.detail == f"decode 59.30/s is below 0.99 of the {which}"
    assert [step.text for step in found.steps[1:]] == [pin, newest, least]


def test_what_a_reconciled_guard_lacks_is_named() -> None:
    for change, reason, detail in (
        ({"guarded": None}, "no-evidence", "the run does not record prefill"),
        ({"guard_pin": None}, "no-pin", "no pin for prefill"),
        ({"guard_pin": figure("100", "file")}, "not-reconciled", "the pin is not a pin entry"),
        ({"guard_measured": None}, "no-measurement", "prefill is pinned at 100, and no frontier run measured it"),
    ):
        found = gate("house-3.decode", replace(native(), **change), "guard")  # type: ignore[arg-type]
        assert (found.outcome, found.reason, found.detail) == (Outcome.NOT_CHECKED, reason, detail)


def test_the_share_that_a_reconciled_guard_lets_a_pin_be_off_is_what_reconcile_calls_stale() -> None:
    from k3_ledger.rescore.reconcile import ALARM_SHARE, THRESHOLD
    from k3_ledger.rescore.rules.guards import DRIFT

    assert (DRIFT, 1 - DRIFT) == (THRESHOLD, ALARM_SHARE)


@pytest.mark.parametrize(("measured", "outcome"), [("56.232", Outcome.PASS), ("56.231999", Outcome.FAIL)])
def test_the_guard_passes_at_equality(measured: str, outcome: Outcome) -> None:
    inputs = run(metric="prefill", guarded=Fraction(measured), guard_pin=figure("56.8", "history"))
    assert gate("v0.2.2", inputs, "guard").outcome is outcome


def test_a_guard_without_a_value_or_a_pin_is_not_checked() -> None:
    assert gate("v0.2.2", run(metric="prefill"), "guard").reason == "no-evidence"
    assert gate("v0.2.2", run(metric="prefill", guarded=Fraction(60)), "guard").reason == "no-pin"


@pytest.mark.parametrize(
    ("left_out", "bound"),
    [
        ({"parity": None}, "correctness"),
        ({"frontier_parity": None}, "ratchet"),
        ({"clock": None}, "clock"),
        ({"guarded": None}, "guard"),
        ({"samples": None}, "sampling"),
        ({"filled": None}, "sampling"),
    ],
)
def test_leaving_evidence_out_earns_nothing(left_out: dict[str, None], bound: str) -> None:
    found = verdict(HOUSE["decode"], replace(native(), **left_out))  # type: ignore[arg-type]
    assert (found.tier, found.speed_tier) == ("none", "XL")
    assert bound in found.not_checked
    assert found.bound_by == found.not_checked[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"samples": 2}, "few-samples"), ({"filled": False}, "seeked")],
)
def test_thin_or_hollow_timing_is_refused(change: dict[str, object], reason: str) -> None:
    inputs = replace(native(), **change)  # type: ignore[arg-type]
    assert gate(HOUSE["decode"], inputs, "sampling").reason == reason
    assert verdict(HOUSE["decode"], inputs).tier == "REJECT"


def test_a_run_graded_by_its_own_code_is_refused() -> None:
    own = replace(parity(rows=32), independent=False)
    assert gate(HOUSE["decode"], native(parity=own), "sampling").reason == "self-graded"
    unknown = replace(own, independent=None)
    assert (
        gate(HOUSE["decode"], native(parity=unknown), "sampling").detail == "no record of whose code the reference is"
    )


def test_the_first_run_has_nothing_to_be_compared_with() -> None:
    first = replace(native(), frontier=figure(0), frontier_parity=None, guarded=None, reference=figure(50))
    found = verdict(HOUSE["decode"], first)
    assert (found.tier, found.not_checked) == ("BASELINE", ())
    assert verdict(HOUSE["decode"], replace(first, clock=None)).tier == "none"


def test_a_weak_frontier_mints_large_percentages_unless_anchored() -> None:
    # Ten per cent over a frontier that is a fifth of the reference: the anchor credits a fifth of it.
    assert verdict("v0.2.1", run("22", "20", "100")).tier == "XS"
    assert verdict("v0.2.1", run("22", "20", "20")).tier == "L"


def test_the_anchor_woke_up_when_the_metric_moved() -> None:
    interim = verdict("v0.2.2@f561299", run("59.06", "53.02", "143.88", metric="prefill"))
    final = verdict("v0.2.2", run("59.06", "53.02", "143.88", metric="prefill"))
    assert (interim.tier, interim.bound_by, final.tier, final.bound_by) == ("S", "anchor", "L", "gain")


@pytest.mark.parametrize("lacks", ["speed", "frontier"])
def test_the_house_rules_name_what_is_missing(lacks: str) -> None:
    from k3_ledger.rescore.rules.registry import find_rule
    from k3_ledger.rescore.rules.score import apply_arithmetic
    from k3_ledger.rescore.rules.verdict import NotScorable

    found = apply_arithmetic(find_rule(HOUSE["decode"]), replace(native(), **{lacks: None}))  # type: ignore[arg-type]
    assert isinstance(found, NotScorable)
    assert found.field == lacks
    anchored = replace(find_rule(HOUSE["decode"]), credit=find_rule("v0.2.1").credit)
    without = apply_arithmetic(anchored, replace(native(), reference=None))
    assert isinstance(without, NotScorable)
    assert without.field == "reference"


def test_a_rule_without_optional_gates_has_only_those_on_agreement() -> None:
    from k3_ledger.rescore.rules.registry import find_rule
    from k3_ledger.rescore.rules.score import apply_arithmetic
    from k3_ledger.rescore.rules.verdict import Verdict

    bare = replace(find_rule(HOUSE["decode"]), sampling=None, clock=None, ceiling=None, ratchet=None, guard=None)
    found = apply_arithmetic(bare, native())
    assert isinstance(found, Verdict)
    repeated = ["repeats"] if bare.repeats else []
    assert [each.name for each in found.gates] == ["correctness", "suite", *repeated]
