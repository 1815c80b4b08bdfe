"""Series of a run as whole numbers: what is claimed, and what the clock outside says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from k3_ledger.rescore.native import NANOSECONDS
from k3_ledger.rescore.rules.judging import ALLOWANCE
from k3_ledger.rescore.slots import BESIDE, TOKEN
from k3_ledger.rescore.sweeping.numbers import SCALE, median_rate, pair, round_half_even, twice_median
from k3_ledger.schemas.repetitions import PREFILL, left_out, scored_at

if TYPE_CHECKING:
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.rescore.sweeping.fields import Sample, Series

Metric: TypeAlias = tuple[str, int | None]
"""A metric and its context."""
UNIT: Final = 2 * NANOSECONDS * SCALE
_MOST, _MOST_OF = pair(1 + ALLOWANCE)
_MOST_UNIT: Final = _MOST * UNIT


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


def group_series(timing: list[Series]) -> dict[Metric, list[Series]] | None:
    """What counts of each metric.

    None when some of it was measured under unusual conditions, or is no measurement, which is to be said.
    """
    groups: dict[Metric, list[Series]] = {}
    for series in timing:
        if series.actor != "subject" or (metric := series.metric) in BESIDE:
            continue
        # Unusual conditions are those that a track spells.
        if (
            series.inputs != "fresh"
            or series.cache != "none"
            or series.unit != TOKEN
            or series.batch != 1
            or series.processes != 1
        ):
            return None
        key = scored_at(series) if metric == PREFILL else (metric, series.context)
        if key in groups:
            groups[key].append(series)
        else:
            groups[key] = [series]
    return groups


def _claimed(series: Series, context: int | None) -> list[Sample]:
    """The repetitions that a claim is made of: :func:`~k3_ledger.rescore.native.claimed`, its least length at hand."""
    if series.metric != PREFILL:
        return series.samples
    return [sample for sample in series.samples if sample.count == context]


def read_speed(series: list[Series], context: int | None) -> int | None:
    """The claim of one metric in ``10**-6`` units per second; None when it is absent or not over equal counts.

    Args:
        series: all that counts of the metric.
        context: that it is scored at.
    """
    count, own = 0, []
    for item in series:
        if item.observer == "subject":
            for sample in _claimed(item, context):
                if sample.count != count:
                    if count:
                        return None
                    count = sample.count
                own.append(sample.duration_ns)
    return median_rate(count, own) if own else None


def read_timing(series: list[Series], context: int | None, *, middle: bool) -> Timing | None:
    """Read the series of a metric; None where :func:`read_speed` says so, and of a clock of more than two lengths.

    Args:
        series: all that counts of one metric.
        context: that it is scored at.
        middle: take the jitter of the middle half of the repetitions, as ``measured-gain/2`` does.
    """
    own: list[int] = []
    rows: list[int] = []
    by_length: dict[int, list[int]] = {}
    count = last = 0
    filled = True
    for item in series:
        behind = item.context
        if behind is not None and item.context_filled != behind:
            filled = False
        if item.observer != "subject":
            for sample in item.samples:
                length = sample.count
                if length != last:
                    last, rows = length, by_length.setdefault(length, [])
                rows.append(sample.duration_ns)
        else:
            for sample in _claimed(item, context):
                if sample.count != count:
                    if count:
                        return None
                    count = sample.count
                own.append(sample.duration_ns)
    if not own or len(by_length) > 2:
        return None
    return _timing(median_rate(count, own), len(own), by_length, filled=filled, middle=middle)


def _timing(speed: int, samples: int, by_length: dict[int, list[int]], *, filled: bool, middle: bool) -> Timing:
    spread = -1
    for rows in by_length.values():
        rows.sort()
        repeated = len(rows)
        if repeated < samples:  # noqa: PLR1730 - a call costs as much as all of this
            samples = repeated
        if repeated > 1:
            cut = left_out(repeated) if middle else 0
            between = rows[repeated - 1 - cut] - rows[cut]
            if between > spread:  # noqa: PLR1730 - likewise
                spread = between
    if len(by_length) < 2:
        return Timing(speed, 0, 0, None, samples, filled)
    (one, of_one), (other, of_other) = by_length.items()
    tokens, twice = other - one, twice_median(of_other) - twice_median(of_one)
    if tokens < 0:
        tokens, twice = -tokens, -twice
    return Timing(speed, tokens, twice, None if spread < 0 else spread, samples, filled)


class ClockNumbers:
    """A rule about the clock in integers."""

    def __init__(self, rule: Rule, metric: str) -> None:
        clock = rule.clock
        assert clock is not None
        self.reads = metric in clock.metrics
        self.bears_out = rule.bears_out and self.reads
        self.margin = clock.margin or 0
        # The margin in units * 2 ns * 10**-6 is tokens * UNIT: what it is multiplied by is worked out once.
        bound, self.over_whole = pair(clock.claim_over_clock)
        self.over = bound * UNIT
        self.under, self.times = clock.clock_over_claim, clock.jitter_multiple
        self.under_bound, whole = (0, 0) if self.under is None else pair(self.under)
        self.under_whole = whole * UNIT
        times, whole = (0, 0) if self.times is None else pair(self.times)
        self.twice_times, self.times_whole = 2 * times, whole * UNIT
        self.excuses = rule.excuses

    def count(self, timing: Timing) -> int:
        """How much of a claim counts: as :func:`~k3_ledger.rescore.rules.judging.count_claims`."""
        if not self.bears_out or timing.tokens == 0 or timing.twice_ns <= 0:
            return timing.speed
        most = timing.tokens * _MOST_UNIT
        if timing.speed * timing.twice_ns * _MOST_OF <= most:
            return timing.speed
        return round_half_even(most, timing.twice_ns * _MOST_OF)

    def check(self, timing: Timing) -> bool | None:
        """Hold a claim against the clock; None where there is none, or no jitter where the rule asks for it."""
        tokens = timing.tokens
        if not self.reads or tokens == 0:
            return None
        jitter, least = timing.jitter_ns, self.margin
        # m/claim < k*J  <=>  m * 10**6 * 10**9 < k * J_ns * claim
        hidden = (
            self.times is not None
            and jitter is not None
            and tokens * self.times_whole < self.twice_times * jitter * timing.speed
        )
        if self.excuses and (hidden or tokens < least):
            return self._excuse(timing)
        if timing.twice_ns <= 0 or tokens < least:
            return False
        claimed_tokens = timing.speed * timing.twice_ns  # claim * D in the margin's unit
        if claimed_tokens * self.over_whole > self.over * tokens:
            return False
        if self.under is not None and tokens * self.under_whole > self.under_bound * claimed_tokens:
            return False
        return None if self.times is not None and jitter is None else not hidden

    def _excuse(self, timing: Timing) -> bool | None:
        """What a reading over too little says: no, where it is beyond a bound by more than two medians jitter."""
        slack = 4 * (timing.jitter_ns or 0)
        if timing.twice_ns + slack <= 0:
            return False
        if timing.speed * (timing.twice_ns - slack) * self.over_whole > self.over * timing.tokens:
            return False
        claimed_tokens = timing.speed * (timing.twice_ns + slack)
        if self.under is not None and timing.tokens * self.under_whole > self.under_bound * claimed_tokens:
            return False
        return None
