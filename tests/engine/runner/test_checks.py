"""Checks on made-up observations: exact times, no process, no noise but the one that a case is about."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.engine.parity import Suite
from k3_ledger.engine.runner.checks import check_observations
from k3_ledger.engine.runner.measure import Observer, Plan, observe
from k3_ledger.engine.runner.observations import KINDS, METRICS, Kind, Observations, Prefilled, Round, Timed, Walk
from k3_ledger.engine.runner.prompts import Prompts
from k3_ledger.engine.runner.record import timing_of
from k3_ledger.rescore.native import read_run
from k3_ledger.rescore.rules.clock import check_clock
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome, Severity
from tests.engine.cheats.virtual import Machine, VirtualChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.runner.channel import Reply

MS = 1_000_000
V = 8
LENGTH = 20


def timed(count: int, outer: int, own: int | None = None) -> Timed:
    return Timed(count, 0, outer, outer - MS // 10 if own is None else own)


def walk(kind: Kind, number: int, change: Callable[[Walk], Walk]) -> Walk:
    """A millisecond a token in prefill, two in decode, a tenth for the pipe."""
    several, wanted = 1 + (kind == "prompts"), 50 + 50 * (kind == "long-decode")
    given = 64 * several
    earlier = Prefilled((number, len(KINDS)) + (0,) * 62, timed(64, 64 * MS), 0, 0.0, MS)
    made = Walk(
        kind=kind,
        prompt=(number, KINDS.index(kind)) + (0,) * 62,
        start=1,
        prefill=replace(timed(given, given * MS), requests=several),
        decode=timed(wanted, 2 * wanted * MS),
        next=0,
        next_logprob=0.0,
        output=(0,) * wanted,
        logprobs=(0.0,) * wanted,
        reset_ns=MS,
        earlier=(earlier,) * (several - 1),
    )
    return change(made)


def observations(change: Callable[[Walk], Walk] = lambda one: one, rounds: int = 5) -> Observations:
    made: list[Round] = [{kind: walk(kind, number, change) for kind in KINDS} for number in range(rounds)]
    return Observations(
        seed=1,
        load_ns=MS,
        pings=[MS // 10] * 10,
        rounds=made,
        short={"prefill": 64, "decode": 50},
        extra={"prefill": 64, "decode": 50},
        jitter_ns={"prefill": 0, "decode": 0},
    )


def codes(found: Observations) -> set[Code]:
    return {finding.code for finding in check_observations(found) if finding.severity is Severity.ERROR}


def claim(share: float, kinds: Sequence[Kind] = KINDS) -> Callable[[Walk], Walk]:
    def change(one: Walk) -> Walk:
        decode = replace(one.decode, self_ns=int(one.decode.outer_ns * share))
        return replace(one, decode=decode) if one.kind in kinds else one

    return change


def test_honest_times_pass() -> None:
    assert codes(observations()) == set()
    assert codes(observations(claim(0.95))) == set()


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01, 1.0000001])
def test_a_claim_outside_the_clock_is_refused(share: float) -> None:
    assert Code.RUN_SELF_REPORT in codes(observations(claim(share)))


def test_a_lie_at_one_length_is_refused_by_what_the_extra_tokens_cost() -> None:
    assert Code.RUN_MARGINAL in codes(observations(claim(0.9, ["long-decode"])))


def test_extra_tokens_that_cost_less_than_the_engine_says_are_refused_too() -> None:
    assert Code.RUN_MARGINAL in codes(observations(claim(0.93, ["short"])))


def test_a_large_lie_in_fewer_than_half_of_the_rounds_shows_in_the_total() -> None:
    found = observations()
    for one in found.rounds[:2]:
        one["short"] = claim(0.0)(one["short"])
        one["long-decode"] = claim(0.0)(one["long-decode"])
    assert Code.RUN_SELF_REPORT in codes(found)


def test_slow_answers_to_empty_requests_widen_no_bound_past_its_share() -> None:
    found = observations(claim(0.65))
    found.pings = [10_000 * MS] * 10
    assert Code.RUN_SELF_REPORT in codes(found)


def test_one_round_that_the_scheduler_held_up_refuses_nobody() -> None:
    found = observations()
    for kind in KINDS:
        late = replace(found.rounds[0][kind].decode, outer_ns=300 * MS)
        found.rounds[0][kind] = replace(found.rounds[0][kind], decode=late)
    assert codes(found) == set()


@pytest.mark.parametrize("metric", ["prefill", "decode"])
def test_extra_tokens_that_cost_nothing_are_refused(metric: str) -> None:
    def flat(one: Walk) -> Walk:
        same = replace(getattr(one, metric), outer_ns=80 * MS, self_ns=80 * MS - MS // 10)
        return replace(one, **{metric: same})

    assert Code.RUN_MARGINAL in codes(observations(flat))


def test_a_cost_that_drowns_in_jitter_is_refused_and_more_rounds_are_asked_for() -> None:
    found = observations()
    for number, one in enumerate(found.rounds):
        late = one["long-decode"].decode.outer_ns + (number - 2) * 300 * MS
        decode = replace(one["long-decode"].decode, outer_ns=max(late, MS), self_ns=max(late, MS))
        one["long-decode"] = replace(one["long-decode"], decode=decode)
    assert not found.settled
    assert Code.RUN_MARGIN in codes(found)
    assert observations().settled


def held_up(number: int) -> Callable[[Walk], Walk]:
    """Decode of the longer run varies by as many milliseconds as the round's number says."""

    def change(one: Walk) -> Walk:
        late = one.decode.outer_ns + number * MS
        return replace(one, decode=timed(one.decode.count, late)) if one.kind == "long-decode" else one

    return change


