"""Checks what timed walks put out against an engine that is taken as right.

This is what ties a speed to an answer. An id that is looked at must be, to within a bound, the most probable one after
exactly the ids in front of it, and the log-probability that the engine gave with it must be the reference's. Which
positions are looked at is drawn after the run.

A rate, as top-1 has one: where the router's choice hangs on the last bit, an honest engine takes another expert once
in a while, and one output is far off. How many may be is a rule, see :func:`allowed`; it is never most of one walk, for
each must have done its work, however many there are. More misses than that refuse the run where the graded rows tell
that they are more than this engine's own way, which few rows do not: then nothing is tied to an answer, and nobody is
accused. Bound and rate both follow from what parity measured on rows of
logits: an engine that is right when it is asked for logits must be as right when it is timed, and one that widens
either by being wrong there has a parity record that says so.

A record can be widened on purpose and stay within what rules take. So beside the engine's own bound there is a ceiling,
which no answer of the engine moves: a run whose timed outputs do not keep to it is no lie yet, for a coarse engine is
as coarse when it is timed, but its speed is tied to no answer, and its receipt claims none.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

import numpy as np

from k3_ledger.engine.parity.compare import check_finite, log_softmax
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from k3_ledger.engine.parity.rows import LogitSource
    from k3_ledger.engine.runner.observations import Walk

LEAST: Final = 0.02
"""Nats that are always taken: float32 against llama.cpp stays a hundred times under this."""
MULTIPLE: Final = 2
"""How many times the difference at the top that all graded rows but :data:`TAIL` keep to may be reached."""
TAIL: Final = 0.05
"""Share of graded rows whose difference widens no bound: they count as misses instead, as they do for top-1."""
CEILING: Final = LEAST
"""Nats that outputs have to keep to for a speed to count, whatever parity graded."""
COARSE: Final = 0.5
"""The same where a stored type, or the type that is computed in, is coarser than float32: the gap beyond which the
contract of bfloat16 keeps the top-1."""
SHARE: Final = 0.005
"""Share of outputs that an engine may miss although no graded row did: rows are few."""
LUCK: Final = 0.001
"""Odds at which an engine that misses just that share is refused."""
LOOKED: Final = 240
"""Outputs that are looked at, at least, where the walks have as many."""
ANYWAY: Final = 6
"""Outputs of each walk that are looked at however long the prompts are and however many walks, unless fewer are asked
for."""
EARLIER: Final = 3
"""Prompts of a walk of several whose next id is looked at beside that of the last one: no claim is made of them."""
TOKENS: Final = 40_000
"""Tokens that the reference is given for more than these: it takes every prefix from its beginning."""
CONSTANT_SHARE: Final = 0.9
"""Share of the looked-at ids that may be one and the same before they say nothing about the engine."""
_NAMED: Final = 3
"""Misses that a finding names."""

Op = Literal["prefill", "decode"]


@runtime_checkable
class Keeping(Protocol):
    """A reference that keeps what it computed of one prompt for the next."""

    def afresh(self) -> LogitSource:
        """The same without."""
        ...


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What a timed output may miss by, and what share may miss by more.

    Attributes:
        bound: in nats.
        share: of all outputs, from 0 to 1.
        ceiling: nats that the engine has no say in.
        rows: graded rows that bound and share come from; None where they come from nothing of the engine's.
        beyond: of these, rows beyond the bound.
    """

    bound: float = LEAST
    share: float = SHARE
    ceiling: float = CEILING
    rows: int | None = None
    beyond: int = 0

    def odds(self, missed: int, looked: int) -> float:
        """Of an engine that is as right when it is timed as when it was graded, to miss as many or more.

        Graded rows and outputs that were looked at are one urn, and who missed is drawn from it (Fisher's exact test):
        what few rows show of an engine says little of its outputs, and then no count of misses is evidence of much.
        """
        if self.rows is None:
            return 0.0
        misses, total = self.beyond + missed, self.rows + looked
        ways = sum(math.comb(self.rows, few) * math.comb(looked, misses - few) for few in range(self.beyond + 1))
        return ways / math.comb(total, misses)


@dataclass(frozen=True, slots=True)
class Looked:
    """What was looked at.

    Attributes:
        findings: what refuses the run, and what must be said about it.
        counts: outputs looked at, those that missed, and those that may, by request.
        tied: whether outputs keep to the ceiling, so that the speed is tied to an answer.
    """

    findings: tuple[Finding, ...]
    counts: dict[Op, tuple[int, int, int]]
    tied: bool = True


def tolerance(differences: Sequence[float], ceiling: float = CEILING) -> Tolerance:
    """What rows that parity graded give an engine, from their differences at the top."""
    ordered = sorted(differences)
    if not ordered:
        return Tolerance(ceiling=ceiling, rows=0)
    bulk = ordered[len(ordered) - 1 - int(TAIL * len(ordered))]
    bound = max(LEAST, MULTIPLE * bulk)
    beyond = sum(one > bound for one in ordered)
    return Tolerance(bound, max(SHARE, beyond / len(ordered)), ceiling, len(ordered), beyond)


