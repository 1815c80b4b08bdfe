"""What a receipt comes to under a rule before anything else of the ledger is known: its numbers, and the gates that
need no pin.

Pure functions of a chunk's bytes and a rule, so any process can do them, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from k3_ledger.rescore.native import BESIDE, NANOSECONDS, PREFILL, claimed, scored_at
from k3_ledger.rescore.rules.parameters import BY_MIDDLE, GRADING
from k3_ledger.rescore.slots import ABSENT, TOKEN, Track
from k3_ledger.rescore.sweeping.fields import decode_lines
from k3_ledger.rescore.sweeping.numbers import SCALE, lower_text, median_rate, pair, twice_median, upper_text
from k3_ledger.schemas.repetitions import left_out

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.fields import Body, Entry, Graded, Series

Place: TypeAlias = tuple[str, str, str]
"""Model, quantisation and node of a run."""
Unscored: TypeAlias = tuple[int, tuple[str, ...]]
"""(offset, metrics) of a candidate that the rule does not score."""
Depths: TypeAlias = tuple[int, ...]
JUDGEMENTS: Final = frozenset({"verdict", "supersede"})
"""Kinds that settle nothing for the runs behind them, and say something of those in front."""


class Scored(msgspec.Struct, gc=False, frozen=True):
    """A candidate that the rule scores.

    Attributes:
        metrics: its metrics in order, the scored one among them.
        at: which of them is scored.
        speed: claim, in ``10**-6`` units per second.
        correct: False when the bars on agreement refuse it.
        gates: all gates that need no pin: False when one refuses, None when one has no evidence.
        depths: what agreement was graded at, for the ratchet; empty without parity or without a round to compare with.
        kls: (depth, divergence) of those that diverge enough for the ratchet to look at.
        guarded: claim of the guarded metric likewise, None when there is none.
    """

    offset: int
    metrics: tuple[str, ...]
    at: int
    place: Place
    round: str | None
    speed: int
    correct: bool | None
    gates: bool | None
    depths: Depths
    kls: tuple[tuple[int, str], ...]
    guarded: int | None


class Agreement(msgspec.Struct, gc=False, frozen=True):
    """Agreement of a round's frontier build: divergence, agreeing rows and rows at each depth, all as recorded."""

    path: str
    independent: bool
    depths: Depths
    kls: tuple[str, ...]
    agree: tuple[int, ...]
    rows: tuple[int, ...]


class Standing(msgspec.Struct, gc=False, frozen=True):
    """A run of a round's frontier build or of the other engine, which later runs are held against.

    Attributes:
        speeds: (metric, context, claim in ``10**-6`` units per second) of each metric, in order.
        agreement: None without parity whose rows are raw.
    """

    offset: int
    role: str
    place: Place
    round: str | None
    speeds: tuple[tuple[str, int | None, int], ...]
    agreement: Agreement | None


@dataclass(slots=True)
class Prepared:
    """A chunk's lines, sorted by what is still to be done about them.

    Attributes:
        items: in order: what the rule scores; (offset, metrics) of a candidate that it does not score; what later
            runs are held against; the offset of what has to be read whole, negative (``~offset``) where that is a
            candidate out of the ordinary.
        judged: whether a verdict or a supersession is among the lines.
        imports: offsets of the imports among them.
    """

    items: list[Scored | Unscored | Standing | int]
    judged: bool = False
    imports: list[int] = field(default_factory=list)


class Timing(msgspec.Struct, gc=False):
    """Scaled integers of one metric of one run.

    Attributes:
        speed: claim, in ``10**-6`` units per second.
        tokens: units that the longer run did more; 0 when there is no clock.
        twice_ns: twice the nanoseconds it took longer.
        jitter_ns: widest spread, of all runs or of their middle half; None when not measured.
        samples: least number of repetitions of any length.
    """

    speed: int
    tokens: int
    twice_ns: int
    jitter_ns: int | None
    samples: int
    filled: bool


