"""Runs the stages of ``make test`` one after another and ends with what each came to.

Every stage is a make target of its own, so ``make types`` repeats one alone. All stages run even when one failed,
except those whose environment could not be made. Uses the standard library alone.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOSING = re.compile(
    rb"=* ?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+ in .*?) ?=*$"
)
"""The line that pytest closes with."""
NOT_SHOWN = b"note: golden tables and foreign vectors were not held against anything"
"""How the line begins that pytest closes with where tests were skipped for want of test data (tests/support.py)."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One make target, and what its failure means in words."""

    target: str
    means: str
    when: str | None = None
    """A path in this tree without which there is nothing to do yet."""


STAGES = (
    Stage("environments", "an environment could not be made: the error above says which step and why"),
    Stage("lint", "ruff found something: each line above names a file, a place and a rule; `make fix` repairs some"),
    Stage("format", "some files are not formatted: `make fix` formats them"),
    Stage("types", "a type checker disagrees with the code at the places above"),
    Stage("imports", "a room imports what it must not: the contract and the chain are above"),
    Stage(
        "generated",
        "a generated file is out of date: `make generate` writes all of them again",
        "schemas/k3_ledger/schemas/generate.py",
    ),
    Stage("unit", "a test failed, or a branch of schemas, ledger or verify is not covered: see above"),
    Stage(
        "published",
        "this project's own ledger does not verify, or no longer holds what the README says: see above",
        "published/ledger.jsonl",
    ),
    Stage(
        "demo",
        "the demo of the README did not do what it says: the command that failed is the last one above",
        "docs/examples/demo.py",
    ),
    Stage(
        "engine-types",
        "mypy disagrees with the engine or a kernel at the places above",
        "engine/k3_ledger/engine/__init__.py",
    ),
    Stage("engine-unit", "a test of the engine or of a kernel failed: see above", "tests/engine"),
    Stage(
        "demo-engine",
        "a measurement from model file to verdict did not go through: the command that failed is the last one above",
        "docs/examples/demo_engine.py",
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What one stage came to."""

    stage: Stage
    ok: bool
    seconds: float
    closing: tuple[str, ...]
    """pytest's closing lines, as many as it ran."""
    not_shown: tuple[str, ...] = ()
    """What it says of tests that were skipped for want of test data."""


def run(stage: Stage, number: int, total: int) -> Result:
    """Run one stage, passing its output through as it comes."""
    print(f"\n[{number}/{total}] make {stage.target}", flush=True)
    started = time.monotonic()
    with subprocess.Popen(
        ["make", stage.target],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        output = bytearray()
        while chunk := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            output += chunk
    closing = tuple(match[1].decode() for line in output.splitlines() if (match := CLOSING.match(line)))
    not_shown = tuple(line.decode() for line in output.splitlines() if line.startswith(NOT_SHOWN))
    return Result(stage, process.returncode == 0, time.monotonic() - started, closing, not_shown)


def main() -> int:
    """Run every stage that has something to do; the exit status says whether all passed."""
    stages = [stage for stage in STAGES if stage.when is None or (ROOT / stage.when).exists()]
    results: list[Result] = []
    for number, stage in enumerate(stages, 1):
        results.append(run(stage, number, len(stages)))
        if stage.target == "environments" and not results[-1].ok:
            break
    print("\nstage          result   seconds")
    for result in results:
        print(f"{result.stage.target:<14} {'ok' if result.ok else 'FAILED':<6} {result.seconds:9.1f}")
    failed = [result for result in results if not result.ok]
    for result in failed:
        print(f"error: {result.stage.target}: {result.stage.means}")
        print(f"hint: `make {result.stage.target}` repeats this stage alone")
    for result in results:
        for line in result.not_shown:
            print(f"{result.stage.target}: {line}")
    for result in results:
        for line in result.closing:
            print(f"===== {line} =====")
    sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
