"""Time of every kernel at the shapes of K3 beside its own floor and plain torch: correctness first, then medians.

Needs a CUDA GPU: ``python -m benchmarks.kernels --out kernels.json``. A case is timed only after its result was
compared with the float64 specification (both rounded to the stored type). A capture holds one call on each of several
sets of fresh random inputs, so that no set stays in the cache, and is replayed. Floors are the greater of bytes / 4.3
TB/s and operations / 790 TFLOP/s, the ceilings of an H200; bytes count each input read once and each output written
once.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import triton
from benchmarks import kernel_cases

from k3_ledger.kernels.dispatch import source_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.kernel_cases import Case

BYTES_PER_SECOND = 4.3e12
OPERATIONS_PER_SECOND = 790e12
REPLAYS = 25


@dataclass
class Row:
    """One line of the table; times in microseconds a call."""

    name: str
    floor: float
    bound: str
    error: float
    kernel: float
    torch: float | None
    variant: dict[str, Any] = field(default_factory=dict)
    samples: list[float] = field(default_factory=list)


def capture_and_time(calls: list[Callable[[], object]]) -> list[float]:
    """Microseconds a call, one figure a replay of a graph that runs every call once."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            for call in calls:
                call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    graph.replay()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    samples = []
    for _ in range(REPLAYS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1000 / len(calls))
    return samples


def run(case: Case) -> list[Row]:
    """Check, then time, every variant of a case and its baseline."""
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    sets = [case.make() for _ in range(case.sets)]
    by_bytes, by_operations = case.bytes / BYTES_PER_SECOND, case.operations / OPERATIONS_PER_SECOND
    floor, bound = max((by_bytes, "bytes"), (by_operations, "operations"))
    baseline = None
    if case.baseline is not None:
        baseline = statistics.median(capture_and_time([lambda one=one: case.baseline(one) for one in sets]))
    rows = []
    for variant in case.variants:
        with case.use(variant):
            error = case.error(sets[0], variant)
            if not error < case.tolerance:
                message = f"{case.name} {variant}: relative L2 {error:.2e} exceeds {case.tolerance}; not timed"
                raise SystemExit(message)
            samples = capture_and_time([lambda one=one, variant=variant: case.kernel(one, variant) for one in sets])
        time = statistics.median(samples)
        rows.append(Row(case.name, floor * 1e6, bound, error, time, baseline, variant, samples))
    return rows


def main() -> None:
    """Print the table and write it with what it ran on."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains one of these words, separated by commas")
    arguments = parser.parse_args()
    rows: list[Row] = []
    print(f"{'case':38s} {'floor us':>9s} {'kernel us':>10s} {'of floor':>8s} {'torch us':>9s} {'rel L2':>8s}  variant")
    for make in kernel_cases.CASES:
        case = make()
        if not any(word in case.name for word in arguments.only.split(",")):
            continue
        for row in run(case):
            rows.append(row)
            share, plain = f"{100 * row.floor / row.kernel:.0f} %", f"{row.torch:.1f}" if row.torch else "-"
            variant = json.dumps(row.variant)[1:-1].replace('"', "")
            times = f"{row.floor:9.2f} {row.kernel:10.2f} {share:>8s} {plain:>9s}"
            print(f"{row.name:38s} {times} {row.error:8.1e}  {variant}", flush=True)
    device = torch.cuda.get_device_properties(0)
    machine = {
        "device": device.name,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "source": source_digest(),
    }
    if arguments.out:
        arguments.out.write_text(json.dumps({**machine, "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
