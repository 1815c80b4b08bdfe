"""Result files of ``vllm bench latency``, ``throughput`` and ``serve``, told apart by their keys.

Latency files hold no sizes: the operator says them. A served run is one sample over all its requests; its tokens are
the totals that the engine counted, and lists of events are never counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k3_ledger.engine.adapters.reading import Fields, Reading, Told, agree, load_json, make_series, refuse, seconds

if TYPE_CHECKING:
    from k3_ledger.schemas.measurement import Series


def read_vllm(data: bytes, told: Told) -> Reading:
    """Read a result file.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    value = load_json(data, "file")
    fields = Fields(value, "file")
    if "latencies" in fields:
        series = _latency(fields, value, told)
    elif "total_num_tokens" in fields:
        series = _throughput(fields, value, told)
    elif "total_output_tokens" in fields:
        series = served(fields, value, told)
    else:
        raise refuse("file", "none of the three shapes", "latencies, total_num_tokens or total_output_tokens")
    return Reading("vllm", None, None, None, series)


def _latency(fields: Fields, value: dict[str, Any], told: Told) -> tuple[Series, ...]:
    if told.batch is None or told.input_tokens is None or told.output_tokens is None:
        raise refuse("file", "a latency file holds no sizes: say batch, input and output tokens")
    durations = [seconds(one, f"file.latencies[{at}]") for at, one in enumerate(fields.list("latencies"))]
    agree("file.avg_latency", value.get("avg_latency"), sum(durations) / len(durations) / 1e9, "the mean")
    # Prefill and generation are one time here, so it is neither: requests are what it counts.
    pairs = [(duration, told.batch) for duration in durations]
    metric = f"generate-{told.input_tokens}-{told.output_tokens}"
    return (make_series(metric, "request", pairs, told, batch=told.batch),)


def _throughput(fields: Fields, value: dict[str, Any], told: Told) -> tuple[Series, ...]:
    elapsed, tokens = fields.seconds("elapsed_time"), fields.count("total_num_tokens")
    fields.count("num_requests")
    agree("file.tokens_per_second", value.get("tokens_per_second"), tokens * 1e9 / elapsed, "the rate")
    return (make_series("throughput", "token", [(elapsed, tokens)], told),)


def served(fields: Fields, value: dict[str, Any], told: Told) -> tuple[Series, ...]:
    """A served run: input and output tokens and requests over one duration.

    Raises:
        RunError: RUN_FOREIGN_FILE: requests failed, or totals and lists contradict one another.
    """
    duration, output = fields.seconds("duration"), fields.count("total_output_tokens")
    given, completed = fields.count("total_input_tokens"), fields.count("completed")
    failed = value.get("failed", 0)
    wanted = value.get("num_prompts", completed)
    if failed != 0 or wanted != completed:
        raise refuse("file.completed", "some requests failed: their tokens are in no total", str(wanted), completed)
    agree("file.output_throughput", value.get("output_throughput"), output * 1e9 / duration, "the rate")
    for name, total in (("output_lens", output), ("input_lens", given)):
        if (
            name in fields
            and sum(Fields({"n": one}, f"file.{name}").count("n", 0) for one in fields.list(name)) != total
        ):
            raise refuse(f"file.{name}", "lengths of requests do not add up to the total", str(total))
    return tuple(
        make_series(metric, unit, [(duration, count)], told)
        for metric, unit, count in (
            ("serve-input", "token", given),
            ("serve-output", "token", output),
            ("serve", "request", completed),
        )
    )
