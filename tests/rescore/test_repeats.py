"""What counts under ``house-7``: no gain that is not more than what four frontier runs of its round differ by."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3_ledger.rescore import deriving
from k3_ledger.rescore.claims.status import Status
from k3_ledger.rescore.frontier import derive_climbs
from k3_ledger.rescore.judgements import check_verdicts, read_judgements, settle_judgements
from k3_ledger.rescore.replay import gather
from k3_ledger.rescore.rescore import rescore
from k3_ledger.rescore.rules.parameters import Credit, Precision
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.rules.repeats import REPEATS, Repeats, check_repeats
from k3_ledger.rescore.rules.verdict import NotScorable, Verdict
from k3_ledger.rescore.sealing import new_verdicts, rule_body, verdict_body
from k3_ledger.rescore.sweep import sweep
from k3_ledger.rescore.sweeping.rounds import Rounds
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome
from k3_ledger.verify.log import Options, verify_log
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, RUNNER, Builder, key_body
from tests.reference import naive_repeats, naive_verdicts
from tests.rescore.receipts import DECODE, MODEL, PREFILL, parity, pin_body, receipt, timed, verified
from tests.rescore.runs import gate, native, repeats, verdict
from tests.rescore.test_claims import speed
from tests.rescore.test_claims_state import of
from tests.rescore.test_gains import credits_, gains
from tests.rescore.test_standing import seal, settled, take_back
from tests.rescore.test_sweep import along, explained, same

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.rescore.rules.parameters import Rule

HOUSE = find_rule("house-7.decode")
SEVENTH = replace(HOUSE, name="seventh", sampling=replace(HOUSE.sampling, repetitions=3))  # type: ignore[type-var]
"""The same, for receipts of three repetitions."""
SIXTH = replace(SEVENTH, name="sixth", arithmetic="measured-gain/6")
BARE = replace(SEVENTH, name="bare", guard=None, ratchet=None)
OLDER = replace(BARE, name="older", arithmetic="measured-gain/6")
COARSE = replace(BARE, name="coarse", precision=Precision(2, 1, 9))
ANCHORED = replace(BARE, name="anchored", credit=Credit(Fraction(2)))
OF_PREFILL = replace(
    find_rule("house-7.prefill"), name="prefill", sampling=SEVENTH.sampling, ratchet=None, guard=None
)  # fmt: skip
EACH = (SEVENTH, SIXTH, BARE, COARSE, ANCHORED, OF_PREFILL)
RULES = {rule.sha256: rule for rule in EACH}
OTHER = "f" * 64
SPEEDS = (50.0, 49.0, 49.5, 49.8)
"""Four frontier runs: they differ by 1/49, or 2.04 %."""
SPREAD = ("49", "50")
both_metrics = pytest.mark.parametrize("metric", ["decode", "prefill"])


def body(decode: float = 60.0, prefill: float = 450.0, *, number: int = 0, **more: Any) -> dict[str, Any]:
    """A run; two of one number, speeds, role and round are one bundle."""
    found = receipt(decode, prefill, **more)
    return {**found, "machine": {**found["machine"], "command": ["run", str(number)]}}


def frontier(builder: Builder, decode: float, number: int = 0, **more: Any) -> str:
    return builder.add("run", body(decode, number=number, role="frontier", **more), RUNNER)


def measured(builder: Builder, *speeds: float, **more: Any) -> list[str]:
    """Frontier runs of these speeds, each of a bundle of its own."""
    return [frontier(builder, decode, number, **more) for number, decode in enumerate(speeds)]


def opened(*speeds: float) -> tuple[Builder, list[str]]:
    """A round with its frontier runs, pinned."""
    builder = Builder().open()
    runs = measured(builder, *speeds)
    for track, value in ((DECODE, f"{speeds[0]:g}"), (PREFILL, "450")):
        builder.add("pin", pin_body(f"frontier:{track}", value, runs[0]), JUDGE)
    return builder, runs


def last(builder: Builder, rule: Rule = SEVENTH) -> Verdict:
    """What a rule says of the newest run that it scores; the sweep says the same of all."""
    same(builder, rule)
    rows = rescore(gather(verified(builder)).candidates, rule).rows
    found = [row.result for row in rows if row.candidate.run.track.metric == rule.scope.metric][-1]
    assert isinstance(found, Verdict), found
    return found


def said(builder: Builder, rule: Rule = SEVENTH) -> tuple[str, str, str]:
    """Tier, what decided it, and the reason that the gate of repetition gives."""
    found = last(builder, rule)
    (repeated,) = [each for each in found.gates if each.name == "repeats"]
    return found.tier, found.bound_by, repeated.reason


def texts(found: Verdict) -> dict[str, str]:
    return {step.name: step.text for step in found.steps}


# ------------------------------------------------------------------------------------------------------- the arithmetic


@both_metrics
@pytest.mark.parametrize(("count", "tier"), [(0, "none"), (1, "none"), (2, "none"), (3, "none"), (4, "XL"), (5, "XL")])
def test_a_gain_is_held_against_four_frontier_runs_or_more(metric: str, count: int, tier: str) -> None:
    rule, given_ = f"house-7.{metric}", repeats(*["50"] * count) if count else None
    found = verdict(rule, native("60", metric=metric, repeats=given_))
    assert (found.tier, found.speed_tier, found.refused_by) == (tier, "XL", ())
    assert verdict(f"house-6.{metric}", native("60", metric=metric, repeats=given_)).tier == "XL"
    repeated = gate(rule, native("60", metric=metric, repeats=given_), "repeats")
    if tier == "none":
        assert (found.bound_by, found.not_checked) == ("repeats", ("repeats",))
        assert (repeated.outcome, repeated.reason) == (Outcome.NOT_CHECKED, "few-repeats")
        runs = "1 frontier run" if count == 1 else f"{count} frontier runs"
        assert repeated.detail == f"{runs} of its round on its weights, the rule asks for 4"
    else:
        assert (found.bound_by, repeated.outcome, repeated.reason) == ("gain", Outcome.PASS, "")
    assert REPEATS == 4


@both_metrics
@pytest.mark.parametrize(
    ("claim", "least", "greatest", "tier"),
    [
        ("60", "50", "60", "none"),  # 20 % and 20 %: equality is none
        ("60.000001", "50", "60", "XL"),
        ("59.999999", "50", "60", "none"),
        ("60", "50", "60.000001", "none"),
        ("60", "50", "59.999999", "XL"),
        ("60", "49.999999", "60", "none"),
        ("60", "50.000001", "60", "XL"),
        ("54", "50", "54", "none"),
        ("54.000001", "50", "54", "M"),
        ("150", "0.000001", "50", "none"),
        ("60", "0", "50", "none"),  # a speed of none: more than any gain
        ("60", "0", "0", "none"),
    ],
)
def test_a_gain_must_be_more_than_they_differ_by_to_the_last_place(
    metric: str, claim: str, least: str, greatest: str, tier: str
) -> None:
    found = verdict(
        f"house-7.{metric}", native(claim, metric=metric, repeats=repeats(least, greatest, greatest, least))
    )
    assert (found.tier, found.bound_by) == (tier, "repeats" if tier == "none" else "gain")
    assert list(texts(found).items())[-3:] == [
        ("repeats", "4"), ("spread_least", least), ("spread_greatest", greatest)
    ]  # fmt: skip
    if tier == "none":
        assert verdict(f"house-6.{metric}", native(claim, metric=metric)).tier in {"XL", "M"}
        assert found.gates[-1].reason == "within-spread"


def test_what_they_differ_by_is_shown() -> None:
    held = repeats("48", "50", "50", "50")
    assert gate("house-7.decode", native("52", repeats=held), "repeats").detail == (
        "a gain of 4.00 %, and the frontier runs of its round differ by 4.17 %, 48.00/s to 50.00/s"
    )
    still = repeats("0", "50", "50", "50")
    assert gate("house-7.decode", native("60", repeats=still), "repeats").detail == (
        "a gain of 20.00 %, and the frontier runs of its round differ, 0.00/s to 50.00/s"
    )


@pytest.mark.parametrize("held", [None, repeats("50"), repeats("40", "50", "50", "50"), repeats(*["50"] * 4)])
def test_what_is_not_significant_has_nothing_to_prove(held: Repeats | None) -> None:
    """To the last place: 51 is a gain of 2 % over 50."""
    found = verdict("house-7.decode", native("51", repeats=held))
    assert (found.tier, found.bound_by, found.not_checked) == ("none", "significance", ())
    assert (found.gates[-1].outcome, found.gates[-1].reason) == (Outcome.PASS, "no-gain")
    more = verdict("house-7.decode", native("51.000001", repeats=held))
    proved = held == repeats(*["50"] * 4)
    assert (more.tier, more.bound_by) == (("XS", "gain") if proved else ("none", "repeats"))


def test_a_first_run_has_no_frontier_that_could_have_been_repeated() -> None:
    found = verdict("house-7.decode", native("60", frontier="0", repeats=None))
    assert (found.tier, found.gates[-1].reason, found.gates[-1].outcome) == ("BASELINE", "no-frontier", Outcome.PASS)
    assert "repeats" not in texts(found)


def test_noise_accuses_nobody_and_excuses_nobody() -> None:
    """It is never REJECT; what another gate refuses stays refused, and what another has no evidence for is named."""
    held = repeats("10", "50")
    wrong = verdict("house-7.decode", native("60", parity=parity_of("0.06"), repeats=held))
    assert (wrong.tier, wrong.bound_by, wrong.not_checked) == ("REJECT", "correctness", ("repeats",))
    blind = verdict("house-7.decode", native("60", clock=None, repeats=held))
    assert (blind.tier, blind.bound_by, blind.not_checked) == ("none", "clock", ("clock", "repeats"))
    for rule in ("house-1.decode", "house-6.decode", "v0.2.1"):
        found = verdict(rule, native("60", repeats=held))
        assert "repeats" not in {each.name for each in found.gates}
        assert not {"repeats", "spread_least", "spread_greatest"} & texts(found).keys()


def parity_of(kl: str) -> Any:
    from tests.rescore import runs

    return runs.parity(kl, rows=32)


def test_the_seventh_is_the_sixth_but_for_its_arithmetic() -> None:
    for metric in ("decode", "prefill"):
        sixth, seventh = find_rule(f"house-6.{metric}"), find_rule(f"house-7.{metric}")
        assert seventh == replace(sixth, name=seventh.name, arithmetic="measured-gain/7")
        assert (seventh.repeats, seventh.weighs, seventh.bears_out, sixth.repeats) == (True, True, True, False)


@given(
    st.fractions(min_value=Fraction(1, 10), max_value=200, max_denominator=10**6),
    st.lists(st.fractions(min_value=Fraction(1, 10), max_value=200, max_denominator=10**6), min_size=4, max_size=7),
)
def test_a_gain_is_proved_by_the_oracle_or_by_nobody(gain_: Fraction, speeds: list[Fraction]) -> None:
    units = [round(one * 10**6) for one in speeds]
    found = check_repeats(gain_, Fraction("0.02"), repeats(*[str(Fraction(one, 10**6)) for one in units]))
    own = round((1 + gain_) * 10**12)
    proved = naive_repeats.is_proved(own, 10**12, (len(units), min(units), max(units)))
    if gain_ == Fraction(own, 10**12) - 1:
        assert (found.outcome is Outcome.PASS) == (proved is not False)


# ------------------------------------------------------------------------------------------------- how often by chance


def chance(draw: Callable[[], float], count: int, *, draws: int = 20_000, spread: bool = True) -> float:
    """How often a run that gained nothing seems to, beside ``count`` frontier runs of the same noise."""
    fooled = 0
    for _ in range(draws):
        speeds = [round(draw() * 10**6) for _ in range(count)]
        own, best = round(draw() * 10**6), max(speeds)
        if 50 * (own - best) > best:
            held = Repeats(tuple(map(str, range(REPEATS))), min(speeds), best)
            fooled += held.prove(own - best, best) if spread else 1
    return fooled / draws


@pytest.mark.parametrize("width", [0.01, 0.03, 0.1])
def test_of_four_runs_and_one_that_gained_nothing_one_in_thirty_seems_to_have(width: float) -> None:
    """Normal noise of any width; seeded. Three runs would be one in fifteen, and the significance alone one in six."""
    rng = random.Random(60)
    assert chance(lambda: rng.gauss(1, width), 4) < 0.04
    wide = random.Random(60)
    assert chance(lambda: wide.gauss(1, 0.1), 4) > 0.02, "a gate that nothing passes would hold it too"
    assert 0.045 < chance(lambda: wide.gauss(1, 0.1), 3) < 0.08
    assert chance(lambda: wide.gauss(1, 0.1), 4, spread=False) > 0.12


def test_a_slow_tail_fools_less_often_and_two_speeds_more_often_than_normal_noise() -> None:
    rng = random.Random(61)
    assert chance(lambda: 1 / (1 + rng.expovariate(20)), 4) < 0.012
    assert 0.06 < chance(lambda: 1 + (rng.random() < 0.2) * 0.3, 4) < 0.1, "one in twelve: 0.2 * 0.8**4"


@pytest.mark.parametrize(
    "speeds", [(1000, 1000, 1000, 1000, 1400), (1000, 1100, 1200, 1300, 1400), (1000, 1001, 1003, 1007, 1400)]
)
def test_whatever_five_speeds_there_are_one_order_in_five_fools_at_most(speeds: tuple[int, ...]) -> None:
    """Only the fastest of all can seem to have gained, whatever the noise."""
    fooled = [
        own
        for number, own in enumerate(speeds)
        for rest in [[*speeds[:number], *speeds[number + 1 :]]]
        if Repeats(tuple("abcd"), min(rest), max(rest)).prove(own - max(rest), max(rest))
    ]
    assert fooled in ([], [1400])


def evenly(steps: int) -> int:
    """Of all five speeds on so many steps, how many let the fifth be above the others by more than these span."""
    ways = {span: (span + 1) ** 4 - 2 * span**4 + (span - 1) ** 4 if span else 1 for span in range(steps)}
    return sum(ways[span] * max(0, steps - 1 - best - span) for span in ways for best in range(span, steps))


def test_of_evenly_spread_noise_one_run_in_forty_is_fooled() -> None:
    """Exactly: counted over every choice of five, beside a sum that knows nothing of the gate."""
    lattice = [10_000 + step for step in range(8)]
    fooled = sum(
        Repeats(tuple("abcd"), min(rest), max(rest)).prove(own - max(rest), max(rest))
        for own, *rest in product(lattice, repeat=5)
    )
    assert fooled == evenly(8)
    assert abs(Fraction(evenly(400), 400**5) - Fraction(1, 40)) < Fraction(1, 2000)


# ----------------------------------------------------------------------------------------------- which runs are counted


def test_four_frontier_runs_of_a_round_prove_a_gain_and_three_do_not() -> None:
    builder, runs = opened(*SPEEDS[:3])
    builder.add("run", body(60.0), RUNNER)
    assert said(builder) == ("none", "repeats", "few-repeats")
    assert list(texts(last(builder)).items())[-3:] == [
        ("repeats", "3"), ("spread_least", "49"), ("spread_greatest", "50")
    ]  # fmt: skip
    assert last(builder, SIXTH).tier == "XL"
    frontier(builder, 49.8, 3)
    builder.add("run", body(60.0), RUNNER)
    assert said(builder) == ("XL", "gain", "")
    assert texts(last(builder))["repeats"] == "4"
    frontier(builder, 45.1, 4)
    builder.add("run", body(55.0), RUNNER)
    assert said(builder) == ("none", "repeats", "within-spread"), "10 % over 50, and 10.9 % of 45.1"
    assert said(builder, COARSE) == ("none", "repeats", "within-spread"), "of figures with fewer decimals too"
    assert texts(last(builder))["repeats"] == "4", "counted up to what is asked"
    builder.add("run", body(56.0), RUNNER)
    assert said(builder) == ("L", "gain", "")
    assert said(builder, COARSE) == ("L", "gain", "")
    assert len(runs) == 3


LACKING: dict[str, Callable[[Builder], object]] = {
    "of another round": lambda builder: frontier(builder, 49.8, 3, round_="r2"),
    "of no round": lambda builder: frontier(builder, 49.8, 3, round_=None),
    "of another metric": lambda builder: builder.add(
        "run", body(49.8, role="frontier") | {"timing": timed("prefill", 450.0, context=32_768, jitter=0.05)}, RUNNER
    ),
    "of another context": lambda builder: builder.add(
        "run", body(49.8, role="frontier") | {"timing": timed("decode", 49.8, context=64)}, RUNNER
    ),
    "of another model": lambda builder: frontier(builder, 49.8, 3, model={**MODEL, "name": "tiny"}),
    "of another quantisation": lambda builder: frontier(builder, 49.8, 3, model={**MODEL, "quant": "q4"}),
    "of another machine": lambda builder: elsewhere(builder, 49.8),
    "of two processes": lambda builder: builder.add("run", doubled(49.8), RUNNER),
    "a candidate": lambda builder: builder.add("run", body(49.8, number=3), RUNNER),
    "the other engine": lambda builder: builder.add("run", body(49.8, number=3, role="reference"), RUNNER),
    "superseded": lambda builder: take_back(builder, frontier(builder, 49.8, 3)),
    "refuted by its clock": lambda builder: builder.add("run", liar(49.8, 20.0, number=3, role="frontier"), RUNNER),
    "sealed twice": lambda builder: frontier(builder, SPEEDS[0], 0),
    "without a claim": lambda builder: builder.add(
        "run", {**(one := body(49.8, number=3, role="frontier")), "timing": one["timing"][1:]}, RUNNER
    ),
}


def liar(claim: float, seen: float, **more: Any) -> dict[str, Any]:
    found = body(seen, **more)
    return {**found, "timing": [timed("decode", claim, context=131_072)[0], *found["timing"][1:]]}


def elsewhere(builder: Builder, decode: float) -> None:
    found = body(decode, number=3, role="frontier")
    node = {**found["machine"]["node"], "name": "other"}
    builder.add("run", {**found, "machine": {**found["machine"], "node": node}}, RUNNER)


def doubled(decode: float) -> dict[str, Any]:
    found = body(decode, number=3, role="frontier")
    return {**found, "timing": [{**series, "processes": 2} for series in found["timing"]]}


@pytest.mark.parametrize("what", sorted(LACKING))
def test_what_is_no_frontier_run_of_the_round_on_the_track_counts_for_nothing(what: str) -> None:
    builder, _ = opened(*SPEEDS[:3])
    LACKING[what](builder)
    builder.add("run", body(60.0), RUNNER)
    open_ = replace(SEVENTH, ratchet=None, guard=None)
    assert said(builder, open_) == ("none", "repeats", "few-repeats")
    assert texts(last(builder, open_))["repeats"] == "3"
    frontier(builder, 49.9, 9)
    builder.add("run", body(60.0), RUNNER)
    assert said(builder, open_)[0] == "XL", "the control"


@pytest.mark.parametrize("what", sorted(LACKING))
def test_what_is_no_frontier_run_of_the_round_widens_nothing(what: str) -> None:
    """The same runs as slow as can be without an alarm; a gain of 8 % stands."""
    builder, _ = opened(*SPEEDS)
    before = len(builder.lines)
    LACKING[what](builder)
    slow = builder.lines[before:]
    assert slow
    builder.add("run", body(54.0, number=7), RUNNER)
    assert texts(last(builder, BARE))["spread_least"] == "49"
    assert said(builder, BARE) == ("M", "gain", "")
    frontier(builder, 46.0, 9)
    builder.add("run", body(54.0, number=8), RUNNER)
    assert said(builder, BARE) == ("none", "repeats", "within-spread"), "the control"


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("pinned", [None, "54", "56"])
def test_one_slow_run_of_the_frontier_is_no_alarm_wherever_it_stands(at: int, pinned: str | None) -> None:
    """What is too far below the frontier is the machine that reached it with no run of the round."""
    speeds = [50.0, 49.0, 49.5]
    speeds.insert(at, 44.9)
    builder, _ = opened(*speeds)
    if pinned is not None:
        first = builder.add("run", body(float(pinned), role="frontier", round_="before", number=99), RUNNER)
        builder.add("pin", pin_body(f"frontier:{DECODE}", pinned, first), JUDGE)
    builder.add("run", body(65.0), RUNNER)
    same(builder, BARE)
    same(builder, OLDER)

    def judged(rule: Rule) -> Any:
        rows = rescore(gather(verified(builder)).candidates, rule).rows
        return [row.result for row in rows if row.candidate.run.track.metric == "decode"][-1]

    if pinned == "56":
        assert judged(BARE).reason == judged(OLDER).reason == "alarm", "50 is below nine tenths of 56"
        return
    assert said(builder, BARE)[0] == "XL"
    assert texts(last(builder, BARE))["spread_least"] == "44.9"
    assert isinstance(judged(OLDER), NotScorable) == (at == 3), "the sixth asks the newest alone"


def test_other_weights_in_the_round_are_no_repetition() -> None:
    """Where the newest is of other weights the round scores nothing; measured again on its own, those count alone."""
    builder, _ = opened(*SPEEDS[:2])
    measured(builder, 30.0, 30.0, model={**MODEL, "sha256": OTHER})
    frontier(builder, 49.5, 8)
    builder.add("run", body(60.0), RUNNER)
    open_ = replace(SEVENTH, ratchet=None, guard=None)
    assert said(builder, open_) == ("none", "repeats", "few-repeats")
    assert texts(last(builder, open_)) | {"repeats": "3", "spread_least": "49"} == texts(last(builder, open_))
    frontier(builder, 49.5, 9)
    builder.add("run", body(60.0), RUNNER)
    assert said(builder, open_) == ("XL", "gain", "")
    builder.add("run", body(60.0, model={**MODEL, "sha256": OTHER}), RUNNER)
    same(builder, open_)
    (*_, result) = [
        row.result
        for row in rescore(gather(verified(builder)).candidates, open_).rows
        if row.candidate.run.track.metric == "decode"
    ]
    assert isinstance(result, NotScorable)


def test_a_frontier_run_behind_a_candidate_proves_nothing_of_it() -> None:
    builder, _ = opened(*SPEEDS[:3])
    run = builder.add("run", body(60.0), RUNNER)
    frontier(builder, 49.8, 3)
    assert said(builder) == ("none", "repeats", "few-repeats")
    take_back(builder, run)
    again = builder.add("run", body(60.0), RUNNER)
    assert again != run
    assert said(builder) == ("XL", "gain", "")
    frontier(builder, 45.2, 4)
    assert said(builder) == ("XL", "gain", ""), "nor against it"


def test_a_gain_over_a_frontier_of_another_round_is_held_against_the_runs_of_its_own() -> None:
    """The greatest frontier is what a run is held against, and its own round says how much two runs differ by."""
    builder, _ = opened(*SPEEDS)
    measured(builder, 47.0, 48.0, 47.5, 47.2, round_="r2")
    builder.add("run", body(51.06, round_="r2"), RUNNER)
    found = texts(last(builder))
    assert found | {"frontier": "50", "spread_least": "47", "spread_greatest": "48"} == found
    assert said(builder) == ("none", "repeats", "within-spread"), "2.12 % over 50, and they differ by 2.128 %"
    builder.add("run", body(51.07, round_="r2"), RUNNER)
    assert said(builder) == ("XS", "gain", "")


@pytest.mark.parametrize("cold", range(5))
def test_a_frontier_run_that_is_out_of_the_ordinary_is_counted_with_the_others(cold: int) -> None:
    """The pass over long ledgers hands such runs to the explaining path, and counts both kinds together."""
    builder = Builder().open()
    for number, decode in enumerate((50.0, 49.0, 48.0, 49.5)):
        found = body(decode, number=number, role="frontier")
        series = [*found["timing"][:2], *({**one, "cache": "cold"} for one in found["timing"][2:])]
        builder.add("run", {**found, "timing": series} if number == cold else found, RUNNER)
        builder.add("run", body(52.2, number=number), RUNNER)
    odd = body(52.0, number=8)
    for more in ({}, {"timing": [*odd["timing"][:2], *({**one, "cache": "cold"} for one in odd["timing"][2:])]}):
        builder.add("run", odd | more, RUNNER)
        assert said(builder, BARE) == ("none", "repeats", "within-spread"), "4 %, and 4.17 %"
    builder.add("run", body(52.1, number=9), RUNNER)
    assert said(builder, BARE) == ("S", "gain", "")
    frontier(builder, 47.5, 9)
    builder.add("run", body(52.1, number=10), RUNNER)
    assert said(builder, BARE) == ("none", "repeats", "within-spread")


def test_what_was_not_proved_moves_no_frontier_of_the_rules() -> None:
    """Without a frontier build the best run before is held against; without repetition there is no second tier."""
    builder = Builder().open()
    builder.add("run", body(50.0, round_=None), RUNNER)
    assert said(builder, BARE) == ("BASELINE", "baseline", "no-frontier")
    for decode in (60.0, 61.0):
        builder.add("run", body(decode, round_=None), RUNNER)
        assert said(builder, BARE) == ("none", "repeats", "few-repeats")
        assert texts(last(builder, BARE)) | {"frontier": "50", "repeats": "0"} == texts(last(builder, BARE))
    builder.add("run", body(51.0, round_=None), RUNNER)
    assert said(builder, BARE) == ("none", "significance", "no-gain")
    builder.add("run", body(51.5, round_=None), RUNNER)
    assert texts(last(builder, BARE))["frontier"] == "51", "it was measured, and gained no more than chance"
    builder.add("run", body(202.0, round_=None), RUNNER)
    assert said(builder, BARE) == ("none", "repeats", "few-repeats"), "more than 4 times 50, and less than 4 times 51.5"


# ---------------------------------------------------------------------------------------------- verdicts derived again


def test_a_verdict_states_what_it_was_held_against_and_follows_from_that_alone() -> None:
    builder, _ = opened(*SPEEDS)
    builder.add("rule", rule_body(SEVENTH), JUDGE)
    run = builder.add("run", body(60.0), RUNNER)
    sealed = verdict_body(run, last(builder))
    assert [(step["name"], step["value"]) for step in sealed["steps"][-3:]] == [
        ("repeats", "4"), ("spread_least", "49"), ("spread_greatest", "50")
    ]  # fmt: skip
    at = len(builder.lines)
    builder.add("verdict", sealed, JUDGE)
    assert settled(builder).findings == ()
    for name, value in (("repeats", "5"), ("spread_least", "49.000001"), ("spread_greatest", "50.000001")):
        forged = [{**step, "value": value} if step["name"] == name else step for step in sealed["steps"]]
        del builder.lines[at:]
        builder.add("verdict", {**sealed, "steps": forged}, JUDGE)
        (finding,) = settled(builder).findings
        assert (finding.code, finding.message) == (Code.VERDICT_MISMATCH, "steps does not follow from the rule")
    del builder.lines[at:]
    builder.add("verdict", {**sealed, "steps": sealed["steps"][:-3]}, JUDGE)
    assert [finding.code for finding in settled(builder).findings] == [Code.VERDICT_MISMATCH]


def test_who_judges_by_the_sixth_what_the_seventh_leaves_open_is_found() -> None:
    builder, _ = opened(*SPEEDS[:1])
    for rule in (SIXTH, SEVENTH):
        builder.add("rule", rule_body(rule), JUDGE)
    run = builder.add("run", body(60.0), RUNNER)
    generous = verdict_body(run, last(builder, SIXTH))
    builder.add("verdict", generous, JUDGE)
    assert settled(builder).findings == (), "what was published under an older rule follows"
    builder.add("verdict", generous | {"rule": SEVENTH.name, "rule_sha256": SEVENTH.sha256}, JUDGE)
    (finding,) = settled(builder).findings
    assert (finding.code, finding.message) == (Code.VERDICT_MISMATCH, "tier does not follow from the rule")


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 3, 2), (2, 3, 0, 1)])
def test_verdicts_follow_whichever_frontier_run_is_taken_back_at_whatever_position(order: tuple[int, ...]) -> None:
    builder, runs = opened(50.0, 48.0, 49.0, 49.9, 49.5, 46.0)
    builder.add("rule", rule_body(BARE), JUDGE)
    run = builder.add("run", body(53.0), RUNNER)
    seen = []
    for taken in (5, *order):
        seen.append(said(builder, BARE)[0])
        builder.add("verdict", verdict_body(run, last(builder, BARE)), JUDGE)
        bundles, slowest, fastest = naive_repeats.repeats(builder.data, run, "decode", 131_072)
        stated = texts(last(builder, BARE))
        assert stated["repeats"] == str(min(bundles, 4))
        assert Fraction(stated["spread_least"]) * 10**6 == slowest
        assert Fraction(stated["spread_greatest"]) * 10**6 == fastest
        take_back(builder, runs[taken])
    assert (seen[0], seen[1], seen[-1]) == ("none", "M", "none"), "6 %, and 8.7 %, then 4.2 %; then too few"
    log = verified(builder)
    assert settle_judgements(log).findings == ()
    assert set(naive_verdicts.derive(log, RULES).values()) == {None}


def test_taking_back_a_slow_frontier_run_proves_what_was_open_and_the_old_verdict_stays_true() -> None:
    builder, _ = opened(*SPEEDS)
    slow = frontier(builder, 46.0, 4)
    builder.add("rule", rule_body(SEVENTH), JUDGE)
    builder.add("run", body(54.0), RUNNER)
    assert said(builder) == ("none", "repeats", "within-spread")
    seal(builder, SEVENTH)
    take_back(builder, slow)
    assert said(builder) == ("M", "gain", "")
    seal(builder, SEVENTH)
    report = settled(builder)
    assert report.findings == ()
    (candidate,) = [one for one in gather(verified(builder)).candidates if one.run.track.metric == "decode"]
    assert [one.tier for one in candidate.verdicts] == ["none", "M"]
    assert candidate.published == "none", "what was published does not move"


@pytest.mark.parametrize("rules", [(OLDER, BARE), (BARE, OLDER), (OLDER,)], ids=["older first", "newer first", "older"])
def test_verdicts_of_both_arithmetics_follow_in_one_pass_and_the_older_asks_for_nothing_more(
    rules: tuple[Rule, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder().open()
    for rule in rules:
        builder.add("rule", rule_body(rule), JUDGE)
    for number, decode in enumerate(SPEEDS):
        frontier(builder, decode, number)
        builder.add("run", body(60.0, number=number), RUNNER)
    for rule in rules:
        seal(builder, rule)
    passes: list[Any] = []
    read = deriving._Pass.read

    def watched(one: Any, log: Any) -> Any:
        passes.append(one)
        return read(one, log)

    monkeypatch.setattr(deriving._Pass, "read", watched)
    report = settled(builder)
    assert (report.findings, [step.checked for step in report.steps if step.name == "verdicts"]) == (
        (), [4 * len(rules) + len(rules)],
    )  # fmt: skip
    assert [len(one.gathering.round_repeats) for one in passes] == [2 if BARE in rules else 0], "of both metrics"
    tiers = [one.tier for candidate in gather(verified(builder)).candidates for one in candidate.verdicts]
    assert tiers.count("XL") == (5 if BARE in rules else 4)


def test_a_frontier_run_that_a_revocation_took_back_is_none() -> None:
    builder, _ = opened(*SPEEDS[:3])
    at = len(builder.lines)
    frontier(builder, 49.8, 3)
    builder.add("key", key_body(RUNNER, "runner", "revoke", revoked_from=at), builder.root)
    other = replace(RUNNER, seed="runner-2")
    builder.add("key", key_body(other, "runner"), builder.root)
    builder.add("run", body(60.0), other)
    log = verified(builder)
    (row,) = [row for row in rescore(gather(log).candidates, BARE).rows if row.candidate.run.track.metric == "decode"]
    assert isinstance(row.result, Verdict)
    assert texts(row.result)["repeats"] == "3"
    assert sweep(log, BARE).tiers == explained(builder, BARE) == along(builder, BARE).result().tiers


# ------------------------------------------------------------------------------------------------------ all of it alike

near = st.sampled_from([48.0, 49.0, 49.5, 50.0, 50.0, 50.4])
claims_ = st.sampled_from([50.0, 51.0, 51.000001, 51.02, 51.05, 52.0, 54.0, 60.0])


@st.composite
def histories(draw: st.DrawFn, *, odd: bool = True) -> Builder:
    """Rounds with frontier runs of several files, some of one bundle, taken back at any time; judged now and then."""
    builder = Builder().open()
    for rule in (BARE, SIXTH):
        builder.add("rule", rule_body(rule), JUDGE)
    names: list[str] = []
    for _ in range(draw(st.integers(4, 14))):
        what = draw(st.integers(0, 11))
        model = draw(st.sampled_from([MODEL] * 5 + [{**MODEL, "sha256": OTHER}]))
        round_ = draw(st.sampled_from(["r1", "r1", "r1", "r2", None]))
        number = draw(st.integers(0, 3))
        if what == 0 and names:
            take_back(builder, draw(st.sampled_from(names)))
        elif what == 1 and names and odd:
            rule = draw(st.sampled_from([BARE, SEVENTH, SIXTH]))
            for one in list(new_verdicts(rescore(gather(verified(builder)).candidates, rule)))[-3:]:
                change = draw(st.sampled_from([{}, {}, {"tier": "S"}]))
                names.append(builder.add("verdict", {**one, **change}, JUDGE))
        elif what <= 3:
            names.append(builder.add("run", body(draw(claims_), model=model, round_=round_, number=number), RUNNER))
        else:
            found = body(draw(near), 450.0, number=number, role="frontier", round_=round_, model=model)
            if odd and draw(st.integers(0, 4)) == 0:
                found["timing"] = [*found["timing"][:2], *({**one, "cache": "cold"} for one in found["timing"][2:])]
            names.append(builder.add("run", found, RUNNER))
    names.append(builder.add("run", body(draw(claims_), number=draw(st.integers(0, 3))), RUNNER))
    return builder


@settings(max_examples=80)
@given(histories(), st.sampled_from(range(len(EACH))))
def test_a_sweep_gives_the_tiers_of_the_explaining_path(builder: Builder, number: int) -> None:
    same(builder, EACH[number])
    log = verify_log(MemorySource(builder.data, block=1000), None, Options(chunk_bytes=1))
    assert sweep(log, EACH[number]).tiers == explained(builder, EACH[number])


@settings(max_examples=60)
@given(histories(odd=False))
def test_the_explaining_path_holds_a_run_against_what_the_oracle_does(builder: Builder) -> None:
    seen = 0
    for row in rescore(gather(verified(builder)).candidates, BARE).rows:
        if not isinstance(row.result, Verdict) or row.candidate.superseded:
            continue
        stated, run = texts(row.result), row.candidate.identity
        bundles, slowest, fastest = naive_repeats.repeats(builder.data, run, "decode", 131_072)
        if row.result.gain is None:
            continue
        seen += 1
        assert stated["repeats"] == str(min(bundles, 4))
        assert Fraction(stated.get("spread_least", "0")) * 10**6 == slowest
        assert Fraction(stated.get("spread_greatest", "0")) * 10**6 == fastest
        own, held = (int(Fraction(stated[name]) * 10**6) for name in ("speed", "frontier"))
        proved = naive_repeats.is_proved(own, held, (bundles, slowest, fastest))
        assert ("repeats" in row.result.not_checked) == (proved is False)
        if row.result.bound_by == "repeats":
            assert (row.result.tier, proved) == ("none", False)


@settings(max_examples=60)
@given(histories(), st.sampled_from([(1, 1), (2, 1), (10_000, 10_000)]))
def test_one_pass_derives_what_a_pass_for_each_verdict_does(builder: Builder, bounds: tuple[int, int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deriving, "AHEAD", bounds[0])
        patch.setattr(deriving, "KEPT_ROUNDS", bounds[1])
        log = verified(builder)
        wrong = {
            finding.position.index: finding for finding in check_verdicts(log, read_judgements(log), {}) if finding
        }
        expected = {
            index: found
            for index, found in naive_verdicts.derive(log, RULES).items()
            if found is not None and index not in {at for at, one in gather(log).verdicts if one.rule == "seventh"}
        }
        mine = {at: found for at, found in wrong.items() if found.code is Code.VERDICT_MISMATCH}
        assert mine == expected


def test_rounds_that_are_kept_no_longer_are_read_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = opened(*SPEEDS)
    for number in range(3):
        measured(builder, 50.0, 49.0, round_=f"other-{number}")
    builder.add("run", body(60.0), RUNNER)
    builder.add("rule", rule_body(BARE), JUDGE)
    seal(builder, BARE)
    expected = explained(builder, BARE)
    monkeypatch.setattr("k3_ledger.rescore.sweep.KEPT_ROUNDS", 2)
    monkeypatch.setattr(deriving, "KEPT_ROUNDS", 2)
    assert same(builder, BARE).tiers == expected
    assert expected["XL"] == 1
    assert settled(builder).findings == ()


def test_a_round_of_many_runs_takes_no_more_memory_than_one_of_four() -> None:
    held = Repeats(("a",), 50, 50)
    for number in range(1000):
        held = held.joined(Repeats((f"{number:064x}",), 40 + number % 30, 40 + number % 30))
    assert (len(held.bundles), held.least, held.greatest) == (REPEATS, 40, 69)
    assert held.joined(held) == held


def test_under_an_older_rule_nobody_counts_how_often_the_frontier_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    builder, _ = opened(*SPEEDS)
    builder.add("run", body(60.0), RUNNER)
    kept: list[Any] = []
    read = Rounds.take

    def watched(rounds: Rounds, item: Any, place: Any) -> None:
        read(rounds, item, place)
        kept.append((item.bundle, [len(one.repeats) for one in rounds._rounds.values()]))

    monkeypatch.setattr(Rounds, "take", watched)
    sweep(verified(builder), SIXTH)
    assert kept == [("", [0])] * 4
    kept.clear()
    sweep(verified(builder), SEVENTH)
    assert [counts for _, counts in kept] == [[1]] * 4
    assert len({bundle for bundle, _ in kept}) == 4


# ----------------------------------------------------------------------------------------------------- what it is worth


@pytest.mark.parametrize("sealed", [False, True])
def test_a_number_whose_gain_is_not_proved_was_measured_all_the_same(sealed: bool) -> None:
    """It leads the frontier and supports a speed and what it gained over the frontier, and was credited nothing."""
    builder, _ = opened(*SPEEDS[:1])
    builder.add("rule", rule_body(SEVENTH), JUDGE)
    run = builder.add("run", body(60.0), RUNNER)
    if sealed:
        seal(builder, SEVENTH)
    material = gather(verified(builder))
    assert {one.voided for one in material.candidates} == {""}
    assert derive_climbs(material)[0].value == 60
    assert of(builder, speed("60.0", "")).status is Status.SUPPORTED
    assert gains(builder, run, "20.00").status is Status.SUPPORTED
    found = credits_(builder, run, "20.00", "20.00", 'metric = "decode"\n')
    assert [part.status for part in found.parts] == [Status.SUPPORTED, Status.CONTRADICTED]


def test_where_no_rule_was_published_how_often_the_frontier_was_measured_is_not_asked() -> None:
    builder, _ = opened(*SPEEDS[:1])
    run = builder.add("run", body(60.0), RUNNER)
    assert gains(builder, run, "20.00").status is Status.SUPPORTED
    wrong = builder.add("run", body(61.0, parity=parity("0.06")), RUNNER)
    assert gains(builder, wrong, "22.00").status is Status.CONTRADICTED, "the control: it is asked for the rest"
