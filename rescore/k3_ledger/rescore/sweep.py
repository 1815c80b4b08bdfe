"""Tiers of every native receipt of a long ledger under one rule, in integers.

:func:`sweep` gives the same tiers as :func:`~k3_ledger.rescore.rescore.rescore` and no more than tiers: no steps, no
reasons. It decodes the few fields a rule reads and compares scaled integers; whatever is out of the ordinary goes to
the explaining path, which is the only one that writes verdicts. Tests hold the two equal. Memory does not grow with
the log, except by the superseded runs and the verdicts that it is asked to compare with.

Speeds are counts of ``10**-6`` units per second, as receipts are read everywhere; fractions of the rule are pairs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from k3_ledger.rescore.inputs import Figure
from k3_ledger.rescore.native import BESIDE, DECIMALS, NANOSECONDS, claimed, scored_at
from k3_ledger.rescore.replay import Gathering, Material
from k3_ledger.rescore.rescore import Judge, order_change
from k3_ledger.rescore.rules.verdict import BASELINE, NONE, REJECT, Verdict
from k3_ledger.rescore.slots import ABSENT, Track
from k3_ledger.verify.log import VerifiedLog

if TYPE_CHECKING:
    from k3_ledger.rescore.inputs import Parity
    from k3_ledger.rescore.rules.parameters import Rule

_SCALE: Final = 10**DECIMALS
_KL: Final = 40
"""Decimals that a divergence may have in a receipt."""
_POWERS: Final = tuple(10**exponent for exponent in range(_KL + 1))
"""``_POWERS[n]`` is how many units there are in the last of ``n`` decimals."""
NOT_SCORABLE: Final = "not scorable"


class _Sample(msgspec.Struct, gc=False):
    count: int
    duration_ns: int


class _Series(msgspec.Struct, gc=False):
    actor: str
    cache: str
    context: int | None
    context_filled: int | None
    inputs: str
    metric: str
    observer: str
    samples: list[_Sample]


class _Depth(msgspec.Struct, gc=False):
    depth: int
    kl_max: str
    rows: int
    top1_agree: int


class _Reference(msgspec.Struct, gc=False):
    independent: bool


class _Parity(msgspec.Struct, gc=False):
    depths: list[_Depth]
    path: str
    processing: str
    reference: _Reference


class _Model(msgspec.Struct, gc=False):
    name: str
    quant: str


class _Node(msgspec.Struct, gc=False):
    name: str


class _Machine(msgspec.Struct, gc=False):
    node: _Node


class _Body(msgspec.Struct, gc=False):
    machine: _Machine
    model: _Model | None
    parity: _Parity | None
    role: str
    round: str | None
    timing: list[_Series]


class _Run(msgspec.Struct, gc=False):
    body: _Body


_DECODER: Final = msgspec.json.Decoder(_Run)


@dataclass(slots=True)
class Sweep:
    """What a sweep found.

    Attributes:
        tiers: how many metrics of runs got each tier; :data:`NOT_SCORABLE` for those the rule does not score.
        changes: how many of those that had been judged changed, by kind of change; ``first`` for the others.
        slow: how many were out of the ordinary.
        changed: (index, tier before, tier now) of each run that changed.
    """

    tiers: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    changed: list[tuple[int, str, str]] = field(default_factory=list)


def sweep(log: VerifiedLog, rule: Rule) -> Sweep:
    """Judge every native receipt of a verified log under a rule, against what was judged of it before.

    Raises:
        TypeError: ``log`` is not a verified log.
        LedgerError: a pin or a rule entry is none.
        VerificationError: the bytes changed since they were verified.
    """
    if not isinstance(log, VerifiedLog):
        raise TypeError("only a verified log can be judged: pass what verify_log() returns")
    state = _State(rule)
    for index, data in log.raw():
        state.take(index, data, log)
    if state.judged_before:  # what is said of a run stands behind it: once more, knowing what will be said
        knowing = _State(rule)
        for entry in log.select(b'"kind":"verdict"', b'"kind":"supersede"'):
            knowing.note(entry)
        for index, data in log.raw():
            knowing.take(index, data, log)
        return knowing.result
    return state.result


class _State:
    """Everything that is carried from entry to entry."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.fast = _Compiled(rule)
        self.result = Sweep()
        self.gathering = Gathering(Material("verified ledger"))
        self.judge = Judge(rule, "own")
        self.before: dict[tuple[str, str], str] = {}
        self.superseded: set[str] = set()
        self.judged_before = False
        self.tracks: dict[tuple[Any, ...], Track] = {}

    def note(self, entry: Any) -> None:
        """Remember a verdict or a supersession, which stand behind the run they are about."""
        body = entry.entry.body
        if entry.entry.kind == "verdict":
            self.before[body.target, body.metric] = body.tier
        else:
            self.superseded.add(body.target)

    def take(self, index: int, data: bytes, log: VerifiedLog) -> None:
        """Judge a candidate, or note what any other entry adds."""
        if index in log.disowned:
            return
        at = data.rfind(b'"kind":"', -_TAIL)
        if not data.startswith(b'run"', at + 8):
            if data.startswith((b'verdict"', b'supersede"'), at + 8):
                self.judged_before = True
            elif not data.startswith(b'import"', at + 8):
                self.gathering.take(log.entry(index, data))
            return
        body = _DECODER.decode(data).body
        if body.role != "candidate":
            self.gathering.take(log.entry(index, data))
            return
        found = self._tiers(body, data) if self.fast.usable else None
        if found is None:
            self.result.slow += 1
            found = self._explained(index, data, log)
        if self.before:
            identity = sha256(data).hexdigest()
            for metric, tier in found:
                self._compare(index, self.before.get((identity, metric)), tier)
        for _, tier in found:
            self.result.tiers[tier] += 1
            if not self.before and tier != NOT_SCORABLE:
                self.result.changes["first"] += 1

    def _compare(self, index: int, before: str | None, tier: str) -> None:
        if tier == NOT_SCORABLE:
            return
        change = order_change(self.rule, before, tier)
        self.result.changes[change] += 1
        if before is not None and change != "unchanged":
            self.result.changed.append((index, before, tier))

    def _explained(self, index: int, data: bytes, log: VerifiedLog) -> list[tuple[str, str]]:
        """The same by the explaining path."""
        self.gathering.take(log.entry(index, data))
        candidates = self.gathering.material.candidates
        found = []
        for candidate in candidates:
            candidate.superseded = candidate.identity in self.superseded
            result = self.judge(candidate)[1]
            tier = result.tier if isinstance(result, Verdict) else NOT_SCORABLE
            found.append((candidate.run.track.metric, tier))
        candidates.clear()
        self.gathering.by_identity.clear()
        self.gathering.material.facts.clear()
        return found

    def _track(self, body: _Body, metric: str, context: int | None) -> Track:
        model = body.model
        key = (
            metric, context, model.name if model else ABSENT, model.quant if model else ABSENT, body.machine.node.name,
        )  # fmt: skip
        track = self.tracks.get(key)
        if track is None:
            track = self.tracks[key] = Track(*key)
        return track

    def _tiers(self, body: _Body, data: bytes) -> list[tuple[str, str]] | None:
        """(metric, tier) of every metric of a candidate; None when it is out of the ordinary."""
        groups: dict[tuple[str, int | None], list[_Series]] = {}
        for series in body.timing:
            if (
                series.actor == "subject"
                and series.inputs == "fresh"
                and series.cache != "warm"
                and series.metric not in BESIDE
            ):
                groups.setdefault(scored_at(series), []).append(series)
        scope = (self.rule.scope.metric, self.rule.scope.context)
        found = [(metric, NOT_SCORABLE) for metric, context in groups if (metric, context) != scope]
        own = groups.get(scope)
        if own is None:
            return found
        timing = _timing(own)
        if timing is None:
            return None
        tier = self._tier(body, timing, groups, data)
        if tier is None:
            return None
        # Keep the order in which the series name their metrics.
        at = list(groups).index(scope)
        found.insert(at, (scope[0], tier))
        return found

    def _tier(
        self, body: _Body, timing: _Timing, groups: dict[tuple[str, int | None], list[_Series]], data: bytes
    ) -> str | None:
        rule, gathering = self.rule, self.gathering
        track = self._track(body, rule.scope.metric, rule.scope.context)
        frontier = gathering.round_frontier.get((body.round, track)) if body.round else None
        frontier = frontier or gathering.pinned("frontier", track) or self.judge.best.get(track)
        reference = gathering.references.get(track) or gathering.pinned("reference", track)
        guarded, guard = None, None
        if rule.guard:
            other = (rule.guard.metric, rule.guard.context)
            if other in groups:
                guarded_timing = _timing(groups[other])
                if guarded_timing is None:
                    return None
                guarded = guarded_timing.speed
            guard_track = self._track(body, *other)
            guard = gathering.pinned("guard", guard_track) or gathering.pinned("frontier", guard_track)
        parity = body.parity if body.parity is not None and body.parity.processing == "raw" else None
        beside = gathering.round_parity.get(body.round) if body.round else None
        tier, clean = self.fast.tier(
            timing,
            frontier=frontier,
            reference=reference,
            parity=parity,
            beside=beside,
            guarded=guarded,
            guard=guard,
        )
        if clean and (frontier is None or timing.speed > frontier.value * _SCALE):
            known = self.judge.best.get(track)
            if known is None or timing.speed > known.value * _SCALE:
                identity = sha256(data).hexdigest()
                if identity not in self.superseded:
                    self.judge.best[track] = Figure(Fraction(timing.speed, _SCALE), "receipt", source=identity)
        return tier


