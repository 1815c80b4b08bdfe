"""Whoever interrupts the command line is told so in one line, with exit code 130, whenever he does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = """
import sys
stop = sys.argv.pop(1)

class Interrupt:
    def find_spec(self, name, *rest):
        if name == stop:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from k3_ledger.start import main
main()
"""


def interrupted(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line, with an interrupt at the moment at which it imports a module."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, module, *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "module",
    [
        "k3_ledger.cli",
        "typer",
        "k3_ledger.cli.lazy",
        "k3_ledger.schemas.errors",
        "k3_ledger.cli.verify",
        "k3_ledger.verify.log",
    ],
)
def test_an_interrupt_is_one_line_and_130_whenever_it_comes(module: str, tmp_path: object) -> None:
    done = interrupted(module, "verify", str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_the_module_is_the_program() -> None:
    """Run as ``python -m``, a command that cannot be carried out does not end as one that succeeded."""
    command = [sys.executable, "-m", "k3_ledger.start", "verify", "--no-such-option"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--no-such-option" in done.stderr


@pytest.fixture(params=["a full disk", "a closed pipe"])
def refusing(request: pytest.FixtureRequest) -> Iterator[int]:
    """Something that takes no word."""
    if request.param == "a full disk":
        end = os.open("/dev/full", os.O_WRONLY)
    else:
        begin, end = os.pipe()
        os.close(begin)
    yield end
    os.close(end)


def test_an_interrupt_is_no_verdict_where_nobody_takes_the_word_either(refusing: int, tmp_path: object) -> None:
    words = ["k3_ledger.cli.verify", "verify", str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], stderr=refusing, timeout=60, check=False)
    assert done.returncode == 130


def test_without_an_interrupt_nothing_of_it_is_seen() -> None:
    done = interrupted("no.such.module", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("k3-ledger ")


def test_python_m_begins_in_the_same_place() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "k3_ledger.cli", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
