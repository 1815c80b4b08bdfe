"""Result files of ``vllm bench latency``, ``throughput`` and ``serve``, told apart by their keys.

Latency files hold no sizes: the operator says them. A served run is one sample over all its requests; its tokens are
the totals that the engine counted, and lists of events are never counted.
"""

from __future__ import annotations

import itertools
import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.adapters.reading import (
    Fields,
    Named,
    Reading,
    Told,
    agree,
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
    return Reading("vllm", None, None, None, made, named_model(fields))


def named_model(fields: Fields) -> Named | None:
    """The model file that a result names; None where it names none, or one by the name that it was served under."""
    stated = fields.rest(frozenset())
    for name in ("model_id", "model"):
        if str(stated.get(name)).lower().endswith(".gguf"):
            return Named(f"{fields.where}.{name}", fields.text(name))
    return None


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


def _percentile(ordered: list[int], share: Fraction | int) -> Fraction:
    """In seconds, on the straight line between the two repetitions that it lies between."""
    place = Fraction(share) * (len(ordered) - 1) / 100
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
    if failed != 0:
        raise refuse("file.failed", "some requests failed: their tokens are in no total", "0", failed)
    if wanted != completed:
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
    if "errors" in fields and any(fields.list("errors", 0)):
        raise refuse("file.errors", "some requests failed: their tokens are in no total")
    _check_latencies(fields, duration, completed)
    return tuple(
        make_series(metric, unit, [(duration, count)], told)
        for metric, unit, count in (
            ("serve-input", "token", given),
            ("serve-output", "token", output),
            ("serve", "request", completed),
        )
    )


def _check_latencies(fields: Fields, duration: int, completed: int) -> None:
    """What is said of the latencies of requests holds together, and fits into the run.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    listed = _listed(fields, duration, completed)
    stated: dict[str, dict[str, Decimal]] = {}
    for name, value in fields.rest(frozenset()).items():
        match = _STATED.fullmatch(name)
        if match is None or value is None:
            continue
        where, (what, kind) = f"{fields.where}.{name}", match.groups()
        stated.setdefault(kind, {})[what] = taken = _duration(value, where)
        if 100 * taken > 101 * Decimal(duration) / 10**6:
            raise refuse(where, "longer than the whole run", f"at most {duration / 10**6:g} ms", value)
        if listed.get(kind):
            agree(where, value, _derived(sorted(listed[kind]), what), "the figure of the list")
    for kind, of in stated.items():
        _check_order(fields.where, kind, of)
    for whole in ("e2el", "e2e_latency"):
        for what in stated.get(whole, {}).keys() & stated.get("ttft", {}).keys():
            first, last = stated["ttft"][what], stated[whole][what]
            if 99 * first > 100 * last:
                raise refuse(
                    f"{fields.where}.{what}_{whole}_ms", "a request ends before its first token", f"{first} ms", last
                )


def _listed(fields: Fields, duration: int, completed: int) -> dict[str, list[int]]:
    """Times to the first token and between tokens, in ns, where they are listed by request."""
    firsts = (
        [_nanoseconds(one, f"{fields.where}.ttfts") for one in fields.list("ttfts", 0)] if "ttfts" in fields else []
    )
    between: list[list[int]] = []
    for at, one in enumerate(fields.list("itls", 0) if "itls" in fields else ()):
        steps = Fields({"itls": one}, f"{fields.where}.itls[{at}]").list("itls", 0)
        between.append([_nanoseconds(step, f"{fields.where}.itls[{at}]") for step in steps])
    for name, made in (("ttfts", firsts), ("itls", between)):
        if made and len(made) != completed:
            raise refuse(f"{fields.where}.{name}", "not one for each request", str(completed), len(made))
    for at in range(completed if firsts or between else 0):
        taken = (firsts[at] if firsts else 0) + sum(between[at] if between else ())
        if 100 * taken > 101 * duration:
            raise refuse(
                f"{fields.where}.{'itls' if between else 'ttfts'}[{at}]",
                "a request takes longer than the whole run",
                f"at most {duration} ns",
                f"{taken} ns",
            )
    return {"ttft": firsts, "itl": [step for steps in between for step in steps]}


def _derived(ordered: list[int], what: str) -> Fraction:
    """In milliseconds, of times in ns in ascending order."""
    if what == "mean":
        return Fraction(sum(ordered), len(ordered) * 10**6)
    return 1000 * _percentile(ordered, _share(what))


def _share(what: str) -> Fraction:
    return Fraction({"min": "0", "median": "50", "max": "100"}.get(what) or what.removeprefix("p"))


def _check_order(where: str, kind: str, stated: dict[str, Decimal]) -> None:
    """A higher percentile is no shorter; the mean lies between the extremes."""
    ranked = sorted((_share(what), what) for what in stated if what != "mean")
    for (_, low), (_, high) in itertools.pairwise(ranked):
        _check_pair(where, kind, stated, low, high)
    if "mean" in stated:
        for low, high in (("min", "mean"), ("mean", "max")):
            if low in stated and high in stated:
                _check_pair(where, kind, stated, low, high)


def _check_pair(where: str, kind: str, stated: dict[str, Decimal], low: str, high: str) -> None:
    if 99 * stated[low] > 100 * stated[high]:
        raise refuse(
            f"{where}.{high}_{kind}_ms", f"shorter than {low}_{kind}_ms", f"at least {stated[low]}", stated[high]
        )


def _duration(value: object, where: str, unit: str = "milliseconds") -> Decimal:
    if type(value) not in {int, Decimal} or not 0 <= value < 10**9:  # type: ignore[operator]
        raise refuse(where, "not a duration", f"{unit}, 0 or above", value)
    return Decimal(value)  # type: ignore[arg-type]


def _nanoseconds(value: object, where: str) -> int:
    return int(_duration(value, where, "seconds") * 10**9)


_SHAPES: Final = {"latencies": _latency, "total_num_tokens": _throughput, "total_output_tokens": served}
_PERCENTILES: Final = {str(share): share for share in (10, 25, 50, 75, 90, 99)}
"""Those that the tool writes."""
_STATED: Final = re.compile(
    r"(mean|median|min|max|p(?:[0-9]{1,2}(?:\.[0-9]{1,6})?|100))_(ttft|tpot|itl|e2el|e2e_latency)_ms", re.ASCII
)
"""Figures of latencies. Standard deviations are not looked at."""
