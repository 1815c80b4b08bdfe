"""Outputs of timed walks against made-up references and engines: exact rows, seeded draws, no process."""

from __future__ import annotations

import itertools
import math
import random
import tracemalloc
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from k3_ledger.engine.parity.compare import log_softmax
from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.runner import again
from k3_ledger.engine.runner.again import LUCK, contradiction, odds
from k3_ledger.engine.runner.bounds import COARSE, Tolerance
from k3_ledger.engine.runner.observations import KINDS, Prefilled, Timed, Walk
from k3_ledger.engine.runner.outputs import Judge, Known, Looked, check_outputs
from k3_ledger.engine.runner.places import allowed
from k3_ledger.engine.runner.specification import Specification
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.runner.observations import Place
    from k3_ledger.engine.weights import Weights

V: Final = 8
LENGTH: Final = 20
PROMPT: Final = 30
GAP: Final = 3.0
P: Final = GAP - float(np.log(np.exp(GAP) + V - 1))
"""Log-probability of a token that is best by :data:`GAP`."""


FIRST: Final[Place] = ("prefill", 0)
LAST: Final[Place] = ("decode", LENGTH - 1)


def best(ids: Sequence[int]) -> int:
    return (len(ids) + ids[0]) % V


@dataclass
class Flat:
    """An engine whose row has one best token, by more or less than it should where ``off`` says so."""

    off: Callable[[tuple[int, ...], int], float] = lambda _ids, _call: 0.0
    choose: Callable[[Sequence[int]], int] = best
    name: str = "flat"
    version: str = "1"
    independent: bool = True
    calls: int = 0

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        self.calls += 1
        values = np.zeros((count, V))
        for row, length in enumerate(range(len(ids) - count + 1, len(ids) + 1)):
            there = ids[:length]
            p = P - self.off(tuple(there), self.calls)
            values[row] = np.log((1 - np.exp(p)) / (V - 1))
            values[row, self.choose(there)] = p
        return Rows(ids_digest([ids]), "raw", values)


def right() -> Flat:
    return Flat()


def timed_by(
    off: Callable[[int, Place], float] = lambda _walk, _place: 0.0, rounds: int = 7, wrong: bool = False
) -> list[list[Walk]]:
    """Walks whose outputs are off by so many nats: of the log-probability, or, ``wrong``, of another token."""
    made = []
    for number in range(3 * rounds):
        prompt = (number, *(0,) * (PROMPT - 1))
        output: list[int] = []
        for at in range(LENGTH):
            token = best((*prompt, 1, *output))
            output.append((token + 1) % V if wrong and off(number, ("decode", at)) else token)
        first = best(prompt)
        made.append(
            Walk(
                kind=KINDS[number % 3],
                prompt=prompt,
                start=1,
                prefill=Timed(PROMPT, number, 1, 1),
                decode=Timed(LENGTH, number, 1, 1),
                next=(first + 1) % V if wrong and off(number, FIRST) else first,
                next_logprob=P - off(number, FIRST),
                output=tuple(output),
                logprobs=tuple(P - off(number, ("decode", at)) for at in range(LENGTH)),
                reset_ns=1,
            )
        )
    return [made[at : at + 3] for at in range(0, 3 * rounds, 3)]


def everywhere(_walk: int, _place: Place) -> float:
    return 1.0


def walks_off(*numbers: int, nats: float = 1.0) -> Callable[[int, Place], float]:
    return lambda walk, _place: nats * (walk in numbers)


def only(those: Place) -> Callable[[int, Place], float]:
    return lambda _walk, place: float(place == those)


def said(looked: Looked) -> set[Code]:
    return {finding.code for finding in looked.findings}


