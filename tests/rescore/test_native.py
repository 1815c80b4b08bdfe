"""Native receipts: what their raw nanoseconds come to."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from k3_ledger.rescore.native import BESIDE, median, read_actors, read_parity, read_run
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.slots import Track
from tests.ledgers import RUNNER, Builder
from tests.rescore.receipts import parity, receipt, series, verified


def decoded(body: dict[str, Any]) -> Any:
    """The body as the verifier hands it on."""
    builder = Builder().open()
    builder.add("run", body, RUNNER)
    return [entry.entry.body for entry in verified(builder)][-1]


def timing(*rows: dict[str, Any], **more: Any) -> Any:
    return decoded(receipt(timing=list(rows), **more))


def test_claim_clock_and_jitter_come_from_the_raw_samples() -> None:
    decode, prefill = read_run(decoded(receipt(64.0, 512.0)))
    assert decode.track == Track("decode", 131_072, "k3-slice", "bf16", "node")
    assert decode.speed == 64
    assert decode.clock is not None
    assert (decode.clock.tokens, decode.clock.seconds, decode.clock.jitter) == (2048, 32, Fraction(1, 2))
    assert (decode.samples, decode.filled) == (3, True)
    assert (prefill.track.short, prefill.speed) == ("prefill@32768", 512)


def test_a_run_without_a_model_has_a_track_without_one() -> None:
    (found,) = read_run(timing(series("attend", "subject", [(10, 1)], context=4), model=None))
    assert str(found.track) == "attend@4/-/-/node"


@pytest.mark.parametrize(
    ("change", "spelled"),
    [
        ({"unit": "byte"}, "inputs:fresh/unit:byte"),
        ({"batch": 64}, "batch:64"),
        ({"processes": 8}, "processes:8"),
        ({"cache": "cold"}, "cache:cold"),
    ],
)
def test_what_was_measured_otherwise_is_another_track(change: dict[str, Any], spelled: str) -> None:
    (found,) = read_run(timing(series("decode", "subject", [(10, 1)], context=4, **change)))
    assert (str(found.track), found.speed) == (f"decode@4/k3-slice/bf16/node/{spelled}", 10)
    (actor,) = read_actors(timing(series("decode", "subject", [(10, 1)], context=4, **change)))
    assert actor.track == found.track


def test_what_one_run_timed_under_two_conditions_has_no_one_speed() -> None:
    one = series("decode", "subject", [(10, 1)], context=4)
    other = {**one, "processes": 8}
    assert [found.speed for found in read_run(timing(one, other))] == [None, None]
    assert [found.speed for found in read_run(timing(one, {**one, "batch": 8}))] == [10, 10]
    assert [found.speed for found in read_run(timing(one, {**one, "context": 5, "context_filled": 5}))] == [10, 10]


@pytest.mark.parametrize("change", [{"inputs": "repeated"}, {"cache": "warm"}, {"actor": "peer"}])
def test_a_cached_replay_is_no_measurement(change: dict[str, str]) -> None:
    fresh = series("decode", "subject", [(10, 1)], context=4)
    replayed = series("decode", "subject", [(1000, 1)], context=4, **change)
    (found,) = read_run(timing(fresh, replayed))
    assert found.speed == 10
    assert read_run(timing(replayed)) == []


def test_every_actor_of_a_receipt_is_read_for_itself() -> None:
    rows = [
        series("decode", "controller", [(10, 10)], context=4),
        series("decode", "subject", [(10, 1)], context=4),
        series("decode", "controller", [(10, 2)], context=4, actor="floor"),
        series("decode", "subject", [(10, 1)], context=4, actor="peer", inputs="repeated"),
        series("verify", "subject", [(10, 1)], context=4, actor="warmed", cache="warm", unit="receipt"),
    ]
    found = [(one.actor, one.observer, one.track.short, one.speed, one.primary) for one in read_actors(timing(*rows))]
    assert found == [
        ("subject", "controller", "decode@4", 1, False),
        ("subject", "subject", "decode@4", 10, True),
        ("floor", "controller", "decode@4", 5, True),
    ]


def test_a_run_timed_from_outside_alone_makes_no_claim() -> None:
    (found,) = read_run(timing(series("decode", "controller", [(32, 1), (64, 2)], context=4)))
    assert found.speed is None
    assert found.clock is not None
    assert found.samples == 1
    assert found.clock.jitter is None


def test_what_happens_to_one_of_five_runs_is_jitter_of_the_whole_and_not_of_the_middle() -> None:
    rows = [(32, length) for length in (3, 1, 2, 4, 50)] + [(64, 100)]
    (found,) = read_run(timing(series("decode", "controller", rows, context=4)))
    assert found.clock is not None
    assert (found.clock.jitter, found.clock.middle) == (49, 2)


def test_one_length_is_no_clock() -> None:
    (found,) = read_run(timing(series("decode", "controller", [(32, 1), (32, 2)], context=4)))
    assert found.clock is None


def test_a_clock_that_ran_backwards_is_a_reading_too() -> None:
    (found,) = read_run(timing(series("decode", "controller", [(32, 3), (64, 2)], context=4)))
    assert found.clock is not None
    assert found.clock.seconds == -1


def test_the_shortest_and_the_longest_runs_are_compared() -> None:
    rows = [(32, 1), (64, 5), (128, 4), (128, 6)]
    (found,) = read_run(timing(series("decode", "controller", rows, context=4)))
    assert found.clock is not None
    assert (found.clock.tokens, found.clock.seconds, found.clock.jitter) == (96, 4, 2)


def test_a_context_that_was_skipped_over_is_not_filled() -> None:
    (found,) = read_run(timing(series("decode", "subject", [(10, 1)], context=4096, context_filled=4)))
    assert not found.filled
    (none,) = read_run(timing(series("decode", "subject", [(10, 1)], context=None, context_filled=None)))  # type: ignore[arg-type]
    assert none.filled


def test_the_claim_is_a_median_to_six_decimals() -> None:
    (found,) = read_run(timing(series("decode", "subject", [(10, 3), (10, 1), (10, 2)], context=4)))
    assert found.speed == 5
    (third,) = read_run(timing(series("decode", "subject", [(1, 3)], context=4)))
    assert third.speed == Fraction(333333, 10**6)
    assert median([Fraction(4), Fraction(1), Fraction(2), Fraction(8)]) == 3


def test_prefills_context_is_the_tokens_it_does() -> None:
    two_lengths = [(64, 1), (96, 12), (64, 3), (96, 10), (64, 2)]
    rows = [series("prefill", observer, two_lengths, context=0) for observer in ("controller", "subject")]
    body = timing(*rows, series("decode", "subject", [(4, 1)], context=64))
    prefill, decode = read_run(body)
    assert (prefill.track.short, decode.track.short) == ("prefill@64", "decode@64")
    assert prefill.speed == 32, "the claim is of that length alone"
    assert prefill.clock is not None
    assert (prefill.clock.tokens, prefill.clock.seconds, prefill.clock.jitter) == (32, 9, 2)
    assert prefill.samples == 2
    assert [(one.track.short, one.speed) for one in read_actors(body) if one.primary] == [
        ("prefill@64", 32), ("decode@64", 4),
    ]  # fmt: skip


def test_actors_that_take_turns_are_compared_repetition_by_repetition() -> None:
    ours = series("verify", "subject", [(10, 3), (10, 8), (10, 10)], context=4)
    floor = series("verify", "controller", [(10, 2), (10, 4), (10, 9)], context=4, actor="floor")
    other = series("verify", "controller", [(10, 1), (10, 1)], context=4, actor="peer")
    elsewhere = series("verify", "controller", [(10, 1)] * 3, context=8, actor="far")
    found = {one.actor: one.beside for one in read_actors(timing(ours, floor, other, elsewhere))}
    assert found == {
        "subject": (("floor", Fraction(2, 3)),), "floor": (("subject", Fraction(3, 2)),), "peer": (), "far": (),
    }  # fmt: skip


def test_prefill_of_another_length_is_another_track() -> None:
    """No repetition of a longer one is claimed at a shorter context, nor the other way round."""
    rows = [series("prefill", "subject", [(count, 1)], context=0) for count in (512, 2048)]
    assert [(one.track.short, one.speed) for one in read_run(timing(*rows))] == [
        ("prefill@512", 512), ("prefill@2048", 2048),
    ]  # fmt: skip


def test_prefill_behind_a_context_is_another_metric() -> None:
    """A context that is only recorded must not turn a short prefill into a long one."""
    (found,) = read_run(timing(series("prefill", "subject", [(1, 1)], context=32_768)))
    assert found.track.short == "prefill-behind-32768@1"


@pytest.mark.parametrize("metric", sorted(BESIDE))
def test_what_is_noted_beside_a_run_is_not_scored(metric: str) -> None:
    noted = series(metric, "controller", [(1, 4)], context=None, context_filled=None, unit="start")  # type: ignore[arg-type]
    body = timing(noted, series("decode", "subject", [(10, 1)], context=4))
    assert [one.track.short for one in read_run(body)] == ["decode@4"]


def test_parity_is_read_depth_by_depth() -> None:
    found = read_parity(decoded(receipt()))
    assert found is not None
    assert [depth.tokens for depth in found.depths] == [4, 128, 256, 512, 1024, 2048, 4096]
    assert (found.path, found.independent, found.worst_kl(), found.worst_top1()) == ("both", True, Fraction("0.004"), 1)
    assert found.depths[0].rows == 32


def test_processed_rows_are_no_parity() -> None:
    assert read_parity(decoded(receipt(parity=parity(processing="processed")))) is None
    assert read_parity(decoded(receipt(parity=None))) is None


def test_only_a_verified_log_is_judged() -> None:
    with pytest.raises(TypeError, match="only a verified log"):
        gather([])  # type: ignore[arg-type]