def rounds_held_up(*late: int) -> Observations:
    found = observations(rounds=len(late))
    for one, by in zip(found.rounds, late, strict=True):
        one["long-decode"] = held_up(by)(one["long-decode"])
    return found


def test_what_the_extra_tokens_are_worth_is_what_a_rule_will_reckon() -> None:
    """Seven rounds, one of them held up: 50 extra tokens of 2 ms against a middle spread of 10 ms."""
    found = rounds_held_up(0, 0, 0, 5, 10, 10, 900)
    assert found.margin("decode") == pytest.approx(10, rel=0.02)
    assert found.margin("prefill") > 1000, "nothing varies there"
    said = {finding.code: finding for finding in check_observations(found, 11)}
    assert said.keys() == {Code.RUN_SHORT_MARGIN}
    assert said[Code.RUN_SHORT_MARGIN].severity is Severity.WARNING, "the run is sound, and a rule gives it no tier"
    assert "not scorable: margin: 50 extra tokens are worth 10.0 times" in said[Code.RUN_SHORT_MARGIN].message
    assert codes(found) == set()


@pytest.mark.parametrize(("late", "grows"), [(9, False), (10, False), (11, True)])
def test_what_is_enough_does_not_grow(late: int, grows: bool) -> None:
    """A millisecond of jitter apart from ten times, on either side, and ten times to the nanosecond."""
    found = rounds_held_up(0, 0, 0, 5, late, late, 900)
    for one in found.rounds:
        one["short"] = claim(1)(one["short"])
        one["long-decode"] = replace(
            one["long-decode"], decode=timed(100, one["long-decode"].decode.outer_ns, 200 * MS)
        )
    assert late != 10 or found.margin("decode") == Plan().signal_to_jitter
    observer = Observer(None, Plan(), range(64), 64)  # type: ignore[arg-type]
    observer.found = found
    assert observer.lengthen(1e9) == grows
    assert (len(found.shorter), len(found.rounds)) == ((7, 0) if grows else (0, 7))
    assert found.extra["decode"] == (110 if grows else 50), "what makes 9.1 times the jitter twice ten times"
    assert found.extra["prefill"] == 64, "its margin is met"