def test_outputs_are_held_to_token_and_probability() -> None:
    fine = check_outputs(timed_by(), right(), engine=right())
    assert (fine.findings, fine.tied, fine.rounds) == ((), True, (7, 0, 3))
    assert fine.counts == {"prefill": (21, 0), "decode": (315, 0)}
    near = check_outputs(timed_by(lambda *_: 0.019), right(), engine=right())
    assert (near.findings, near.tied) == ((), True)
    for bad in (timed_by(lambda *_: 0.021), timed_by(lambda *_: -0.021), timed_by(everywhere, wrong=True)):
        looked = check_outputs(bad, right(), engine=right())
        assert said(looked) == {Code.RUN_OUTPUT}
        assert looked.findings[0].severity is Severity.ERROR
        assert "outputs of 21 of 21 timed walks" in looked.findings[0].message
        assert len(looked.findings) == 7, "and the first few misses of either request"
    coarse = check_outputs(timed_by(lambda *_: 0.45), right(), engine=right(), given=Tolerance(0.6, COARSE))
    assert (coarse.findings, coarse.tied) == ((), True)


def test_prefill_or_decode_alone_is_enough_to_be_off() -> None:
    for those in (FIRST, LAST):
        off = timed_by(only(those))
        assert said(check_outputs(off, right(), engine=right())) == {Code.RUN_OUTPUT}


@dataclass
class Wide:
    """A reference with as many tokens as K3 has, drawn anew for every row."""

    vocabulary: int = 163_840
    name: str = "wide"
    version: str = "1"
    independent: bool = True

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        assert (count, path) == (1, "prefill")
        values = np.random.default_rng(len(ids)).standard_normal((1, self.vocabulary)) * 3
        return Rows(ids_digest([ids]), "raw", values)


def test_of_a_row_what_is_kept_is_what_anything_hangs_on() -> None:
    """A whole row of K3's vocabulary is 1.3 MB, and there are 770 in a run: before, all of them were kept."""
    walk = timed_by(rounds=1)[0][0]
    places: list[Place] = [("decode", at) for at in range(LENGTH)]
    judge = Judge(Wide(), None, COARSE, COARSE)
    judge.off(0, FIRST, walk, (7, -1.0))  # what is done once
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for place in places:
        judge.off(0, place, walk, (7, -1.0))
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert kept / len(places) < 20_000 < Wide.vocabulary * 8 / 50


@pytest.mark.parametrize("near", [0.0, 0.02, 0.5, 6.0, math.inf])
def test_what_is_kept_decides_as_the_whole_row_does(near: float) -> None:
    """Exactly, for every token and at the bound itself; and the token that was asked about is off by a number."""
    row = log_softmax(np.random.default_rng(3).standard_normal((1, 200)).round(2))[0]
    for asked in (0, 17, int(row.argmax()), -1, 200):
        kept = Known.of(row, near, asked)
        for token in range(200):
            whole = float(max(row.max() - row[token], abs(row[token] + 2.0)))
            off = kept.off((token, -2.0))
            assert off == whole or (off == math.inf and row.max() - row[token] > near and token != asked)
        assert kept.off((200, -2.0)) == math.inf
        assert kept.vocabulary == 200


# ------------------------------------------------------------------------------------------- what ties a speed


@pytest.mark.parametrize(("rounds", "may"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (7, 3), (8, 3), (25, 12)])
def test_the_median_round_is_one_that_is_not_off(rounds: int, may: int) -> None:
    assert allowed(rounds) == may
    assert 2 * may < max(1, rounds)


@pytest.mark.parametrize("engine", [None, Flat(lambda ids, _: float(ids[0] % 3 == 0))], ids=["not asked", "as off"])
@pytest.mark.parametrize("many", range(8))
def test_a_speed_is_tied_while_fewer_than_half_of_the_rounds_have_a_walk_that_is_off(
    many: int, engine: Flat | None
) -> None:
    """Three of seven, whichever output it is; and nobody is accused who is as far off when asked again."""
    choices: list[set[Place]] = [{FIRST}, {LAST}, {FIRST, *(("decode", at) for at in range(LENGTH))}]
    for places in choices:

        def first_of_some_rounds(walk: int, place: Place, those: set[Place] = places) -> float:
            return float(walk % 3 == 0 and walk < 3 * many and place in those)

        looked = check_outputs(timed_by(first_of_some_rounds), right(), engine=engine)
        assert looked.rounds == (7, many, 3)
        assert looked.tied == (many <= 3)
        assert said(looked) == (set() if many <= 3 else {Code.RUN_UNTIED})
        assert all(one.severity is Severity.WARNING for one in looked.findings)


