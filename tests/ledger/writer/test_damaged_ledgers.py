"""The damaged ledgers of the collected bug reports: what append and recover say to each."""

from __future__ import annotations

import subprocess
import sys

import pytest

from k3_ledger.ledger.writer.disk import Disk
from k3_ledger.ledger.writer.recover import recover
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import SIGNERS, append_notes, note

TORN = {"01_torn_half": Code.TORN_TAIL, "01_torn_one_byte": Code.TORN_TAIL, "22_nul_tail": Code.NUL_TAIL}
SHORTER = {"03_last_entry_removed", "03_last_two_removed"}
"""A shorter log is a good log: only a head that somebody remembers can tell."""
IN_THE_MIDDLE = {"03_swapped"}
"""Damage far from the head and from every key, which appending does not look at; verify does."""
REFUSED = {
    "01_torn_then_appended": Code.GLUED_LINES,
    "03_first_removed": Code.CHAIN_NO_GENESIS,
    "03_empty": Code.EMPTY_LEDGER,
    "03_middle_removed": Code.CHAIN_INDEX,
    "05_last_entry_repeated": Code.CHAIN_INDEX,
    "22_blank_line": Code.CHAIN_INDEX,
    "22_bom": Code.BOM,
    "22_crlf": Code.CRLF,
    "22_trailing_spaces": Code.TAIL_DAMAGED,
    "22_second_ledger_joined": Code.CHAIN_INDEX,
}

CLEARED = {"03_empty"}
"""Nothing is in it and nothing stands beside it, so nothing can be lost: recover makes room for a new ledger."""


@pytest.fixture
def variants(ledger, tmp_path, test_data):
    append_notes(ledger, *(f"note {i}" for i in range(9)))
    program = test_data("bug-cases", "mutate_ledger.py")
    out = tmp_path / "variants"
    done = subprocess.run([sys.executable, program, ledger.log_path, out], capture_output=True, text=True, check=True)
    assert done.stdout == "16 variants\n"
    return {path.name: path.read_bytes() for path in out.iterdir()}


def said(action) -> Code | None:
    try:
        action()
    except LedgerError as error:
        return error.code
    return None


def test_append_is_refused_by_cause_and_only_a_tear_is_recovered(variants, tmp_path):
    assert set(variants) == {*TORN, *SHORTER, *IN_THE_MIDDLE, *REFUSED}
    for name, data in variants.items():
        folder = tmp_path / "damaged" / name
        folder.mkdir(parents=True)
        (folder / "ledger.jsonl").write_bytes(data)
        ledger = Ledger(folder, Disk())  # as a command opens it that does not look at its first bytes

        def append(ledger: Ledger = ledger) -> None:
            with ledger.writer(SIGNERS["judge"]) as writer:
                writer.append("note", note("x"))

        expected = TORN.get(name, REFUSED.get(name))
        if expected is None:
            assert said(append) is None, name
            continue
        assert said(append) is expected, name
        assert ledger.log_path.read_bytes() == data
        again = said(lambda ledger=ledger: recover(ledger))
        assert again is (None if name in TORN or name in CLEARED else expected), name
        if name in CLEARED:
            assert not ledger.log_path.exists()
        elif name in TORN:
            assert said(append) is None, name
        else:
            assert ledger.log_path.read_bytes() == data
