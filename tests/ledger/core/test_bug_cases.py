"""Bug reports that other projects got, at the level of bytes and lines: which code each gets here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from k3_ledger.ledger.core.framing import check_not_glued, parse_line
from k3_ledger.ledger.core.lines import LineSplitter, check_is_ledger, check_tail
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError
from tests.ledger.core.samples import code_of, ledger


def frame(data):
    """Code of everything that is wrong with the framing of a file, in order, without repetitions."""
    try:
        check_is_ledger([data])
    except LedgerError as error:
        return [error.code.name]
    codes = []
    splitter = LineSplitter()
    for raw in splitter.feed(data):
        try:
            entry = parse_line(raw.data, raw.position()).entry
            if code_of(canonical.parse, entry):
                check_not_glued(raw.data, raw.position())
        except LedgerError as error:
            codes.append(error.code.name)
    codes.append(code_of(check_tail, splitter.finish()))
    return [code for code in dict.fromkeys(codes) if code]


CHAIN_LEVEL: list[str] = []
"""Nothing is wrong with the lines themselves: what is missing, repeated or swapped shows in the chain."""


EXPECTED = {
    "01_torn_half": ["TORN_TAIL"],
    "01_torn_one_byte": ["TORN_TAIL"],
    "01_torn_then_appended": ["GLUED_LINES"],
    "03_empty": ["EMPTY_LEDGER"],
    "03_first_removed": CHAIN_LEVEL,
    "03_last_entry_removed": CHAIN_LEVEL,
    "03_last_two_removed": CHAIN_LEVEL,
    "03_middle_removed": CHAIN_LEVEL,
    "03_swapped": CHAIN_LEVEL,
    "05_last_entry_repeated": CHAIN_LEVEL,
    "22_blank_line": ["BLANK_LINE"],
    "22_bom": ["BOM"],
    "22_crlf": ["CRLF"],
    "22_nul_tail": ["NUL_TAIL"],
    "22_second_ledger_joined": CHAIN_LEVEL,
    "22_trailing_spaces": ["TAIL_DAMAGED"],
}


def test_damaged_copies_of_a_ledger_get_the_code_of_their_cause(test_data, tmp_path):
    source, folder = tmp_path / "ledger.jsonl", tmp_path / "variants"
    source.write_bytes(ledger(6))
    subprocess.run([sys.executable, test_data("bug-cases", "mutate_ledger.py"), source, folder], check=True)
    assert {path.name: frame(path.read_bytes()) for path in folder.iterdir()} == EXPECTED


def test_files_of_bug_case_22_are_no_ledgers_and_the_rewritten_one_says_why(test_data):
    folder = test_data("bug-cases", "cases", "22-bom-crlf-blank")
    codes = {path.name: frame(path.read_bytes()) for path in folder.glob("*.jsonl")}
    assert codes.pop("utf16.jsonl") == ["UTF16"]
    assert len(codes) >= 9
    assert all(code == ["NOT_A_LEDGER"] for code in codes.values())


def test_a_remembered_file_of_nul_bytes_is_no_ledger(test_data):
    folder = test_data("bug-cases", "cases", "07-nul-filled-head")
    assert frame((folder / "head.nul").read_bytes()) == ["NOT_A_LEDGER"]
    assert frame((folder / "head.empty").read_bytes()) == ["EMPTY_LEDGER"]


@pytest.mark.parametrize("at", range(0, len(ledger(3)), 7))
def test_cutting_a_ledger_anywhere_leaves_a_torn_tail_or_whole_lines(at):
    whole = ledger(3)
    assert frame(ledger(1) + whole[:at]) in ([], ["TORN_TAIL"])