def test_all_walks_of_one_round_are_one_round() -> None:
    looked = check_outputs(timed_by(walks_off(0, 1, 2, 3, 4, 5, 6, 7, 8)), right())
    assert (looked.rounds, looked.tied) == ((7, 3, 3), True)
    looked = check_outputs(timed_by(walks_off(0, 3, 6, 11)), right())
    assert (looked.rounds, looked.tied) == ((7, 4, 3), False)


def test_outputs_beyond_the_ceiling_tie_no_speed_to_an_answer() -> None:
    """Within the engine's own bound, so nobody is accused and nobody is asked again."""
    for off, tied in ((0.019, True), (0.021, False), (-0.021, False)):
        engine = right()
        looked = check_outputs(timed_by(lambda *_, by=off: by), right(), engine=engine, given=Tolerance(9.0))
        assert (looked.tied, said(looked)) == (tied, set() if tied else {Code.RUN_UNTIED})
        assert (engine.calls, looked.counts["decode"]) == (0, (315, 0))
        assert tied or "by its own parity record it may miss by 9 nats" in looked.findings[0].message
    both = check_outputs(timed_by(lambda *_: 9.5), right(), engine=right(), given=Tolerance(9.0))
    assert said(both) == {Code.RUN_OUTPUT}, "one thing is said, and the graver one"


# --------------------------------------------------------------------------------------------- who is accused


@pytest.mark.parametrize(("many", "refused"), [(1, False), (2, False), (3, True), (5, True), (21, True)])
def test_who_is_off_in_timed_walks_alone_is_refused_from_three_walks_on(many: int, refused: bool) -> None:
    """One walk that is off throughout is no proof, nor are two."""
    looked = check_outputs(timed_by(walks_off(*range(many))), right(), engine=right())
    assert (said(looked) == {Code.RUN_OUTPUT}) == refused
    assert refused or (looked.findings, looked.tied) == ((), True)


def flips(share: float, seed: int) -> Callable[[Sequence[int]], float]:
    """A router that takes another expert at some tokens, for good: which ones follows from the ids."""

    def off(ids: Sequence[int]) -> float:
        draws = (random.Random(f"{seed} {ids[0]} {at} {token}").random() for at, token in enumerate(ids))
        return 0.4 * any(draw < share for draw in draws)

    return off


@pytest.mark.parametrize("share", [1e-3, 1e-2, 1e-1])
@pytest.mark.parametrize("seed", range(4))
def test_an_honest_engine_whose_flips_persist_is_never_refused(share: float, seed: int) -> None:
    """Once a walk's state went another way all of its outputs are off. The same ids lead there again, at any rate."""
    persists = flips(share, seed)
    prompts = [walk.prompt for one in timed_by() for walk in one]

    def off(number: int, place: Place) -> float:
        ids = prompts[number]
        return persists(ids if place == FIRST else (*ids, 1, *honest[number][: place[1]]))

    honest = {number: walk.output for number, walk in enumerate(itertools.chain.from_iterable(timed_by()))}
    looked = check_outputs(timed_by(off), right(), engine=Flat(lambda ids, _: persists(ids)))
    assert said(looked) <= {Code.RUN_UNTIED}
    assert share < 1e-1 or looked.counts["decode"][1] > 140, "and they are many"


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("walks", [9, 21, 75])
def test_an_honest_engine_whose_flips_are_chance_is_refused_once_in_a_thousand_runs_at_most(
    share: float, walks: int
) -> None:
    """Its rounding changes from call to call: whether a walk is off is drawn anew each time, with any share."""
    draw = random.Random(f"{share} {walks}")
    runs, refused = 20_000 // walks, 0
    for _ in range(runs):
        timed = [draw.random() < share for _ in range(walks)]
        refused += contradiction(timed, lambda _: draw.random() < share)[1] <= LUCK
    assert refused <= runs * float(LUCK) + 3 * math.sqrt(runs * float(LUCK))


