"""How far a timed output may be from the reference's, reckoned from what parity graded and how much is looked at.

An honest run's outputs are of the kind of its graded rows, but there are many more of them: the more places of a round
are looked at, the further out is the worst of them. So the bound is not a fixed multiple. It is the difference that all
graded positions but :data:`TAIL` keep to, widened by as much as leaves an honest run untied with odds of at most
:data:`UNTIED`.

The reckoning needs no scale and no distribution but one assumption, on tails: being ``f`` times as far out is at least
as rare as for Weibull's distribution of shape :data:`SHAPE`, so that what a share ``s`` of outputs is beyond, at most
``s ** (f ** SHAPE)`` are ``f`` times beyond. An exponential tail has shape 1, a normal one 2; differences of bfloat16
are near 1, and 0.8 leaves room. What share is beyond an order statistic of ``m`` positions is drawn from a beta
distribution whatever they are distributed like, and the odds of an untied run are averaged over it.

Flips of an expert are no tail of this kind: they are nats, and what they cost honest engines is in
:mod:`k3_ledger.engine.runner.places`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from k3_ledger.engine.runner.places import allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST: Final = 0.02
"""Nats that are always taken: float32 against llama.cpp stays a hundred times under this."""
TAIL: Final = 0.05
"""Share of graded positions whose difference widens no bound."""
UNTIED: Final = 1 / 1000
"""Odds, at most, that the outputs of an honest run are too far out in more rounds than may be."""
SHAPE: Final = 0.8
"""Of the heaviest tail for which these odds hold."""
FEWEST: Final = 16
"""Graded positions below which no bound is widened further, and the odds do not hold: who grades less gains nothing."""
CEILING: Final = LEAST
"""Nats that outputs have to keep to for a speed to count, whatever parity graded."""
COARSE: Final = 0.5
"""The same where a stored type, or the type that is computed in, is coarser than float32: the gap beyond which the
contract of bfloat16 keeps the top-1."""
_STEPS: Final = 2000
"""Of the integral over shares beyond the order statistic, in even steps of the logarithm from ``exp(-_FROM)`` to 1."""
_FROM: Final = 40.0
_HALVINGS: Final = 24


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a timed output may miss by.

    Attributes:
        bound: in nats.
        ceiling: nats that the engine has no say in.
    """

    bound: float = LEAST
    ceiling: float = CEILING

    @property
    def tied(self) -> float:
        """Nats within which a speed is tied to an answer."""
        return min(self.bound, self.ceiling)


def tolerance(differences: Sequence[float], ceiling: float = CEILING, *, rounds: int, places: int) -> Tolerance:
    """What positions that parity graded give an engine.

    Args:
        differences: of each position, at the top.
        ceiling: nats that the engine has no say in.
        rounds: that count.
        places: most outputs that are looked at in one of them.
    """
    ordered = sorted(differences)
    if not ordered or not rounds:
        return Tolerance(ceiling=ceiling)
    bulk = ordered[len(ordered) - 1 - beyond(len(ordered))]
    return Tolerance(max(LEAST, widening(len(ordered), rounds, places) * bulk), ceiling)


def beyond(graded: int) -> int:
    """How many of so many graded positions widen no bound."""
    return int(TAIL * graded)


@functools.cache
def widening(graded: int, rounds: int, places: int) -> float:
    """How many times what the bulk of graded positions keeps to an output may be off by, at least 1."""
    graded = max(graded, FEWEST)
    low, high = 1.0, 2.0
    while odds_untied(high, graded, rounds, places) > UNTIED:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if odds_untied(middle, graded, rounds, places) > UNTIED else (low, middle)
    return high


def odds_untied(times: float, graded: int, rounds: int, places: int, shape: float = SHAPE) -> float:
    """Odds that an honest run ends untied, its tail being the heaviest that is reckoned with.

    Args:
        times: what the bulk of graded positions keeps to is widened by.
        graded: positions, the bulk being all but :func:`beyond` of them.
        rounds: that count, of which no more may be off than :func:`~k3_ledger.engine.runner.places.allowed`.
        places: looked at in each.
        shape: of the tail.
    """
    kept, width = beyond(graded), _FROM / _STEPS
    logs = -_FROM + width * (np.arange(_STEPS) + 0.5)
    share = np.exp(logs)
    scale = math.lgamma(graded + 1) - math.lgamma(kept + 1) - math.lgamma(graded - kept)
    weight = np.exp(scale + (kept + 1) * logs + (graded - kept - 1) * np.log1p(-share)) * width
    off = -np.expm1(places * np.log1p(-(share ** (times**shape))))
    more = range(allowed(rounds) + 1, rounds + 1)
    ways = [math.comb(rounds, many) * off**many * (1 - off) ** (rounds - many) for many in more]
    return float(weight @ np.sum(ways, axis=0))