def allowed(looked: int, share: float, luck: float = LUCK) -> int:
    """How many of ``looked`` outputs may miss: more than that happen by chance once in a thousand runs or less.

    The least count that a binomial variable of ``looked`` trials and this share passes with odds of at most ``luck``.
    """
    beyond, count = 1.0, -1
    while beyond > luck:
        count += 1
        beyond -= math.comb(looked, count) * share**count * (1 - share) ** (looked - count)
    return count


def allowed_of_one(looked: int, share: float, walks: int) -> int:
    """How many of the ``looked`` outputs of one walk may miss: half of them, or what chance makes of one of so many.

    What a router's choice puts into a walk's state can be off for several outputs behind it, so half of them prove
    nothing yet; a walk that did no work misses all.
    """
    return max(looked // 2, allowed(looked, share, LUCK / walks))


def check_outputs(
    walks: Sequence[Walk], reference: LogitSource, *, given: Tolerance | None = None, outputs: int = LOOKED
) -> Looked:
    """Hold ids and log-probabilities against what the reference gives.

    A reference that keeps what it computed is asked a second time before an output counts as a miss, from nothing.

    Args:
        walks: the walks that count.
        reference: the engine taken as right.
        given: what may be missed, see :func:`tolerance`.
        outputs: how many to look at, of all walks together; the first and the last of each are looked at anyway, and
            :data:`ANYWAY` of each where these are :data:`LOOKED` or more.
    """
    given = given or Tolerance()
    again: LogitSource | None = reference.afresh() if isinstance(reference, Keeping) else None
    chosen: Counter[int] = Counter()
    misses: dict[Op, list[Finding]] = {"prefill": [], "decode": []}
    looked: dict[Op, int] = {"prefill": 0, "decode": 0}
    far: list[tuple[int, Op, float]] = []
    foreign: list[Finding] = []
    idle: list[Finding] = []
    unsure: list[tuple[str, int, int]] = []
    each = _of_each(walks, outputs)
    for number, walk in enumerate(walks):
        drawn, before = _draw(len(walk.output), each - 1), len(misses["decode"])
        for op, at, ids, (token, logprob) in _places(walk, drawn):
            chosen[token] += 1
            looked[op] += 1
            place = Position(field=f"walk {number}, {op}, output {at}")
            row = _row(reference, ids, place)
            if not 0 <= token < len(row):
                foreign.append(_miss(reference, place, "a token of the vocabulary", f"token {token}"))
            else:
                found = list(_check_one(reference.name, row, (token, logprob), given.bound, place))
                if found and again is not None:
                    row = _row(again, ids, place)
                    found = list(_check_one(reference.name, row, (token, logprob), given.bound, place))
                misses[op] += found
                far.append((number, op, _off(row, (token, logprob))))
        most = allowed_of_one(len(drawn), given.share, len(walks))
        missed, where = len(misses["decode"]) - before, f"walk {number}, decode"
        if missed > most and given.odds(missed, len(drawn)) <= LUCK / len(walks):
            idle.append(_too_many(where, missed, len(drawn), most))
        elif missed > most:
            unsure.append((where, missed, len(drawn)))
    may = {op: allowed(looked[op], given.share) for op in looked}
    findings = [*foreign[:_NAMED], *_degenerate(chosen)]
    for op, found in misses.items():
        if len(found) > may[op] and given.odds(len(found), looked[op]) <= LUCK:
            findings += [_too_many(op, len(found), looked[op], may[op]), *found[:_NAMED]]
        elif len(found) > may[op]:
            unsure.insert(0, (op, len(found), looked[op]))
    loose = [] if findings or idle else [*_check_told(unsure, given)] or [*_check_tied(far, given)]
    counts = {op: (looked[op], len(misses[op]), may[op]) for op in looked}
    return Looked((*findings, *idle[:_NAMED], *loose), counts, tied=not loose)


def _places(walk: Walk, drawn: Sequence[int]) -> Iterator[tuple[Op, int, tuple[int, ...], tuple[int, float]]]:
    """(request, number of the output, ids in front of it, id and log-probability) of what is looked at in a walk."""
    earlier = sorted(secrets.SystemRandom().sample(range(len(walk.earlier)), min(EARLIER, len(walk.earlier))))
    for at in earlier:
        one = walk.earlier[at]
        yield "prefill", at, one.prompt, (one.next, one.next_logprob)
    yield "prefill", len(walk.earlier), walk.prompt, (walk.next, walk.next_logprob)
    for at in drawn:
        yield "decode", at, (*walk.prompt, walk.start, *walk.output[:at]), (walk.output[at], walk.logprobs[at])


def _check_told(unsure: list[tuple[str, int, int]], given: Tolerance) -> Iterator[Finding]:
    """Whether enough rows were graded to say of these misses that they are more than the engine's own way."""
    for where, missed, looked in unsure[:1]:
        yield Finding(
            Code.RUN_UNTIED,
            f"not scorable: outputs: {where}: {missed} of {looked} miss, and too few rows were graded ({given.rows}) "
            "to tell whether the engine is less right when it is timed: not checked",
            Position(field="outputs"),
            f"none that {given.beyond} in {given.rows} rows make unlikely, or enough rows to say that it is unlikely",
            f"odds of {given.odds(missed, looked):.2g}",
            hint="grade more rows: --depth up to --context, --rows, --prompts",
        )


def _check_tied(far: list[tuple[int, Op, float]], given: Tolerance) -> Iterator[Finding]:
    """Whether outputs, and those of each walk, keep to the ceiling as well as to the bound that is the engine's own."""
    if given.bound <= given.ceiling:
        return
    looked = Counter(op for _, op, _ in far)
    missed = Counter(op for _, op, off in far if off > given.ceiling)
    each = Counter(number for number, op, _ in far if op == "decode")
    idle = Counter(number for number, op, off in far if op == "decode" and off > given.ceiling)
    walks = [number for number in each if idle[number] > allowed_of_one(each[number], SHARE, len(each))]
    if walks or any(missed[op] > allowed(looked[op], SHARE) for op in looked):
        yield Finding(
            Code.RUN_UNTIED,
            f"not scorable: outputs: by its own parity record this engine may miss by {given.bound:.3g} nats, and "
            f"{missed.total()} of {looked.total()} outputs that were looked at are further off than {given.ceiling:g}",
            Position(field="outputs"),
            f"within {given.ceiling:g} nats, but for {allowed(looked['decode'], SHARE)} of {looked['decode']} "
            "ids of decode",
            f"{missed['decode']}",
        )


def _of_each(walks: Sequence[Walk], outputs: int) -> int:
    """Outputs of each walk to look at."""
    least = min(ANYWAY, -(-outputs * ANYWAY // LOOKED))
    wanted = max(least, -(-outputs // max(1, len(walks))))
    tokens = sum(len(walk.prompt) + 1 + len(walk.output) for walk in walks)
    spent = sum(len(walk.prompt) * min(EARLIER, len(walk.earlier)) for walk in walks)
    return min(wanted, max(ANYWAY, (TOKENS - spent) // max(1, tokens)))


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


def _draw(length: int, count: int) -> list[int]:
    """Positions of a decode: the last one, and others drawn."""
    drawn = {length - 1}
    while len(drawn) < min(count, length):
        drawn.add(secrets.randbelow(length))
    return sorted(drawn)


def _row(reference: LogitSource, ids: Sequence[int], place: Position) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = reference.rows(list(ids), 1, "prefill").values
    check_finite(values, "reference", str(place))
    row: np.ndarray[tuple[int], np.dtype[np.float64]] = log_softmax(values)[0]
    return row


def _check_one(
    name: str,
    row: np.ndarray[tuple[int], np.dtype[np.float64]],
    given: tuple[int, float],
    bound: float,
    place: Position,
) -> Iterator[Finding]:
    token, logprob = given
    best = int(np.argmax(row))
    if row[best] - row[token] > bound:
        yield Finding(
            Code.RUN_OUTPUT,
            f"a timed walk put out a token that {name} would not have chosen",
            place,
            f"token {best}, or one within {bound:.3g} nats of it",
            f"token {token}, {row[best] - row[token]:.3g} nats below",
        )
    elif abs(row[token] - logprob) > bound:
        yield Finding(
            Code.RUN_OUTPUT,
            f"a timed walk gave a token another log-probability than {name} does",
            place,
            f"{row[token]:.6f}, to within {bound:.3g} nats",
            f"{logprob:.6f}",
        )


def _off(row: np.ndarray[tuple[int], np.dtype[np.float64]], given: tuple[int, float]) -> float:
    """By how many nats an output is off: its token from the best one, or its log-probability."""
    token, logprob = given
    return float(max(row.max() - row[token], abs(row[token] - logprob)))


def _miss(reference: LogitSource, place: Position, expected: str, found: str) -> Finding:
    message = f"a timed walk put out a token that {reference.name} does not have"
    return Finding(Code.RUN_OUTPUT, message, place, expected, found)


def _too_many(op: str, missed: int, looked: int, may: int) -> Finding:
    return Finding(
        Code.RUN_OUTPUT,
        f"{op}: {missed} of {looked} outputs that were looked at are not what the reference gives",
        Position(field=op),
        f"at most {may} of {looked}",
        f"{missed}",
    )
