"""What is looked at in timed decodes finds ids that were made up, wherever they are and whatever was asked for."""

from __future__ import annotations

import random
from math import comb
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.runner.observations import KINDS, Timed, Walk
from k3_ledger.engine.runner.outputs import check_outputs
from k3_ledger.engine.runner.places import (
    FOUND,
    SHARE,
    UNCLAIMED,
    allowed,
    choose,
    least_drawn,
    most_of_a_round,
    odds_of_finding,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

V: Final = 64
ROUNDS: Final = 7
"""Of a run by default, and of one that is scored at a house rule's context."""
TIMED: Final = Timed(1, 0, 1, 1)
Makes = set[int]


def right(ids: Sequence[int]) -> int:
    return best(sum(ids), len(ids))


def best(total: int, taken: int) -> int:
    return (total * total // 7 + 5 * taken) % V


def row(token: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.full(V, -9.0)
    values[token] = 0.0
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = values - np.log(np.exp(values).sum())
    return found


class Reference:
    """A closed form."""

    name = "llama.cpp"
    version = "1"
    independent = True

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        assert (count, path) == (1, "prefill")
        return Rows(ids_digest([ids]), "raw", row(right(ids))[None])


def walk(kind: str, length: int, makes: Makes, context: int = 8) -> Walk:
    """A walk whose ids at these places are made up, and taken in as they are."""
    prompt, output = tuple(random.Random(f"{kind} {length}").choices(range(V), k=context)), list[int]()
    total, taken = sum(prompt), context + 1
    for at in range(length):
        token = (best(total, taken) + (at in makes)) % V
        output.append(token)
        total, taken = total + token, taken + 1
    logprob = float(row(0)[0])
    return Walk(
        kind, prompt, 0, TIMED, TIMED, right(prompt), logprob, tuple(output), (logprob,) * length, 0,  # type: ignore[arg-type]
    )  # fmt: skip


def run(
    lengths: tuple[int, int], make: Callable[[int], Makes], rounds: int = ROUNDS, context: int = 8
) -> list[list[Walk]]:
    """Rounds of an engine that makes up ids in every decode that a rate is claimed of, and in no other."""
    short, longer = lengths
    sizes = {"short": short, "prompts": short, "long-decode": longer}
    return [
        [walk(kind, sizes[kind], set() if kind == "prompts" else make(sizes[kind]), context) for kind in KINDS]
        for _ in range(rounds)
    ]


@pytest.mark.parametrize("rounds", [*range(1, 27), 64, 128])
def test_as_many_places_are_drawn_as_find_two_in_a_hundred_and_no_more(rounds: int) -> None:
    drawn = least_drawn(rounds)
    assert odds_of_finding(rounds, drawn) >= FOUND > odds_of_finding(rounds, drawn - 1)
    assert (SHARE, FOUND) == (0.02, 0.99)


def test_the_odds_are_those_of_more_rounds_than_may_be_off() -> None:
    for rounds in (1, 3, 4, 7):
        off = 1 - 0.9**5
        expected = 0.0
        for which in range(2**rounds):
            many = which.bit_count()
            expected += (many > allowed(rounds)) * off**many * (1 - off) ** (rounds - many)
        assert odds_of_finding(rounds, 5, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("context", [8, 40_000, 131_072], ids=["short", "beyond 40,000", "131k"])
@pytest.mark.parametrize("lengths", [(16, 32), (17, 146), (20, 600), (74, 150), (300, 600), (2000, 4096)])
@pytest.mark.parametrize("rounds", [3, 7, 25])
def test_two_in_a_hundred_are_found_wherever_they_are(lengths: tuple[int, int], rounds: int, context: int) -> None:
    """Exact: each place but the last is as likely as any other to be drawn, so that only numbers matter."""
    whole = walk("short", 1, set(), context)
    kinds = zip(KINDS, (lengths[0], lengths[0], lengths[1]), strict=True)
    one = [Walk(**{name: getattr(whole, name) for name in WALK} | {"kind": k, "output": (0,) * n}) for k, n in kinds]
    missed = 1.0
    for walk_, places in zip(one, choose([one] * rounds)[:3], strict=True):
        drawn = sum(op == "decode" for op, _ in places) - 1
        known = len(walk_.output) - 1
        made = -(-len(walk_.output) * 2 // 100)
        if walk_.kind == "prompts":
            assert drawn == min(UNCLAIMED, known)
            continue
        missed *= comb(known - made, drawn) / comb(known, drawn)
    assert odds_of_finding(rounds, 1, 1 - missed) >= FOUND


WALK: Final = tuple(Walk.__dataclass_fields__)


@pytest.mark.parametrize("outputs", [0, 1, 2, 12, 84, 240, 5000])
def test_no_option_asks_for_fewer(outputs: int) -> None:
    rounds = run((300, 600), lambda _: set())
    one, enough = choose(rounds, outputs), choose(rounds)
    assert all(len(places) >= len(those) for places, those in zip(one, enough, strict=True))
    assert sum(map(len, one)) >= outputs
    assert most_of_a_round(rounds, enough) == max(sum(map(len, enough[at : at + 3])) for at in range(0, 21, 3))


@pytest.mark.parametrize("outputs", [0, 1])
@pytest.mark.parametrize("lengths", [(16, 32), (300, 600)])
def test_who_computes_the_last_id_of_each_decode_alone_has_no_speed(outputs: int, lengths: tuple[int, int]) -> None:
    liar = run(lengths, lambda many: set(range(many - 1)))
    looked = check_outputs(liar, Reference(), places=choose(liar, outputs))
    assert (looked.tied, looked.rounds) == (False, (7, 7, 3))
    honest = check_outputs(run(lengths, lambda _: set()), Reference())
    assert (honest.tied, honest.rounds, honest.findings) == (True, (7, 0, 3), ())


def scattered(draw: random.Random) -> Callable[[int], Makes]:
    return lambda many: set(draw.sample(range(many - 1), many // 50))


def together(draw: random.Random) -> Callable[[int], Makes]:
    """One stretch, anywhere but at the end."""

    def make(many: int) -> Makes:
        first = draw.randrange(many - 1 - many // 50)
        return set(range(first, first + many // 50))

    return make


@pytest.mark.parametrize("make", [scattered, together])
def test_an_engine_that_makes_up_one_id_in_fifty_is_found_whole(make: Callable[..., Callable[[int], Makes]]) -> None:
    """Through all of the check: of 40 such runs, each found with 99 %, fewer than 35 are found once in a million."""
    draw = random.Random(5)
    found = sum(not check_outputs(run((300, 600), make(draw)), Reference()).tied for _ in range(40))
    assert found >= 35


@pytest.mark.parametrize("length", [1, 2, 9, 400])
def test_the_last_output_and_those_of_the_prompt_are_always_looked_at(length: int) -> None:
    for places in choose(run((length, length), lambda _: set()), 1):
        ats = [at for op, at in places if op == "decode"]
        assert places[0] == ("prefill", 0)
        assert ats == sorted(set(ats))
        assert ats[-1] == length - 1


def test_no_rounds_have_no_places() -> None:
    assert choose([]) == []
    assert most_of_a_round([], []) == 0