def test_an_honest_engine_whose_walks_differ_in_how_often_they_flip_is_refused_no_more() -> None:
    """A near tie in one prompt and none in another."""
    draw = random.Random(9)
    runs, refused = 5000, 0
    for _ in range(runs):
        shares = [draw.choice([0.0, 0.0, 0.1, 0.5, 1.0]) for _ in range(9)]
        timed = [draw.random() < share for share in shares]
        refused += contradiction(timed, lambda walk, those=shares: draw.random() < those[walk])[1] <= LUCK  # type: ignore[misc]
    assert refused <= runs * float(LUCK) + 3 * math.sqrt(runs * float(LUCK))


def test_the_odds_are_those_of_a_draw_from_each_walks_answers() -> None:
    """Against all ways in which the timed one can be any of its walk's answers."""
    for seen, answers in (((0, 1, 1, 2), 3), ((2, 2, 1), 4), ((3, 0, 1), 3)):
        ways = [sum(each) for each in itertools.product(*([1] * many + [0] * (answers - many) for many in seen))]
        for off in range(5):
            assert odds(seen, answers, off) == Fraction(sum(one >= off for one in ways), len(ways))
    assert odds([1] * 3, 10, 3) == LUCK
    assert odds([10] * 9, 10, 9) == 1


def test_nothing_is_asked_that_could_prove_nothing_and_no_longer_than_it_could() -> None:
    def never(_: int) -> bool:
        raise AssertionError

    for timed, most in (([False] * 9, 9), ([True] + [False] * 8, 998), ([True] * 3 + [False] * 6, 8)):
        assert contradiction(timed, never, most) == (0, Fraction(1))
    asked: list[int] = []
    timed = [True] * 3 + [False] * 6

    def same(number: int) -> bool:
        asked.append(number)
        return timed[number]

    times, found = contradiction(timed, same, 9)
    assert (times, len(asked)) == (1, 9), "off in the same walks: no further answer could take that back"
    assert found > LUCK
    assert contradiction(timed, lambda _: False, 9) == (9, LUCK)


@pytest.mark.parametrize("code", [Code.RUN_ENGINE_FAILED, Code.RUN_TIMEOUT, Code.RUN_PROTOCOL])
def test_an_engine_that_gives_no_answer_when_it_is_asked_again_shows_nothing_by_that(code: Code) -> None:
    class Refuses(Flat):
        def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
            raise RunError(code, "no room")

    if code is Code.RUN_PROTOCOL:
        with pytest.raises(RunError):
            check_outputs(timed_by(everywhere), right(), engine=Refuses())
    else:
        assert said(check_outputs(timed_by(everywhere), right(), engine=Refuses())) == {Code.RUN_UNTIED}


def test_outputs_whose_rows_are_too_many_to_ask_for_accuse_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "ROWS_BYTES", 4 * V * (LENGTH - 1))
    late, soon = (timed_by(only(at)) for at in (LAST, FIRST))
    assert said(check_outputs(late, right(), engine=right())) == {Code.RUN_UNTIED}
    assert said(check_outputs(soon, right(), engine=right())) == {Code.RUN_OUTPUT}


def test_it_is_asked_the_way_it_was_timed() -> None:
    """A prompt as a prompt, and a step for what decode took."""
    asked = []

    class Records(Flat):
        def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
            asked.append((len(ids), count, path))
            return super().rows(ids, count, path)

    check_outputs(timed_by(everywhere), right(), engine=Records())
    assert set(asked) == {(PROMPT, 1, "prefill"), (PROMPT + LENGTH, LENGTH, "decode")}


