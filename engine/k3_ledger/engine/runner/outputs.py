"""Checks what timed walks put out against an engine that is taken as right.

This is what ties a speed to an answer. An id that is looked at must be, to within a bound, the most probable one after
exactly the ids in front of it, and the log-probability that the engine gave with it must be the reference's. Which
positions are looked at is drawn after the run, see :mod:`k3_ledger.engine.runner.places`.

What is counted is walks. Where the router's choice hangs on the last bit, an honest engine takes another expert once in
a while, and what that leaves in a walk's state can be off in every output behind it: the ids of one walk are one event.
A walk is *off* where any of its outputs that were looked at is. Two questions are asked of such walks, apart:

- Is the speed tied to answers? Yes while fewer than half of the rounds have a walk that is off, because a rate is the
  median of the rounds. Else nothing is tied to an answer, the receipt claims no speed, and nobody is accused.
- Did the engine answer otherwise because it was timed? It is asked for the same ids again, as rows of logits, through
  the code that was timed, see :mod:`k3_ledger.engine.runner.again`. Only an engine whose timed answers are off more
  often than chance makes of the answers that it gives to the same ids now is refused. However often an honest engine
  flips, it does so in both.

The reference can be the one that flipped. Before an output counts, llama.cpp computes it from nothing, and where the
model is small enough the specification in float64 is asked too; what any of them confirms is no miss.

The bound follows from what parity measured on rows of logits: an engine that is right when it is asked for logits must
be as right when it is timed, and one that widens it by being wrong there has a parity record that says so. A record can
be widened on purpose and stay within what rules take. So beside the engine's own bound there is a ceiling, which no
answer of the engine moves, and a speed is tied to outputs that keep to both.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

import numpy as np

from k3_ledger.engine.parity.compare import check_finite, log_softmax
from k3_ledger.engine.runner.again import Asked, Compared, ask_again
from k3_ledger.engine.runner.bounds import Tolerance
from k3_ledger.engine.runner.places import allowed, choose
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.observations import Metric, Place, Walk
    from k3_ledger.engine.runner.specification import Specified

TOP: Final = 16
"""Most probable tokens that the reference is asked for. What is none of them is asked about again, in full."""
CONSTANT_SHARE: Final = 0.9
"""Share of the looked-at ids that may be one and the same before they say nothing about the engine."""
_NAMED: Final = 3
"""Misses that a finding names."""

Row = np.ndarray[tuple[int], np.dtype[np.float64]]
Answer = tuple[int, float]
"""A token and the log-probability that the engine gave with it."""


@runtime_checkable
class Keeping(Protocol):
    """A reference that keeps what it computed of one prompt for the next."""

    def afresh(self) -> LogitSource:
        """The same without."""
        ...


@dataclass(frozen=True, slots=True)
class Looked:
    """What was looked at.

    Attributes:
        findings: what refuses the run, and what must be said about it.
        counts: outputs looked at and those that missed, by request.
        rounds: rounds looked at, those with an output that ties no speed, and those that may have one.
        tied: whether the speed is tied to answers.
    """

    findings: tuple[Finding, ...]
    counts: dict[Metric, tuple[int, int]]
    rounds: tuple[int, int, int]
    tied: bool = True


@runtime_checkable
class Brief(Protocol):
    """A reference that gives the most probable tokens alone for less than a whole row."""

    def top(self, ids: Sequence[int], count: int) -> dict[int, float]:
        """Log-probabilities of so many, behind all of ``ids``."""
        ...

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """What is kept of a row: its most probable tokens, and the log-probability of each."""

    tokens: np.ndarray[tuple[int], np.dtype[np.intp]]
    logprobs: Row
    vocabulary: int

    @classmethod
    def of(cls, row: Row, near: float, asked: int) -> Known:
        """Of a whole row, the tokens within so many nats of the best, and the one that is asked about."""
        kept = row.max() - row <= near
        if 0 <= asked < len(row):
            kept[asked] = True
        tokens = np.flatnonzero(kept)
        return cls(tokens, row[tokens], len(row))

    def off(self, answer: Answer) -> float:
        """By how many nats: its token from the best one, or its log-probability; endless where that is not kept."""
        token, said = answer
        found = np.flatnonzero(self.tokens == token)
        if not len(found):
            return math.inf
        logprob = self.logprobs[found[0]]
        return float(max(self.logprobs.max() - logprob, abs(logprob - said)))


class Judge:
    """By how many nats an answer is off, by whoever may be right about it.

    A reference that keeps what it computed is asked a second time, from nothing, before an answer is off; then the
    specification, whose rounding is another, where it can be.

    Args:
        reference: the engine taken as right.
        specified: the specification, where there is one.
        bound: nats beyond which an answer is asked about a second time.
        near: nats beyond which nothing hangs on how far off it is: of a row no token is kept that is further from the
            best. A row of K3's vocabulary is more than a megabyte, and there are hundreds.
    """

    def __init__(self, reference: LogitSource, specified: Specified | None, bound: float, near: float) -> None:
        self.reference = reference
        self._near = max(bound, near)
        self._again = reference.afresh() if isinstance(reference, Keeping) else None
        self._specified = specified
        self._bound = bound
        self._known: dict[tuple[int, Place], Known] = {}
        self._sure: set[tuple[int, Place]] = set()

    def known(self, number: int, place: Place, walk: Walk, asked: int) -> Known:
        """What the reference gives there, about one token in any case."""
        key = (number, place)
        if key not in self._known:
            brief = self.reference if self._again is not None and isinstance(self.reference, Brief) else None
            if brief is None:
                self._known[key] = self._ask(self.reference, key, walk, asked)
            else:
                top = brief.top(walk.ids(place), TOP)
                self._known[key] = Known(np.array([*top]), np.array([*top.values()]), brief.vocabulary)
        return self._known[key]

    def off(self, number: int, place: Place, walk: Walk, answer: Answer, *, settled: float = 0.0) -> float:
        """By how many nats an answer is off.

        Args:
            number: of the walk.
            place: of the output.
            walk: where it is.
            answer: a token and its log-probability.
            settled: nats up to which nothing hangs on it any more, the walk being off by as much: not asked twice.
        """
        key = (number, place)
        off = self.known(number, place, walk, answer[0]).off(answer)
        if off <= max(self._bound, settled):
            return off
        if self._again is not None and key not in self._sure:
            self._sure.add(key)
            self._known[key] = self._ask(self._again, key, walk, answer[0])
            off = self._known[key].off(answer)
        if off > self._bound and self._specified is not None:
            for row in self._specified.rows(number, walk, place):
                off = min(off, Known.of(row, 0.0, answer[0]).off(answer))
        return off

    def _ask(self, reference: LogitSource, key: tuple[int, Place], walk: Walk, asked: int) -> Known:
        values = reference.rows(list(walk.ids(key[1])), 1, "prefill").values
        check_finite(values, "reference", str(position(*key)))
        row: Row = log_softmax(values)[0]
        return Known.of(row, self._near, asked)


def check_outputs(
    rounds: Sequence[Sequence[Walk]],
    reference: LogitSource,
    *,
    engine: LogitSource | None = None,
    specified: Specified | None = None,
    given: Tolerance | None = None,
    places: Sequence[tuple[Place, ...]] | None = None,
) -> Looked:
    """Hold ids and log-probabilities against what the reference gives.

    Args:
        rounds: the walks that count, by round.
        reference: the engine taken as right.
        engine: the engine that was timed, to be asked again; without it nobody is accused of a walk that is off.
        specified: the specification in float64, to be asked before an output counts as a miss.
        given: what may be missed, see :mod:`k3_ledger.engine.runner.bounds`.
        places: what to look at in each walk; drawn here where nobody has drawn it, see :func:`choose`.
    """
    given = given or Tolerance()
    walks = [walk for one in rounds for walk in one]
    judge = Judge(reference, specified, given.tied, given.bound)
    chosen: Counter[int] = Counter()
    looked: Counter[Metric] = Counter()
    misses: dict[Metric, list[Finding]] = {"prefill": [], "decode": []}
    foreign: list[Finding] = []
    compared: list[Compared] = []
    loose: list[bool] = [False for _ in walks]
    vocabulary = 0
    for number, (walk, those) in enumerate(zip(walks, choose(rounds) if places is None else places, strict=True)):
        off: set[Place] = set()
        for place in those:
            op, answer = place[0], walk.answer(place)
            chosen[answer[0]] += 1
            looked[op] += 1
            vocabulary = judge.known(number, place, walk, answer[0]).vocabulary
            if not 0 <= answer[0] < vocabulary:
                foreign.append(_foreign(reference.name, position(number, place), answer[0]))
                continue
            settled = math.inf if off else given.bound if loose[number] else 0.0
            by = judge.off(number, place, walk, answer, settled=settled)
            loose[number] |= by > given.tied
            if by > given.bound:
                off.add(place)
                misses[op].append(_miss(reference.name, position(number, place), by, given.bound, answer))
        compared.append(Compared(walk, those, frozenset(off)))
    findings = [*foreign[:_NAMED], *_degenerate(chosen)]
    if engine is not None and not findings:
        asked = ask_again(compared, engine, judge, bound=given.bound, vocabulary=vocabulary)
        if asked.proven:
            findings += [_told(asked), *misses["prefill"][:_NAMED], *misses["decode"][:_NAMED]]
    missed, at = 0, 0
    for one in rounds:
        missed += any(loose[at : at + len(one)])
        at += len(one)
    held = (len(rounds), missed, allowed(len(rounds)))
    untied = [] if findings or missed <= held[2] else [_untied(held, given, misses)]
    counts = {op: (looked[op], len(misses[op])) for op in misses}
    return Looked((*findings, *untied), counts, held, tied=missed <= held[2])


def position(number: int, place: Place) -> Position:
    """Where an output is, in words."""
    return Position(field=f"walk {number}, {place[0]}, output {place[1]}")


def _told(asked: Asked) -> Finding:
    return Finding(
        Code.RUN_OUTPUT,
        f"outputs of {asked.off} of {asked.walks} timed walks are not what the reference gives, and asked for rows of "
        f"logits behind the same ids, {asked.times} times, the engine gives other ones",
        Position(field="outputs"),
        "off as often when it is timed as when it is asked for the same again",
        f"odds of {float(asked.odds):.2g}",
    )


def _untied(held: tuple[int, int, int], given: Tolerance, misses: dict[Metric, list[Finding]]) -> Finding:
    rounds, missed, may = held
    own = "" if given.bound <= given.ceiling else f"; by its own parity record it may miss by {given.bound:.3g} nats"
    return Finding(
        Code.RUN_UNTIED,
        f"not scorable: outputs: in {missed} of {rounds} rounds an output is further than {given.tied:.3g} nats from "
        f"what the reference gives ({sum(map(len, misses.values()))} beyond the engine's own bound){own}",
        Position(field="outputs"),
        f"in at most {may} of {rounds} rounds",
        f"{missed}",
    )


def _degenerate(chosen: Counter[int]) -> Iterator[Finding]:
    most = max(chosen.values(), default=0)
    if most > CONSTANT_SHARE * chosen.total():
        yield Finding(
            Code.RUN_DEGENERATE,
            f"{most} of {chosen.total()} tokens that were looked at are the same one: a constant would have passed",
            Position(field="outputs"),
            f"at most {CONSTANT_SHARE:.0%} the same",
            f"token {chosen.most_common(1)[0][0]}" if chosen else None,
        )


def _miss(name: str, place: Position, by: float, bound: float, answer: Answer) -> Finding:
    return Finding(
        Code.RUN_OUTPUT,
        f"a timed walk put out a token that {name} would not have chosen, or gave it another log-probability",
        place,
        f"the most probable token and its log-probability, to within {bound:.3g} nats",
        f"token {answer[0]} at {answer[1]:.6f}, "
        + (f"off by {by:.3g} nats" if math.isfinite(by) else f"none of the {TOP} most probable"),
    )


def _foreign(name: str, place: Position, token: int) -> Finding:
    message = f"a timed walk put out a token that {name} does not have"
    return Finding(Code.RUN_OUTPUT, message, place, "a token of the vocabulary", f"token {token}")
