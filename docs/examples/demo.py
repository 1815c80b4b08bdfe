"""Runs the story that the README tells, in a scratch folder: python demo.py. ``make demo`` is this.

The commands stand in the README alone, under the heading that :data:`HEADING` names; the words between them are shown
too. Each command must end with exit code 0, or with the one that the README shows under ``echo $?``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HEADING = "## The whole story"
SHOW_STATUS = "echo $?"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the story.

    Attributes:
        says: what the README says in front of it; empty within a block.
        command: the command, as a reader would type it.
        ends: exit code that it must have.
    """

    says: str
    command: str
    ends: int


class DemoError(Exception):
    """A step that did not end as it must."""


def story(readme: str) -> list[Step]:
    """The steps of the README's story."""
    _, _, section = readme.partition(f"\n{HEADING}\n")
    section = re.split(r"\n## ", section, maxsplit=1)[0]
    found: list[Step] = []
    for says, block in re.findall(r"(?s)(.*?)\n```console\n(.*?)\n```\n", section):
        words = " ".join(says.split())
        for match in re.finditer(r"(?m)^\$ (.*(?:\n> .*)*)(?:\n(?!\$ ).*)*(?:\n\$ echo \$\?\n(\d+))?", block):
            command = match[1].replace("\n> ", "\n")
            if command != SHOW_STATUS:
                found.append(Step(words, command, int(match[2] or 0)))
                words = ""
    return found


def run(step: Step, folder: Path) -> None:
    """Show a step, run it, and compare its exit code."""
    if step.says:
        print(f"\n# {step.says}")
    print(f"$ {step.command}", flush=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    status = subprocess.run(
        ["bash", "-c", step.command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        stderr=subprocess.STDOUT,
        check=False,
    ).returncode
    if status:
        print(f"$ {SHOW_STATUS}\n{status}", flush=True)
    if status != step.ends:
        raise DemoError(f"`{step.command}` ended with exit code {status} and must end with {step.ends}")


def main() -> int:
    """Run the story in a folder of its own."""
    steps = story((ROOT / "README.md").read_text(encoding="utf-8"))
    assert steps, f"the README has a section {HEADING!r}"
    with tempfile.TemporaryDirectory(prefix="k3-ledger-demo-") as name:
        folder = Path(name)
        for part in ("docs", "published", "published.toml"):
            (folder / part).symlink_to(ROOT / part)
        try:
            for step in steps:
                run(step, folder)
        except DemoError as error:
            print(f"\nerror: {error}\nhint: what it printed stands above; `make test` says more", file=sys.stderr)
            return 1
    print(f"\nThat was all of it: {len(steps)} commands, and every one ended as it must.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