# ---------------------------------------------------------------------------------------------- second opinions


class Forgetful(Flat):
    """A reference that keeps what it computed and at times takes it up wrongly."""

    def afresh(self) -> Flat:
        return right()


def test_no_output_is_a_miss_until_the_reference_has_computed_it_from_nothing() -> None:
    forgets: Any = lambda ids, _: float(ids[0] < 15)  # noqa: E731 - a field's value
    assert not check_outputs(timed_by(), Flat(forgets)).tied
    looked = check_outputs(timed_by(), Forgetful(forgets), engine=right())
    assert (looked.findings, looked.counts["decode"][1]) == ((), 0)
    wrong = check_outputs(timed_by(lambda *_: 2.0), Forgetful(forgets))
    assert wrong.counts["decode"] == (315, 315), "what is wrong stays wrong"


class Topped(Forgetful):
    """A reference that gives its most probable tokens for less; what it keeps can be off."""

    vocabulary = V
    asked: int = 0
    again: int = 0

    def top(self, ids: Sequence[int], count: int) -> dict[int, float]:
        self.asked += 1
        row = super().rows(ids, 1, "prefill").values[0]
        return {int(token): float(row[token]) for token in np.argsort(row)[-min(count, 1) :]}

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        raise AssertionError

    def afresh(self) -> Flat:
        fresh = right()
        whole = fresh.rows

        def rows(ids: Sequence[int], count: int, path: Way) -> Rows:
            self.again += 1
            return whole(ids, count, path)

        fresh.rows = rows  # type: ignore[method-assign]
        return fresh


def test_a_short_list_is_enough_for_an_answer_that_is_right() -> None:
    fine = Topped()
    looked = check_outputs(timed_by(), fine, engine=right())
    assert (looked.findings, looked.tied, fine.again) == ((), True, 0)
    assert fine.asked == sum(count for count, _ in looked.counts.values())


def test_what_is_not_on_a_short_list_is_asked_about_in_full_until_its_walk_is_off() -> None:
    """Not once more for each of its outputs: with a long prompt each time is a whole fill."""
    flipped: Any = lambda ids, _: float(ids[0] < 15)  # noqa: E731 - a field's value
    forgets = Topped(flipped)
    looked = check_outputs(timed_by(), forgets, engine=right())
    assert (looked.findings, looked.counts["decode"][1], looked.counts["prefill"][1]) == ((), 0, 0)
    wrong = Topped()
    looked = check_outputs(timed_by(everywhere, wrong=True), wrong)
    assert (looked.rounds, wrong.again) == ((7, 7, 3), 21)
    one = Topped()
    looked = check_outputs(timed_by(walks_off(0, 3, 6, 9), wrong=True), one, engine=Flat(lambda *_: 1.0))
    assert looked.rounds == (7, 4, 3)
    both = Topped()
    given = Tolerance(0.5, 0.1)
    drifting = timed_by(lambda _, place: 0.0 if place == FIRST else 0.2 if place[1] < LENGTH - 1 else 0.7)
    looked = check_outputs(drifting, both, given=given)
    assert (looked.counts["decode"][1], both.again) == (21, 42), "off by the ceiling, and by the bound: once each"


class Second:
    """A second opinion that gives rows of its own for some walks."""

    def __init__(self, source: Flat, walks: Sequence[int]) -> None:
        self.source, self.walks, self.asked = source, walks, set[int]()

    def rows(self, number: int, walk: Walk, place: Place) -> tuple[Any, ...]:
        self.asked.add(number)
        if number not in self.walks:
            return ()
        return (np.full(V, -9.0), self.source.rows(walk.ids(place), 1, "prefill").values[0])


