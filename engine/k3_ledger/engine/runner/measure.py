"""Takes the measurement: which requests, in which order, how many tokens, and what is kept of each.

One repetition is a *walk*: reset, prefill, decode. Nothing in a walk goes untimed, so work cannot be moved to where no
clock runs. Three kinds of walk differ in one length each, and their differences are what extra tokens cost. They run in
rounds, in an order drawn for each round. Decode is made longer by more tokens behind the same prompt. Prefill is made
longer by more prompts of the length that is claimed, each from an empty sequence: a longer prompt would cost another
time a token, more where attention grows and less where a call has a cost of its own, and would refute honest claims.

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
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.runner.observations import (
    KINDS,
    METRICS,
    Kind,
    Metric,
    Observations,
    Prefilled,
    Round,
    Timed,
    Walk,
    median,
)
from k3_ledger.engine.runner.prompts import Prompts
from k3_ledger.engine.runner.replies import count_of, numbers_of, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.runner.channel import Channel, Reply

PILOTS: Final = 5
"""Walks whose times only size what follows; the first one also pays for what is done once."""
OVER_NOISE: Final = 20
"""How many times the cost of pipe and scheduler a timed region is made to take."""
LESS: Final = 2
"""The pilot's range is wide, being of all walks: this part of what a rule asks for is enough to begin with."""
SPARE: Final = 2
"""How much more than what a rule asks for the extra tokens are made to take when they are made more: the spread of
seven is a rough estimate, and one that comes out higher the next time costs all rounds."""
WORTH: Final = 0.5
"""Share by which the extra tokens must grow to be worth beginning again, where time or room is too short for all."""
MOST_ROUNDS: Final = 40
"""Rounds that a receipt has room for beside ten depths; see :func:`k3_ledger.engine.runner.record.plan_with_room`."""
MOST_GROWTH: Final = 8
"""Largest growth in one step."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    Attributes:
        context: prompt tokens in front of timed decode, all of them real; also how many prefill does at a time.
        decode_tokens: least tokens of the short decode; up to a quarter more are drawn.
        repetitions: rounds of timed walks, at least 3. More are added while jitter hides the cost of the extra tokens.
        most_repetitions: where adding ends, if not by time.
        warmup: rounds that are run first and not counted.
        signal_to_jitter: how many times the jitter the extra tokens are made to take, as a rule asks for it: the spread
            of the middle half of equal repetitions.
        longest_s: seconds of timing after which lengths grow no more, and rounds are added only while jitter hides what
            the extra tokens cost. They count from the end of the first warm-up: what is done once, such as compiling
            kernels, can be longer than all of it and would leave no time to grow in.
        most_extra: most extra tokens that may be asked for; of prefill at least one prompt, however long it is.
        shortest_ns: what decode's short length is made to take at least, so that the pipe's own cost stays small.
        seed: of prompts, lengths and order; drawn afresh when None, and recorded.
        room: most tokens of one sequence, as the model announces; None where nothing is known of it.
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
    room: int | None = None

    @property
    def least(self) -> int:
        """Tokens of the longest sequence, at its shortest: decode's longer length is twice its short."""
        return self.context + 2 * self.decode_tokens

    def __post_init__(self) -> None:
        if min(self.context, self.decode_tokens, self.signal_to_jitter, self.most_extra, self.shortest_ns) < 1:
            raise ValueError("token counts, times and signal_to_jitter are at least 1")
        if self.repetitions < 3 or self.warmup < 0 or self.longest_s < 0:
            raise ValueError("at least 3 repetitions, and no negative warm-up or time")
        if not self.repetitions <= self.most_repetitions <= MOST_ROUNDS:
            raise ValueError(f"most_repetitions is at least repetitions and at most {MOST_ROUNDS}")
        if self.room is not None and self.room < self.least:
            raise ValueError("room is at least the context and twice decode_tokens")


def seed_of(plan: Plan) -> int:
    """The one that it was given, or one that is drawn now."""
    return secrets.randbits(53) if plan.seed is None else plan.seed