@pytest.mark.parametrize("extra", [1, 2, 3, 50])
def test_rounds_that_begin_again_have_more_tokens(extra: int) -> None:
    """Were so few extra tokens to grow by a quarter of them, rounded down, rounds would begin again without end."""
    found = rounds_held_up(0, 0, 0, 1, 1, 1, 900)
    found.extra["decode"] = extra
    observer = Observer(None, Plan(signal_to_jitter=2 * extra), range(64), 64)  # type: ignore[arg-type]
    observer.found = found
    assert 0 < observer.plan.signal_to_jitter - found.margin("decode") < 0.1, "just too few"
    assert observer.lengthen(1e9)
    assert found.extra["decode"] > extra


@pytest.mark.parametrize(
    ("warmup", "left_s", "fits"), [(1, 5.2, False), (1, 6.3, True), (0, 4.5, False), (0, 5.2, True), (3, 6.3, False)]
)
def test_the_warm_up_of_rounds_that_begin_again_is_part_of_the_time(warmup: int, left_s: float, fits: bool) -> None:
    """A round is 0.67 s, longer ones 0.77 s; there are seven and the warm-up."""
    found = rounds_held_up(0, 0, 0, 5, 10, 10, 900)
    observer = Observer(None, Plan(warmup=warmup), range(64), 64)  # type: ignore[arg-type]
    observer.found = found
    assert observer.lengthen(left_s) == fits


class Slow(VirtualChannel):
    """An engine whose repetitions differ by a share of their length that falls as they get longer."""

    def __init__(self, machine: Machine, noise_ns: int) -> None:
        super().__init__(machine, ["Engine"])
        self.noise_ns, self.turns = noise_ns, 0

    def ask(self, op: str, **fields: object) -> Reply:
        reply = super().ask(op, **fields)
        self.turns += 1
        late = self.turns % 5 * self.noise_ns if op in {"prefill", "decode"} else 0
        self.machine.now += late
        return replace(reply, duration_ns=reply.duration_ns + late)


