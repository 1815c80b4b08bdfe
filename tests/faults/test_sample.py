"""A few faults of every kind in every command; ``make attacks`` injects them all."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.chain import entry_identity
from k3_ledger.ledger.core.framing import parse_line
from tests.faults import programs
from tests.faults.__main__ import plan, spread
from tests.faults.tracing import Ended, Fault, missing
from tests.ledger.writer.support import append_notes, new_ledger
from tests.support import ROOT, plain_environment

if TYPE_CHECKING:
    from pathlib import Path

EACH = 4
"""Faults a command."""


@pytest.mark.xdist_group("faults")
def test_a_sample_of_faults_is_survived_by_every_command(tmp_path: Path) -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    figures = tmp_path / "figures"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--sample", str(EACH), "--figures", str(figures)],
        cwd=ROOT, env=plain_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    sys.stdout.write(done.stdout + done.stderr)
    assert done.returncode == 0
    told = json.loads(figures.read_text())
    assert told["tried"] == told["held"]
    assert told["tried"] >= len(programs.PROGRAMS) * (EACH - 1)
    assert re.search(rf"faults injected {told['tried']} / survived {told['tried']}\n$", done.stdout)


def test_every_call_of_a_clean_run_gets_every_fault_or_an_even_sample_of_them() -> None:
    assert spread(3, 12) == [1, 2, 3]
    assert spread(100, 5) == [1, 26, 51, 75, 100]
    faults = list(plan({"fsync": 2, "openat": 1}, 12))
    assert Fault("fsync", 2, "SIGKILL") in faults
    assert Fault("fsync", 1, "EIO+") in faults
    assert len(faults) == 2 * 4 + 4
    assert Fault("openat", 1, "ENOSPC").words == ["--inject=openat:error=ENOSPC:when=1"]
    assert Fault("fsync", 2, "EIO+").words == ["--inject=fsync:error=EIO:when=2+"]
    assert Fault("fsync", 2, "SIGKILL").words == ["--inject=fsync:signal=SIGKILL:when=2"]


def test_records_of_calls_are_counted_by_name_and_a_fault_is_found_in_them() -> None:
    log = ["12 fsync(3</x>) = 0", "12 fsync(3) = -1 EIO (Input/output error) (INJECTED)", "12 +++ exited with 3 +++"]
    ended = Ended(3, "", "", log)
    assert ended.calls() == {"fsync": 2}
    assert ended.struck == log[1]
    assert Ended(0, "", "", log[:1]).struck is None
    assert Ended(None, "", "", ["12 +++ killed by SIGKILL +++"]).struck is not None


# What the checks are for: each of these would be a loss or a false accusation, and is called one.


def test_a_traceback_an_accusation_and_silence_are_not_survived() -> None:
    fault = Fault("write", 1, "EIO")
    programs.check_ended(Ended(3, "", "error: disk\n", []), fault)
    for code, err in ((1, "error: x"), (3, ""), (0, "Traceback (most recent call last)"), (120, "error: x")):
        with pytest.raises(programs.Lost):
            programs.check_ended(Ended(code, "", err, []), fault)
    with pytest.raises(programs.Lost):
        programs.check_ended(Ended(0, "", "", []), Fault("write", 1, "SIGKILL"))


@pytest.mark.parametrize(
    "call", ["fdatasync(3</l/ledger.jsonl>)", "fsync(4</l>)", 'rename("/l/a", "/l/b")', "write(5</l/x>, 1)"]
)
def test_a_sync_that_failed_is_not_passed_over(call: str) -> None:
    fault = Fault(call.partition("(")[0], 1, "EIO")
    programs.check_ended(Ended(3, "", "error: x", [f"1 {call} = -1 EIO (INJECTED)"]), fault)
    with pytest.raises(programs.Lost, match="refused"):
        programs.check_ended(Ended(0, "", "", [f"1 {call} = -1 EIO (INJECTED)"]), fault)
    programs.check_ended(
        Ended(0, "", "", ['1 write(1<pipe:[7]>, "x", 1) = -1 EIO (INJECTED)']), Fault("write", 1, "EIO")
    )


def test_an_acknowledged_entry_or_head_that_is_not_there_is_a_loss(tmp_path: Path) -> None:
    ledger = new_ledger(tmp_path / "ledger")
    append_notes(ledger, "one")
    before = ledger.log_path.read_bytes()
    lines = before.split(b"\n")[:-1]
    identity = entry_identity(parse_line(lines[-1]).entry).hex()
    assert programs.identities(tmp_path)[-1] == identity
    for out in (
        f"entry {len(lines)} {identity}: note\n",
        f"entry 0 {identity}: note\n",
        f"head of 3 entries, root {'0' * 64}: signed\n",
    ):
        with pytest.raises(programs.Lost, match="lost"):
            programs.check_ledger(tmp_path, before, Ended(0, out, "", []))
    with pytest.raises(programs.Lost, match="begin"):
        programs.check_ledger(tmp_path, before + b"x", Ended(0, "", "", []))


def test_a_witness_that_signs_two_heads_of_one_size_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for codes, said in (((0, 0), False), ((1, 1), False), ((1, 0), True)):
        answers = dict(zip(("ledger", "fork"), codes, strict=True))
        monkeypatch.setattr(programs, "ended_with", lambda _, *words, answers=answers: answers[words[2]])
        out = "witness.example/w" if said else ""
        with pytest.raises(programs.Lost, match="witness"):
            programs._never_a_fork(tmp_path, Ended(0, out, "", []), Fault("write", 1, "EIO"))
