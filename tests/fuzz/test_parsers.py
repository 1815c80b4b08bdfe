"""Whatever reads bytes or text is run by a target, or is listed with the reason why it need not be."""

from __future__ import annotations

import ast

import pytest

from tests.fuzz.parsers import EXCEPTIONS, NEEDED, called_by, is_parser, list_parsers
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SPARED = {name for names in EXCEPTIONS.values() for name in names}


def test_every_parser_is_run_by_a_target_or_spared_for_a_reason() -> None:
    called = called_by(target for target in TARGETS.values() if target.missing is None)
    run = {name for place, name in list_parsers().items() if place in called}
    there = set(list_parsers().values())
    missing = {name for name, target in NEEDED.items() if TARGETS[target].missing is not None}
    assert there - run - SPARED - missing == set(), "give it a target in tests/fuzz, or a reason in parsers.EXCEPTIONS"
    assert there >= SPARED, "no such function any more"
    assert there >= set(NEEDED)
    assert SPARED & (run | set(NEEDED)) == set(), "a target runs it: it needs no reason"


def test_what_a_target_runs_is_seen() -> None:
    def read_one(data: bytes) -> None:
        from k3_ledger.ledger.core.note import parse_note

        parse_note(data)

    called = called_by([Target("note", read_one, lambda: [b"x"])])
    found = {name for place, name in list_parsers().items() if place in called}
    assert "k3_ledger.ledger.core.note.parse_note" in found
    assert "k3_ledger.cli.memory.parse_memory" not in found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def parse_thing(data: bytes) -> int: ...", True),
        ("def _read(path: Path) -> int: ...", True),
        ("def load_it(self, *, text: str | None) -> int: ...", True),
        ("def decode(stream: BinaryIO) -> int: ...", True),
        ("def read(value: Any) -> int: ...", False),
        ("def reader(data: bytes) -> int: ...", False),
        ("def format_thing(data: bytes) -> int: ...", False),
    ],
)
def test_a_parser_is_known_by_its_name_and_what_it_takes(source: str, expected: bool) -> None:
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    assert is_parser(node) is expected


def test_functions_in_functions_and_classes_are_listed() -> None:
    names = set(list_parsers().values())
    assert "k3_ledger.ledger.witness.state.WitnessState._read_log" in names
    assert "k3_ledger.engine.runner.flags._one_of.<locals>.parse" in names
