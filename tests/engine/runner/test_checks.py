"""Checks on made-up observations: exact times, no process, no noise but the one that a case is about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.runner.checks import check_observations
from k3_ledger.engine.runner.measure import KINDS, Kind, Observations, Plan, Prompts, Round, Timed, Walk
from k3_ledger.engine.runner.outputs import LEAST, _draw, check_outputs, tolerance
from k3_ledger.engine.runner.record import timing_of
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MS = 1_000_000
V = 8


def timed(count: int, outer: int, own: int | None = None) -> Timed:
    return Timed(count, 0, outer, outer - MS // 10 if own is None else own)


def walk(kind: Kind, number: int, change: Callable[[Walk], Walk]) -> Walk:
    """A millisecond a token in prefill, two in decode, a tenth for the pipe."""
    given, wanted = 64 + 64 * (kind == "long-prefill"), 50 + 50 * (kind == "long-decode")
    made = Walk(
        kind=kind,
        prompt=(number, KINDS.index(kind)) + (0,) * (given - 2),
        start=1,
        prefill=timed(given, given * MS),
        decode=timed(wanted, 2 * wanted * MS),
        next=0,
        next_logprob=0.0,
        output=(0,) * wanted,
        logprobs=(0.0,) * wanted,
        reset_ns=1,
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
    return {finding.code for finding in check_observations(found)}


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


def test_work_that_prefill_puts_off_is_found_behind_either_prompt() -> None:
    def put_off(kinds: set[Kind], milliseconds: int = 80) -> Callable[[Walk], Walk]:
        def change(one: Walk) -> Walk:
            late = one.decode.outer_ns + milliseconds * MS
            return replace(one, decode=timed(one.decode.count, late)) if one.kind in kinds else one

        return change

    assert codes(observations(put_off(set(KINDS)))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off({"long-prefill"}))) == set()  # decode at twice the context may cost twice as much
    assert codes(observations(put_off({"short", "long-decode"}))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off(set(KINDS), 30))) == {Code.RUN_LEFT_OVER}
    assert codes(observations(put_off(set(KINDS), 20))) == set()  # a quarter of 64 ms, and noise


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


class Flat:
    """A reference whose answer is ``best``, by ``gap`` nats."""

    name, version, independent = "flat", "1", True

    def __init__(self, gap: float, best: Callable[[Sequence[int]], int]) -> None:
        self.gap, self.best = gap, best

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        row = np.zeros((count, V))
        row[0, self.best(ids)] = self.gap
        return Rows(ids_digest([ids]), "raw", row)

    def logprob(self) -> float:
        return self.gap - float(np.log(np.exp(self.gap) + V - 1))


def answers(reference: Flat, off: float = 0.0, wrong: int = 0) -> list[Walk]:
    made = []
    for number in range(4):
        one = walk("short", number, lambda made: replace(made, output=()))
        output: list[int] = []
        for _ in range(6):
            output.append((reference.best((*one.prompt, one.start, *output)) + wrong) % V)
        nxt = reference.best(one.prompt)
        p = reference.logprob() + off
        made.append(replace(one, next=nxt, next_logprob=p, output=tuple(output), logprobs=(p,) * 6))
    return made


def test_outputs_are_held_to_token_and_probability() -> None:
    reference = Flat(3.0, lambda ids: (len(ids) + ids[0]) % V)
    assert list(check_outputs(answers(reference), reference)) == []
    assert list(check_outputs(answers(reference, off=0.019), reference)) == []
    for bad in (answers(reference, off=0.021), answers(reference, off=-0.021), answers(reference, wrong=1)):
        assert {finding.code for finding in check_outputs(bad, reference)} == {Code.RUN_OUTPUT}
    assert list(check_outputs(answers(reference, off=0.5), reference, bound=tolerance(0.3))) == []
    assert (tolerance(0.0), tolerance(0.3)) == (LEAST, 0.6)


def test_the_last_output_is_always_looked_at() -> None:
    assert all(max(_draw(9)) == 8 and len(_draw(9)) == 3 for _ in range(100))
    assert (_draw(1), _draw(2)) == ([0], [0, 1])


def test_a_constant_answer_says_nothing() -> None:
    reference = Flat(3.0, lambda _: 5)
    assert [finding.code for finding in check_outputs(answers(reference), reference)] == [Code.RUN_DEGENERATE]


def test_both_lengths_and_both_clocks_reach_the_receipt() -> None:
    series = {(one.metric, one.observer): one for one in timing_of(observations(), 0, Plan())}
    assert sorted({sample.count for sample in series["prefill", "subject"].samples}) == [64, 128]
    assert [len(series[metric, "controller"].samples) for metric in ("prefill", "decode")] == [15, 10]
    assert (series["decode", "subject"].context, series["decode", "subject"].context_filled) == (64, 64)


@pytest.mark.parametrize(
    "changes",
    [{"context": 0}, {"repetitions": 2}, {"warmup": -1}, {"most_repetitions": 4}, {"most_repetitions": 129}],
)
def test_a_plan_that_cannot_be_is_the_callers_mistake(changes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at least|at most"):
        Plan(**changes)
