"""What a rule reads of a ``run`` receipt: raw nanoseconds and counts become exact speeds and clock readings.

- Only repetitions with fresh inputs and no warm result cache count; a series of anything else is as good as absent.
- The claim is the program's own timed region (observer ``subject``): the median of the rates of its repetitions.
- Decode's context is the tokens in front of the timed region, as recorded. Prefill's is the number of tokens that the
  timed region prefills: the shortest length of its series. Longer ones, as a rule several prompts of that length, are
  there for the clock, not for the claim.
  Prefill with tokens in front of it is another metric, named after them.
- The clock is another process's (observer ``controller``), over whole runs of two lengths: the difference of their
  median durations for the difference of their counts, and as jitter the widest spread among runs of equal length:
  of all of them, and of their middle half. Of more lengths the shortest and the longest are the reading, and every
  other pair is read too (:mod:`k3_ledger.rescore.rules.clock`).
- Parity counts only when its rows are raw distributions. A reference of the program's own name is not independent of
  it, whatever is said.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from sys import intern
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from k3_ledger.rescore.exact import quantize
from k3_ledger.rescore.inputs import ClockReading, Depth, Pair, Parity
from k3_ledger.rescore.slots import ABSENT, BESIDE, Track, conditions
from k3_ledger.schemas.repetitions import PREFILL, middle_spread, scored_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NANOSECONDS: Final = 10**9
Observer: TypeAlias = Literal["controller", "subject"]
"""Whose clock it was: another process's, or the program's own."""
MOST_LENGTHS: Final = 32
"""Lengths of which a clock is read, every pair of them; one of more is none."""
DECIMALS: Final = 6
"""Decimals that a measured speed is taken to wherever it is written down or compared."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric of one run.

    Attributes:
        speed: the claim in units per second; None when the program timed nothing itself.
        clock: the wall clock's reading; None when no other process timed runs of two lengths.
        samples: least number of repetitions of any length that counts.
        filled: whether all context was real tokens.
        exact: the claim before it was rounded.
    """

    track: Track
    speed: Fraction | None
    clock: ClockReading | None
    samples: int
    filled: bool
    exact: Fraction | None = None


@dataclass(frozen=True, slots=True)
class ActorSpeed:
    """How fast one actor was by one clock.

    Attributes:
        speed: median rate in units per second, to six decimals.
        primary: whether this is what the actor is known by: its own clock where it has one, else the one outside.
        beside: for each other actor that repeated the same as often, the median of the quotients of their rates,
            repetition by repetition. Actors that take turns share what disturbs the machine; their quotients do not.
        clock: the wall clock's reading of an actor beside the program, as :class:`Measured` has the program's own.
    """

    actor: str
    observer: Observer
    track: Track
    speed: Fraction
    primary: bool
    beside: tuple[tuple[str, Fraction], ...] = ()
    clock: ClockReading | None = None


def read_run(body: Any) -> list[Measured]:
    """The metrics of a ``run`` body (struct or model), in the order of its series.

    A metric and context that a run timed under several conditions that a rule could score has no one speed.
    """
    groups: dict[Track, list[Any]] = {}
    for series in body.timing:
        if series.actor == "subject" and _counts(series):
            groups.setdefault(_track(body, series), []).append(series)
    at = Counter((track.metric, track.context) for track in groups if track.scorable)
    return [
        replace(_measured(track, series), speed=None)
        if track.scorable and at[track.metric, track.context] > 1
        else _measured(track, series)
        for track, series in groups.items()
    ]


def read_actors(body: Any) -> list[ActorSpeed]:
    """Every actor that a ``run`` body timed, by either clock, in the order of its series."""
    rates: dict[tuple[str, Track], dict[Observer, list[Fraction]]] = {}
    outside: dict[tuple[str, Track], list[Any]] = {}
    for series in body.timing:
        # What is no token is done on the same input by nature: a ledger is verified again and again.
        if series.cache != "warm" and (series.unit != "token" or series.inputs == "fresh"):
            key = series.actor, _track(body, series)
            rates.setdefault(key, {}).setdefault(series.observer, []).extend(map(_rate, claimed(series)))
            if series.actor != "subject" and series.observer == "controller":
                outside.setdefault(key, []).extend(series.samples)
    return [
        ActorSpeed(
            actor, observer, track, quantize(median(rows), DECIMALS),
            primary=observer == _primary(found), beside=_beside(actor, track, rows, rates),
            clock=_clock(_by_length(outside.get((actor, track), ()))),
        )
        for (actor, track), found in rates.items()
        for observer, rows in found.items()
    ]  # fmt: skip


def _primary(found: Mapping[Observer, object]) -> Observer:
    return "subject" if "subject" in found else "controller"


def _beside(
    actor: str, track: Track, mine: list[Fraction], rates: Mapping[tuple[str, Track], Mapping[Observer, list[Fraction]]]
) -> tuple[tuple[str, Fraction], ...]:
    return tuple(
        (other, median([one / two for one, two in zip(mine, theirs, strict=True)]))
        for (other, theirs_on), found in rates.items()
        if other != actor and theirs_on == track and len(theirs := found[_primary(found)]) == len(mine)
    )


def _counts(series: Any) -> bool:
    """Whether a series is a measurement: fresh inputs, no cache that answers for the work, and not noted beside it."""
    return bool(series.inputs == "fresh" and series.cache != "warm" and series.metric not in BESIDE)


def list_left_out(body: Any) -> list[tuple[str, str]]:
    """(metric, why it is no measurement) of what a ``run`` body timed of the program and :func:`read_run` leaves out.

    What is noted beside a run is left out in silence, unless there is nothing else.
    """
    own = [series for series in body.timing if series.actor == "subject"]
    timed = [series for series in own if series.metric not in BESIDE]
    if not timed:
        return [(ABSENT, "only what is noted beside a run" if own else "nothing of the program was timed")]
    measured = {scored_at(series) for series in timed if _counts(series)}
    found: dict[tuple[str, int | None], str] = {}
    for series in timed:
        if scored_at(series) not in measured:
            reason = "a warm cache may have answered" if series.cache == "warm" else "its inputs were not fresh"
            found.setdefault(scored_at(series), reason)
    return [(metric, reason) for (metric, _), reason in found.items()]


def _track(body: Any, series: Any) -> Track:
    model = body.model
    metric, context = scored_at(series)
    return Track(
        metric,
        context,
        ABSENT if model is None else model.name,
        ABSENT if model is None else model.quant,
        body.machine.node.name,
        conditions(
            metric, unit=series.unit, batch=series.batch, processes=series.processes,
            cache=series.cache, inputs=series.inputs,
        ),
    )  # fmt: skip


def claimed(series: Any) -> list[Any]:
    """The repetitions that a claim is made of: those of prefill's shortest length, and all of any other metric."""
    if series.metric != PREFILL:
        return list(series.samples)
    length = min([sample.count for sample in series.samples])
    return [sample for sample in series.samples if sample.count == length]