@pytest.mark.parametrize(
    ("noise_ms", "plan", "grows", "enough"),
    [
        (1, {}, False, True),
        (10, {}, True, True),
        (10, {"longest_s": 0}, False, False),  # no time
        (20, {"longest_s": 0}, False, False),
        (10, {"most_extra": 50}, False, False),  # no room
        (20, {"longest_s": 15}, True, False),  # what fits in the time, and then an end
    ],
)
def test_lengths_grow_until_the_margin_is_met_or_the_time_is_up(
    noise_ms: int, plan: dict[str, Any], grows: bool, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    channel = Slow(machine, noise_ms * MS)
    asked = Plan(context=64, decode_tokens=32, warmup=1, seed=3, **plan)
    found = observe(channel, asked, range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    worth = min(found.margin(metric) for metric in METRICS)
    assert (worth >= asked.signal_to_jitter) == enough
    assert bool(found.shorter) == grows
    assert len(found.rounds) >= asked.repetitions
    if not asked.longest_s:  # rounds are added while the extra tokens do not stand out, and for nothing else
        before_last = replace(found, rounds=found.rounds[:-1])
        assert not found.settled
        assert (len(found.rounds) == asked.repetitions) == (noise_ms == 10)
        assert noise_ms == 10 or not all(map(before_last.stands_out, METRICS))
    longest = {walk.decode.count for one in found.rounds for walk in one.values()}
    assert longest == {found.short["decode"], found.short["decode"] + found.extra["decode"]}, "one plan's rounds count"
    if found.shorter:
        before, after = (
            {sum(walk.decode.count + walk.prefill.count for walk in one.values()) for one in some}
            for some in (found.shorter, found.rounds)
        )
        assert max(before) < min(after)
        assert len(found.warmups) == 1 + len(found.shorter) // asked.repetitions, "each time with a warm-up"
    assert machine.now / 1e9 < 45, "and it ends"


class Compiling(Slow):
    """An engine that compiles when it meets a length for the first time, as one on a GPU does."""

    def __init__(self, machine: Machine, noise_ns: int) -> None:
        super().__init__(machine, noise_ns)
        self.met: set[tuple[str, bool]] = set()

    def ask(self, op: str, **fields: object) -> Reply:
        reply = super().ask(op, **fields)
        ids: Any = fields.get("ids", ())
        if op not in {"prefill", "decode"} or (op, len(ids) > 64) in self.met:
            return reply
        self.met.add((op, len(ids) > 64))
        self.machine.now += 9_000 * MS
        return replace(reply, duration_ns=reply.duration_ns + 9_000 * MS)


def test_compiling_takes_no_time_away_that_lengths_could_grow_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """27 seconds before the first counted round, where 20 are allowed: on an H200 such a run ended at 2.6 times."""
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    channel = Compiling(machine, 10 * MS)
    asked = Plan(context=64, decode_tokens=32, longest_s=20, seed=3)
    found = observe(channel, asked, range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    assert found.shorter
    assert min(found.margin(metric) for metric in METRICS) >= asked.signal_to_jitter
    assert 27 < machine.now / 1e9 < 27 + 2 + asked.longest_s, "and it ends: pilots and a warm-up beside the time"


class Drifting(VirtualChannel):
    """An engine that is a quarter faster in every other 0.8 seconds, whatever it is asked."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, ["Engine"])

    def ask(self, op: str, **fields: object) -> Reply:
        reply = super().ask(op, **fields)
        left, now = float(reply.duration_ns), reply.start_ns
        while left > 0:  # work is done at 1.25 in odd stretches and at 1 in even ones
            speed, until = (1.25, 1.0)[now // (800 * MS) % 2], (now // (800 * MS) + 1) * 800 * MS
            step = min(left / speed, until - now)
            left, now = left - max(step, 1) * speed, now + max(1, int(step))
        self.machine.now = now
        if "self_ns" not in reply.data:
            return replace(reply, duration_ns=now - reply.start_ns)
        own = now - reply.start_ns - (reply.duration_ns - int(reply.data["self_ns"]))
        return replace(reply, data={**reply.data, "self_ns": own}, duration_ns=now - reply.start_ns)


def test_lengths_grow_past_the_stretches_of_a_machine_that_drifts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer repetitions differ by more there, until they are many stretches long: one growth is not enough."""
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    found = observe(Drifting(machine), Plan(seed=3), range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    assert len(found.shorter) > Plan().repetitions, "twice at least"
    assert min(found.margin(metric) for metric in METRICS) >= Plan().signal_to_jitter
    assert machine.now / 1e9 < Plan().longest_s + 5, "pilots and a warm-up beside the time"


def test_work_that_prefill_puts_off_is_found_behind_either_prompt() -> None:
    def put_off(kinds: set[Kind], milliseconds: int = 80) -> Callable[[Walk], Walk]:
        def change(one: Walk) -> Walk:
            late = one.decode.outer_ns + milliseconds * MS
            return replace(one, decode=timed(one.decode.count, late)) if one.kind in kinds else one

        return change

    assert codes(observations(put_off(set(KINDS)))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off({"prompts"}))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off({"prompts"}, 20))) == set()
    assert codes(observations(put_off({"short", "long-decode"}))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off(set(KINDS), 30))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off(set(KINDS), 20))) == set()  # a quarter of 64 ms, and noise


@pytest.mark.parametrize(("milliseconds", "found"), [(21, set()), (22, {Code.RUN_LEFT_OVER})])
def test_work_that_a_prompt_puts_off_to_the_next_reset_is_found(milliseconds: int, found: set[Code]) -> None:
    """A quarter of 64 ms, 5 % of decode and the pipe, and then no more; a reset that is slow anyway hides nothing."""

    def behind(one: Walk) -> Walk:
        return replace(one, reset_ns=one.reset_ns + milliseconds * MS) if one.kind == "prompts" else one

    def anywhere(one: Walk) -> Walk:
        earlier = tuple(replace(each, reset_ns=each.reset_ns + 90 * MS) for each in one.earlier)
        return replace(one, reset_ns=one.reset_ns + 90 * MS, earlier=earlier)

    assert codes(observations(behind)) == found
    assert codes(observations(anywhere)) == set()
    assert codes(observations(lambda one: behind(anywhere(one)))) == found


