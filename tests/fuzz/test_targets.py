"""Every target holds its promise on its corpus, on what once broke it, and on a moment of plain mutation."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from k3_ledger.schemas import canonical
from tests.fuzz.__main__ import with_mutator
from tests.fuzz.mutate import inputs
from tests.fuzz.target import HERE, Target, stored
from tests.fuzz.targets import TARGETS
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 60


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    found = TARGETS[request.param]
    if found.missing is not None:
        pytest.skip(f"the target {found.name} needs {found.missing} (`make fuzz` has it)")
    return found


def test_corpus_and_what_once_broke_a_target_are_answered(target: Target) -> None:
    for data in target.known():
        target.run(data)


def test_a_moment_of_mutation_finds_nothing(target: Target) -> None:
    outcome = with_mutator(target, len(target.known()) + max(int(RUNS * target.share), 2), seed=7)
    assert outcome.crash is None, (outcome.said, outcome.crash)


def test_every_target_has_seeds_and_a_corpus_and_no_corpus_is_without_a_target(target: Target) -> None:
    assert list(target.seeds())
    assert stored("corpus", target.name)
    for folder in ("corpus", "findings"):
        assert {path.stem for path in (HERE / folder).glob("*")} <= set(TARGETS)


def test_mutation_is_reproducible_and_within_bounds() -> None:
    corpus = [b'{"a":1}', b"x" * 100]
    first, second = (list(islice(inputs(corpus, 50, seed), 500)) for seed in (3, 3))
    assert first == second
    assert first != list(islice(inputs(corpus, 50, 4), 500))
    assert max(map(len, first)) == 50
    assert len(set(first)) > 300


def forgets_a_case(data: bytes) -> None:
    canonical.parse(data)["a"]  # type: ignore[index,call-overload] # not every value has members


def is_not_the_same(data: bytes) -> None:
    assert canonical.format(canonical.parse_value(data)) == data


def never_ends_in_time(data: bytes) -> None:
    assert len(data) < 4 or data[0] != ord("{"), "stands for an input that takes too long"


@pytest.mark.parametrize("read", [forgets_a_case, is_not_the_same, never_ends_in_time])
def test_a_target_that_breaks_its_promise_is_found_out(read: Callable[[bytes], None]) -> None:
    outcome = with_mutator(Target("canonical", read, list), 400, seed=1)
    assert outcome.crash is not None
    assert outcome.said
    assert outcome.runs <= 400


def test_the_command_prints_its_figures(tmp_path) -> None:
    figures = tmp_path / "figures"
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--engine", "mutate", "--runs", "50", "--targets", "note,tile",
         "--figures", str(figures)],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("fuzz executions 100 / findings 0\n")
    assert figures.read_text() == '{"part": "fuzz", "tried": 100, "findings": 0}\n'
