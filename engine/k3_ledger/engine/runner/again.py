"""Asks an engine again for what it put out when it was timed, and says how likely the difference is.

Each counted walk is one answer to certain ids. The engine is asked for the same ids as rows of logits, through the
code that was timed, so many times. Of an honest engine all these answers are alike: whichever of them are off, the
timed one is among them with the odds of a draw. That holds of an engine that always takes the same expert for the same
ids, and is off every time or never; of one whose rounding changes from call to call; and however often either happens.
So no rate of flips has to be known, or to be made out from the few rows that parity grades.

The reckoning is exact: of ``times + 1`` answers to a walk ``m`` are off, so the timed one is with odds of
``m / (times + 1)``; the odds that as many timed ones are off as were, or more, are those of a sum of such draws, one
for each walk. They are 1 for an engine that is off in the same walks again, and a thousandth for one whose timed walks
alone are: in ten walks when it is asked once, in five when it is asked three times. One walk that is off is no proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from k3_ledger.engine.parity.compare import check_finite, log_softmax
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.observations import Place, Walk

LUCK: Final = Fraction(1, 1000)
"""Odds at which an engine is refused whose timed answers are of the kind that it always gives."""
MOST_TIMES: Final = 9
"""How often all walks may be asked for again: three that are off when timed alone are then a proof, two none."""
ROWS_BYTES: Final = 256 << 20
"""Most bytes of rows that are asked for at once: outputs further on in a walk are not asked for again."""
_VALUE_BYTES: Final = 4


class Judging(Protocol):
    """Whoever says how far off an answer is."""

    def off(self, number: int, place: Place, walk: Walk, answer: tuple[int, float]) -> float:
        """In nats."""
        ...


@dataclass(frozen=True, slots=True)
class Compared:
    """A timed walk, its outputs that were looked at, and those of them that were off."""

    walk: Walk
    places: tuple[Place, ...]
    off: frozenset[Place]


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking again.

    Attributes:
        walks: walks that were timed.
        off: of these, the ones that were off.
        times: how often each was asked for again; 0 where that could have shown nothing.
        odds: that as many timed answers are off, or more, where they are like the others.
    """

    walks: int
    off: int
    times: int = 0
    odds: Fraction = Fraction(1)

    @property
    def proven(self) -> bool:
        """Whether the timed answers are of another kind."""
        return self.odds <= LUCK


def odds(seen: Sequence[int], answers: int, off: int) -> Fraction:
    """Odds that at least ``off`` of the timed answers are off, ``seen[i]`` of the ``answers`` to walk ``i`` being so.

    Which of a walk's answers is the timed one is a draw, and walks draw apart.
    """
    ways = [1]
    for many in seen:
        without, having = [one * (answers - many) for one in ways] + [0], [0] + [one * many for one in ways]
        ways = [one + other for one, other in zip(without, having, strict=True)]
    return Fraction(sum(ways[off:]), answers ** len(seen))


def contradiction(off: Sequence[bool], again: Callable[[int], bool], most: int = MOST_TIMES) -> tuple[int, Fraction]:
    """How often each walk was asked for again, and the odds that come of it.

    Asked as often as could prove anything, or not at all; and no more once nothing can be proven any longer: odds only
    rise with every further answer that is off.

    Args:
        off: of each walk, whether it was off when it was timed.
        again: whether that walk is off when it is asked for again.
        most: how often all walks may be asked for.
    """
    many = sum(off)
    times = next((one for one in range(1, most + 1) if Fraction(1, one + 1) ** many <= LUCK), 0)
    seen, found = [int(one) for one in off], Fraction(1)
    for asked in range(1, times + 1):
        for number in range(len(seen)):
            seen[number] += again(number)
        found = odds(seen, times + 1, many)
        if found > LUCK:
            return asked, found
    return times, found


def ask_again(
    compared: Sequence[Compared], engine: LogitSource, judge: Judging, *, bound: float, vocabulary: int
) -> Asked:
    """Ask for the looked-at outputs of all walks again, where that can tell anything.

    An engine that refuses to answer, or has no time to, shows nothing by that.

    Args:
        compared: the walks that count.
        engine: the engine that was timed.
        judge: who says how far off an answer is.
        bound: nats beyond which it is off.
        vocabulary: number of tokens.
    """
    rows = max(1, ROWS_BYTES // (_VALUE_BYTES * vocabulary))
    within = [[(op, at) for op, at in one.places if op == "prefill" or at < rows] for one in compared]
    timed = [bool(one.off & set(few)) for one, few in zip(compared, within, strict=True)]

    def again(number: int) -> bool:
        walk, few = compared[number].walk, within[number]
        count = 1 + max((at for op, at in few if op == "decode"), default=0)
        later = engine.rows(list(walk.ids(("decode", count - 1))), count, "decode").values
        for place in few:
            op, at = place
            prompt = op == "prefill"
            values = engine.rows(list(walk.ids(place)), 1, op).values if prompt else later[at : at + 1]
            check_finite(values, "engine", f"walk {number}, asked again")
            row = log_softmax(values)[0]
            token = int(np.argmax(row))
            if judge.off(number, place, walk, (token, float(row[token]))) > bound:
                return True
        return False

    try:
        times, found = contradiction(timed, again)
    except RunError as error:
        if error.code not in {Code.RUN_ENGINE_FAILED, Code.RUN_TIMEOUT}:
            raise
        times, found = 0, Fraction(1)
    return Asked(len(compared), sum(timed), times, found)
