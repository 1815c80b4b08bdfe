"""What nobody foresaw is no verdict: whatever ends a command, exit code 1 is left to what was verified and is false."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import k3_ledger.cli
from k3_ledger.cli import app


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("can't start new thread"),
        ImportError("failed to map segment from shared object"),
        ModuleNotFoundError("No module named 'k3_ledger.gone'", name="k3_ledger.gone"),
        RecursionError("maximum recursion depth exceeded"),
        AssertionError("the impossible"),
        ValueError("a fault of the program"),
        KeyError("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_that_no_command_expects_is_shown_and_is_no_verdict(error, monkeypatch, capfd):
    def fall(_, **__):
        raise error

    monkeypatch.setattr(type(app), "__call__", fall)
    monkeypatch.setattr(sys, "argv", ["k3-ledger", "verify", "ledger"])
    with pytest.raises(SystemExit) as caught:
        k3_ledger.cli.main()
    assert caught.value.code == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" in err  # whoever reports it has what is needed
    assert "error: a fault of this program or of the machine, and no verdict [K3L-UNREADABLE]" in err


def test_too_little_memory_is_said_in_words_and_is_no_verdict(monkeypatch, capfd):
    def fall(_, **__):
        raise MemoryError

    monkeypatch.setattr(type(app), "__call__", fall)
    monkeypatch.setattr(sys, "argv", ["k3-ledger", "verify", "ledger"])
    with pytest.raises(SystemExit) as caught:
        k3_ledger.cli.main()
    assert caught.value.code == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: there was not enough memory, and no verdict was reached [K3L-UNREADABLE]\nhint: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("error", [MemoryError(), KeyError("gone")], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stands_for", ["a full disk", "nothing"])
def test_a_fault_that_cannot_be_told_is_no_verdict_either(error, stands_for):
    """In a process of its own, whose standard error takes nothing."""
    code = (
        "import os, sys; from k3_ledger.cli import app, main;\n"
        "def fall(_, **__):\n"
        f"    {'os.close(2); sys.stderr.close()' if stands_for == 'nothing' else 'pass'}\n"
        f"    raise {error!r}\n"
        "type(app).__call__ = fall; sys.argv = ['k3-ledger', 'verify', 'ledger']; main()"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", code], stderr=full, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (3, b"")


def test_tests_of_commands_see_a_fault_of_the_program_as_one(run, monkeypatch):
    def fall(_, **__):
        raise KeyError

    monkeypatch.setattr(type(app), "__call__", fall)
    with pytest.raises(KeyError):
        run("verify", "ledger")