_TAIL: Final = 420
"""More bytes than the fields behind ``body`` can take in an entry."""


@dataclass(slots=True)
class _Timing:
    """Scaled integers of one metric of one run.

    Attributes:
        speed: claim, in ``10**-6`` units per second.
        tokens: units that the longer run did more; 0 when there is no clock.
        twice_ns: twice the nanoseconds it took longer.
        jitter_ns: widest spread; None when not measured.
    """

    speed: int
    tokens: int
    twice_ns: int
    jitter_ns: int | None
    samples: int
    filled: bool


def _timing(series: list[_Series]) -> _Timing | None:
    """Read the series of one metric; None when the claim is absent or not over equal counts."""
    own: list[int] = []
    count = 0
    by_length: dict[int, list[int]] = {}
    filled = True
    for item in series:
        if item.context is not None and item.context_filled != item.context:
            filled = False
        if item.observer == "subject":
            for sample in claimed(item):
                if count not in {0, sample.count}:
                    return None
                count = sample.count
                own.append(sample.duration_ns)
        else:
            for sample in item.samples:
                by_length.setdefault(sample.count, []).append(sample.duration_ns)
    if not own:
        return None
    speed = _median_rate(count, own)
    samples = min([len(own), *map(len, by_length.values())])
    if len(by_length) < 2:
        return _Timing(speed, 0, 0, None, samples, filled)
    short, long = min(by_length), max(by_length)
    spreads = [max(rows) - min(rows) for rows in by_length.values() if len(rows) > 1]
    twice = _twice_median(by_length[long]) - _twice_median(by_length[short])
    return _Timing(speed, long - short, twice, max(spreads) if spreads else None, samples, filled)