class Shaped(VirtualChannel):
    """An engine whose prefill takes what is said of a prompt's length, to the nanosecond."""

    def __init__(self, machine: Machine, takes: Callable[[int], float]) -> None:
        super().__init__(machine, ["Engine"])
        self.takes = takes

    def ask(self, op: str, **fields: object) -> Reply:
        reply = super().ask(op, **fields)
        if op != "prefill":
            return reply
        ids: Any = fields["ids"]
        took = int(self.takes(len(ids)) * MS)
        self.machine.now += took - reply.duration_ns
        return replace(reply, data={**reply.data, "self_ns": took}, duration_ns=took)


SHAPES: dict[str, Callable[[int], float]] = {
    "in proportion": lambda length: length,
    "mostly the call": lambda length: 50 + length / 10,
    "the call alone": lambda _: 60,
    "half of it attention": lambda length: length / 2 + length * length / 128,
    "attention alone": lambda length: length * length / 64,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("context", [16, 64])
def test_what_a_longer_prompt_would_cost_makes_no_liar_of_anybody(
    shape: str, context: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim, and what the clock reads of more prompts of that length, are one number, whatever shapes the cost."""
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    plan = Plan(context=context, seed=3)
    found = observe(Shaped(machine, SHAPES[shape]), plan, range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    series = [one for one in timing_of(found, 0, plan) if one.metric == "prefill"]
    (read,) = read_run(
        SimpleNamespace(timing=series, model=None, machine=SimpleNamespace(node=SimpleNamespace(name="n")))
    )
    assert read.track.context == context
    assert read.clock is not None
    assert read.speed is not None
    assert read.clock.tokens % context == 0
    assert float(read.clock.tokens / read.clock.seconds / read.speed) == pytest.approx(1, abs=1e-6)
    for number in (1, 6):
        rule = find_rule(f"house-{number}.prefill")
        assert check_clock(rule.clock, "prefill", read.speed, read.clock).outcome is Outcome.PASS  # type: ignore[arg-type]
    assert codes(found) == set()


@pytest.mark.parametrize(
    ("context", "most", "prompts"), [(64, 4096, 2), (64, 64, 2), (64, 1, 2), (64, 127, 2), (3, 4096, 18), (3, 10, 4)]
)
def test_prefill_is_made_longer_by_whole_prompts(
    context: int, most: int, prompts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least one more, as many as fill 50 ms, and no more than fit in what may be asked for."""
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    plan = Plan(context=context, most_extra=most, seed=3)
    found = observe(VirtualChannel(machine, ["Engine"]), plan, range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    assert found.prompts == prompts
    assert found.extra["prefill"] == context * (prompts - 1)
    for one in found.rounds:
        assert [len(one[kind].earlier) for kind in KINDS] == [0, prompts - 1, 0]
        assert {len(each.prompt) for each in one["prompts"].earlier} == {context}
        assert one["prompts"].prefill.requests == prompts
        assert one["prompts"].prefill.count == context * prompts
    given = [walk.prompt for walk in found.walks] + [each.prompt for walk in found.walks for each in walk.earlier]
    assert len(set(given)) == len(given), "none twice"


@pytest.mark.parametrize("noise_ms", [0, 10])
@pytest.mark.parametrize("spare", [0, 7, 300])
@pytest.mark.parametrize(("context", "decode"), [(1, 1), (8, 4), (64, 16)])
def test_no_sequence_is_longer_than_the_model_announces(
    context: int, decode: int, spare: int, noise_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the machine does: lengths are made longer by noise, and end where the model does."""
    machine = Machine(spread=0, held=0, seed=1)
    machine.install(monkeypatch)
    channel, reset = Slow(machine, noise_ms * MS), []
    asked = channel.ask

    def ask(op: str, **fields: object) -> Reply:
        reset.append(int(str(fields.get("capacity", 0))))
        return asked(op, **fields)

    monkeypatch.setattr(channel, "ask", ask)
    room = context + 2 * decode + spare
    plan = Plan(context=context, decode_tokens=decode, room=room, longest_s=10, seed=3)
    found = observe(channel, plan, range(64), 64, clock=lambda: machine.now / 1e9)  # type: ignore[arg-type]
    rounds = [*found.warmups, *found.shorter, *found.rounds]
    longest = max(len(one.prompt) + len(one.output) for each in rounds for one in each.values())
    assert longest <= room
    assert max(reset) <= room
    assert found.short["decode"] >= decode
    assert found.extra["decode"] >= decode
    assert noise_ms or spare > 7 or longest >= room - 1, "all of what there is, where it is little"


def test_a_plan_with_no_room_for_the_least_is_the_callers_mistake() -> None:
    assert Plan(context=8, decode_tokens=4, room=16).least == 16
    with pytest.raises(ValueError, match="room is at least"):
        Plan(context=8, decode_tokens=4, room=15)


def test_a_prompt_that_was_timed_twice_is_refused() -> None:
    assert Code.RUN_INPUTS_REPEATED in codes(observations(lambda one: replace(one, prompt=(1,) * len(one.prompt))))


def test_prompts_are_fresh_and_resembling_ones_differ_at_both_ends_only() -> None:
    prompts = Prompts(range(100), 7)
    first = prompts.next(50)
    second = prompts.next(50, resembling=True)
    assert [at for at in range(50) if first[at] != second[at]] == [0, 49]
    assert prompts.next(50) != first
    assert len(prompts.next(3, resembling=True)) == 3
    assert Prompts(range(100), 7).next(50) == first


@pytest.mark.parametrize("seed", [0, 1, 7, 2**32 - 1, 2**53 - 1])
@pytest.mark.parametrize("length", [4, 64, 200])
def test_the_prompts_of_parity_are_drawn_apart_from_those_that_are_timed(length: int, seed: int) -> None:
    timed = Prompts(range(10_000), seed)
    given = [timed.next(length)[:4] for _ in range(20)]
    for ids in Suite(depths=(4, 256), prompts=4, seed=seed).ids(range(10_000)):
        assert not {tuple(ids[at : at + 4]) for at in range(len(ids) - 3)} & set(given)


def test_a_prompt_resembles_one_of_its_length_whatever_came_between() -> None:
    """A round's order is drawn: behind the longer prompt, an answer that is kept by resemblance was a right one."""
    prompts = Prompts(range(100), 7)
    first = prompts.next(50)
    prompts.next(90)
    assert prompts.next(50, resembling=True)[1:-1] == first[1:-1]


def test_no_prompt_is_given_twice_while_there_are_others() -> None:
    prompts = Prompts(range(5), 7)
    prompts.next(2)
    assert len({prompts.next(2, resembling=at % 2 == 0) for at in range(16)}) == 16
    assert {len(Prompts([3], 7).next(length)) for length in (1, 2)} == {1, 2}
    assert len({prompts.next(1) for _ in range(9)}) == 5, "and where there are none, again"


def test_a_claim_is_of_prefills_shorter_length_and_of_both_of_decode() -> None:
    found = observations()
    counts = {metric: {one.count for one in found.claimed(metric)} for metric in METRICS}
    assert counts == {"prefill": {64}, "decode": {50, 100}}


def test_both_lengths_and_both_clocks_reach_the_receipt() -> None:
    series = {(one.metric, one.observer): one for one in timing_of(observations(), 0, Plan())}
    assert sorted({sample.count for sample in series["prefill", "subject"].samples}) == [64, 128]
    assert [len(series[metric, "controller"].samples) for metric in ("prefill", "decode")] == [15, 10]
    found = observations()
    found.warmups, found.shorter = found.rounds[:1], found.rounds[:3]
    counted = {(one.metric, one.observer): one.warmup for one in timing_of(found, 0, Plan())}
    assert [counted[metric, "subject"] for metric in ("prefill", "decode")] == [12, 8], (
        "whatever ran before and is no sample"
    )
    assert (series["decode", "subject"].context, series["decode", "subject"].context_filled) == (64, 64)


@pytest.mark.parametrize(
    "changes",
    [
        {"context": 0},
        {"repetitions": 2},
        {"warmup": -1},
        {"longest_s": -1},
        {"most_repetitions": 4},
        {"most_repetitions": 41},
    ],
)
def test_a_plan_that_cannot_be_is_the_callers_mistake(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at least|at most"):
        Plan(**changes)