def test_what_the_specification_confirms_is_no_miss() -> None:
    """The reference is the one that took another expert, in most walks; the engine is right."""
    flipped: Any = lambda ids, _: float(ids[0] < 15)  # noqa: E731 - a field's value
    second = Second(right(), range(15))
    looked = check_outputs(timed_by(), Flat(flipped), engine=right(), specified=second)
    assert (looked.findings, looked.tied, looked.counts["decode"][1]) == ((), True, 0)
    assert second.asked == set(range(15)), "of what missed alone"
    some = check_outputs(timed_by(), Flat(flipped), engine=right(), specified=Second(right(), range(3, 15)))
    assert (some.rounds, some.tied) == ((7, 1, 3), True), "what it was not asked about counts"
    wrong = check_outputs(timed_by(everywhere), right(), engine=right(), specified=Second(right(), range(21)))
    assert said(wrong) == {Code.RUN_OUTPUT}, "what it does not confirm is one"


def test_the_specification_is_asked_for_walks_while_its_tokens_last(weights: Callable[..., Weights]) -> None:
    opened = weights("tiny")
    walk = replace(timed_by()[0][0], prompt=(5, 6, 7), output=(1, 2, 3), logprobs=(P,) * 3)
    spec = Specification(opened, tokens=12)
    rows = [spec.rows(number, walk, place) for number in (4, 5, 6) for place in (FIRST, ("decode", 0), ("decode", 2))]
    assert [len(one) for one in rows] == [1] * 6 + [0] * 3, "six tokens a walk"
    from k3_ledger.engine.reference import Reference

    logits = Reference(opened).logits([5, 6, 7, 1, 1, 2])
    for (row,), at in zip(rows[:3], (2, 3, 5), strict=True):
        assert np.allclose(row - row.max(), logits[at] - logits[at].max())
    coarse = Specification(weights("tiny-mxfp4"), tokens=12)
    first = coarse.rows(0, walk, FIRST)
    assert len(first) == 2, "with activations as they are, and rounded as llama.cpp does"
    assert not np.allclose(*first)
    one, other = coarse._references
    assert one.weights is other.weights, "held once"
    assert (one.emulate, other.emulate) == (False, True)
    assert coarse.rows(1, walk, FIRST) == ()


def test_a_model_that_is_too_large_for_the_specification_has_none(
    weights: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k3_ledger.engine.runner.specification.MOST_WEIGHTS", 1000)
    assert Specification(weights("tiny")).rows(0, timed_by()[0][0], FIRST) == ()


# ------------------------------------------------------------------------------------------------ what is looked at


@pytest.mark.parametrize(("earlier", "each"), [(0, 1), (2, 3), (3, 4), (9, 4)])
@pytest.mark.parametrize("wrong", [False, True])
def test_what_came_of_earlier_prompts_is_looked_at_too(earlier: int, each: int, wrong: bool) -> None:
    """Three of each walk, drawn, beside the last one; and asked for again as prompts of their own."""

    def behind(walk: Walk) -> Walk:
        prompts = [(*walk.prompt[:-1], at + 1) for at in range(earlier)]
        made = [Prefilled(ids, walk.prefill, (best(ids) + wrong) % V, P, 1) for ids in prompts]
        return replace(walk, earlier=tuple(made))

    looked = check_outputs([[behind(walk) for walk in one] for one in timed_by()], right(), engine=right())
    assert looked.counts["prefill"] == (21 * each, 21 * (each - 1) * wrong)
    assert said(looked) == ({Code.RUN_OUTPUT} if wrong and earlier else set())


@pytest.mark.parametrize("token", [-1, V])
def test_nothing_allows_a_token_that_does_not_exist(token: int) -> None:
    rounds = timed_by()
    rounds[0][0] = replace(rounds[0][0], output=(*rounds[0][0].output[:-1], token))
    assert said(check_outputs(rounds, right())) == {Code.RUN_OUTPUT}


def test_a_constant_answer_says_nothing() -> None:
    constant = Flat(choose=lambda _: 5)
    rounds = [[replace(walk, next=5, output=(5,) * LENGTH) for walk in one] for one in timed_by()]
    assert said(check_outputs(rounds, constant)) == {Code.RUN_DEGENERATE}