def _median_rate(count: int, durations: list[int]) -> int:
    """Median of ``count`` units in each duration, in ``10**-6`` units per second, ties to even."""
    durations.sort()
    half = len(durations) // 2
    if len(durations) % 2:
        return _round(count * NANOSECONDS * _SCALE, durations[half])
    one, two = durations[half - 1], durations[half]
    return _round(count * NANOSECONDS * _SCALE * (one + two), 2 * one * two)


def _twice_median(durations: list[int]) -> int:
    durations.sort()
    half = len(durations) // 2
    return 2 * durations[half] if len(durations) % 2 else durations[half - 1] + durations[half]


def _round(numerator: int, denominator: int) -> int:
    """Nearest integer of a positive quotient; an exact tie goes to the even one."""
    whole, rest = divmod(numerator, denominator)
    twice = 2 * rest
    up = twice > denominator or (twice == denominator and whole % 2 == 1)
    return whole + 1 if up else whole


def _digits(text: str) -> tuple[int, int]:
    """(digits as one integer, number of decimals) of decimal text that is never negative."""
    whole, _, part = text.partition(".")
    return int(whole + part), len(part)


def _pair(value: Fraction) -> tuple[int, int]:
    return value.numerator, value.denominator


class _Compiled:
    """A rule's numbers as integers, and its gates over :class:`_Timing`."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.grades = rule.arithmetic == "measured-gain/1"
        # Rules that score the clock's number, or hold a second metric under a ceiling, are left to the other path.
        self.usable = not (rule.clock and rule.clock.reading == "clock") and (
            rule.ceiling is None or rule.ceiling.metrics == (rule.scope.metric,)
        )
        bars = rule.correctness
        # The bar as a whole number of units of the last place, for each number of decimals: n <= bar * 10**places.
        self.kl_bars = [int(bars.kl * power) if bars.kl >= 0 else -1 for power in _POWERS]
        self.top1 = _pair(bars.top1)
        self.depths = frozenset(bars.depths)
        self.steps = [(name, *_pair(bar)) for name, bar in rule.tiers.steps]
        self.significance = _pair(rule.tiers.significance)
        self.cap = _pair(rule.credit.cap)
        self.anchored = rule.credit.anchored(rule.scope.metric)
        ratchet = rule.ratchet
        least = Fraction(0) if ratchet is None else max(ratchet.floor, ratchet.block_from)
        self.ratchet_from = [-int(-least * power // 1) for power in _POWERS]
        self.block = (2, 1) if ratchet is None else _pair(ratchet.block)

    def tier(
        self,
        timing: _Timing,
        *,
        frontier: Figure | None,
        reference: Figure | None,
        parity: _Parity | None,
        beside: Parity | None,
        guarded: int | None,
        guard: Figure | None,
    ) -> tuple[str, bool]:
        """(tier, whether no gate refused or is open); ``not scorable`` where a reference is missing."""
        graded = self._grade(timing.speed, frontier, reference)
        if graded is None:
            return NOT_SCORABLE, False
        first = graded == BASELINE
        correct = self._correct(parity)
        outcomes = [correct, self._suite(parity)]
        if self.rule.sampling:
            outcomes.append(self._sampling(timing, parity))
        if self.rule.clock:
            outcomes.append(self._clock(timing))
        if self.rule.ceiling:
            ceiling = self._ceiling(timing.speed, frontier, reference)
            outcomes.append(True if ceiling is None and first and self.grades else ceiling)
        if self.rule.ratchet:
            outcomes.append(True if first and self.grades else self._ratchet(parity, beside))
        if self.rule.guard:
            outcomes.append(True if first and self.grades else self._guard(guarded, guard))
        clean = all(outcomes)
        if not self.grades:
            return (REJECT if correct is False else graded), clean
        if False in outcomes:
            return REJECT, False
        return (graded if clean else NONE), clean

    def _grade(self, speed: int, frontier: Figure | None, reference: Figure | None) -> str | None:
        value = frontier.value if frontier else 0
        if value <= 0:
            return BASELINE
        places = self.rule.precision.speed
        scaled, unit = (speed, _SCALE)
        if places < DECIMALS:
            scaled, unit = _round(speed, 10 ** (DECIMALS - places)), 10**places
        numerator, denominator = _pair(Fraction(value))
        difference, base = scaled * denominator - numerator * unit, numerator * unit
        share, whole = self.significance
        if difference * whole <= share * base:
            return NONE
        if not self.anchored:
            return self._name(difference, base)
        if reference is None:
            return None
        anchor, over = _pair(reference.value)
        # d/L and cap*g with one denominator each: the lesser is the credit.
        by_anchor = (difference * over, denominator * unit * anchor)
        by_cap = (difference * self.cap[0], base * self.cap[1])
        return self._name(*(by_anchor if by_anchor[0] * by_cap[1] <= by_cap[0] * by_anchor[1] else by_cap))

    def _name(self, numerator: int, denominator: int) -> str:
        for name, bar, whole in self.steps:
            if numerator * whole >= bar * denominator:
                return name
        return self.rule.tiers.floor

    def _correct(self, parity: _Parity | None) -> bool | None:
        if parity is None:
            return None
        share, whole = self.top1
        bars = self.kl_bars
        for depth in parity.depths:
            digits, places = _digits(depth.kl_max)
            if digits > bars[places] or depth.top1_agree * whole < share * depth.rows:
                return False
        return True

    def _suite(self, parity: _Parity | None) -> bool | None:
        if parity is None:
            return None
        rows = self.rule.correctness.rows
        missing = len(self.depths)
        for depth in parity.depths:
            if depth.rows < rows:
                return False
            missing -= depth.depth in self.depths
        if missing:
            return False
        return not self.grades or parity.path in {self.rule.scope.metric, "both"}

    def _sampling(self, timing: _Timing, parity: _Parity | None) -> bool | None:
        rule = self.rule.sampling
        assert rule is not None
        if timing.samples < rule.repetitions or (rule.filled and not timing.filled):
            return False
        if not rule.independent:
            return True
        return None if parity is None else parity.reference.independent

    def _clock(self, timing: _Timing) -> bool | None:  # noqa: PLR0911 - one return for each thing the clock can say
        rule = self.rule.clock
        assert rule is not None
        if self.rule.scope.metric not in rule.metrics or timing.tokens == 0:
            return None
        if timing.twice_ns <= 0 or (rule.margin is not None and timing.tokens < rule.margin):
            return False
        # claim * D and m, both in units * 2 ns * 10**-6
        claimed = timing.speed * timing.twice_ns
        margin = timing.tokens * 2 * NANOSECONDS * _SCALE
        bound, whole = _pair(rule.claim_over_clock)
        if claimed * whole > bound * margin:
            return False
        if rule.clock_over_claim is not None:
            bound, whole = _pair(rule.clock_over_claim)
            if margin * whole > bound * claimed:
                return False
        if rule.jitter_multiple is None:
            return True
        if timing.jitter_ns is None:
            return None
        times, whole = _pair(rule.jitter_multiple)
        # m/claim < k*J  <=>  m * 10**6 * 10**9 < k * J_ns * claim
        return timing.tokens * _SCALE * NANOSECONDS * whole >= times * timing.jitter_ns * timing.speed

    def _ceiling(self, speed: int, frontier: Figure | None, reference: Figure | None) -> bool | None:
        rule = self.rule.ceiling
        assert rule is not None
        base = reference.value if reference else None
        if rule.basis == "own-best" and frontier and frontier.value:
            base = frontier.value if base is None else max(base, frontier.value)
        if base is None or (rule.basis == "own-best" and not base):
            return None
        return speed * base.denominator * rule.multiple.denominator <= (
            rule.multiple.numerator * base.numerator * _SCALE
        )

    def _ratchet(self, parity: _Parity | None, beside: Parity | None) -> bool | None:
        if parity is None or beside is None or not beside.depths:
            return None
        theirs = {depth.tokens: depth.kl for depth in beside.depths}
        times, whole = self.block
        blocked = False
        for depth in parity.depths:
            kl = theirs.get(depth.depth)
            if kl is None:
                return None
            digits, places = _digits(depth.kl_max)
            if digits >= self.ratchet_from[places] and (
                digits * whole * kl.denominator > times * kl.numerator * _POWERS[places]
            ):
                blocked = True
        return not blocked

    def _guard(self, guarded: int | None, pin: Figure | None) -> bool | None:
        rule = self.rule.guard
        assert rule is not None
        if guarded is None or pin is None:
            return None
        least, whole = _pair(rule.least)
        return guarded * whole * pin.value.denominator >= least * pin.value.numerator * _SCALE
