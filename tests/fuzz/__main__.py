"""``python -m tests.fuzz``: run every target for a fixed budget; exit 1 when one did not keep its promise.

Options: ``--runs N`` (executions of a target with share 1), ``--targets NAME,NAME``, ``--jobs N``, ``--seed N``,
``--engine atheris|mutate`` (default: atheris where it is installed), ``--corpus DIR`` (what is found is kept there and
used the next time; default ``.fuzz``), ``--keep`` (write what reaches most into the corpus of this tree),
``--figures FILE`` (append the figures as a JSON line).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.mutate import inputs
from tests.fuzz.target import store, stored
from tests.fuzz.targets import TARGETS
from tests.support import ROOT

if TYPE_CHECKING:
    from tests.fuzz.target import Target

SECONDS = 10
"""An input that takes longer is a finding."""
MEMORY_MB = 2048
KEPT_BYTES = 1024
"""Longest input that is kept in the corpus of this tree."""
KEPT_INPUTS = 16
"""Most inputs that are, for each target."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What fuzzing one target came to."""

    name: str
    runs: int
    seconds: float
    crash: bytes | None = None
    said: str = ""
    skipped: str | None = None


def runs_of(target: Target, budget: int) -> int:
    """Executions of a target."""
    return max(int(budget * target.share), 1)


# -------------------------------------------------------------------------------------------------------- mutator


def with_mutator(target: Target, runs: int, seed: int) -> Outcome:
    """Fuzz in this process, blindly."""
    started = time.monotonic()
    for number, data in enumerate(inputs(target.known(), target.longest, seed), 1):
        before = time.monotonic()
        try:
            target.run(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a panic of a Rust library is no Exception
            return Outcome(target.name, number, before - started, data, f"{type(error).__name__}: {error}"[:300])
        if time.monotonic() - before > SECONDS:
            return Outcome(target.name, number, before - started, data, f"more than {SECONDS} s")
        if number >= runs:
            break
    return Outcome(target.name, runs, time.monotonic() - started)


# -------------------------------------------------------------------------------------------------------- atheris


def with_atheris(target: Target, runs: int, seed: int, kept: Path) -> Outcome:
    """Fuzz in a process of its own, guided by coverage."""
    working = kept / target.name
    working.mkdir(parents=True, exist_ok=True)
    for data in target.known():
        (working / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    with tempfile.TemporaryDirectory(prefix="k3-ledger-fuzz-") as folder:
        words = [
            str(working), f"-runs={runs}", f"-max_len={target.longest}", f"-timeout={SECONDS}", f"-seed={seed or 1}",
            f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=1",
        ]  # fmt: skip
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.guided", target.name, *words],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - started
        output = done.stdout.decode(errors="replace")
        executed = re.search(r"number_of_executed_units: (\d+)", output)
        found = sorted(Path(folder).iterdir())
        crash = found[0].read_bytes() if found else None
        said = "\n".join(output.splitlines()[-25:]) if done.returncode else ""
        if done.returncode and crash is None:
            crash = b""
        lines = [line for line in output.splitlines() if re.match(r" *[A-Za-z.]*(Error|Exception)\b", line)]
        return Outcome(
            target.name, int(executed[1]) if executed else 0, seconds, crash, lines[-1] if lines and crash else said
        )


def keep(target: Target, kept: Path) -> None:
    """Write small inputs that reached something new, of all lengths, into the corpus of this tree, beside the seeds."""
    seeds = [data[: target.longest] for data in target.seeds()]
    folder = kept / target.name
    reached = {path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else set()
    small = sorted(
        (data for data in reached - set(seeds) if len(data) <= KEPT_BYTES), key=lambda data: (len(data), data)
    )
    store("corpus", target.name, [*seeds, *small[:: max(-(-len(small) // KEPT_INPUTS), 1)]])


# ----------------------------------------------------------------------------------------------------------- main


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--targets", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=["atheris", "mutate"])
    parser.add_argument("--corpus", type=Path, default=ROOT / ".fuzz")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    engine = args.engine or ("atheris" if importlib.util.find_spec("atheris") else "mutate")
    targets = [target for name, target in TARGETS.items() if not args.targets or name in args.targets.split(",")]
    print(f"engine {engine}, seed {args.seed}")

    def fuzz(target: Target) -> Outcome:
        if target.missing is not None:
            return Outcome(target.name, 0, 0, skipped=f"{target.missing} is not installed")
        runs = runs_of(target, args.runs)
        if engine == "mutate":
            return with_mutator(target, runs, args.seed)
        return with_atheris(target, runs, args.seed, args.corpus)

    outcomes = []
    with ThreadPoolExecutor(args.jobs if engine == "atheris" else 1) as pool:
        for outcome in pool.map(fuzz, targets):
            outcomes.append(outcome)
            tell(outcome)
    if args.keep:
        for target in targets:
            if target.missing is None:
                keep(target, args.corpus)
    return finish(outcomes, args.figures)


def tell(outcome: Outcome) -> None:
    """One line for a target; more when something was found, which is kept beside the corpus."""
    if outcome.skipped:
        print(f"{outcome.name:<20} skipped: {outcome.skipped}", flush=True)
        return
    rate = outcome.runs / max(outcome.seconds, 0.001)
    verdict = "ok" if outcome.crash is None else "FOUND"
    print(f"{outcome.name:<20} {outcome.runs:>9} executions {rate:>8.0f}/s  {verdict}", flush=True)
    if outcome.crash is not None:
        store("findings", outcome.name, [*stored("findings", outcome.name), outcome.crash])
        print(f"  {outcome.said}\n  input {outcome.crash[:200]!r}, kept in tests/fuzz/findings/{outcome.name}.b64")


def finish(outcomes: list[Outcome], figures: Path | None) -> int:
    """The totals."""
    runs = sum(outcome.runs for outcome in outcomes)
    found = sum(outcome.crash is not None for outcome in outcomes)
    print(f"fuzz executions {runs} / findings {found}")
    if figures:
        with figures.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": "fuzz", "tried": runs, "findings": found}) + "\n")
    return 1 if found or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
