"""Writes ``docs/commands.md``, the reference of every command: what ``--help`` says, command by command.

``python .ci/commands.py --check`` writes nothing and fails when the page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer.main
from typer.testing import CliRunner

from k3_ledger.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """# Commands

What `--help` says, command by command. Written by `python .ci/commands.py`; the tests compare it.
"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Words of every command that does something, in alphabetical order."""
    children: dict[str, Any] = getattr(command, "commands", {})
    if not children:
        yield path
    for name in sorted(children):
        yield from commands(children[name], (*path, name))


def page() -> str:
    """The whole page."""
    runner = CliRunner()
    out = [HEAD]
    for words in commands(typer.main.get_command(app)):
        result = runner.invoke(app, [*words, "--help"], prog_name="k3-ledger", env={"COLUMNS": "100", "NO_COLOR": "1"})
        lines = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        out.append(f"\n## {' '.join(words)}\n\n```text\n{lines}\n```\n")
    return "".join(out)


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"error: docs/{PAGE.name} is out of date\nhint: make generate writes it again", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
