"""Result files of ``vllm bench latency``, ``throughput`` and ``serve``, told apart by their keys.

Latency files hold no sizes: the operator says them. A served run is one sample over all its requests; its tokens are
the totals that the engine counted, and lists of events are never counted.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.adapters.reading import (
    Fields,
    Reading,
    Told,
    load_json,
    make_series,
    one_shape,
    per_second,
    refuse,
    seconds,
)

if TYPE_CHECKING:
    from k3_ledger.schemas.measurement import Series


def read_vllm(data: bytes, told: Told) -> Reading:
    """Read a result file.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    fields = Fields(load_json(data, "file"), "file")
    made = _SHAPES[one_shape(fields, *_SHAPES)](fields, told)
    return Reading("vllm", None, None, None, made)


def _latency(fields: Fields, told: Told) -> tuple[Series, ...]:
    if told.batch is None or told.input_tokens is None or told.output_tokens is None:
        raise refuse("file", "a latency file holds no sizes: say batch, input and output tokens")
    durations = [seconds(one, f"file.latencies[{at}]") for at, one in enumerate(fields.list("latencies"))]
    if "avg_latency" not in fields:
        raise refuse("file.avg_latency", "no mean of the latencies")
    fields.agree("avg_latency", Fraction(sum(durations), len(durations) * 10**9), "the mean")
    if "percentiles" in fields:
        stated = fields.object("percentiles")
        for name, share in _PERCENTILES.items():
            stated.agree(name, _percentile(sorted(durations), share), "the percentile")
        if strange := stated.rest(frozenset(_PERCENTILES)):
            raise refuse("file.percentiles", "a percentile of another share", ", ".join(_PERCENTILES), sorted(strange))
    # Prefill and generation are one time here, so it is neither: requests are what it counts.
    pairs = [(duration, told.batch) for duration in durations]
    metric = f"generate-{told.input_tokens}-{told.output_tokens}"
    return (make_series(metric, "request", pairs, told, batch=told.batch),)


def _percentile(ordered: list[int], share: int) -> Fraction:
    """In seconds, on the straight line between the two repetitions that it lies between."""
    place = Fraction(share * (len(ordered) - 1), 100)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return (ordered[low] + (ordered[high] - ordered[low]) * (place - low)) / 10**9


def _throughput(fields: Fields, told: Told) -> tuple[Series, ...]:
    elapsed, tokens = fields.seconds("elapsed_time"), fields.count("total_num_tokens")
    requests = fields.count("num_requests")
    if "tokens_per_second" not in fields:
        raise refuse("file.tokens_per_second", "no rate to hold time and tokens against")
    fields.agree("tokens_per_second", per_second(tokens, elapsed), "the rate")
    fields.agree("requests_per_second", per_second(requests, elapsed), "the rate of requests")
    return (make_series("throughput", "token", [(elapsed, tokens)], told),)


def served(fields: Fields, told: Told) -> tuple[Series, ...]:
    """A served run: input and output tokens and requests over one duration.

    Raises:
        RunError: RUN_FOREIGN_FILE: requests failed, or totals, lists and rates contradict one another.
    """
    duration, output = fields.seconds("duration"), fields.count("total_output_tokens")
    given, completed = fields.count("total_input_tokens"), fields.count("completed")
    failed = fields.count("failed", 0) if "failed" in fields else 0
    wanted = fields.count("num_prompts") if "num_prompts" in fields else completed
    if failed != 0 or wanted != completed:
        raise refuse("file.completed", "some requests failed: their tokens are in no total", str(wanted), completed)
    if "output_throughput" not in fields:
        raise refuse("file.output_throughput", "no rate to hold time and tokens against")
    for name, count in (
        ("output_throughput", output),
        ("input_throughput", given),
        ("total_token_throughput", given + output),
        ("total_throughput", given + output),
        ("request_throughput", completed),
    ):
        fields.agree(name, per_second(count, duration), "the rate")
    for name, total in (("output_lens", output), ("input_lens", given)):
        lengths = fields.counts(name) if name in fields else None
        if lengths is not None and (len(lengths) != completed or sum(lengths) != total):
            raise refuse(
                f"file.{name}",
                "lengths of requests do not add up to the totals",
                f"{completed} requests of {total} together",
                f"{len(lengths)} of {sum(lengths)}",
            )
    if "errors" in fields and any(fields.list("errors")):
        raise refuse("file.errors", "some requests failed: their tokens are in no total")
    return tuple(
        make_series(metric, unit, [(duration, count)], told)
        for metric, unit, count in (
            ("serve-input", "token", given),
            ("serve-output", "token", output),
            ("serve", "request", completed),
        )
    )


_SHAPES: Final = {"latencies": _latency, "total_num_tokens": _throughput, "total_output_tokens": served}
_PERCENTILES: Final = {str(share): share for share in (10, 25, 50, 75, 90, 99)}
"""Those that the tool writes."""
