"""Takes the measurement: which requests, in which order, how many tokens, and what is kept of each.

Decode and prefill are each timed at two lengths. The difference of the two is what the extra tokens cost, whatever a
call costs by itself; the extra is made long enough for that difference to stand well above the jitter that was
measured first. Every repetition has a prompt of its own that the engine has not seen; every second one differs from
the one before it by two tokens only, so that an answer kept by address or by resemblance is a wrong answer.
"""

from __future__ import annotations

import secrets
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from k3_ledger.engine.runner.channel import Channel, Reply

Metric = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Plan:
    """How to measure.

    Attributes:
        context: prompt tokens in front of timed decode, all of them real.
        decode_tokens: tokens of the short decode run.
        prefill_tokens: tokens of the short prefill run.
        repetitions: timed repetitions of each length, at least 3.
        warmup: repetitions of each length that are run first and not kept.
        signal_to_jitter: how many times the measured jitter the extra tokens must take.
        most_extra: most extra tokens that may be asked for.
        seed: of all prompts; drawn freshly when None, and recorded.
    """

    context: int = 64
    decode_tokens: int = 16
    prefill_tokens: int = 64
    repetitions: int = 5
    warmup: int = 1
    signal_to_jitter: int = 8
    most_extra: int = 4096
    seed: int | None = None

    def __post_init__(self) -> None:
        if min(self.context, self.decode_tokens, self.prefill_tokens, self.signal_to_jitter, self.most_extra) < 1:
            raise ValueError("token counts and signal_to_jitter are at least 1")
        if self.repetitions < 3 or self.warmup < 0:
            raise ValueError("at least 3 repetitions, and no negative warm-up")


@dataclass(frozen=True, slots=True)
class Timed:
    """One timed request.

    Attributes:
        metric: what was timed.
        extended: whether it was the longer of the two lengths.
        count: tokens of the timed region.
        start_ns: controller's clock at its start, absolute.
        outer_ns: duration by the controller's clock.
        self_ns: duration that the engine reports.
        ping_ns: an empty request right behind it: what was still running when the engine answered shows here.
        prompt: ids in front of the timed region (decode) or in it (prefill).
        output: ids that it put out.
    """

    metric: Metric
    extended: bool
    count: int
    start_ns: int
    outer_ns: int
    self_ns: int
    ping_ns: int
    prompt: tuple[int, ...]
    output: tuple[int, ...]


@dataclass(slots=True)
class Observations:
    """Everything that was timed, warm-up and pilot apart from what counts.

    Attributes:
        seed: of the prompts.
        load_ns: from the start of the process to its first answer.
        pings: empty requests, durations in nanoseconds.
        pilots: timed before the extra lengths were known; they size them and count for nothing else.
        warmups: run and not counted.
        timed: what counts.
        extra: extra tokens of the longer length, by metric.
        jitter_ns: range of the pilot's durations at one length, by metric.
    """

    seed: int
    load_ns: int = 0
    pings: list[int] = field(default_factory=list)
    pilots: list[Timed] = field(default_factory=list)
    warmups: list[Timed] = field(default_factory=list)
    timed: list[Timed] = field(default_factory=list)
    extra: dict[Metric, int] = field(default_factory=dict)
    jitter_ns: dict[Metric, int] = field(default_factory=dict)

    def of(self, metric: Metric, *, extended: bool) -> list[Timed]:
        """Counted repetitions of one metric at one length."""
        return [one for one in self.timed if one.metric == metric and one.extended == extended]


