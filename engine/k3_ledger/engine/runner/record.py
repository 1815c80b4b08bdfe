"""Observations as a receipt holds them: raw repetitions by both observers, and the plan as it was carried out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from k3_ledger.engine.parity.suite import decimal_text
from k3_ledger.engine.runner.observations import KINDS, METRICS
from k3_ledger.schemas.envelope import MAX_ENTRY
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.measurement import Flag, Sample, Series
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k3_ledger.engine.runner.bounds import Tolerance
    from k3_ledger.engine.runner.measure import Plan
    from k3_ledger.engine.runner.observations import Observations, Timed
    from k3_ledger.engine.runner.outputs import Looked

MOST_RANKS: Final = 64
"""Accelerators that an engine may speak of."""
_SAMPLES: Final = 13
"""Repetitions that a round adds to a receipt: three pings, and by either clock three of prefill and two of decode."""
_SAMPLE_BYTES: Final = 80
"""Of one of them, with a count of seven digits, a duration of three hours, a start within a month, and a comma."""
_DEPTH_BYTES: Final = 300
"""Of what is recorded of one depth."""
_WORD_BYTES: Final = 32
"""By which a word of the command line may grow where the digest of a path takes the place of the path, and a comma."""
_REST_BYTES: Final = 18_000
"""Everything else: 6,200 in the largest receipt so far, and 64 accelerators of 80 bytes."""
_OBSERVERS: Final[tuple[Literal["controller", "subject"], ...]] = ("controller", "subject")


def timing_of(found: Observations, origin: int, plan: Plan, *, claims: bool = True) -> tuple[Series, ...]:
    """Every counted repetition, both lengths of a metric in one series, by either clock.

    Args:
        claims: whether the engine's own times are among them. Without, no rule can score the run.
        found: what was timed.
        origin: controller's clock at the start of the run, from which offsets count.
        plan: how it was to be measured.
    """
    pings, at = [], 0
    counted = len(KINDS) * len(found.rounds)  # one behind each walk; nothing comes behind the last of these
    for duration in found.pings[-counted:]:  # only their lengths were kept: they are laid end to end
        pings.append(Sample(start_ns=at, duration_ns=max(1, duration), count=1))
        at += pings[-1].duration_ns
    load = Sample(start_ns=0, duration_ns=max(1, found.load_ns), count=1)
    made = [
        _series("load", "start", "controller", (load,)),
        _series("ping", "request", "controller", tuple(pings), inputs="repeated"),
    ]
    for metric in METRICS:
        timed = sorted(found.of(metric, extended=False) + found.of(metric, extended=True), key=lambda one: one.start_ns)
        made += [
            _series(
                metric,
                "token",
                observer,
                tuple(_sample(one, observer, origin) for one in timed),
                context=plan.context if metric == "decode" else 0,
                warmup=(len(timed) // len(found.rounds)) * (len(found.warmups) + len(found.shorter)),
            )
            for observer in (_OBSERVERS if claims else _OBSERVERS[:1])
        ]
    return tuple(made)


def plan_with_room(plan: Plan, depths: int, command: Sequence[str]) -> Plan:
    """The same plan, with no more rounds than a receipt has room for: it holds every repetition that counts.

    Args:
        plan: how to measure.
        depths: how many context lengths are graded.
        command: the command line that the receipt keeps.

    Raises:
        RunError: RUN_FLAG, the rounds asked for are too many.
    """
    words = sum(len(json.dumps(word)) + _WORD_BYTES for word in command)
    rounds = (MAX_ENTRY - _REST_BYTES - words - depths * _DEPTH_BYTES) // (_SAMPLES * _SAMPLE_BYTES)
    if plan.repetitions > rounds:
        raise RunError(
            Code.RUN_FLAG,
            f"{plan.repetitions} rounds of timed runs are more than a receipt has room for beside {depths} depths",
            position=Position(field="--repetitions"),
            expected=f"at most {max(rounds, 0)}",
            found=str(plan.repetitions),
        )
    return replace(plan, most_repetitions=min(plan.most_repetitions, rounds))


def _series(
    metric: str,
    unit: str,
    observer: Literal["controller", "subject"],
    samples: tuple[Sample, ...],
    *,
    context: int | None = None,
    warmup: int = 0,
    inputs: Literal["fresh", "repeated"] = "fresh",
) -> Series:
    return Series(
        metric=metric,
        unit=unit,
        actor="subject",
        observer=observer,
        context=context,
        context_filled=context,
        batch=1,
        processes=1,
        warmup=warmup,
        inputs=inputs,
        cache="none",
        samples=samples,
    )


def _sample(one: Timed, observer: str, origin: int) -> Sample:
    duration = one.outer_ns if observer == "controller" else one.taken_ns
    return Sample(start_ns=one.start_ns - origin, duration_ns=max(1, duration), count=one.count)


def _raised(timed: Sequence[Timed]) -> str:
    return f"{sum(one.taken_ns > one.self_ns for one in timed)} of {len(timed)} own times, to the clock's less 1 %"


def plan_flags(found: Observations, given: Tolerance, looked: Looked, contract: str | None = None) -> tuple[Flag, ...]:
    """The plan as it was carried out, and what came of looking at outputs: found by the run, and set by nobody.

    Args:
        found: what was timed.
        given: what an output may miss by.
        looked: the outputs that were compared.
        contract: what the path promises, where that is known.
    """
    values: dict[str, int | str] = {
        **({} if contract is None else {"run.contract": contract}),
        "run.extra-decode": found.extra["decode"],
        "run.extra-prefill": found.extra["prefill"],
        "run.jitter-decode-ns": found.jitter_ns["decode"],
        "run.jitter-prefill-ns": found.jitter_ns["prefill"],
        "run.noise-ns": found.noise_ns,
        "run.margin-decode": f"{found.margin('decode'):.2f}",
        "run.margin-prefill": f"{found.margin('prefill'):.2f}",
        **{f"run.raised-{metric}": _raised(found.claimed(metric)) for metric in METRICS},
        "run.prompts": found.prompts,
        "run.output-ceiling": decimal_text(given.ceiling),
        "run.output-bound": decimal_text(given.bound),
        "run.outputs": sum(seen for seen, _ in looked.counts.values()),
        **{f"run.looked-{op}": f"{seen} looked at, {missed} missed" for op, (seen, missed) in looked.counts.items()},
        "run.rounds-off": "{1} of {0}, {2} may".format(*looked.rounds),
        "run.repetitions": len(found.rounds),
        "run.seed": found.seed,
        "run.rounds-set-aside": len(found.shorter),
        "run.short-decode": found.short["decode"],
        "run.short-prefill": found.short["prefill"],
    }
    return tuple(Flag(name=name, value=str(value), origin="default") for name, value in values.items())
