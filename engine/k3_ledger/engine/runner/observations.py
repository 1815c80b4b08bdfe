"""What was timed in a run, and what rules will reckon from it. Nothing here measures."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.schemas.repetitions import middle_spread

if TYPE_CHECKING:
    from collections.abc import Sequence

Metric = Literal["prefill", "decode"]
Kind = Literal["short", "prompts", "long-decode"]
METRICS: Final[tuple[Metric, ...]] = ("prefill", "decode")
KINDS: Final[tuple[Kind, ...]] = ("short", "prompts", "long-decode")
Place = tuple[Metric, int]
"""An output of a walk: of which of its prompts, or which of decode's."""
LONGER: Final[dict[Metric, Kind]] = {"prefill": "prompts", "decode": "long-decode"}
"""Which kind of walk does the extra tokens of a metric."""
SIGNAL: Final = 4
"""How many standard errors a median must be away from a bound before that says anything."""
HIDDEN_SHARE: Final = 0.25
"""Share of prefill's time that may show up in the decode behind it before work was put off."""
BELIEVED: Final = 100
"""An engine's own time counts down to this part less than the controller's, a hundredth, and no further: half of the
gain that a rule takes for chance, so that no lie earns anything by itself, whatever the pipe costs."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed request, or several of prefill that count as one repetition.

    Attributes:
        count: tokens of the timed region.
        start_ns: controller's monotonic clock at its start.
        outer_ns: duration by that clock.
        self_ns: duration that the engine reports.
        requests: how many; times are theirs alone, and not what was between them.
    """

    count: int
    start_ns: int
    outer_ns: int
    self_ns: int
    requests: int = 1

    @property
    def taken_ns(self) -> int:
        """What counts of the engine's own time: all of it, but never under the controller's less a hundredth."""
        return max(self.self_ns, self.outer_ns - self.outer_ns // BELIEVED)


@dataclass(frozen=True, slots=True)
class Prefilled:
    """One prompt, from an empty sequence.

    Attributes:
        prompt: its ids.
        timed: how long it took.
        next: the id that prefill would go on with.
        next_logprob: log-probability of ``next``, as the engine reports it.
        reset_ns: duration of the reset in front by the controller's clock.
    """

    prompt: tuple[int, ...]
    timed: Timed
    next: int
    next_logprob: float
    reset_ns: int


@dataclass(frozen=True, slots=True)
class Walk:
    """Reset, prefill, decode: one sequence of tokens; behind other prompts where prefill is the longer one.

    Attributes:
        kind: which length is the longer one.
        prompt: ids of prefill, the last of them where there are several.
        start: the token that decode started from, drawn after prefill had answered.
        prefill, decode: their times; of prefill those of all prompts.
        next: the id that prefill would go on with, and its log-probability.
        next_logprob: log-probability of ``next``, as the engine reports it.
        output: ids that decode put out after ``start``.
        logprobs: of each, as the engine reports them.
        reset_ns: duration of reset by the controller's clock.
        earlier: the prompts in front of ``prompt``.
    """

    kind: Kind
    prompt: tuple[int, ...]
    start: int
    prefill: Timed
    decode: Timed
    next: int
    next_logprob: float
    output: tuple[int, ...]
    logprobs: tuple[float, ...]
    reset_ns: int
    earlier: tuple[Prefilled, ...] = ()

    @property
    def first_reset_ns(self) -> int:
        """Duration of the reset that no prefill is in front of."""
        return self.earlier[0].reset_ns if self.earlier else self.reset_ns

    def ids(self, place: Place) -> tuple[int, ...]:
        """What stood in front of an output."""
        op, at = place
        if op == "decode":
            return (*self.prompt, self.start, *self.output[:at])
        return self.earlier[at].prompt if at < len(self.earlier) else self.prompt

    def answer(self, place: Place) -> tuple[int, float]:
        """An output, and the log-probability that the engine gave with it."""
        op, at = place
        if op == "decode":
            return self.output[at], self.logprobs[at]
        one = self.earlier[at] if at < len(self.earlier) else self
        return one.next, one.next_logprob

    def timed(self, metric: Metric) -> Timed:
        """Times of one of its two requests."""
        return self.prefill if metric == "prefill" else self.decode


Where = Literal["one", "several", "between"]
"""What comes behind prefill: decode behind one prompt, decode behind several, a reset between prompts."""
Round = dict[Kind, Walk]
"""One walk of each kind."""


@dataclass(slots=True)
class Observations:
    """Everything that was timed; what counts apart from what does not.

    Attributes:
        seed: of prompts, lengths and order.
        load_ns: from the start of the process to its first answer.
        pings: empty requests right behind work, in nanoseconds: what pipe and scheduler cost.
        pilots: walks that sized what follows.
        warmups, rounds: rounds that were not counted, and those that count.
        shorter: rounds whose extra tokens turned out too few for the machine's jitter; they do not count either.
        short, extra: tokens of the short length and of what the longer one adds, by metric.
        jitter_ns: range of the pilots' times, by metric.
    """

    seed: int
    load_ns: int = 0
    pings: list[int] = field(default_factory=list)
    pilots: list[Walk] = field(default_factory=list)
    warmups: list[Round] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    shorter: list[Round] = field(default_factory=list)
    short: dict[Metric, int] = field(default_factory=dict)
    extra: dict[Metric, int] = field(default_factory=dict)
    jitter_ns: dict[Metric, int] = field(default_factory=dict)

    @property
    def noise_ns(self) -> int:
        """Upper quartile of the empty requests."""
        return sorted(self.pings)[len(self.pings) * 3 // 4]

    @property
    def walks(self) -> list[Walk]:
        """Counted walks in the order in which they ran."""
        return sorted((walk for one in self.rounds for walk in one.values()), key=lambda walk: walk.prefill.start_ns)

    @property
    def in_order(self) -> list[list[Walk]]:
        """Counted rounds, the walks of each in the order in which they ran."""
        return [sorted(one.values(), key=lambda walk: walk.prefill.start_ns) for one in self.rounds]

    def of(self, metric: Metric, *, extended: bool) -> list[Timed]:
        """Counted repetitions of a metric at one of its lengths. Decode behind several prompts belongs to neither."""
        if extended:
            return [walk.timed(metric) for walk in self.walks if walk.kind == LONGER[metric]]
        kinds = {"short", "long-decode"} if metric == "prefill" else {"short"}
        return [walk.timed(metric) for walk in self.walks if walk.kind in kinds]

    def costs(self, metric: Metric, clock: Literal["outer_ns", "self_ns"]) -> list[int]:
        """What the extra tokens took in each round: longer less short, so that slow drift of the machine cancels."""
        return [
            getattr(one[LONGER[metric]].timed(metric), clock) - getattr(one["short"].timed(metric), clock)
            for one in self.rounds
        ]

    @property
    def prompts(self) -> int:
        """Prompts of a walk of several."""
        return 1 + self.extra["prefill"] // self.short["prefill"]

    def stands_out(self, metric: Metric) -> bool:
        """Whether the cost of the extra tokens is many standard errors away from nothing."""
        costs = self.costs(metric, "outer_ns")
        return median(costs) >= SIGNAL * standard_error(costs)

    def claimed(self, metric: Metric) -> list[Timed]:
        """The repetitions that rules take a rate from."""
        short = self.of(metric, extended=False)
        return short if metric == "prefill" else [*short, *self.of(metric, extended=True)]

    def margin(self, metric: Metric) -> float:
        """How many times the jitter the extra tokens are worth at the rate that counts as claimed: as rules reckon it.

        Rules take prefill's rate from its shorter length alone, and as jitter the wider of both lengths' spreads.
        """
        short, long = self.of(metric, extended=False), self.of(metric, extended=True)
        per_token = statistics.median(one.taken_ns / one.count for one in self.claimed(metric))
        spread = max(middle_spread(sorted(one.outer_ns for one in some)) for some in (short, long))
        return self.extra[metric] * per_token / max(1, spread)

    def hidden(self, where: Where) -> list[int]:
        """Time that a prompt could have put off to what comes behind it, in each round.

        Behind one prompt, what decode costs for no token at all; behind several, what it costs more than behind one;
        between prompts, what a reset costs more than one that no prefill is in front of.
        """
        if where == "one":
            short, extra = self.short["decode"], self.extra["decode"]
            costs = self.costs("decode", "outer_ns")
            pairs = zip(self.rounds, costs, strict=True)
            return [one["short"].decode.outer_ns - cost * short // extra for one, cost in pairs]
        if where == "several":
            return [one["prompts"].decode.outer_ns - one["short"].decode.outer_ns for one in self.rounds]
        return [
            _between(one["prompts"]) - median([walk.first_reset_ns for walk in one.values()]) for one in self.rounds
        ]

    @property
    def hidden_bound(self) -> int:
        """The share of the time of one prompt that may be hidden there."""
        return int(HIDDEN_SHARE * median([one["short"].prefill.outer_ns for one in self.rounds]))

    @property
    def settled(self) -> bool:
        """Whether jitter is small enough for everything that will be asked of these times."""
        hidden = SIGNAL * standard_error(self.hidden("one")) <= self.hidden_bound
        return hidden and all(map(self.stands_out, METRICS))


def _between(walk: Walk) -> int:
    """What a reset behind a prompt took, as a rule."""
    return median([one.reset_ns for one in walk.earlier[1:]] + [walk.reset_ns])


def median(values: Sequence[int]) -> int:
    """The lower one of the two in the middle where their number is even."""
    return int(statistics.median_low(values))


def standard_error(values: Sequence[int]) -> int:
    """Of the median of ``values``: the range of their middle half over the root of their number."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return int((ordered[-1 - cut] - ordered[cut]) / math.sqrt(len(ordered)))