class Prompts:
    """Fresh random prompts of ordinary tokens; every second one resembles the one before it."""

    def __init__(self, usable: Sequence[int], seed: int) -> None:
        self._pool = np.asarray(usable)
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._made = 0
        self._last: np.ndarray[tuple[int], np.dtype[np.int64]] | None = None

    def next(self, length: int) -> tuple[int, ...]:
        """A prompt of ``length`` ids that was not given before."""
        self._made += 1
        if self._made % 2 == 0 and self._last is not None and len(self._last) == length:
            ids = self._last.copy()
            for at in {0, length - 1}:
                others = self._pool[self._pool != ids[at]]
                ids[at] = others[self._generator.integers(0, len(others))]
        else:
            ids = self._pool[self._generator.integers(0, len(self._pool), length)]
        self._last = ids
        return tuple(int(token) for token in ids)


def observe(
    channel: Channel,
    plan: Plan,
    usable: Sequence[int],
    *,
    load_ns: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Observations:
    """Take every timing of a run.

    Args:
        channel: a started engine that has answered ``hello``.
        plan: how much to do.
        usable: token ids that prompts may hold.
        load_ns: time from the start of the process to that answer, for the record.
        progress: told what comes next.

    Raises:
        RunError: the engine failed, or its answer to a timed request has the wrong shape.
    """
    seed = secrets.randbits(63) if plan.seed is None else plan.seed
    found = Observations(seed=seed, load_ns=load_ns)
    prompts = Prompts(usable, seed)
    for _ in range(9):
        found.pings.append(channel.ask("ping").duration_ns)
    metrics: tuple[Metric, ...] = ("prefill", "decode")
    for metric in metrics:
        progress(f"{metric}: pilot")
        base = plan.prefill_tokens if metric == "prefill" else plan.decode_tokens
        pilots = [_time(channel, metric, plan, prompts, base, extended=False) for _ in range(6)]
        found.pilots += pilots
        steady = [one.outer_ns for one in pilots[1:]]  # the first also pays for what is done once
        found.jitter_ns[metric] = max(steady) - min(steady)
        per_token = max(1, statistics.median_low(steady) // base)
        wanted = -(-plan.signal_to_jitter * found.jitter_ns[metric] // per_token)
        found.extra[metric] = min(max(base, wanted), plan.most_extra)
    for repetition in range(plan.warmup + plan.repetitions):
        kept = found.timed if repetition >= plan.warmup else found.warmups
        for metric in metrics:
            progress(f"{metric}: repetition {repetition + 1} of {plan.warmup + plan.repetitions}")
            base = plan.prefill_tokens if metric == "prefill" else plan.decode_tokens
            for extended in (False, True):
                count = base + found.extra[metric] * extended
                kept.append(_time(channel, metric, plan, prompts, count, extended=extended))
    return found


def _time(channel: Channel, metric: Metric, plan: Plan, prompts: Prompts, count: int, *, extended: bool) -> Timed:
    """One timed request on a fresh state, and the empty one behind it."""
    prompt = prompts.next(count if metric == "prefill" else plan.context)
    channel.ask("reset", capacity=len(prompt) + count)
    if metric == "prefill":
        reply = channel.ask("prefill", ids=prompt)
        output = (_integer(reply, "next"),)
    else:
        first = _integer(channel.ask("prefill", ids=prompt), "next")
        reply = channel.ask("decode", count=count)
        given = reply.data.get("ids")
        if not isinstance(given, list) or len(given) != count or not all(type(token) is int for token in given):
            raise RunError(
                Code.RUN_OUTPUT,
                "the engine did not put out the tokens it was asked for",
                expected=f"{count} token ids",
                found=f"{len(given)} of them" if isinstance(given, list) else repr(given)[:80],
            )
        output = (first, *given)
    ping = channel.ask("ping").duration_ns
    self_ns = _integer(reply, "self_ns")
    return Timed(metric, extended, count, reply.start_ns, reply.duration_ns, self_ns, ping, prompt, output)


def _integer(reply: Reply, name: str) -> int:
    value = reply.data.get(name)
    if type(value) is not int or value < 0:
        raise RunError(
            Code.RUN_PROTOCOL, f"the engine's answer has no {name!r}", expected="an integer", found=repr(value)[:80]
        )
    return value
