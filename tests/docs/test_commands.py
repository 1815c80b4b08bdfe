from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from k3_ledger.cli import app
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command and group under ``command``, by its full name."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{path} {name}")


COMMANDS = dict(walk(typer.main.get_command(app), "k3-ledger"))


def test_there_are_commands() -> None:
    assert {"k3-ledger verify", "k3-ledger seal"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for(name: str) -> None:
    command = COMMANDS[name]
    assert (command.help or "").strip()
    silent = [param.name for param in command.params if not (getattr(param, "help", None) or "").strip()]
    assert silent == []


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not hasattr(command, "commands")])
def test_every_command_is_in_the_reference(name: str) -> None:
    headings = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").splitlines()
    assert f"## {name.removeprefix('k3-ledger ')}" in headings


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda page: page.name
)
def test_a_run_of_another_engine_says_so(page: Path) -> None:
    """Without ``--engine command`` a program behind ``--`` is refused."""
    text = page.read_text(encoding="utf-8").replace("\\\n", "")
    runs = re.findall(r"^[^#\n]*k3-ledger run [^\n]* -- (?!PROGRAM)[^\n]*", text, re.MULTILINE)
    assert [line for line in runs if "--engine command" not in line] == []