class Preparer:
    """A rule, ready to prepare chunks under. It can be pickled."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.scope = (rule.scope.metric, rule.scope.context)
        self.guard = (rule.guard.metric, rule.guard.context) if rule.guard else None
        self.grades = rule.arithmetic in GRADING
        self._middle = rule.arithmetic in BY_MIDDLE
        self.sampling = rule.sampling if self.grades else None
        self.kl_bar = upper_text(rule.correctness.kl) or ""
        self.top1 = pair(rule.correctness.top1)
        self.rows = rule.correctness.rows
        self.depths = frozenset(rule.correctness.depths)
        self.paths = frozenset({rule.scope.metric, "both"})
        # Rules that score the clock's number, hold a second metric under a ceiling, or have a bar on divergence that
        # is no ordinary one, are left to the explaining path.
        self.usable = (
            not (rule.clock and rule.clock.reading == "clock")
            and (rule.ceiling is None or rule.ceiling.metrics == (rule.scope.metric,))
            and bool(self.kl_bar)
            and (rule.ratchet is None or ratchet_from(rule) is not None)
        )
        self.ratchets = rule.ratchet is not None
        self.from_ = ratchet_from(rule) or ""
        self._depths: dict[Depths, Depths] = {}
        self._spellable: dict[Place, bool] = {}
        self._clock = _ClockNumbers(rule) if rule.clock else None

    def prepare(self, chunk: bytes) -> Prepared:
        """Read every line of a verified chunk."""
        reading = self.start()
        for offset, line in enumerate(decode_lines(chunk)):
            reading.take(offset, line.entry)
        return reading.finish()

    def start(self) -> Preparing:
        """Begin with a chunk."""
        return Preparing(self)

    def candidate(self, offset: int, body: Body) -> Scored | Unscored | int:
        """What the body of a candidate on line ``offset`` comes to: an item of :class:`Prepared`."""
        groups = _groups(body)
        if not groups:
            return ~offset
        metrics = tuple([metric for metric, _ in groups])
        own = groups.get(self.scope)
        if own is None:
            return offset, metrics
        place = _place(body)
        spellable = self._spellable.get(place)
        if spellable is None:
            spellable = self._spellable[place] = Track(*self.scope, *place).spellable
        if not spellable:
            return ~offset
        timing = read_timing(own, middle=self._middle)
        guarded = read_timing(groups[self.guard], middle=self._middle) if self.guard in groups else None
        if timing is None or (guarded is None and self.guard in groups):
            return ~offset
        parity = body.parity
        if parity is not None and parity.processing != "raw":
            parity = None
        correct, suite = (None, None) if parity is None else self._parity(parity)
        depths: Depths = ()
        kls: tuple[tuple[int, str], ...] = ()
        if parity is not None and body.round is not None and self.ratchets:
            depths, least = self._depths_of(parity), self.from_
            kls = tuple([(depth.depth, depth.kl_max) for depth in parity.depths if depth.kl_max >= least])
        return Scored(
            offset,
            metrics,
            0 if len(metrics) == 1 else list(groups).index(self.scope),
            place,
            body.round,
            timing.speed,
            correct,
            self._gates(timing, parity, correct, suite),
            depths,
            kls,
            None if guarded is None else guarded.speed,
        )

    def standing(self, offset: int, body: Body) -> Standing | int:
        """What later runs are held against of a run that is no candidate: an item of :class:`Prepared`."""
        speeds = []
        groups = _groups(body)
        if groups is None:
            return offset
        for (metric, context), series in groups.items():
            timing = read_timing(series, middle=self._middle)
            if timing is None:
                return offset
            speeds.append((metric, context, timing.speed))
        parity = body.parity
        agreement: Agreement | None = None
        if parity is not None and parity.processing == "raw":
            agreement = Agreement(
                parity.path,
                parity.reference.independent,
                self._depths_of(parity),
                tuple([depth.kl_max for depth in parity.depths]),
                tuple([depth.top1_agree for depth in parity.depths]),
                tuple([depth.rows for depth in parity.depths]),
            )
        return Standing(offset, body.role or "", _place(body), body.round, tuple(speeds), agreement)

    def _depths_of(self, parity: Graded) -> Depths:
        """One tuple for each suite: there are few of them."""
        depths = tuple([depth.depth for depth in parity.depths])
        return self._depths.setdefault(depths, depths)

    def _parity(self, parity: Graded) -> tuple[bool, bool]:
        """(correct, suite) of rows that count."""
        (share, whole), bar, least, depths = self.top1, self.kl_bar, self.rows, self.depths
        correct = suite = True
        missing = len(depths)
        for depth in parity.depths:
            rows = depth.rows
            if depth.kl_max > bar or depth.top1_agree * whole < share * rows:
                correct = False
            if rows < least:
                suite = False
            if depth.depth in depths:
                missing -= 1
        if missing or (self.grades and parity.path not in self.paths):
            suite = False
        return correct, suite

    def _gates(self, timing: Timing, parity: Graded | None, correct: bool | None, suite: bool | None) -> bool | None:
        """All gates that need no pin, in one word."""
        if correct is False or suite is False:
            return False
        open_ = parity is None
        sampling = self.sampling
        if sampling is not None:
            if timing.samples < sampling.repetitions or (sampling.filled and not timing.filled):
                return False
            if sampling.independent and parity is not None and not parity.reference.independent:
                return False
        if self._clock is not None:
            clock = self._clock.check(timing)
            if clock is False:
                return False
            open_ = open_ or clock is None
        return None if open_ else True


class Preparing:
    """One chunk under a rule, entry by entry; the entries are those of :mod:`fields` or any that have more fields."""

    def __init__(self, preparer: Preparer) -> None:
        self._candidate = preparer.candidate if preparer.usable else _out_of_the_ordinary
        self._standing = preparer.standing
        self._prepared = Prepared([])
        self._add = self._prepared.items.append

    def take(self, offset: int, entry: Entry) -> None:
        """Read the entry on line ``offset`` of the chunk."""
        kind = entry.kind
        if kind == "run":
            body = entry.body
            self._add(self._candidate(offset, body) if body.role == "candidate" else self._standing(offset, body))
        elif kind == "import":
            self._prepared.imports.append(offset)
        elif kind in JUDGEMENTS:
            self._prepared.judged = True
        else:
            self._add(offset)

    def finish(self) -> Prepared:
        """All of the chunk."""
        return self._prepared


def _out_of_the_ordinary(offset: int, _: Body) -> int:
    return ~offset


def _is_usual(series: Series) -> bool:
    """Whether the conditions of a series with fresh inputs are those that a track does not spell."""
    return series.unit == TOKEN and series.batch == 1 and series.processes == 1 and series.cache == "none"


def ratchet_from(rule: Rule) -> str | None:
    """The least divergence that the ratchet looks at, as :func:`lower_text`; None without one, or when it is none."""
    ratchet = rule.ratchet
    return None if ratchet is None else lower_text(max(ratchet.floor, ratchet.block_from))


def prepare(preparer: Preparer, chunk: bytes) -> Prepared:
    """:meth:`Preparer.prepare` for another process to call."""
    return preparer.prepare(chunk)


class _ClockNumbers:
    """A rule about the clock in integers."""

    def __init__(self, rule: Rule) -> None:
        clock = rule.clock
        assert clock is not None
        self.reads = rule.scope.metric in clock.metrics
        self.margin = clock.margin or 0
        self.over = pair(clock.claim_over_clock)
        self.under = None if clock.clock_over_claim is None else pair(clock.clock_over_claim)
        self.times = None if clock.jitter_multiple is None else pair(clock.jitter_multiple)
        self.excuses = rule.excuses

    def check(self, timing: Timing) -> bool | None:  # noqa: PLR0911 - one return for each thing the clock can say
        """Hold a claim against the clock; None where there is none, or no jitter where the rule asks for it."""
        tokens = timing.tokens
        if not self.reads or tokens == 0:
            return None
        if self.excuses and self._is_short(timing):
            return self._excuse(timing)
        if timing.twice_ns <= 0 or tokens < self.margin:
            return False
        # claim * D and m, both in units * 2 ns * 10**-6
        claimed_tokens = timing.speed * timing.twice_ns
        margin = tokens * (2 * NANOSECONDS * SCALE)
        bound, whole = self.over
        if claimed_tokens * whole > bound * margin:
            return False
        if self.under is not None:
            bound, whole = self.under
            if margin * whole > bound * claimed_tokens:
                return False
        if self.times is None:
            return True
        if timing.jitter_ns is None:
            return None
        times, whole = self.times
        # m/claim < k*J  <=>  m * 10**6 * 10**9 < k * J_ns * claim
        return margin * whole >= 2 * times * timing.jitter_ns * timing.speed

    def _is_short(self, timing: Timing) -> bool:
        """Whether a reading is over too little to prove anything."""
        if timing.tokens < self.margin:
            return True
        if self.times is None or timing.jitter_ns is None:
            return False
        times, whole = self.times
        return timing.tokens * NANOSECONDS * SCALE * whole < times * timing.jitter_ns * timing.speed

    def _excuse(self, timing: Timing) -> bool | None:
        """What such a reading says: no, where it is beyond a bound by more than two medians jitter; else nothing."""
        slack = 4 * (timing.jitter_ns or 0)
        margin = timing.tokens * (2 * NANOSECONDS * SCALE)
        if timing.twice_ns + slack <= 0:
            return False
        bound, whole = self.over
        if timing.speed * (timing.twice_ns - slack) * whole > bound * margin:
            return False
        if self.under is not None:
            bound, whole = self.under
            if margin * whole > bound * timing.speed * (timing.twice_ns + slack):
                return False
        return None


def _groups(body: Body) -> dict[tuple[str, int | None], list[Series]] | None:
    """What counts of each metric, by (metric, context).

    None when some of it was measured under unusual conditions, or is no measurement, which is to be said.
    """
    groups: dict[tuple[str, int | None], list[Series]] = {}
    for series in body.timing or ():
        metric = series.metric
        if series.inputs == "fresh" and series.actor == "subject" and series.cache != "warm" and metric not in BESIDE:
            if not _is_usual(series):
                return None
            key = scored_at(series) if metric == PREFILL else (metric, series.context)
            if key in groups:
                groups[key].append(series)
            else:
                groups[key] = [series]
        elif series.actor == "subject" and metric not in BESIDE:
            return None
    return groups


def _place(body: Body) -> Place:
    model = body.model
    assert body.machine is not None, "a run that verified says where it ran"
    node = body.machine.node.name
    return (model.name, model.quant, node) if model else (ABSENT, ABSENT, node)


def read_timing(series: list[Series], *, middle: bool) -> Timing | None:
    """Read the series of one metric; None when the claim is absent or not over equal counts.

    Args:
        series: all that counts of one metric.
        middle: take the jitter of the middle half of the repetitions, as ``measured-gain/2`` does.
    """
    own: list[int] = []
    count = 0
    by_length: defaultdict[int, list[int]] = defaultdict(list)
    filled = True
    for item in series:
        context = item.context
        if context is not None and item.context_filled != context:
            filled = False
        if item.observer == "subject":
            for sample in item.samples if item.metric != PREFILL else claimed(item):
                if sample.count != count:
                    if count:
                        return None
                    count = sample.count
                own.append(sample.duration_ns)
        else:
            for sample in item.samples:
                by_length[sample.count].append(sample.duration_ns)
    if not own:
        return None
    return _timing(count, own, by_length, filled=filled, middle=middle)


def _timing(count: int, own: list[int], by_length: dict[int, list[int]], *, filled: bool, middle: bool) -> Timing:
    samples, spread = len(own), -1
    for rows in by_length.values():
        rows.sort()
        repeated = len(rows)
        cut = left_out(repeated) if middle else 0
        if repeated > 1 and rows[-1 - cut] - rows[cut] > spread:
            spread = rows[-1 - cut] - rows[cut]
        if repeated < samples:  # noqa: PLR1730 - a call costs as much as all of this
            samples = repeated
    speed = median_rate(count, own)
    if len(by_length) < 2:
        return Timing(speed, 0, 0, None, samples, filled)
    short, long = min(by_length), max(by_length)
    twice = twice_median(by_length[long]) - twice_median(by_length[short])
    return Timing(speed, long - short, twice, None if spread < 0 else spread, samples, filled)
