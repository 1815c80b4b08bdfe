"""``python -m tests.faults``: inject faults, print how many were survived; exit 1 when one was not.

Options: ``--programs NAME,NAME`` (default: all), ``--sample N`` (at most N faults a program; default: all that there
are, at most --most per program, call and kind), ``--jobs N``, ``--figures FILE`` (append the figures as a JSON line).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.programs import AFTERWARDS, PROGRAMS, Program, copy_of, make_template, run_case
from tests.faults.tracing import CALLS, Fault, missing, run, run_here

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KINDS = {
    "openat": ("EIO", "ENOSPC", "EIO+", "SIGKILL"),
    "read": ("EIO", "SIGKILL"),
    "write": ("EIO", "ENOSPC", "EIO+", "ENOSPC+", "SIGKILL"),
    "fdatasync": ("EIO", "ENOSPC", "EIO+", "SIGKILL"),
    "fsync": ("EIO", "ENOSPC", "EIO+", "SIGKILL"),
    "ftruncate": ("EIO", "SIGKILL"),
    "rename": ("EIO", "ENOSPC", "SIGKILL"),
    "mkdir": ("EIO", "ENOSPC", "SIGKILL"),
    "unlink": ("EIO", "SIGKILL"),
}
FAMILY = {name: family for family, names in CALLS.items() for name in names}


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` of the numbers from 1 to ``count``, evenly, first and last among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(step * (count - 1) / max(most - 1, 1)) for step in range(most)})


def plan(calls: dict[str, int], most: int) -> Iterator[Fault]:
    """Every call that a clean run makes, with every kind of fault that it can have."""
    for call, count in sorted(calls.items()):
        for kind in KINDS[FAMILY[call]]:
            for nth in spread(count, most):
                yield Fault(call, nth, kind)


def work(programs: list[Program], base: Path, shard: int, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One of several processes: its share of all cases."""
    scratch = base / f"scratch-{shard}"
    number = 0
    for program in programs:
        template = base / program.name
        clean = run(program.action, copy_of(template, scratch))
        if clean.code != 0:
            raise RuntimeError(f"{program.name} does not run without faults: {clean.err}")
        faults = list(plan(clean.calls(), args.most))
        if args.sample and len(faults) > args.sample:
            faults = [faults[place - 1] for place in spread(len(faults), args.sample)]
        for fault in faults:
            number += 1
            if number % args.jobs != shard:
                continue
            ended, wrong = run_case(program, template, scratch, fault)
            yield {
                "program": program.name, "call": fault.call, "kind": fault.kind, "nth": fault.nth,
                "code": ended.code, "struck": ended.struck, "wrong": wrong, "out": ended.out, "err": ended.err,
            }  # fmt: skip


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--programs", default="")
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--most", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figures", type=Path)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"error: no faults were injected: {reason}", file=sys.stderr)
        return 2
    programs = [program for program in PROGRAMS if not args.programs or program.name in args.programs.split(",")]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="k3-ledger-faults-") as name:
        base = Path(name)
        prepare(base, programs)
        results = list(in_parallel(programs, base, args))
    return tell(programs, results, args, time.monotonic() - started)


def prepare(base: Path, programs: list[Program]) -> None:
    """A template for each program; running each once imports what it needs, once for all."""
    (base / "template").mkdir()
    make_template(base / "template")
    for action in AFTERWARDS:
        warm_up(action, copy_of(base / "template", base / "warm"))
    for program in programs:
        program.prepare(copy_of(base / "template", base / program.name))
        warm_up(program.action, copy_of(base / program.name, base / "warm"))


def warm_up(action: Callable[[], None], folder: Path) -> None:
    """Run a command in this very process, so that its children find everything imported."""
    done = run_here(action, folder)
    if done.code:
        raise RuntimeError(f"a command does not run: {done.err}")


def in_parallel(programs: list[Program], base: Path, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Results of all processes."""
    pipes = []
    for shard in range(args.jobs):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, "w", encoding="utf-8") as file:
                    for result in work(programs, base, shard, args):
                        file.write(json.dumps(result) + "\n")
                status = 0
            except BaseException as error:  # noqa: BLE001 - told below
                print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
            finally:
                os._exit(status)
        os.close(writing)
        pipes.append((child, reading))
    for child, reading in pipes:
        with os.fdopen(reading, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
        _, status = os.waitpid(child, 0)
        if status:
            raise RuntimeError("a process of the fault injection ended early")


def tell(programs: list[Program], results: list[dict[str, Any]], args: argparse.Namespace, seconds: float) -> int:
    """Print what came of it."""
    struck = [result for result in results if result["struck"] is not None]
    injected = Counter((result["program"], result["call"], result["kind"]) for result in struck)
    survived = Counter((r["program"], r["call"], r["kind"]) for r in struck if r["wrong"] is None)
    print(f"{'program':<14} {'call':<10} {'fault':<8} {'injected':>8} {'survived':>8}")
    for key in sorted(injected, key=lambda key: ([p.name for p in programs].index(key[0]), *key[1:])):
        print(f"{key[0]:<14} {key[1]:<10} {key[2]:<8} {injected[key]:>8} {survived[key]:>8}")
    wrong = [result for result in struck if result["wrong"] is not None]
    for result in wrong:
        print(f"LOST {result['program']}: {result['kind']} at {result['call']} {result['nth']}: {result['wrong']}")
        print(f"     {result['struck']}")
    codes = Counter("killed" if result["code"] is None else f"exit {result['code']}" for result in struck)
    print(f"{', '.join(f'{name} {count}' for name, count in sorted(codes.items()))}; {seconds:.0f} s")
    print(f"faults injected {len(struck)} / survived {len(struck) - len(wrong)}")
    if args.figures:
        figures = {"part": "faults", "tried": len(struck), "held": len(struck) - len(wrong)}
        with args.figures.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
    return 1 if wrong or not struck else 0


if __name__ == "__main__":
    sys.exit(main())
