"""Result lines of ``sglang.bench_one_batch`` and ``sglang.bench_serving``, told apart by their keys.

A batch line gives prefill's time and the total; decode is the difference, over one token fewer than was asked for,
since prefill yields the first. Its median of decode steps is no raw time and is left out. Only one run a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from k3_ledger.engine.adapters.reading import Fields, Reading, Told, agree, load_lines, make_series, refuse
from k3_ledger.engine.adapters.vllm import served

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
    batches = [Fields(one, f"line {at + 1}") for at, one in enumerate(lines)]
    if all("prefill_latency" in one for one in batches):
        return Reading("sglang", None, None, None, _batches(batches, lines, told))
    if len(lines) != 1 or "total_output_tokens" not in batches[0]:
        raise refuse("file", "neither batch results nor one served run", "prefill_latency or total_output_tokens")
    return Reading("sglang", None, None, None, served(batches[0], lines[0], told))


def _batches(batches: list[Fields], lines: list[Any], told: Told) -> tuple[Series, ...]:
    shapes = {(one.count("batch_size"), one.count("input_len"), one.count("output_len")) for one in batches}
    if len(shapes) != 1:
        raise refuse("file", "more than one shape of batch: split the file", "one", sorted(shapes))
    ((batch, given, wanted),) = shapes
    prefill, decode = [], []
    for one, value in zip(batches, lines, strict=True):
        first, total = one.seconds("prefill_latency"), one.seconds("total_latency")
        agree(
            f"{one.where}.prefill_throughput", value.get("prefill_throughput"), batch * given * 1e9 / first, "the rate"
        )
        prefill.append((first, batch * given))
        if wanted > 1:
            if total <= first:
                raise refuse(f"{one.where}.total_latency", "not longer than prefill", f"more than {first} ns", total)
            decode.append((total - first, batch * (wanted - 1)))
    made = [make_series("prefill", "token", prefill, told, context=0, batch=batch)]
    if decode:
        made.append(make_series("decode", "token", decode, told, context=given, batch=batch))
    return tuple(made)
