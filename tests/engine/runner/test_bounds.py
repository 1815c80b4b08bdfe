"""The bound on timed outputs: an honest run is untied once in a thousand at most, and made-up ids are found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from k3_ledger.engine.parity.rows import Rows, Way, ids_digest
from k3_ledger.engine.parity.suite import Suite, grade
from k3_ledger.engine.runner.bounds import (
    CEILING,
    COARSE,
    FEWEST,
    LEAST,
    SHAPE,
    UNTIED,
    Tolerance,
    beyond,
    odds_untied,
    tolerance,
    widening,
)
from k3_ledger.engine.runner.places import FOUND, SHARE, allowed, least_drawn, odds_of_finding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROUNDS: Final = 7
PLACES: Final = 110
"""Looked at in a round of a run by default: 97 drawn, and what is not drawn."""
TRIALS: Final = 4000
Draw = "Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]"


def untied(draw: Draw, times: float, graded: int, rounds: int = ROUNDS, places: int = PLACES) -> float:
    """Share of simulated honest runs that end untied; the worst of a round's outputs is drawn at once."""
    random = np.random.default_rng(5)
    rows = np.sort(draw(random, (TRIALS, graded)), axis=1)
    bound = times * rows[:, graded - 1 - beyond(graded)]
    off = np.stack([draw(random, (TRIALS, places)).max(axis=1) > bound for _ in range(rounds)])
    return float((off.sum(axis=0) > allowed(rounds)).mean())


LIGHTER: Final = {
    "half normal": lambda random, shape: abs(random.standard_normal(shape, dtype=np.float32)),
    "exponential": lambda random, shape: random.standard_exponential(shape, dtype=np.float32),
    "the heaviest that is reckoned with": lambda random, shape: (
        random.standard_exponential(shape, dtype=np.float32) ** (1 / SHAPE)
    ),
    "two scales": lambda random, shape: (
        random.standard_exponential(shape, dtype=np.float32) * random.choice((1, 1, 1, 1.4), shape)
    ),
}


@pytest.mark.parametrize("graded", [32, 64, 128])
@pytest.mark.parametrize("kind", LIGHTER)
def test_an_honest_run_is_untied_once_in_a_thousand_at_most(kind: str, graded: int) -> None:
    """Twice the order statistic, which the bound once was, is held as the negative control."""
    draw = LIGHTER[kind]
    assert untied(draw, widening(graded, ROUNDS, PLACES), graded) <= UNTIED + 3 * math.sqrt(UNTIED / TRIALS)
    if kind != "half normal":
        assert untied(draw, 2.0, graded) > 50 * UNTIED


@pytest.mark.parametrize(("rounds", "places"), [(7, 110), (25, 76), (3, 154)])
def test_the_odds_are_those_of_simulated_runs(rounds: int, places: int) -> None:
    for times in (1.0, 2.0, 3.0):
        seen = untied(LIGHTER["exponential"], times, 64, rounds, places)
        assert odds_untied(times, 64, rounds, places, 1.0) == pytest.approx(seen, abs=4 * math.sqrt(0.25 / TRIALS))


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 25, 128])
@pytest.mark.parametrize("graded", [FEWEST, 19, 20, 32, 64, 128, 1024])
def test_no_wider_than_it_must_be(graded: int, rounds: int) -> None:
    places = least_drawn(rounds) + 13
    times = widening(graded, rounds, places)
    assert odds_untied(times, graded, rounds, places) <= UNTIED < odds_untied(times * 0.999, graded, rounds, places)


def test_the_more_is_looked_at_the_wider_and_the_more_is_graded_the_narrower() -> None:
    assert widening(64, 7, 39) < widening(64, 7, 110) < widening(64, 7, 400)
    assert widening(32, 7, 110) > widening(64, 7, 110) > widening(512, 7, 110)
    assert {widening(few, 7, 110) for few in range(1, FEWEST + 1)} == {widening(FEWEST, 7, 110)}, "who grades less"
    assert widening(64, 7, 1) >= 1


def of(differences: Sequence[float], ceiling: float = CEILING) -> Tolerance:
    return tolerance(differences, ceiling, rounds=ROUNDS, places=PLACES)


def test_bound_and_ceiling_follow_from_what_parity_graded() -> None:
    times = widening(100, ROUNDS, PLACES)
    assert of([]) == tolerance([0.3], rounds=0, places=0) == Tolerance(LEAST, CEILING)
    assert of([0.0] * 100) == Tolerance(LEAST)
    assert of([0.3] * 100, COARSE) == Tolerance(times * 0.3, COARSE)
    assert of([1e-5] * 95 + [3.0] * 5) == Tolerance(LEAST), "one in twenty widens no bound"
    assert of([1e-5] * 94 + [3.0] * 6) == Tolerance(times * 3.0), "more is what the engine is"
    assert of([], 0.3).ceiling == 0.3
    assert of([0.3] * 100, COARSE).tied == COARSE


def test_an_id_is_found_as_often_though_the_bound_is_wider() -> None:
    """A made-up id is not found where the reference has it within the bound of its best: as good as never.

    Of 2,048 tokens whose logits are normal, about 4 are within half a nat of the best, which no bound is wider than.
    """
    random = np.random.default_rng(1)
    logits = random.standard_normal((400, 2048))
    within = (logits > logits.max(axis=1, keepdims=True) - COARSE).mean()
    assert odds_of_finding(ROUNDS, least_drawn(ROUNDS), SHARE * (1 - within)) >= FOUND


class Scripted:
    """Rows off by a share of a nat that follows from the ids and the way."""

    name, version = "scripted", "1"

    def __init__(self, off: Callable[[int, Way], float], *, independent: bool = False) -> None:
        self.off = off
        self.independent = independent

    def rows(self, ids: Sequence[int], count: int, path: Way) -> Rows:
        values = np.tile(np.linspace(0, -3, 8), (count, 1))
        for row in range(count):
            values[row, 0] += self.off(len(ids) - count + row + 1, path)
        return Rows(ids_digest([ids]), "raw", values)


def test_a_position_that_is_graded_twice_is_one_difference() -> None:
    """In prefill and in decode, and at depths that overlap: the same position says nothing new the second time."""
    suite = Suite(depths=(4, 6, 64), rows=4, prompts=2)
    reference = Scripted(lambda _length, _way: 0.0, independent=True)
    graded = grade(Scripted(lambda length, way: 0.01 * length * (way == "decode")), reference, suite, range(8))
    assert len(graded.top_differences) == 2 * (4 + 2 + 4)
    once = grade(Scripted(lambda length, _way: 0.01 * length), reference, suite, range(8))
    assert graded.top_differences == once.top_differences, "the larger one of the two"
    assert sum(depth.rows for depth in graded.record.depths) == 2 * 2 * 12, "the record counts rows as before"
