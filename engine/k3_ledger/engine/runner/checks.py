"""What must hold between the controller's clock, the engine's own figures and what it put out. Pure.

Each check yields findings; a run with one is never a receipt of kind ``run``. The bounds here only tell a measurement
from a broken or dishonest one; whether a speed earns anything is for the rules, which read the raw times.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.engine.runner.measure import Metric, Observations, Plan, Timed

SLACK: Final = 0.25
"""Share of a duration by which the engine's own figure, and the marginal cost, may miss the controller's clock."""
PING_MULTIPLE: Final = 4
"""How many times the slowest empty request the pipe may cost on top of the work."""
LEFT_OVER: Final = 0.25
"""Share of a timed region that may still be running, by the empty request behind it, before work was hidden there."""


def check_observations(found: Observations, plan: Plan) -> Iterator[Finding]:
    """Everything that can be checked without a second engine."""
    for metric in ("prefill", "decode"):
        short, extended = found.of(metric, extended=False), found.of(metric, extended=True)
        for one in (*short, *extended):
            yield from _check_self_report(one, found.pings)
            yield from _check_left_over(one, found.pings)
        yield from _check_margin(metric, found, plan)
        yield from _check_marginal(metric, short, extended, found)
    yield from _check_inputs(found)


def _check_self_report(one: Timed, pings: list[int]) -> Iterator[Finding]:
    """The engine's own time lies inside the controller's, and not far inside."""
    allowance = PING_MULTIPLE * max(pings) + int(SLACK * one.outer_ns) + _transport_ns(one)
    if not one.outer_ns - allowance <= one.self_ns <= one.outer_ns:
        yield Finding(
            Code.RUN_SELF_REPORT,
            f"the engine's own time for {one.metric} is not what the controller's clock saw",
            _place(one),
            f"{one.outer_ns - allowance} to {one.outer_ns} ns",
            f"{one.self_ns} ns",
        )


def _transport_ns(one: Timed) -> int:
    """What reading and writing the ids of a request may cost: about a microsecond each, generously."""
    return 2_000 * (len(one.prompt) * (one.metric == "prefill") + len(one.output))


def _check_left_over(one: Timed, pings: list[int]) -> Iterator[Finding]:
    """Nothing is still running when the engine has answered."""
    bound = PING_MULTIPLE * max(pings) + int(LEFT_OVER * one.outer_ns)
    if one.ping_ns > bound:
        yield Finding(
            Code.RUN_LEFT_OVER,
            f"the engine answered {one.metric} before its work was done: the next empty request had to wait",
            _place(one),
            f"at most {bound} ns",
            f"{one.ping_ns} ns",
        )


def _check_margin(metric: Metric, found: Observations, plan: Plan) -> Iterator[Finding]:
    """The extra tokens take many times the jitter; otherwise their difference says nothing."""
    short = [one.outer_ns for one in found.of(metric, extended=False)]
    extended = [one.outer_ns for one in found.of(metric, extended=True)]
    signal = statistics.median_low(extended) - statistics.median_low(short)
    jitter = _spread(short)
    if 0 < signal < plan.signal_to_jitter // 2 * jitter:
        yield Finding(
            Code.RUN_MARGIN,
            f"{metric}: the extra {found.extra[metric]} tokens take too little time to stand out from the jitter",
            Position(field=metric),
            f"at least {plan.signal_to_jitter // 2} times {jitter} ns",
            f"{signal} ns",
            hint="measure on a quieter machine, allow more extra tokens (most_extra), or use a larger model",
        )


def _check_marginal(
    metric: Metric, short: list[Timed], extended: list[Timed], found: Observations
) -> Iterator[Finding]:
    """By the controller's clock the extra tokens cost what the engine says they cost, no less and no more."""
    cost = _median(extended, "outer_ns") - _median(short, "outer_ns")
    claimed = _median(extended, "self_ns") - _median(short, "self_ns")
    jitter = _spread([one.outer_ns for one in short]) + _spread([one.outer_ns for one in extended])
    low, high = int((1 - SLACK) * claimed) - jitter, int((1 + SLACK) * claimed) + jitter
    if cost <= 0 or not low <= cost <= high:
        yield Finding(
            Code.RUN_MARGINAL,
            f"{metric}: {found.extra[metric]} extra tokens did not cost what the engine says they cost",
            Position(field=metric),
            f"{max(1, low)} to {high} ns",
            f"{cost} ns",
        )


def _median(timed: list[Timed], field: Literal["outer_ns", "self_ns"]) -> int:
    return int(statistics.median_low([getattr(one, field) for one in timed]))


def _check_inputs(found: Observations) -> Iterator[Finding]:
    """No two timed requests of one metric had the same prompt."""
    for metric in ("prefill", "decode"):
        prompts = [one.prompt for one in found.timed if one.metric == metric]
        if len(set(prompts)) != len(prompts):
            yield Finding(Code.RUN_INPUTS_REPEATED, f"{metric}: a prompt was timed twice", Position(field=metric))


def _spread(durations: list[int]) -> int:
    """Middle half of the durations, widened to a range: robust against one stray repetition."""
    ordered = sorted(durations)
    cut = len(ordered) // 4
    return ordered[-1 - cut] - ordered[cut]


def _place(one: Timed) -> Position:
    return Position(field=f"{one.metric}, {one.count} tokens")
