"""What a rule reads of a run: exact figures, each with where it came from.

A figure that a receipt carries is ``receipt``; one that had to be taken from the shipped history is ``history`` and
marked inferred; a field that nobody has stays None, and the arithmetic then says that it is missing.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime
    from fractions import Fraction

    from k3_ledger.rescore.rules.repeats import Repeats
    from k3_ledger.rescore.slots import Track

Origin: TypeAlias = Literal["receipt", "rule", "file", "history", "pin"]
"""``receipt``: the run's own record; ``rule``: pinned when the rule was released; ``file``: a pins file;
``history``: the shipped history table; ``pin``: a ``pin`` entry of the ledger."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its origin.

    Attributes:
        inferred: True when no record of the run carries it.
        source: what to look up: a field, a commit, a file and line, the identity of an entry.
        weights: digest of the weights that it was measured on; None when no record says.
    """

    value: Fraction
    origin: Origin
    inferred: bool = False
    source: str = ""
    weights: str | None = None


@dataclass(frozen=True, slots=True)
class Mixed:
    """What a run would be held against although it was not measured on the run's weights, as far as anybody knows.

    Attributes:
        what: in words, such as ``the frontier run of its round``.
        weights: digest of the weights that it was measured on; None when no record says.
    """

    what: str
    weights: str | None

    def describe(self, own: str | None) -> str:
        """Why a run of the weights ``own`` is not scored, and what to do about it."""
        if own is None:
            return "not scorable: weights unknown: the run does not name its own"
        cure = "measure the frontier on these weights, and pin it"
        if self.weights is None:
            return f"not scorable: weights unknown: {self.what} names none, the run {short_weights(own)}: {cure}"
        theirs, mine = short_weights(self.weights), short_weights(own)
        return f"not scorable: other weights: {self.what} is of {theirs}, the run of {mine}: {cure}"


def short_weights(digest: str | None) -> str:
    """The start of a digest of weights, for people."""
    return "unknown weights" if digest is None else f"{digest[:12]}…"


@dataclass(frozen=True, slots=True)
class Depth:
    """Agreement with the reference at one depth.

    Attributes:
        tokens: length of the prompt.
        kl: largest divergence over the rows graded there, in nats.
        top1: share of the rows whose most likely token agrees.
        rows: how many rows were graded; None when no record says.
    """

    tokens: int
    kl: Fraction
    top1: Fraction
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Parity:
    """Agreement with the reference: a total, depths, or both.

    Attributes:
        kl: worst divergence as recorded in one number; None when only depths are recorded.
        top1: worst share of agreement as recorded in one number; None likewise.
        depths: ascending by tokens.
        path: path that was graded; None when no record says.
        independent: False when the reference is the project's own code; None when no record says.
        ground: the reference engine and the vocabulary; divergences on two grounds are no evidence about one another.
            None when no record says.
        source: where it was taken from, when not from a receipt.
        weights: digest of the weights that were graded; None when no record says.
    """

    kl: Fraction | None
    top1: Fraction | None
    depths: tuple[Depth, ...] = ()
    path: Literal["prefill", "decode", "both"] | None = None
    independent: bool | None = None
    source: str = ""
    weights: str | None = None
    ground: str | None = None

    def worst_kl(self) -> Fraction | None:
        """Greatest divergence of everything recorded."""
        return max([depth.kl for depth in self.depths] + ([] if self.kl is None else [self.kl]), default=None)

    def worst_top1(self) -> Fraction | None:
        """Least agreement of everything recorded."""
        return min([depth.top1 for depth in self.depths] + ([] if self.top1 is None else [self.top1]), default=None)


@dataclass(frozen=True, slots=True)
class Pair:
    """The difference of two runs of unequal length, of which one at least is neither the shortest nor the longest.

    Attributes:
        lengths: tokens that each of the two did, the shorter first.
        seconds: how much longer the longer took; may be zero or negative.
    """

    lengths: tuple[int, int]
    seconds: Fraction

    @property
    def tokens(self) -> int:
        """How many more tokens the longer run did."""
        return self.lengths[1] - self.lengths[0]


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The wall clock from outside, as the difference of the shortest and the longest of runs of unequal length.

    Attributes:
        tokens: how many more tokens the longer run did.
        seconds: how much longer it took; may be zero or negative, which is a reading too.
        jitter: greatest difference in seconds between runs of equal length; None when not measured.
        middle: the same without the runs that :func:`~k3_ledger.schemas.repetitions.middle_spread` leaves out.
        pairs: every other pair of lengths, where there are three or more.
    """

    tokens: int
    seconds: Fraction
    jitter: Fraction | None = None
    middle: Fraction | None = None
    pairs: tuple[Pair, ...] = ()

    def of(self, pair: Pair) -> ClockReading:
        """What another pair of the same runs reads, with the jitter of them all."""
        return ClockReading(pair.tokens, pair.seconds, self.jitter, self.middle)


