"""Takes the measurement: which requests, in which order, how many tokens, and what is kept of each.

One repetition is a *walk*: reset, prefill, decode. Nothing in a walk goes untimed, so work cannot be moved to where no
clock runs. Three kinds of walk differ in one length each, and their differences are what extra tokens cost, whatever a
call costs by itself. They run in rounds, in an order drawn for each round.

What an engine could know beforehand is taken from it: prompts are fresh, and every third one differs from the one of
its length before in two tokens only, so that an answer kept by address or by resemblance is a wrong answer; decode
starts from a token that the controller draws after prefill has answered, so that nothing can be decoded ahead; lengths
of decode are drawn for each run; and every reset asks for the same capacity.

A rule asks that the extra tokens be worth many times the jitter. Where the machine turns out noisier than the first
walks said, the lengths grow and the rounds begin again, while there is time; what was measured with shorter lengths is
kept, and none of it counts. Noise alone decides that, never a speed.
"""

from __future__ import annotations

import math
import random
import secrets
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from k3_ledger.engine.runner.replies import count_of, numbers_of, tokens_of
from k3_ledger.schemas.repetitions import middle_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.runner.channel import Channel, Reply

Metric = Literal["prefill", "decode"]
Kind = Literal["short", "long-prefill", "long-decode"]
METRICS: Final[tuple[Metric, ...]] = ("prefill", "decode")
KINDS: Final[tuple[Kind, ...]] = ("short", "long-prefill", "long-decode")
SIGNAL: Final = 4
"""How many standard errors a median must be away from a bound before that says anything."""
PILOTS: Final = 5
"""Walks whose times only size what follows; the first one also pays for what is done once."""
HIDDEN_SHARE: Final = 0.25
"""Share of prefill's time that may show up in the decode behind it before work was put off."""
OVER_NOISE: Final = 20
"""How many times the cost of pipe and scheduler a timed region is made to take."""
LESS: Final = 2
"""The pilot's range is wide, being of all walks: this part of what a rule asks for is enough to begin with."""
SPARE: Final = 2
"""How much more than what a rule asks for the extra tokens are made to take when they are made more: the spread of
seven is a rough estimate, and one that comes out higher the next time costs all rounds."""
WORTH: Final = 0.5
"""Share by which the extra tokens must grow to be worth beginning again, where time or room is too short for all."""
MOST_GROWTH: Final = 8
"""Largest growth in one step."""
BELIEVED: Final = 100
"""An engine's own time counts down to this part less than the controller's, a hundredth, and no further: half of the
gain that a rule takes for chance, so that no lie earns anything by itself, whatever the pipe costs."""
TRIES: Final = 100
"""How often a prompt is drawn until it is one that was not given before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    Attributes:
        context: prompt tokens in front of timed decode, all of them real; also the short length of prefill.
        decode_tokens: least tokens of the short decode; up to a quarter more are drawn.
        repetitions: rounds of timed walks, at least 3. More are added while jitter hides the cost of the extra tokens.
        most_repetitions: where adding ends, if not by time.
        warmup: rounds that are run first and not counted.
        signal_to_jitter: how many times the jitter the extra tokens are made to take, as a rule asks for it: the spread
            of the middle half of equal repetitions.
        longest_s: seconds of timing after which lengths grow no more, and rounds are added only while jitter hides what
            the extra tokens cost. They count from the end of the first warm-up: what is done once, such as compiling
            kernels, can be longer than all of it and would leave no time to grow in.
        most_extra: most extra tokens that may be asked for.
        shortest_ns: what decode's short length is made to take at least, so that the pipe's own cost stays small.
        seed: of prompts, lengths and order; drawn afresh when None, and recorded.
    """

    context: int = 64
    decode_tokens: int = 16
    repetitions: int = 7
    most_repetitions: int = 25
    warmup: int = 1
    signal_to_jitter: int = 10
    longest_s: float = 60.0
    most_extra: int = 4096
    shortest_ns: int = 50_000_000
    seed: int | None = None

    def __post_init__(self) -> None:
        if min(self.context, self.decode_tokens, self.signal_to_jitter, self.most_extra, self.shortest_ns) < 1:
            raise ValueError("token counts, times and signal_to_jitter are at least 1")
        if self.repetitions < 3 or self.warmup < 0 or self.longest_s < 0:
            raise ValueError("at least 3 repetitions, and no negative warm-up or time")
        if not self.repetitions <= self.most_repetitions <= 128:
            raise ValueError("most_repetitions is at least repetitions and at most 128")


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed request.

    Attributes:
        count: tokens of the timed region.
        start_ns: controller's monotonic clock at its start.
        outer_ns: duration by that clock.
        self_ns: duration that the engine reports.
    """

    count: int
    start_ns: int
    outer_ns: int
    self_ns: int

    @property
    def taken_ns(self) -> int:
        """What counts of the engine's own time: all of it, but never under the controller's less a hundredth."""
        return max(self.self_ns, self.outer_ns - self.outer_ns // BELIEVED)


@dataclass(frozen=True, slots=True)
class Walk:
    """Reset, prefill, decode: one sequence of tokens.

    Attributes:
        kind: which length is the longer one.
        prompt: ids of prefill.
        start: the token that decode started from, drawn after prefill had answered.
        prefill, decode: their times.
        next: the id that prefill would go on with, and its log-probability.
        next_logprob: log-probability of ``next``, as the engine reports it.
        output: ids that decode put out after ``start``.
        logprobs: of each, as the engine reports them.
        reset_ns: duration of reset by the controller's clock.
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

    def timed(self, metric: Metric) -> Timed:
        """Times of one of its two requests."""
        return self.prefill if metric == "prefill" else self.decode


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

    def of(self, metric: Metric, *, extended: bool) -> list[Timed]:
        """Counted repetitions of a metric at one of its lengths. Decode behind a longer prompt belongs to neither."""
        longer: Kind = "long-prefill" if metric == "prefill" else "long-decode"
        if extended:
            return [walk.timed(metric) for walk in self.walks if walk.kind == longer]
        kinds = {"short", "long-decode"} if metric == "prefill" else {"short"}
        return [walk.timed(metric) for walk in self.walks if walk.kind in kinds]

    def costs(self, metric: Metric, clock: Literal["outer_ns", "self_ns"]) -> list[int]:
        """What the extra tokens took in each round: longer less short, so that slow drift of the machine cancels."""
        longer: Kind = "long-prefill" if metric == "prefill" else "long-decode"
        return [
            getattr(one[longer].timed(metric), clock) - getattr(one["short"].timed(metric), clock)
            for one in self.rounds
        ]

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

    def hidden(self, kind: Literal["short", "long-prefill"]) -> list[int]:
        """Time of decode that its tokens do not explain, in each round.

        Behind the short prompt, what decode costs for no token at all; behind the longer one, what it costs more than
        the growth of the context could make it cost.
        """
        if kind == "short":
            short, extra = self.short["decode"], self.extra["decode"]
            costs = self.costs("decode", "outer_ns")
            pairs = zip(self.rounds, costs, strict=True)
            return [one["short"].decode.outer_ns - cost * short // extra for one, cost in pairs]
        growth = (self.short["prefill"] + self.extra["prefill"]) / self.short["prefill"]
        return [int(one[kind].decode.outer_ns - one["short"].decode.outer_ns * growth) for one in self.rounds]

    def hidden_bound(self, kind: Literal["short", "long-prefill"]) -> int:
        """The share of prefill's time that may be hidden there."""
        return int(HIDDEN_SHARE * median([one[kind].prefill.outer_ns for one in self.rounds]))

    @property
    def settled(self) -> bool:
        """Whether jitter is small enough for everything that will be asked of these times."""
        hidden = SIGNAL * standard_error(self.hidden("short")) <= self.hidden_bound("short")
        return hidden and all(map(self.stands_out, METRICS))


def median(values: Sequence[int]) -> int:
    """The lower one of the two in the middle where their number is even."""
    return int(statistics.median_low(values))


def standard_error(values: Sequence[int]) -> int:
    """Of the median of ``values``: the range of their middle half over the root of their number."""
    ordered = sorted(values)
    cut = len(ordered) // 4
    return int((ordered[-1 - cut] - ordered[cut]) / math.sqrt(len(ordered)))


class Prompts:
    """Fresh random prompts of ordinary tokens, and prompts that resemble the one before of their length."""

    def __init__(self, usable: Sequence[int], seed: int) -> None:
        self._pool = np.asarray(usable)
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._last: dict[int, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
        self._given: set[tuple[int, ...]] = set()

    def token(self) -> int:
        """One token."""
        return int(self._pool[self._generator.integers(0, len(self._pool))])

    def next(self, length: int, *, resembling: bool = False) -> tuple[int, ...]:
        """A prompt of ``length`` ids that was not given before, unless nearly all of that length were.

        Args:
            length: number of ids.
            resembling: differ from the last prompt of this length in the first and the last token only.
        """
        drawn = self._draw(length, resembling=resembling)
        for _ in range(TRIES):
            if tuple(drawn.tolist()) not in self._given:
                break
            drawn = self._draw(length, resembling=resembling)
        ids = tuple(int(token) for token in drawn)
        self._last[length] = drawn
        self._given.add(ids)
        return ids

    def _draw(self, length: int, *, resembling: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        if not resembling or length not in self._last:
            return self._pool[self._generator.integers(0, len(self._pool), length)]
        ids = self._last[length].copy()
        for at in {0, length - 1}:
            others = self._pool[self._pool != ids[at]]
            ids[at] = others[self._generator.integers(0, len(others))]
        return ids


class Observer:
    """Takes every timing of a run, see :func:`observe`."""

    def __init__(self, channel: Channel, plan: Plan, usable: Sequence[int]) -> None:
        self.channel = channel
        self.plan = plan
        self.found = Observations(seed=secrets.randbits(53) if plan.seed is None else plan.seed)
        self._prompts = Prompts(usable, self.found.seed)
        self._order = random.Random(self.found.seed)  # noqa: S311 (an order, no secret)
        self._capacity = 0

    def pilot(self) -> None:
        """Time a few short walks and decide every length from them."""
        found, plan = self.found, self.plan
        found.short = {"prefill": plan.context, "decode": plan.decode_tokens}
        found.extra = {"prefill": 0, "decode": 0}
        self._capacity = plan.context + plan.decode_tokens
        found.pilots = [self._walk("short", pilot=True) for _ in range(PILOTS)]
        least_ns = max(plan.shortest_ns, OVER_NOISE * found.noise_ns)
        for metric in METRICS:
            steady = [walk.timed(metric).outer_ns for walk in found.pilots[1:]]
            found.jitter_ns[metric] = max(steady) - min(steady)
            per_token = max(1, median(steady) // found.short[metric])
            if metric == "decode":
                least = max(plan.decode_tokens, min(plan.most_extra, -(-least_ns // per_token)))
                found.short[metric] = least + self._order.randrange(1 + least // 4)
            wanted = -(-max(plan.signal_to_jitter * found.jitter_ns[metric] // LESS, least_ns) // per_token)
            extra = min(max(found.short[metric], wanted), plan.most_extra)
            found.extra[metric] = extra if metric == "prefill" else extra + self._order.randrange(1 + extra // 4)
        self._capacity = sum(found.short.values()) + sum(found.extra.values())

    def lengthen(self, left_s: float) -> bool:
        """Ask for more extra tokens where those so far are worth too little; False where that is needless or too long.

        Args:
            left_s: seconds that all rounds together may take from here.
        """
        found, plan = self.found, self.plan
        longer = {metric: found.of(metric, extended=True) for metric in METRICS}
        each = {metric: median([one.outer_ns for one in some]) / some[0].count / 1e9 for metric, some in longer.items()}
        rounds = plan.repetitions + plan.warmup
        same = rounds * sum(each[metric] * (3 * found.short[metric] + found.extra[metric]) for metric in METRICS)
        more: dict[Metric, int] = {}
        for metric in METRICS:
            growth = min(MOST_GROWTH, SPARE * plan.signal_to_jitter / max(found.margin(metric), 1e-9))
            if growth > SPARE:
                more[metric] = math.ceil(found.extra[metric] * (growth - 1))
        cost = rounds * sum(each[metric] * more[metric] for metric in more)
        fits = min(1.0, (left_s - same) / cost) if cost else 0.0
        grown = {metric: min(plan.most_extra, found.extra[metric] + int(fits * more[metric])) for metric in more}
        if not any(
            grown[metric] >= found.extra[metric] + min(more[metric], WORTH * found.extra[metric]) for metric in more
        ):
            return False
        found.extra.update(grown)
        found.shorter += found.rounds
        found.rounds = []
        self._capacity = sum(found.short.values()) + sum(found.extra.values())
        return True

    def round(self) -> Round:
        """One walk of each kind, in an order of its own."""
        order = list(KINDS)
        self._order.shuffle(order)
        return {kind: self._walk(kind) for kind in order}

    def _walk(self, kind: Kind, *, pilot: bool = False) -> Walk:
        length = self.found.short["prefill"] + self.found.extra["prefill"] * (kind == "long-prefill")
        count = self.found.short["decode"] + self.found.extra["decode"] * (kind == "long-decode")
        prompt = self._prompts.next(length, resembling=kind == "long-decode")
        reset = self.channel.ask("reset", capacity=self._capacity)
        first = self.channel.ask("prefill", ids=prompt)
        if pilot:  # otherwise decode comes at once, and finds whatever prefill has put off
            self.found.pings.append(self.channel.ask("ping").duration_ns)
        start = self._prompts.token()
        second = self.channel.ask("decode", token=start, count=count)
        self.found.pings.append(self.channel.ask("ping").duration_ns)
        return Walk(
            kind=kind,
            prompt=prompt,
            start=start,
            prefill=_timed(first, length),
            decode=_timed(second, count),
            next=tokens_of([first.data.get("next")], 1, "prefill")[0],
            next_logprob=numbers_of([first.data.get("logprob")], 1, "prefill")[0],
            output=tokens_of(second.data.get("ids"), count, "decode"),
            logprobs=numbers_of(second.data.get("logprobs"), count, "decode"),
            reset_ns=reset.duration_ns,
        )


def _timed(reply: Reply, count: int) -> Timed:
    return Timed(count, reply.start_ns, reply.duration_ns, count_of(reply.data, "self_ns"))


def observe(
    channel: Channel,
    plan: Plan,
    usable: Sequence[int],
    *,
    progress: Callable[[str], None] = lambda _: None,
    keep: Callable[[Observations], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Observations:
    """Take every timing of a run.

    Rounds are added while jitter hides what the extra tokens cost, up to the plan's end; all of them count. Where the
    extra tokens turn out to be worth less than what a rule asks for, there are more of them and the rounds begin again.

    Args:
        channel: a started engine that has answered ``hello``.
        plan: how much to do.
        usable: token ids that prompts may hold.
        progress: told what comes next.
        keep: handed the observations at once, so that a run that fails still shows what was seen.
        clock: seconds, for the plan's end alone.

    Raises:
        RunError: the engine failed, or its answer to a timed request has the wrong shape.
    """
    observer = Observer(channel, plan, usable)
    found = observer.found
    keep(found)
    progress("timing: pilot")
    observer.pilot()
    end, again = math.inf, True
    while again:
        for number in range(plan.warmup):
            progress(f"timing: warm-up {number + 1} of {plan.warmup}")
            found.warmups.append(observer.round())
        if math.isinf(end):
            end = clock() + plan.longest_s
        while len(found.rounds) < plan.repetitions:
            progress(f"timing: round {len(found.rounds) + 1} of {plan.repetitions}")
            found.rounds.append(observer.round())
        again = observer.lengthen(end - clock())
    while len(found.rounds) < plan.most_repetitions and (
        not all(map(found.stands_out, METRICS)) or (not found.settled and clock() < end)
    ):
        progress(f"timing: round {len(found.rounds) + 1}")
        found.rounds.append(observer.round())
    return found