def _rate(sample: Any) -> Fraction:
    return Fraction(sample.count * NANOSECONDS, sample.duration_ns)


def read_parity(body: Any) -> Parity | None:
    """Parity of a ``run`` body; None when there is none, or when its rows were processed before they were compared."""
    parity = body.parity
    if parity is None or parity.processing != "raw":
        return None
    depths = tuple(
        Depth(depth.depth, Fraction(depth.kl_max), Fraction(depth.top1_agree, depth.rows), depth.rows)
        for depth in parity.depths
    )
    reference = parity.reference
    return Parity(
        None,
        None,
        depths,
        parity.path,
        independent=is_independent(reference, body.subject.name),
        weights=read_weights(body),
        ground=read_ground(reference.name, parity.vocabulary),
    )


def is_independent(reference: Any, subject: str) -> bool:
    """Whether the reference is said not to be the project's own code, and is not the measured program itself."""
    return bool(reference.independent) and reference.name.lower() != subject.lower()


def read_ground(reference: str, vocabulary: int) -> str:
    """What divergences must share to be compared. Prompts are drawn anew for every run, so that they are no part."""
    return intern(f"{reference} over {vocabulary} tokens")


def read_commit(body: Any) -> str | None:
    """Commit of the tree that a ``run`` body's program was built from; None where it names none."""
    source = body.subject.source
    return None if source is None or source.commit is None else str(source.commit)


def read_weights(body: Any) -> str | None:
    """Digest of the weights that a ``run`` body measured; None where it names no model. Most runs share one."""
    return None if body.model is None else intern(body.model.sha256)


def _measured(track: Track, series: list[Any]) -> Measured:
    own = [sample for item in series if item.observer == "subject" for sample in claimed(item)]
    outside = [sample for item in series if item.observer == "controller" for sample in item.samples]
    by_length = _by_length(outside)
    counts = [len(own)] if own else []
    counts += [len(durations) for durations in by_length.values()]
    exact = median([_rate(sample) for sample in own]) if own else None
    return Measured(
        track,
        None if exact is None else quantize(exact, DECIMALS),
        _clock(by_length),
        min(counts),
        all(item.context is None or item.context_filled == item.context for item in series),
        exact,
    )


def _by_length(samples: Iterable[Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for sample in samples:
        found.setdefault(sample.count, []).append(sample.duration_ns)
    return found


def _clock(by_length: dict[int, list[int]]) -> ClockReading | None:
    if not 2 <= len(by_length) <= MOST_LENGTHS:
        return None
    lengths = sorted(by_length)
    middles = {length: median(map(Fraction, durations)) for length, durations in by_length.items()}
    short, long = lengths[0], lengths[-1]
    difference = middles[long] - middles[short]
    pairs = tuple(
        Pair((one, two), (middles[two] - middles[one]) / NANOSECONDS)
        for one, two in combinations(lengths, 2)
        if (one, two) != (short, long)
    )
    repeated = [sorted(durations) for durations in by_length.values() if len(durations) > 1]
    if not repeated:
        return ClockReading(long - short, difference / NANOSECONDS, pairs=pairs)
    jitter = max([durations[-1] - durations[0] for durations in repeated])
    middle = max([middle_spread(durations) for durations in repeated])
    return ClockReading(
        long - short, difference / NANOSECONDS, Fraction(jitter, NANOSECONDS), Fraction(middle, NANOSECONDS), pairs
    )


def median(values: Iterable[Fraction]) -> Fraction:
    """Middle of the sorted values, or the mean of the two in the middle; there must be at least one."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