class Observer:
    """Takes every timing of a run, see :func:`observe`."""

    def __init__(self, channel: Channel, plan: Plan, usable: Sequence[int], vocabulary: int) -> None:
        self.channel = channel
        self.vocabulary = vocabulary
        self.plan = plan
        self.found = Observations(seed=seed_of(plan))
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
                drawn = least + self._order.randrange(1 + least // 4)
                found.short[metric] = min(drawn, self._room() // 2)
            wanted = -(-max(plan.signal_to_jitter * found.jitter_ns[metric] // LESS, least_ns) // per_token)
            if metric == "prefill":
                found.extra[metric] = self._whole(wanted)
            else:
                extra = min(max(found.short[metric], wanted), plan.most_extra)
                drawn = extra + self._order.randrange(1 + extra // 4)
                found.extra[metric] = min(drawn, self._room() - found.short[metric])
        self._capacity = found.short["prefill"] + found.short["decode"] + found.extra["decode"]

    def _room(self) -> int:
        """Most tokens that decode may put out behind a prompt."""
        return sys.maxsize if self.plan.room is None else self.plan.room - self.plan.context

    def _whole(self, wanted: int) -> int:
        """As many tokens of whole prompts, as far as the plan has room: one prompt at least."""
        each = self.found.short["prefill"]
        return each * max(1, min(-(-wanted // each), self.plan.most_extra // each))

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
        if "prefill" in grown:
            grown["prefill"] = self._whole(grown["prefill"])
        if "decode" in grown:
            grown["decode"] = min(grown["decode"], self._room() - found.short["decode"])
        if not any(
            grown[metric] >= found.extra[metric] + min(more[metric], WORTH * found.extra[metric]) for metric in more
        ):
            return False
        found.extra.update(grown)
        found.shorter += found.rounds
        found.rounds = []
        self._capacity = found.short["prefill"] + found.short["decode"] + found.extra["decode"]
        return True

    def round(self) -> Round:
        """One walk of each kind, in an order of its own."""
        order = list(KINDS)
        self._order.shuffle(order)
        return {kind: self._walk(kind) for kind in order}

    def _walk(self, kind: Kind, *, pilot: bool = False) -> Walk:
        count = self.found.short["decode"] + self.found.extra["decode"] * (kind == "long-decode")
        several = self.found.prompts if kind == "prompts" else 1
        *earlier, last = [self._prefill(resembling=kind == "long-decode") for _ in range(several)]
        if pilot:  # otherwise decode comes at once, and finds whatever prefill has put off
            self.found.pings.append(self.channel.ask("ping").duration_ns)
        start = self._prompts.token()
        second = self.channel.ask("decode", token=start, count=count)
        self.found.pings.append(self.channel.ask("ping").duration_ns)
        return Walk(
            kind=kind,
            prompt=last.prompt,
            start=start,
            prefill=_together([one.timed for one in (*earlier, last)]),
            decode=_timed(second, count),
            next=last.next,
            next_logprob=last.next_logprob,
            output=tokens_of(second.data.get("ids"), count, "decode", self.vocabulary),
            logprobs=numbers_of(second.data.get("logprobs"), count, "decode"),
            reset_ns=last.reset_ns,
            earlier=tuple(earlier),
        )

    def _prefill(self, *, resembling: bool) -> Prefilled:
        length = self.found.short["prefill"]
        prompt = self._prompts.next(length, resembling=resembling)
        reset = self.channel.ask("reset", capacity=self._capacity)
        reply = self.channel.ask("prefill", ids=prompt)
        return Prefilled(
            prompt=prompt,
            timed=_timed(reply, length),
            next=tokens_of([reply.data.get("next")], 1, "prefill", self.vocabulary)[0],
            next_logprob=numbers_of([reply.data.get("logprob")], 1, "prefill")[0],
            reset_ns=reset.duration_ns,
        )


def _timed(reply: Reply, count: int) -> Timed:
    return Timed(count, reply.start_ns, reply.duration_ns, count_of(reply.data, "self_ns"))


def _together(some: list[Timed]) -> Timed:
    """Several requests as one repetition."""
    return Timed(
        sum(one.count for one in some),
        some[0].start_ns,
        sum(one.outer_ns for one in some),
        sum(one.self_ns for one in some),
        len(some),
    )


def observe(
    channel: Channel,
    plan: Plan,
    usable: Sequence[int],
    vocabulary: int,
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
        vocabulary: number of tokens that outputs may be of.
        progress: told what comes next.
        keep: handed the observations at once, so that a run that fails still shows what was seen.
        clock: seconds, for the plan's end alone.

    Raises:
        RunError: the engine failed, or its answer to a timed request has the wrong shape.
    """
    observer = Observer(channel, plan, usable, vocabulary)
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
