"""Result lines of ``sglang.bench_one_batch`` and ``sglang.bench_serving``, told apart by their keys.

A batch line gives prefill's time and the total; decode is the difference, over one token fewer than was asked for,
since prefill yields the first. Its median of decode steps is no raw time and is left out. Only one run a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from k3_ledger.engine.adapters.reading import (
    Fields,
    Reading,
    Told,
    load_lines,
    make_series,
    one_shape,
    per_second,
    refuse,
)
from k3_ledger.engine.adapters.vllm import named_model, served

if TYPE_CHECKING:
    from k3_ledger.schemas.measurement import Series


def read_sglang(data: bytes, told: Told) -> Reading:
    """Read a result file.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    lines = load_lines(data)
    if not lines:
        raise refuse("file", "no result in it")
    results = [Fields(one, f"line {at + 1}") for at, one in enumerate(lines)]
    shapes = {one_shape(one, "prefill_latency", "total_output_tokens") for one in results}
    if len(shapes) != 1 or (len(results) != 1 and "total_output_tokens" in shapes):
        raise refuse("file", "neither batch results nor one served run", "one kind of line, or one served run")
    made = served(results[0], told) if "total_output_tokens" in shapes else _batches(results, told)
    return Reading("sglang", None, None, None, made, named_model(results[0]))


def _batches(batches: list[Fields], told: Told) -> tuple[Series, ...]:
    shapes = {(one.count("batch_size"), one.count("input_len"), one.count("output_len")) for one in batches}
    if len(shapes) != 1:
        raise refuse("file", "more than one shape of batch: split the file", "one", sorted(shapes))
    ((batch, given, wanted),) = shapes
    prefill, decode = [], []
    for one in batches:
        first, total = one.seconds("prefill_latency"), one.seconds("total_latency")
        if "prefill_throughput" not in one:
            raise refuse(f"{one.where}.prefill_throughput", "no rate to hold prefill's time against")
        one.agree("prefill_throughput", per_second(batch * given, first), "the rate")
        one.agree("overall_throughput", per_second(batch * (given + wanted), total), "the rate of the whole")
        prefill.append((first, batch * given))
        if wanted > 1:
            if total <= first:
                raise refuse(f"{one.where}.total_latency", "not longer than prefill", f"more than {first} ns", total)
            _check_median(one, batch, wanted - 1, total - first)
            decode.append((total - first, batch * (wanted - 1)))
    made = [make_series("prefill", "token", prefill, told, context=0, batch=batch)]
    if decode:
        made.append(make_series("decode", "token", decode, told, context=given, batch=batch))
    return tuple(made)


def _check_median(one: Fields, batch: int, steps: int, decode_ns: int) -> None:
    """The median step and its rate say the same, and the half of the steps that is no shorter fits into decode."""
    if "median_decode_latency" not in one:
        return
    median = one.seconds("median_decode_latency")
    one.agree("median_decode_throughput", per_second(batch, median), "the median rate")
    if 99 * median * -(-steps // 2) > 100 * decode_ns:
        raise refuse(
            f"{one.where}.median_decode_latency",
            "half of the steps would take longer than all of them did",
            f"at most {decode_ns} ns in all",
            f"{median} ns each",
        )
