"""Runs what attacks the product and ends with what each part came to: ``make attacks``.

A part is some tests and a function that reads their outcome (:data:`PARTS`), or a program that appends its figures, a
JSON object with ``part``, to a file that it is told (:data:`PROGRAMS`). The exit status is 0 only if every part ran,
every attack came to what its file says, every fault was survived and fuzzing found nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Test:
    """One test as pytest reported it: its name, whether it passed, and what it recorded of itself."""

    name: str
    passed: bool
    recorded: dict[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """Some tests, and what their outcome is in figures."""

    name: str
    tests: tuple[str, ...]
    figures: Callable[[list[Test]], Iterator[str]]


def attacks(tests: list[Test]) -> Iterator[str]:
    """Attacks tried and detected, by attacker. One that was tried on several ledgers counts once, if all agree."""
    outcomes: dict[tuple[str, str], set[str]] = {}
    for test in tests:
        if "attack" in test.recorded:
            attacker, name, outcome = test.recorded["attack"].split(" ")
            outcomes.setdefault((attacker, name), set()).add(outcome if test.passed else "wrong")
    by: dict[str, Counter[str]] = {}
    for (attacker, _), found in outcomes.items():
        by.setdefault(attacker, Counter())["wrong" if len(found) > 1 else next(iter(found))] += 1
    total = sum(by.values(), Counter())
    for name, count in [*by.items(), ("all", total)]:
        yield (
            f"{name:<8} {count.total():4} tried {count['detected']:4} detected with the right class "
            f"{count['ignored']:4} without effect {count['undetected']:4} undetected, as documented "
            f"{count['wrong']:4} wrong"
        )
    decided = [test for test in tests if test.name.startswith("test_it_is_the_named_check_that_decides")]
    named = {test.name.partition("[")[2].partition("-")[2].rstrip("]") for test in decided if test.passed}
    detected = {name for (_, name), found in outcomes.items() if found == {"detected"}}
    yield f"checks   {sum(test.passed for test in decided)} of {len(decided)} attacks decided by the check they name"
    yield f"controls {len(detected & named)} of {len(detected)} detected ones go unfound without the check they name"


PARTS = (Part("attacks", ("tests/attacks",), attacks),)


@dataclass(frozen=True, slots=True)
class Program:
    """A module to run as a program, and the words for its figures."""

    name: str
    module: str
    words: str


PROGRAMS = (
    Program("faults", "tests.faults", "faults injected {tried} / survived {held}"),
    Program("fuzz", "tests.fuzz", "fuzz executions {tried} / findings {findings}"),
)


def run(part: Part) -> tuple[bool, list[Test]]:
    """Run the tests of a part, their output passing through."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = os.environ.get("PYTEST_OPTIONS", "").split()
        words = [sys.executable, "-m", "pytest", "-q", *options, f"--junitxml={report}", *part.tests]
        done = subprocess.run([*words, "-o", "junit_family=xunit1"], cwd=ROOT, check=False)
        cases = ET.parse(report).iter("testcase") if report.exists() else ()  # noqa: S314 - pytest wrote it
        tests = [
            Test(
                case.get("name", ""),
                all(child.tag not in ("failure", "error", "skipped") for child in case),
                {each.get("name", ""): each.get("value", "") for each in case.iter("property")},
            )
            for case in cases
        ]
    return done.returncode == 0, tests


def run_program(program: Program, python: str, options: list[str]) -> tuple[bool, list[str]]:
    """Run a program, its output passing through, and read what it came to."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "figures")
        done = subprocess.run([python, "-m", program.module, "--figures", str(told), *options], cwd=ROOT, check=False)
        found = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()] if told.exists() else []
    return done.returncode == 0 and bool(found), [program.words.format(**figures) for figures in found]


def main() -> int:
    """Run every part; the exit status says whether all of them passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz-python", default=sys.executable, help="interpreter of the environment with atheris")
    parser.add_argument("--fuzz-runs", default="20000", help="executions of each parser")
    args = parser.parse_args()
    good = True
    lines: list[str] = []
    for part in PARTS:
        print(f"== {part.name}", flush=True)
        passed, tests = run(part)
        good &= passed
        lines += [f"== {part.name}: {'ok' if passed else 'FAILED'}", *part.figures(tests)]
    how = {"faults": (sys.executable, []), "fuzz": (args.fuzz_python, ["--runs", args.fuzz_runs])}
    for program in PROGRAMS:
        print(f"== {program.name}", flush=True)
        passed, figures = run_program(program, *how[program.name])
        good &= passed
        missing = [] if figures else ["it did not run: see above"]
        lines += [f"== {program.name}: {'ok' if passed else 'FAILED'}", *figures, *missing]
    lines.append("nothing lost, nobody let in" if good else "something was lost, let in or found: see above")
    print("\n" + "\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
