"""A clock of three lengths or more: every pair is read, and lengths that suit a claim hide none that contradicts it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore.doubt import REFUTED, is_refuted
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.native import MOST_LENGTHS, read_run
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.verdict import Verdict
from tests.ledgers import RUNNER
from tests.rescore.receipts import house_ledger, receipt, series, timed, verified
from tests.rescore.test_native import decoded
from tests.rescore.test_sweep import same

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule

SIXTH = find_rule("house-6.decode")
HOUSE = replace(SIXTH, name="sixth", sampling=replace(SIXTH.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
OLDER = tuple(replace(HOUSE, name=name, arithmetic=name) for name in ("measured-gain/3", "measured-gain/5"))


def lengths(
    speed: float, counts: tuple[int, ...], *, loads: dict[int, float] | None = None, jitter: float = 0.1
) -> dict[str, Any]:
    """What another process saw of runs of these lengths; ``loads`` makes loading of some of them longer."""
    samples = [
        (count, count / speed + 20 + (loads or {}).get(count, 0.0) + share * jitter)
        for count in counts
        for share in (0, 1, 0.5)
    ]
    return series("decode", "controller", samples, context=131_072)


def body(claim: float, clock: dict[str, Any]) -> dict[str, Any]:
    own = receipt(claim, 500.0)
    return {**own, "timing": [timed("decode", claim, context=131_072)[0], clock, *own["timing"][2:]]}


def judged(run: dict[str, Any], rule: Rule = HOUSE) -> Verdict:
    builder, _ = house_ledger()
    builder.add("run", run, RUNNER)
    same(builder, rule)
    found = rescore(gather(verified(builder)).candidates, rule).rows[-2].result
    assert isinstance(found, Verdict)
    return found


def padded(claim: float, true: float, counts: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """A clock of ``true``, and runs of one token whose loading makes shortest and longest say what is claimed."""
    most = max(counts)
    return lengths(true, (1, *counts), loads={1: (most - 1) / true - (most - 1) / claim}, **more)


# ------------------------------------------------------------------------------------------------------ the attack


@pytest.mark.parametrize("rule", [HOUSE, *OLDER], ids=lambda rule: rule.arithmetic)
@pytest.mark.parametrize("counts", [(32, 2080), (32, 1056, 2080), (32, 33, 34, 2080)])
def test_a_length_that_makes_the_clock_agree_does_not_hide_one_that_contradicts(
    counts: tuple[int, ...], rule: Rule
) -> None:
    """The extremes say 80, and 2,048 tokens between two other lengths say 50."""
    assert judged(body(80.0, lengths(80.0, (1, 2080))), rule).tier == "XL", "the control"
    found = judged(body(80.0, padded(80.0, 50.0, counts)), rule)
    assert (found.tier, found.bound_by) == ("REJECT", "clock")
    (gate,) = [gate for gate in found.gates if gate.name == "clock"]
    assert " between runs of " in gate.detail


def test_no_more_of_a_claim_counts_than_the_slowest_pair_that_is_long_enough_bears_out() -> None:
    """The extremes say 58, and 2,048 tokens between two other lengths say 50: within every bound and the jitter."""
    for rule, speed, tier in ((HOUSE, "50.5", "none"), (OLDER[1], "58", "L")):
        found = judged(body(58.0, padded(58.0, 50.0, (32, 2080), jitter=3.0)), rule)
        assert {step.name: step.text for step in found.steps}["speed"] == speed
        assert (found.tier, found.refused_by, found.not_checked) == (tier, (), ())


@pytest.mark.parametrize(
    ("clock", "expected"),
    [
        ({}, {"counted": "50.5", "counted_between": "32 and 2080"}),
        ({"true": 50.0}, {"counted": "50.5"}),
        ({"true": 58.0}, {}),
        ({"true": 57.5}, {}),
    ],
)
@pytest.mark.parametrize("name", ["clock", "guard-clock"])
def test_a_verdict_shows_by_which_figures_less_of_a_claim_counts(
    name: str, clock: dict[str, Any], expected: dict[str, str]
) -> None:
    """They stand at the gate of that clock, and nothing does where all of the claim counts."""
    true = clock.get("true")
    outside = lengths(true, (32, 2080)) if true else padded(58.0, 50.0, (32, 2080), jitter=3.0)
    builder, _ = house_ledger()
    builder.add("run", body(58.0, outside), RUNNER)
    metric, row = ("decode", -2) if name == "clock" else ("prefill", -1)
    for number in (4, 6):
        kind = find_rule(f"house-{number}.{metric}")
        found = rescore(gather(verified(builder)).candidates, kind).rows[row].result
        assert isinstance(found, Verdict)
        shown = {
            step.name: step.text
            for gate in found.gates
            if gate.name == name
            for step in gate.steps
            if step.name.startswith("counted")
        }
        assert shown == (expected if number == 6 else {})
        assert not any(step.name.startswith("counted") for step in found.steps), "what is sealed is what it was"
        if name == "clock" and shown:
            assert {step.name: step.text for step in found.steps}["speed"] == shown["counted"]


def test_a_pair_over_too_little_takes_nothing_from_an_honest_claim() -> None:
    """Of one token more or less nobody can say how long it took."""
    odd = lengths(60.0, (32, 33, 2080), loads={33: 0.09})
    found = judged(body(60.0, odd))
    assert found.tier == "XL"
    assert {step.name: step.text for step in found.steps}["speed"] == "60"


def test_a_number_that_one_pair_of_its_clock_contradicts_is_refuted_for_everybody() -> None:
    builder, _ = house_ledger()
    builder.add("run", body(80.0, padded(80.0, 50.0, (32, 2080))), RUNNER)
    material = gather(verified(builder))
    assert [one.voided for one in material.candidates][2:] == [REFUTED, ""]
    assert derive_climbs(material)[0].value == 60
    builder.add("run", body(80.0, padded(80.0, 50.0, (32, 2080))) | {"role": "frontier"}, RUNNER)
    builder.add("run", receipt(60.0), RUNNER)
    same(builder, HOUSE)
    assert gather(verified(builder)).candidates[-2].run.frontier.value == 50  # type: ignore[union-attr]


# ----------------------------------------------------------------------------------------------------- what is read


def read(clock: dict[str, Any]) -> Any:
    run = decoded(body(60.0, clock))
    return next(item for item in read_run(run) if item.track.metric == "decode").clock


def test_every_pair_is_read_and_a_clock_of_too_many_lengths_is_none() -> None:
    reading = read(lengths(50.0, (10, 20, 40, 80)))
    assert (reading.tokens, [pair.lengths for pair in reading.pairs]) == (
        70, [(10, 20), (10, 40), (20, 40), (20, 80), (40, 80)],
    )  # fmt: skip
    assert [pair.seconds for pair in reading.pairs] == [Fraction(pair.tokens, 50) for pair in reading.pairs]
    assert read(lengths(50.0, (10, 20))).pairs == ()
    assert read(lengths(50.0, tuple(range(1, MOST_LENGTHS + 1)))) is not None
    assert read(lengths(50.0, tuple(range(1, MOST_LENGTHS + 2)))) is None


@given(
    speed=st.sampled_from([20.0, 60.0, 200.0]),
    counts=st.lists(st.integers(1, 5000), min_size=3, max_size=6, unique=True).map(tuple),
    noise=st.lists(st.floats(min_value=0, max_value=0.1), min_size=6, max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_no_honest_clock_of_many_lengths_refutes_its_run(
    speed: float, counts: tuple[int, ...], noise: list[float]
) -> None:
    """Loading that differs by no more than the jitter that was measured is nobody's lie."""
    clock = lengths(speed, counts, loads=dict(zip(counts, noise, strict=False)))
    run = decoded(body(speed, clock))
    (found,) = [item for item in read_run(run) if item.track.metric == "decode"]
    assert not is_refuted(found.track, found.speed, found.clock)
