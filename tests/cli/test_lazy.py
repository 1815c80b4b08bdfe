"""Commands are listed without importing them, and the list is what the modules register."""

from __future__ import annotations

import subprocess
import sys

import pytest

from k3_ledger.cli.lazy import MODULES, _Commands, load_module


@pytest.mark.parametrize("module", MODULES)
def test_a_module_registers_the_commands_that_are_listed_for_it(module: str) -> None:
    assert tuple(load_module(module)) == MODULES[module]


def test_asking_for_the_version_imports_no_command() -> None:
    program = (
        "import sys, k3_ledger.cli as c; sys.argv = ['k3-ledger', '--version']\ntry: c.main()\nexcept SystemExit: pass"
    )
    names = "print(sorted(m for m in sys.modules if m.startswith('k3_ledger.cli.')))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{names}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['k3_ledger.cli.lazy', 'k3_ledger.cli.told']"


def test_an_unknown_command_is_unknown() -> None:
    commands = _Commands()
    assert commands.get("nonsense") is None
    assert "nonsense" not in commands
    with pytest.raises(KeyError):
        commands["nonsense"]
    assert len(commands) == len(list(commands)) == len(commands.items())