@dataclass(frozen=True, slots=True)
class RunInputs:
    """One run as a rule sees it.

    Attributes:
        run: identifier of the receipt.
        track: what was measured on what.
        speed: scored value in units per second, as claimed by the program's own timed region.
        exact: the same before it was rounded, where the run's record holds what it was computed from.
        frontier: value to beat; 0 when nothing had been measured yet.
        reference: value of the other engine on the same track.
        parity: agreement with the reference engine.
        frontier_parity: the same of the frontier build in the same round.
        clock: reading of the wall clock.
        guarded: measured value of the guarded metric, by the same build.
        guard_pin: value that the guarded metric is held against, when the run's record or a caller names one.
        guard_measured: newest measurement of the guarded metric on the frontier build: that of the run's own round,
            else the last one before the run.
        guarded_clock: reading of the wall clock for the guarded metric.
        alarm: what the frontier run of the run's own round measured, where that is too far below the frontier that the
            run is held against for anything of the round to be scored; None where it is not.
        samples: least number of repetitions of any length timed; None when no record says.
        filled: whether all context was real tokens; None when no record says.
        at: when it was scored, for the rule in force.
        commit: commit of the frontier that was current, if known.
        pull_request: number of the pull request, if known.
        published: tier that was published for it; None also where its records disagree.
        contested: what these say of it then, in words; empty where they do not disagree.
        received: False of an imported run of which no receipt could be read: what is left are records beside it.
        inferred: names of fields among ``metric`` and ``context`` that no record carries.
        weights: digest of its weights; None when no record says.
        mixed: what it would be held against and is not of those weights; None where all is, or nobody asks.
        repeats: what the frontier runs of its round measured on its track and its weights; None where there are none,
            or nobody asks.
    """

    run: str
    track: Track
    speed: Fraction | None
    frontier: Figure | None
    reference: Figure | None
    parity: Parity | None
    frontier_parity: Parity | None = None
    clock: ClockReading | None = None
    guarded: Fraction | None = None
    guard_pin: Figure | None = None
    guard_measured: Figure | None = None
    guarded_clock: ClockReading | None = None
    alarm: Figure | None = None
    exact: Fraction | None = None
    samples: int | None = None
    filled: bool | None = None
    at: datetime | None = None
    commit: str | None = None
    pull_request: int | None = None
    published: str | None = None
    contested: str = ""
    received: bool = True
    inferred: tuple[str, ...] = ()
    weights: str | None = None
    mixed: Mixed | None = None
    repeats: Repeats | None = None

    def with_pins(
        self,
        *,
        frontier: Figure | None = None,
        reference: Figure | None = None,
        guard_pin: Figure | None = None,
        guard_measured: Figure | None = None,
    ) -> RunInputs:
        """The same run held against other figures; None leaves one as it is."""
        return dataclasses.replace(
            self,
            frontier=frontier or self.frontier,
            reference=reference or self.reference,
            guard_pin=guard_pin or self.guard_pin,
            guard_measured=guard_measured or self.guard_measured,
        )
