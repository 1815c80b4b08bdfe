"""Re-scoring against verification: tiers of verified receipts under a rule, beside the verification of the same ledger.

    python benchmarks/rescore.py [--receipts 100000] [--processes 2] [--rounds 5] [--rule house-7.decode]

Builds a ledger of rounds, each of four receipts of the frontier build (``--frontiers``) and twelve of candidates
(``--round``), with claims and clocks of decode and prefill and agreement at seven depths, all of which every house rule
of decode gives a tier; the rule is the newest of them. Then alternates three actors over the same bytes in as many
processes: a verification (``verify``), a verification that a sweep goes along with (``along``, which is what
``k3-ledger rescore --counts`` does), and a sweep of the log that verified (``subject``, which reads and decodes
it once more). What re-scoring costs is what ``along`` takes longer than ``verify`` where nothing is verified yet, and
``subject`` where it is. Before, the whole command runs once, for its peak memory.
Shares are pair by pair; processor time is counted beside the clock on the wall where one process does it all.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import verify as ledger
from common import Recorder, finish, parser

from k3_ledger.cli.sources import DirectorySource
from k3_ledger.rescore.rules.house import HOUSE_RULES
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sweep import Along, sweep
from k3_ledger.verify.log import Options, verify_log

if TYPE_CHECKING:
    from collections.abc import Callable

DEPTHS = (4, 128, 256, 512, 1024, 2048, 4096)
NEWEST = [rule.name for rule in HOUSE_RULES if rule.scope.metric == "decode"][-1]
GUARD = ("frontier:prefill@32768/k3/bf16/node", "512")
VARIES = 424_242
"""Six digits that every receipt has others in place of: of its repetitions, and of its divergences."""


def samples(pace: list[tuple[int, int]]) -> list[dict[str, int]]:
    """Repetitions of (count, nanoseconds), one after another."""
    rows, start = [], 0
    for count, duration in pace:
        rows.append({"count": count, "duration_ns": duration, "start_ns": start})
        start += duration + 10**7  # room for other digits
    return rows


def timed(metric: str, context: int, claims: list[tuple[int, int]], paces: list[tuple[int, int]]) -> list[object]:
    """What the program claims of a metric, and what a clock outside saw of two lengths, 2,048 tokens apart."""
    (series,) = ledger.run_body(0)["timing"]  # type: ignore[misc]
    series = {**series, "metric": metric, "context": context, "context_filled": context}
    return [{**series, "observer": "subject", "samples": samples(claims)}, {**series, "samples": samples(paces)}]


def judged_body(role: str) -> dict[str, object]:
    """A run body that every gate of a house rule finds its evidence in; a candidate's is faster by a fourth."""
    body = ledger.run_body(0) | {"role": role, "round": "r"}
    token = 13_333_333 if role == "candidate" else 16_666_667
    claims = [(2048, (2048 * token // 10**6 + i) * 10**6 + VARIES) for i in range(7)]
    loads = [20_000_000_000 + 10**7 * i for i in range(7)]
    decode = timed("decode", 131_072, claims, [(count, load + count * token) for count in (32, 2080) for load in loads])
    prefill = timed(
        "prefill",
        0,
        [(32_768, 32_768 * 1_953_125)] * 3,  # 512 tokens a second
        [(count, load + count * 1_953_125) for count in (32_768, 34_816) for load in loads[:3]],
    )
    body["timing"] = [*decode, *prefill]
    body["model"] = {
        "name": "k3", "architecture": "kimi-k3", "quant": "bf16", "sha256": "a" * 64, "size": 1, "synthetic": True,
    }  # fmt: skip
    kl = {"kl_max": f"0.006{VARIES}98054076399", "kl_mean": "0.000419637382469272"}
    depth = {
        **kl, "rows": 32, "top1_agree": 32, "ties": 0, "near_ties": 0, "max_abs_logprob_difference": "0.021",
    }  # fmt: skip
    body["parity"] = {
        "reference": {"name": "llama.cpp", "version": "b1", "independent": True}, "prompt_sha256": "b" * 64,
        "vocabulary": 163840, "path": "both", "chunk": None, "processing": "raw", "tie_rule": "lowest-id",
        "near_tie_bound": "0.001", "depths": [{**depth, "depth": tokens} for tokens in DEPTHS],
    }  # fmt: skip
    return body


def peak_of_command(path: Path, rule: str, processes: int) -> int:
    """Peak bytes of the largest process of a whole ``k3-ledger rescore --counts``."""
    command = [
        sys.executable, "-m", "k3_ledger.cli", "rescore", str(path), "--rule", rule, "--counts",
        "--processes", str(processes),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return usage.ru_maxrss * 1024


def main() -> None:
    """Measure, print, and leave a bundle when asked to."""
    arguments = parser(__doc__)
    arguments.add_argument("--receipts", type=int, default=100_000)
    arguments.add_argument("--processes", type=int, default=2, help="processes on both sides")
    arguments.add_argument("--folder", type=Path, help="where the ledger is built; 5 KB a receipt")
    arguments.add_argument("--rule", default=NEWEST)
    arguments.add_argument("--round", type=int, default=16, help="receipts of a round, the frontier build's among them")
    arguments.add_argument("--frontiers", type=int, default=4, help="how many of them are of the frontier build")
    options = arguments.parse_args()
    rule = find_rule(options.rule)
    recorder = Recorder("rescore", "receipt")
    processes = options.processes
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder)
        candidates = [judged_body("candidate")] * (options.round - options.frontiers)
        rounds = [*[judged_body("frontier")] * options.frontiers, *candidates]
        ledger.build(path, options.receipts, 1, rounds, varies=str(VARIES), pins=[GUARD])
        size = (path / "ledger.jsonl").stat().st_size / options.receipts
        # Before this process grows: a child begins with the peak of the process that started it.
        peak = peak_of_command(path, rule.name, processes)
        settings = Options(processes=processes)
        log = verify_log(DirectorySource(path), None, settings)
        found = sweep(log, rule, processes=processes)
        print(f"{options.receipts} receipts, {size:.0f} bytes a line, rule {rule.name}: {dict(found.tiers)}")
        print(f"peak memory of the command's largest process: {peak / 2**20:.0f} MiB")

        def along() -> None:
            beside = Along(rule)
            verify_log(DirectorySource(path), None, replace(settings, companion=beside))
            assert beside.result(processes=processes) == found

        works: dict[str, Callable[[], object]] = {
            "verify": lambda: verify_log(DirectorySource(path), None, settings),
            "along": along,
            "subject": lambda: sweep(log, rule, processes=processes),
        }
        spent: dict[str, list[int]] = {actor: [] for actor in works}
        for _ in range(options.rounds + recorder.warmup):
            for actor, work in works.items():
                before = time.process_time_ns()
                recorder.record(actor, options.receipts, work, processes=processes)
                spent[actor].append(time.process_time_ns() - before)
    wall = {actor: [sample.duration_ns for sample in recorder.samples[actor, "subject"]] for actor in works}
    for clock, times in (("wall", wall), ("processor", spent)) if processes == 1 else (("wall", wall),):
        rows = list(zip(*times.values(), strict=True))[recorder.warmup :]
        for what, shares in (
            ("while verifying", [100 * (both - alone) / alone for alone, both, _ in rows]),
            ("a verified log", [100 * again / alone for alone, _, again in rows]),
        ):
            middle, least, most = statistics.median(shares), min(shares), max(shares)
            print(
                f"re-scoring {what} takes {middle:.1f} % of verifying ({least:.1f} to {most:.1f} %), "
                f"{clock} time, {processes} processes each"
            )
    finish([recorder], "k3-ledger-rescore", options, peak_bytes=peak)


if __name__ == "__main__":
    main()
