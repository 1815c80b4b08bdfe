"""Chooses which outputs of timed walks are held against the reference: as many as find ids that were made up.

An engine that puts out a made-up id and takes it in with the next one saves a step, and where that id was in the decode
is all that could give it away. So places are drawn after the run, evenly over everything that the engine cannot know to
be looked at; no option asks for fewer. How many follows from what must be found: :data:`SHARE` of the ids of every
decode that a rate is claimed of, wherever in it they are, in more rounds than may be off, with :data:`FOUND` odds. Of
``n`` drawn places all miss such ids with odds of at most ``(1 - SHARE) ** n``, and rounds draw apart.

Where a decode has no more places than that, all are looked at. Places of one walk go to the reference in rising order:
it keeps what it computed of the shorter prefix, so that a walk costs one fill and its outputs, however many are looked
at and however long the prompt is.
"""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.runner.observations import Place, Walk

SHARE: Final = 0.02
"""Share of made-up ids, in every decode, that must be found: the gain at which a rule's smallest tier begins."""
FOUND: Final = 0.99
"""Odds with which it must be found."""
EARLIER: Final = 3
"""Prompts of a walk of several whose next id is looked at beside that of the last one: no claim is made of them."""
UNCLAIMED: Final = 4
"""Drawn outputs of a decode that no rate is taken from, the one behind several prompts."""


def allowed(rounds: int) -> int:
    """In how many of so many rounds a walk may be off: fewer than half, so that the median is of one that is not."""
    return max(0, (rounds - 1) // 2)


def odds_of_finding(rounds: int, drawn: int, share: float = SHARE) -> float:
    """Odds that more rounds are off than may be, where every claimed decode has this share of made-up ids.

    Args:
        rounds: that count.
        drawn: places of claimed decodes that are drawn in each.
        share: of made-up ids.
    """
    off = 1 - (1 - share) ** drawn
    more = range(allowed(rounds) + 1, rounds + 1)
    return math.fsum(math.comb(rounds, many) * off**many * (1 - off) ** (rounds - many) for many in more)


def least_drawn(rounds: int) -> int:
    """Places that have to be drawn in each of so many rounds, at least 1."""
    drawn = 1
    while odds_of_finding(rounds, drawn) < FOUND:
        drawn += 1
    return drawn


def choose(rounds: Sequence[Sequence[Walk]], outputs: int = 0) -> list[tuple[Place, ...]]:
    """What is looked at in each walk, in rising order of what stood in front of it.

    Args:
        rounds: the walks that count, by round.
        outputs: places of claimed decodes to draw in all, where that is more than have to be.
    """
    drawn = max(least_drawn(len(rounds)), -(-outputs // len(rounds))) if rounds else 0
    return [places for one in rounds for places in _of_round(one, drawn)]


def most_of_a_round(rounds: Sequence[Sequence[Walk]], places: Sequence[tuple[Place, ...]]) -> int:
    """Most places of any round, of those that :func:`choose` gave for these."""
    left = iter(places)
    return max((sum(len(next(left)) for _ in one) for one in rounds), default=0)


def _of_round(walks: Sequence[Walk], drawn: int) -> list[tuple[Place, ...]]:
    """Each claimed decode gets an even part, and what a shorter one has no room for goes to the longer."""
    claimed = sorted((one for one in walks if one.kind != "prompts"), key=lambda one: len(one.output))
    counts = {}
    for at, walk in enumerate(claimed):
        counts[id(walk)] = min(len(walk.output) - 1, -(-drawn // (len(claimed) - at)))
        drawn -= counts[id(walk)]
    return [_of_walk(one, counts.get(id(one), UNCLAIMED)) for one in walks]


def _of_walk(walk: Walk, drawn: int) -> tuple[Place, ...]:
    """The last id of decode, which an engine can know to be looked at, and drawn ones; those of prompts in front."""
    earlier = sample(len(walk.earlier), EARLIER)
    prompts: list[Place] = [("prefill", at) for at in (*earlier, len(walk.earlier))]
    last = len(walk.output) - 1
    return (*prompts, *(("decode", at) for at in (*sample(last, drawn), last)))


def sample(length: int, count: int) -> list[int]:
    """So many positions of a length, or all of them, drawn by the system's own source; ascending."""
    return sorted(secrets.SystemRandom().sample(range(length), min(count, length)))
